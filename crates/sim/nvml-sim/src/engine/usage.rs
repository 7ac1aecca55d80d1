//! The table of CUDA contexts: which process holds how much memory of which device.
//!
//! Problem: a CUDA program of any user allocates thousands of times, and what it holds must be right for every other process
//! at once, also after `kill -9`. The state file is root's, and writing it takes a hundred times too long.
//!
//! Approach: one file beside the state, `STATE.cuda`, that every user may write: a header and records of fixed size. A change is made
//! under the file's `flock` and is one write of one record, so a process killed between two instructions leaves a whole table.
//! A record belongs to a process by its pid and start time. Readers take no lock: a process that is stopped while it holds the lock must
//! not keep `nvidia-smi` waiting. A record that is half there belongs to no live process yet, or no longer.
//!
//! Late freeing: the driver needs a moment to take a dead process's memory back. A live process renews its record's `beat_ms` every
//! [`BEAT_MS`]; after its death the record counts until `late_free_ms` (node file) after the last beat. Nobody needs to have watched.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::process::{Process, start_time};

const MAGIC: [u8; 8] = *b"cudasim1";
const HEADER: u64 = 16;
const RECORD: usize = 80;
/// Most contexts on one node; a table that is full refuses a new one.
pub const MAX_RECORDS: usize = 4096;
/// How often a live process renews its records, milliseconds.
pub const BEAT_MS: u64 = 100;
const NONE: u32 = u32::MAX;
const MIB: u64 = 1 << 20;

/// What one process holds on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process.
    pub pid: u32,
    /// Its start time, clock ticks since boot.
    pub started: u64,
    /// Physical GPU.
    pub gpu: u32,
    /// GPU instance and compute instance, on a MIG device.
    pub instance: Option<(u32, u32)>,
    /// The MPS control daemon whose client it is.
    pub mps_daemon: Option<u32>,
    /// What its contexts take, bytes.
    pub context: u64,
    /// What it has allocated, bytes, in whole granules.
    pub allocated: u64,
    /// Milliseconds since boot at which its process was last known to live.
    pub beat_ms: u64,
}

impl Record {
    /// Everything that it holds, bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.context.saturating_add(self.allocated)
    }

    /// Whether it is on the device: a GPU, or one GPU instance of it.
    #[must_use]
    pub fn is_on(&self, gpu: u32, gi: Option<u32>) -> bool {
        self.gpu == gpu && gi.is_none_or(|gi| self.instance.is_some_and(|i| i.0 == gi))
    }

    /// Whether its process lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Whether its memory is still taken at `now_ms`. A recent beat spares the question whether the process lives.
    #[must_use]
    pub fn counts(&self, now_ms: u64, late_free_ms: u64) -> bool {
        now_ms < self.beat_ms.saturating_add(late_free_ms) || self.is_alive()
    }

    /// The same as NVML's lists have it.
    #[must_use]
    pub fn to_process(&self, late_free_ms: u64) -> Process {
        Process {
            pid: self.pid,
            started: self.started,
            gi: self.instance.map(|i| i.0),
            ci: self.instance.map(|i| i.1),
            memory_mib: self.total() / MIB,
            mps: self.mps_daemon.is_some(),
            cuda_until_ms: Some(self.beat_ms.saturating_add(late_free_ms)),
        }
    }

    fn to_bytes(self) -> [u8; RECORD] {
        let (gi, ci) = self.instance.unwrap_or((NONE, NONE));
        let words = [self.pid, self.gpu, gi, ci, self.mps_daemon.unwrap_or(NONE), 0];
        let longs = [self.started, self.context, self.allocated, self.beat_ms];
        let mut out = [0; RECORD];
        let bytes =
            words.iter().flat_map(|w| w.to_le_bytes()).chain(longs.iter().flat_map(|l| l.to_le_bytes()));
        out.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
        out
    }

    /// `None` for a slot that is free.
    fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let word = |i: usize| bytes.get(i * 4..i * 4 + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |i: usize| bytes.get(24 + i * 8..32 + i * 8)?.try_into().ok().map(u64::from_le_bytes);
        let some = |w: u32| (w != NONE).then_some(w);
        let record = Record {
            pid: word(0)?,
            gpu: word(1)?,
            instance: some(word(2)?).zip(some(word(3)?)),
            mps_daemon: some(word(4)?),
            started: long(0)?,
            context: long(1)?,
            allocated: long(2)?,
            beat_ms: long(3)?,
        };
        (record.pid != 0).then_some(record)
    }
}

/// The file of the table, by the state file's path.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
}

impl Table {
    /// The table beside a state file.
    #[must_use]
    pub fn beside(state: &Path) -> Table {
        Table { path: super::files::with_suffix(state, ".cuda") }
    }

    /// Makes an empty table that every user may write.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn create(&self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&self.path)?;
        file.set_permissions(PermissionsExt::from_mode(0o666))?;
        let mut header = [0; 16];
        header[..8].copy_from_slice(&MAGIC);
        file.write_all_at(&header, 0)
    }

    /// Every record. A node that was made without a table has none.
    ///
    /// # Errors
    ///
    /// The file system's; [`io::ErrorKind::InvalidData`] if it is no table.
    pub fn read(&self) -> io::Result<Vec<Record>> {
        let file = match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        Ok(load(&file)?.into_iter().flatten().collect())
    }

    /// As [`Table::lock`], for at most `patience`.
    ///
    /// # Errors
    ///
    /// As there; [`io::ErrorKind::WouldBlock`] if somebody holds the lock all the time.
    pub fn lock_within(&self, patience: Duration) -> io::Result<Locked> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let start = Instant::now();
        while let Err(error) = file.try_lock() {
            if start.elapsed() > patience {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let slots = load(&file)?;
        Ok(Locked { file, slots })
    }

    /// The table, with other writers kept out until the result is dropped.
    ///
    /// # Errors
    ///
    /// The same as of [`Table::read`]; a missing table is one.
    pub fn lock(&self) -> io::Result<Locked> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        file.lock()?;
        let slots = load(&file)?;
        Ok(Locked { file, slots })
    }

    /// Says that a process lives, without a lock: only the process itself writes this field.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn beat(&self, slots: &[usize], now_ms: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        slots.iter().try_for_each(|slot| file.write_all_at(&now_ms.to_le_bytes(), offset(*slot) + 48))
    }
}

fn offset(slot: usize) -> u64 {
    HEADER + (slot * RECORD) as u64
}

fn load(file: &File) -> io::Result<Vec<Option<Record>>> {
    // One read for all but the fullest nodes: 50 contexts.
    let mut bytes = vec![0; 4096];
    let mut filled = 0;
    loop {
        let read = file.read_at(bytes.get_mut(filled..).unwrap_or_default(), filled as u64)?;
        filled += read;
        if read == 0 || filled < bytes.len() {
            break;
        }
        bytes.resize(bytes.len() * 4, 0);
    }
    bytes.truncate(filled);
    if bytes.get(..8) != Some(&MAGIC[..]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a table of CUDA contexts"));
    }
    let records = bytes.get(16..).unwrap_or_default().chunks_exact(RECORD);
    Ok(records.map(Record::from_bytes).collect())
}

/// The table while nobody else changes it.
#[derive(Debug)]
pub struct Locked {
    file: File,
    slots: Vec<Option<Record>>,
}

impl Locked {
    /// The records, with the slot of each.
    pub fn records(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.slots.iter().enumerate().filter_map(|(slot, r)| r.as_ref().map(|r| (slot, r)))
    }

    /// The record of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&Record> {
        self.slots.get(slot)?.as_ref()
    }

    /// Removes the records of dead processes whose time is over, and returns them.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn sweep(&mut self, now_ms: u64, late_free_ms: u64) -> io::Result<Vec<Record>> {
        let over: Vec<(usize, Record)> = self
            .records()
            .filter(|(_, r)| !r.counts(now_ms, late_free_ms))
            .map(|(slot, r)| (slot, *r))
            .collect();
        over.iter().try_for_each(|(slot, _)| self.put(*slot, None))?;
        Ok(over.into_iter().map(|(_, record)| record).collect())
    }

    /// Puts a new record into the first free slot and returns the slot.
    ///
    /// # Errors
    ///
    /// The file system's; [`io::ErrorKind::StorageFull`] with [`MAX_RECORDS`] records.
    pub fn insert(&mut self, record: Record) -> io::Result<usize> {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot >= MAX_RECORDS {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "4096 CUDA contexts on one node"));
        }
        self.put(slot, Some(record))?;
        Ok(slot)
    }

    /// Replaces a record, or frees its slot.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn put(&mut self, slot: usize, record: Option<Record>) -> io::Result<()> {
        let bytes = record.map_or([0; RECORD], Record::to_bytes);
        self.file.write_all_at(&bytes, offset(slot))?;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = record;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
