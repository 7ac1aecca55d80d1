//! What a process holds on a device, in the table that all processes of the node share.

use nvidia_ml::engine::process::boot_ms;
use nvidia_ml::engine::process::start_time;
use nvidia_ml::engine::state::State;
use nvidia_ml::engine::store::Store;
use nvidia_ml::engine::usage::{Locked, Record};

use super::code::{Answer, Code};
use super::device::Device;
use super::log::{Log, Op};

/// Compute modes of NVML.
const PROHIBITED: u32 = 2;
const EXCLUSIVE_PROCESS: u32 = 3;

/// Access to the table on behalf of one process.
#[derive(Debug)]
pub struct Accounts<'a> {
    /// The node.
    pub store: &'a Store,
    /// Where operations are written down.
    pub log: &'a Log,
    /// This process.
    pub pid: u32,
    /// The MPS control daemon whose client it is.
    pub mps_daemon: Option<u32>,
}

/// A device's memory at one moment, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What this process could still allocate.
    pub free: u64,
    /// The device's. A limit of MPS does not show in it.
    pub total: u64,
}

/// What all processes hold on the device: those of the table, and stand-ins that `nvml-sim proc add` registered.
fn used(state: &State, table: &Locked, device: &Device) -> Answer<u64> {
    let gi = device.mig.map(|r| r.gi);
    let [_, _, stand_ins] = state.memory(device.gpu, gi).map_err(|_| Code::DeviceUnavailable)?;
    let held = table.records().filter(|(_, r)| r.is_on(device.gpu, gi)).map(|(_, r)| r.total());
    Ok(held.fold(stand_ins << 20, u64::saturating_add))
}

impl Accounts<'_> {
    /// Runs `f` on a table from which the dead are gone; `f` gives the answer and what the device holds after it.
    fn change<T>(&self, f: impl FnOnce(&State, &mut Locked) -> Answer<T>) -> Answer<T> {
        let ran = self.store.account(|state, table| {
            let gone = table.sweep(boot_ms(), state.node.late_free_ms).unwrap_or_default();
            gone.iter().for_each(|record| self.log_exit(state, table, record));
            Ok(f(state, table))
        });
        ran.map_err(|_| Code::Unknown)?
    }

    fn log_exit(&self, state: &State, table: &Locked, record: &Record) {
        if !self.log.is_on() {
            return;
        }
        let gi = record.instance.map(|i| i.0);
        let left = table.records().filter(|(_, r)| r.is_on(record.gpu, gi)).map(|(_, r)| r.total()).sum();
        let mig = record.instance.and_then(|(gi, ci)| {
            let gi = state.gpu(record.gpu).ok()?.instances.iter().find(|g| g.id == gi)?;
            gi.cis.iter().find(|c| c.id == ci).map(|c| c.uuid.as_str())
        });
        let gpu = state.node.gpus.get(record.gpu as usize).map_or("", |s| s.uuid.as_str());
        self.log.write(record.pid, mig.unwrap_or(gpu), Op::Exit, record.total(), left, 0);
    }

    /// Removes what the process held before it started this program: exec ends contexts, and pid and start time stay the same.
    ///
    /// # Errors
    ///
    /// [`Code::Unknown`] if the table cannot be read or written.
    pub fn forget_former_program(&self) -> Answer<()> {
        self.change(|state, table| {
            let started = start_time(self.pid);
            let former = table.records().filter(|(_, r)| r.pid == self.pid && Some(r.started) == started);
            let former: Vec<(usize, Record)> = former.map(|(slot, r)| (slot, *r)).collect();
            for (slot, record) in former {
                table.put(slot, None).map_err(|_| Code::Unknown)?;
                self.log_exit(state, table, &record);
            }
            Ok(())
        })
    }

    /// Registers this process on the device with a context's memory. Returns the slot of its record.
    ///
    /// # Errors
    ///
    /// [`Code::DeviceUnavailable`] if the MIG device is gone or the GPU's compute mode forbids it;
    /// [`Code::MpsMaxClientsReached`]; [`Code::OutOfMemory`].
    pub fn open(&self, device: &Device) -> Answer<usize> {
        self.change(|state, table| {
            let before = used(state, table, device)?;
            let opened = self.may_open(state, table, device, before).and_then(|()| {
                let record = Record {
                    pid: self.pid,
                    started: start_time(self.pid).ok_or(Code::OperatingSystem)?,
                    gpu: device.gpu,
                    instance: device.mig.map(|r| (r.gi, r.ci)),
                    mps_daemon: self.mps_daemon,
                    context: device.context,
                    allocated: 0,
                    beat_ms: boot_ms(),
                };
                table.insert(record).map_err(|_| Code::DeviceUnavailable)
            });
            let after = if opened.is_ok() { before + device.context } else { before };
            self.log.write(self.pid, &device.uuid, Op::Context, device.context, after, number(&opened));
            opened
        })
    }

    fn may_open(&self, state: &State, table: &Locked, device: &Device, used: u64) -> Answer<()> {
        let gpu = state.gpu(device.gpu).map_err(|_| Code::DeviceUnavailable)?;
        let there = device.mig.map_or(!gpu.mig, |r| state.ci(r).is_ok());
        let on = |r: &&Record| {
            r.is_on(device.gpu, device.mig.map(|m| m.gi))
                && r.instance.map(|i| i.1) == device.mig.map(|m| m.ci)
        };
        let others: Vec<&Record> = table.records().map(|(_, r)| r).filter(on).collect();
        let foreign = others.iter().any(|r| r.mps_daemon.is_none() || r.mps_daemon != self.mps_daemon);
        if !there || gpu.compute_mode == PROHIBITED || (gpu.compute_mode == EXCLUSIVE_PROCESS && foreign) {
            return Err(Code::DeviceUnavailable);
        }
        let clients =
            others.iter().filter(|r| r.mps_daemon.is_some() && r.mps_daemon == self.mps_daemon).count();
        if clients >= device.max_clients {
            return Err(Code::MpsMaxClientsReached);
        }
        let most = device.total.saturating_sub(used).min(device.limit.unwrap_or(u64::MAX));
        if device.context > most { Err(Code::OutOfMemory) } else { Ok(()) }
    }

    /// Takes `bytes` more of the device, whole granules; `asked` is what the program asked for.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`] if the device, or what this process may have of it, lacks them.
    pub fn take(&self, device: &Device, slot: usize, bytes: u64, asked: u64) -> Answer<()> {
        self.change(|state, table| {
            let before = used(state, table, device)?;
            let mut record = self.own(table, slot)?;
            let allocated = record.allocated.saturating_add(bytes);
            let own = record.context.saturating_add(allocated);
            let fits = before.saturating_add(bytes) <= device.total && device.limit.is_none_or(|l| own <= l);
            let taken = if fits { Ok(()) } else { Err(Code::OutOfMemory) };
            if fits {
                record.allocated = allocated;
                record.beat_ms = boot_ms();
                table.put(slot, Some(record)).map_err(|_| Code::Unknown)?;
            }
            let after = if fits { before + bytes } else { before };
            self.log.write(self.pid, &device.uuid, Op::Alloc, asked, after, number(&taken));
            taken
        })
    }

    /// Gives `bytes` back, whole granules; `asked` is what the program had asked for.
    ///
    /// # Errors
    ///
    /// [`Code::Unknown`] if the table cannot be written.
    pub fn give(&self, device: &Device, slot: usize, bytes: u64, asked: u64) -> Answer<()> {
        self.change(|state, table| {
            let mut record = self.own(table, slot)?;
            record.allocated = record.allocated.saturating_sub(bytes);
            record.beat_ms = boot_ms();
            table.put(slot, Some(record)).map_err(|_| Code::Unknown)?;
            if self.log.is_on() {
                self.log.write(self.pid, &device.uuid, Op::Free, asked, used(state, table, device)?, 0);
            }
            Ok(())
        })
    }

    /// Writes a line about an operation that changes nothing in the table: a launch, or memory within a granule that is taken already.
    pub fn note(&self, device: &Device, op: Op, bytes: u64, result: u32) {
        if self.log.is_on() {
            let used = self.change(|state, table| used(state, table, device)).unwrap_or(0);
            self.log.write(self.pid, &device.uuid, op, bytes, used, result);
        }
    }

    /// Takes the process off the device.
    ///
    /// # Errors
    ///
    /// [`Code::Unknown`] if the table cannot be written.
    pub fn close(&self, slot: usize) -> Answer<()> {
        self.change(|state, table| {
            let record = self.own(table, slot)?;
            table.put(slot, None).map_err(|_| Code::Unknown)?;
            self.log_exit(state, table, &record);
            Ok(())
        })
    }

    /// The device's memory now.
    ///
    /// # Errors
    ///
    /// [`Code::DeviceUnavailable`] if the device is gone.
    pub fn memory(&self, device: &Device, slot: usize) -> Answer<Memory> {
        self.change(|state, table| {
            let free = device.total.saturating_sub(used(state, table, device)?);
            let own = self.own(table, slot)?.total();
            let left = device.limit.map_or(free, |limit| limit.saturating_sub(own));
            Ok(Memory { free: free.min(left), total: device.total })
        })
    }

    /// This process's record; somebody with an editor may have removed it.
    fn own(&self, table: &Locked, slot: usize) -> Answer<Record> {
        table.get(slot).filter(|r| r.pid == self.pid).copied().ok_or(Code::Unknown)
    }
}

fn number<T>(answer: &Answer<T>) -> u32 {
    answer.as_ref().err().map_or(0, |code| *code as u32)
}
