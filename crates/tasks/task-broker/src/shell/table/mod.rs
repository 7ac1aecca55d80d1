//! The table of leases: a file that only root can open, mapped `MAP_SHARED`.
//!
//! A record that changes is written to another slot before its old slot is given up. A kill in between leaves both, and the
//! later one counts.

#[expect(unsafe_code, reason = "a mapped file is memory that the compiler does not know")]
mod ffi;

use std::collections::BTreeMap;
use std::fs::File;

use rustix::fs::{FallocateFlags, fallocate};
use task_sched::{Bytes, Need, TaskId, WorkerId};

use crate::core::{ALL_TASKS, Image, Key, Of, Process, Record, Stage, TaskRecord};
use ffi::{BODY, Map};

/// Bytes of a slot.
const SLOT: usize = 256;
/// Slots: a record for each task and each context, one for a record that changes, and the first, which counts them.
const SLOTS: usize = ALL_TASKS + 8 * 1024;

/// The open table.
pub(super) struct Table {
    map: Map,
    used: BTreeMap<Key, usize>,
    /// Given up; others from `next` on are new.
    free: Vec<usize>,
    next: usize,
    sequence: u64,
}

/// A record as it stands in the file: devices by UUID, because their numbers change.
pub(super) struct Stored {
    pub(super) record: Record,
    pub(super) uuid: String,
}

impl Table {
    /// Opens the table in `file`, and what stands there, in no order. `number` finds a device by its UUID; records of devices
    /// that it does not find are dropped, and so is everything written before this boot.
    ///
    /// # Errors
    ///
    /// The file system does not have room for the whole table, 6 MiB. Without it, a write would end the broker, or a lease would
    /// not outlive it.
    pub(super) fn open(
        file: &File,
        number: impl Fn(&str) -> Option<task_sched::DeviceId>,
    ) -> std::io::Result<(Table, Vec<Record>)> {
        fallocate(file, FallocateFlags::empty(), 0, (SLOTS * SLOT) as u64)?;
        let (used, free) = (BTreeMap::new(), Vec::new());
        let mut table = Table { map: Map::new(file)?, used, free, next: 1, sequence: 0 };
        let mut found: BTreeMap<Key, (u64, usize, Record)> = BTreeMap::new();
        // To look further would make the whole file resident.
        let last = table.map.taken();
        for slot in 1..last {
            let decoded = table.map.is_used(slot).then(|| decode(&table.map.read(slot), &number)).flatten();
            let Some((sequence, record)) = decoded else {
                table.clear(slot);
                continue;
            };
            table.sequence = table.sequence.max(sequence);
            let later = found.get(&record.key()).is_none_or(|(other, ..)| *other < sequence);
            let old = if later {
                found.insert(record.key(), (sequence, slot, record)).map(|old| old.1)
            } else {
                Some(slot)
            };
            old.into_iter().for_each(|slot| table.clear(slot));
        }
        table.next = last;
        table.used = found.iter().map(|(key, (_, slot, _))| (*key, *slot)).collect();
        Ok((table, found.into_values().map(|(.., record)| record).collect()))
    }

    fn clear(&mut self, slot: usize) {
        self.map.clear(slot);
        self.free.push(slot);
    }

    /// A slot that nobody took before, if there is one.
    fn take(&mut self) -> std::io::Result<usize> {
        if self.next >= SLOTS {
            return Err(std::io::Error::other("it is full"));
        }
        self.next += 1;
        self.map.set_taken(u32::try_from(self.next).unwrap_or(u32::MAX));
        Ok(self.next - 1)
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// No slot is left.
    pub(super) fn save(&mut self, stored: &Stored) -> std::io::Result<()> {
        let slot = self.free.pop().map_or_else(|| self.take(), Ok)?;
        self.sequence += 1;
        self.map.write(slot, &encode(stored, self.sequence));
        if let Some(old) = self.used.insert(stored.record.key(), slot) {
            self.clear(old);
        }
        Ok(())
    }

    /// Removes a record.
    pub(super) fn erase(&mut self, key: Key) {
        if let Some(slot) = self.used.remove(&key) {
            self.clear(slot);
        }
    }
}

const WAITING: u64 = 1;
const RUNNING: u64 = 2;
const QUARANTINED: u64 = 3;
const CONTEXT: u64 = 4;

/// UUIDs of at most this many bytes; the core takes no longer ones.
const UUID: usize = 64;

fn encode(stored: &Stored, sequence: u64) -> [u8; BODY] {
    let Record { job, worker, image, of } = stored.record;
    let head = [sequence, job.into(), worker.0, image.process.pid.into(), image.process.start, image.image];
    let rest = match of {
        Of::Context(_, context) => [CONTEXT, context.0, 0, 0, 0, 0, 0, 0, 0],
        Of::Task(t) => {
            let kind = match t.stage {
                Stage::Waiting => WAITING,
                Stage::Running(_) => RUNNING,
                Stage::Quarantined(_) => QUARANTINED,
            };
            [
                kind,
                t.task.0,
                t.nonce,
                t.need.mem().0,
                t.need.managed().0,
                t.need.blocks(),
                t.need.threads().into(),
                t.single.into(),
                t.since.to_bits(),
            ]
        }
    };
    let mut body = [0; BODY];
    for (at, value) in head.iter().chain(&rest).enumerate() {
        body[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }
    let uuid = &stored.uuid.as_bytes()[..stored.uuid.len().min(UUID)];
    body[BODY - UUID..][..uuid.len()].copy_from_slice(uuid);
    body
}

fn decode(body: &[u8; BODY], number: impl Fn(&str) -> Option<task_sched::DeviceId>) -> Option<(u64, Record)> {
    let word = |at: usize| body[at * 8..].first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    let uuid =
        body[BODY - UUID..].split(|b| *b == 0).next().and_then(|uuid| std::str::from_utf8(uuid).ok())?;
    let (sequence, job, pid) = (word(0)?, u32::try_from(word(1)?).ok()?, u32::try_from(word(3)?).ok()?);
    let image = Image { process: Process { pid, start: word(4)? }, image: word(5)? };
    let stage = match word(6)? {
        WAITING => Some(Stage::Waiting),
        RUNNING => Some(Stage::Running(number(uuid)?)),
        QUARANTINED => Some(Stage::Quarantined(number(uuid)?)),
        CONTEXT => None,
        _ => return None,
    };
    let of = match stage {
        None => Of::Context(number(uuid)?, Bytes(word(7)?)),
        Some(stage) => Of::Task(TaskRecord {
            task: TaskId(word(7)?),
            nonce: word(8)?,
            stage,
            need: Need::new(Bytes(word(9)?), word(11)?, word(12)?).ok()?.with_managed(Bytes(word(10)?)),
            single: word(13)? != 0,
            since: f64::from_bits(word(14)?),
        }),
    };
    Some((sequence, Record { job, worker: WorkerId(word(2)?), image, of }))
}

#[cfg(test)]
mod tests {
    use task_sched::DeviceId;

    use super::*;

    fn record(task: u64, stage: Stage) -> Record {
        let image = Image { process: Process { pid: 7, start: 8 }, image: u64::MAX };
        let need = Need::new(Bytes(2 << 20), 1, 2).unwrap();
        let of = TaskRecord { task: TaskId(task), nonce: 9, stage, need, single: true, since: 1.5 };
        Record { job: 12, worker: WorkerId(3), image, of: Of::Task(of) }
    }

    #[test]
    fn what_was_saved_last_is_there_again() {
        let file = tempfile::tempfile().unwrap();
        let number = |uuid: &str| (uuid == "GPU-1").then_some(DeviceId(5));
        let save = |table: &mut Table, record| table.save(&Stored { record, uuid: "GPU-1".to_owned() });
        let (mut table, found) = Table::open(&file, number).unwrap();
        assert!(found.is_empty());
        let context = Record { of: Of::Context(DeviceId(5), Bytes(512)), ..record(0, Stage::Waiting) };
        for new in [
            record(1, Stage::Waiting),
            context,
            record(2, Stage::Waiting),
            record(1, Stage::Running(DeviceId(5))),
        ] {
            save(&mut table, new).unwrap();
        }
        table.erase(Key::Task(TaskId(2)));
        drop(table);
        let (table, found) = Table::open(&file, number).unwrap();
        assert_eq!(found, [record(1, Stage::Running(DeviceId(5))), context]);
        drop(table);
        assert!(Table::open(&file, |_| None).unwrap().1.is_empty(), "a device that is gone");
    }

    #[test]
    fn of_two_versions_of_a_record_the_later_counts() {
        let file = tempfile::tempfile().unwrap();
        let number = |_: &str| Some(DeviceId(5));
        let (table, _) = Table::open(&file, number).unwrap();
        let later = record(1, Stage::Quarantined(DeviceId(5)));
        for (at, record) in [(2, later), (1, record(1, Stage::Running(DeviceId(5))))] {
            let sequence = if at == 2 { 9 } else { 8 };
            table.map.write(at, &encode(&Stored { record, uuid: "GPU-1".to_owned() }, sequence));
        }
        table.map.set_taken(3);
        drop(table);
        assert_eq!(Table::open(&file, number).unwrap().1, [later]);
    }

    #[test]
    fn a_full_table_says_so() {
        let file = tempfile::tempfile().unwrap();
        let (mut table, _) = Table::open(&file, |_| Some(DeviceId(0))).unwrap();
        table.next = SLOTS;
        let stored = Stored { record: record(1, Stage::Waiting), uuid: String::new() };
        assert!(table.save(&stored).is_err());
        table.free.push(3);
        table.save(&stored).unwrap();
    }

    #[test]
    fn every_slot_has_memory_before_the_first_lease() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let _table = Table::open(&file, |_| Some(DeviceId(0))).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= (SLOTS * SLOT) as u64);
        assert!(Table::open(&File::open("/dev/null").unwrap(), |_| None).is_err(), "it has no room to give");
    }
}
