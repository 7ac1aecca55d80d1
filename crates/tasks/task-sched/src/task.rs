//! Requests of a program.

use crate::device::DeviceId;
use crate::units::{Bytes, Warps};

/// A task's number, chosen by whoever begins it. It may come again once the task is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// The number of a process of the pool. Not Slurm's job id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// Threads of a warp on every GPU.
const WARP: u32 = 32;

/// Most threads of a block on every GPU.
const MAX_THREADS: u64 = 1024;

/// Most managed memory of a task: more than any host has, and little enough that sums of it fit.
const MAX_MANAGED: Bytes = Bytes(1 << 50);

/// Needs that one lease covers: memory, and the largest grid and block of the launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    mem: Bytes,
    managed: Bytes,
    blocks: u64,
    threads: u32,
}

/// A launch that no GPU accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeedError {
    /// A grid has at least one block.
    #[error("blocks is 0; a launch has at least 1")]
    NoBlocks,
    /// A block has 1 to 1,024 threads.
    #[error("threads is {0}; a block has 1 to {MAX_THREADS}")]
    Threads(u64),
}

impl Need {
    /// A task of `mem` bytes, `blocks` thread blocks and `threads` threads per block.
    ///
    /// # Errors
    ///
    /// Where no GPU could launch such a grid. Zero bytes are legal, and so is any memory: the pool answers for its size.
    pub fn new(mem: Bytes, blocks: u64, threads: u64) -> Result<Need, NeedError> {
        if blocks == 0 {
            return Err(NeedError::NoBlocks);
        }
        match u32::try_from(threads) {
            Ok(n) if n > 0 && threads <= MAX_THREADS => {
                Ok(Need { mem, managed: Bytes(0), blocks, threads: n })
            }
            _ => Err(NeedError::Threads(threads)),
        }
    }

    /// Returns the need with this much managed memory, which the driver can move to the host; 1 PiB counts for whatever is
    /// above it.
    #[must_use]
    pub fn with_managed(self, managed: Bytes) -> Need {
        Need { managed: managed.min(MAX_MANAGED), ..self }
    }

    /// Returns the need for a policy that treats managed memory like any other.
    #[must_use]
    pub fn all_hard(self) -> Need {
        Need { mem: self.total(), managed: Bytes(0), ..self }
    }

    /// Memory that the task never exceeds, without managed memory.
    #[must_use]
    pub fn mem(&self) -> Bytes {
        self.mem
    }

    /// Managed memory: the task runs without room for it, only slower.
    #[must_use]
    pub fn managed(&self) -> Bytes {
        self.managed
    }

    /// Both together, at most `u64::MAX`.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.mem.0.saturating_add(self.managed.0))
    }

    /// Blocks of the largest grid, at least 1.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Threads per block, 1 to 1,024.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Warps of one block, 1 to 32.
    #[must_use]
    pub fn warps_per_block(&self) -> u32 {
        self.threads.div_ceil(WARP)
    }

    /// Warps of the whole grid: both papers' measure of compute.
    #[must_use]
    pub fn warps(&self) -> Warps {
        Warps(u128::from(self.blocks) * u128::from(self.warps_per_block()))
    }
}

/// The devices that a task may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Among(u128);

impl Among {
    /// Every device of the pool.
    pub const ALL: Among = Among(u128::MAX);
    /// Most devices that a set can tell apart: 16 GPUs of 7 instances are 112.
    pub const MOST: usize = 128;

    /// These devices; numbers from [`Among::MOST`] on are left out.
    pub fn of(devices: impl IntoIterator<Item = DeviceId>) -> Among {
        let bit = |id: DeviceId| if id.0 < Among::MOST { 1 << id.0 } else { 0 };
        Among(devices.into_iter().fold(0, |mask, id| mask | bit(id)))
    }

    /// Tells whether a task may use the device.
    #[must_use]
    pub fn contains(self, id: DeviceId) -> bool {
        self == Among::ALL || (id.0 < Among::MOST && self.0 >> id.0 & 1 == 1)
    }
}

/// A begin, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The task.
    pub task: TaskId,
    /// The process that begins it.
    pub job: WorkerId,
    /// Memory and SMs that it takes.
    pub need: Need,
    /// The most memory that its job declared for any task; equal to `need.mem()` where it declared none.
    pub job_mem: Bytes,
    /// The device that its job is bound to.
    pub bound: Option<DeviceId>,
    /// The devices that it may use.
    pub among: Among,
    /// True if its job shares a device with no other job.
    pub isolated: bool,
    /// True if its job has a live task already. Such a job never waits for compute, which its own tasks may hold. The
    /// simulator's jobs do, as the papers' do.
    pub holds: bool,
}

/// A process that asks for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerAsk {
    /// The process.
    pub job: WorkerId,
    /// The memory of its largest task.
    pub mem: Bytes,
    /// True if it shares a device with no other job.
    pub isolated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_devices_has_those_that_were_named() {
        let some = Among::of([DeviceId(0), DeviceId(127), DeviceId(128)]);
        let has = |set: Among| [0, 1, 127, 128].map(|id| set.contains(DeviceId(id)));
        assert_eq!(has(some), [true, false, true, false]);
        assert_eq!(has(Among::ALL), [true; 4]);
        assert_eq!(has(Among::of([])), [false; 4]);
    }

    #[test]
    fn a_need_is_what_a_gpu_can_launch() {
        let need = |blocks, threads| Need::new(Bytes(0), blocks, threads);
        assert_eq!(need(0, 32), Err(NeedError::NoBlocks));
        assert_eq!(need(1, 0), Err(NeedError::Threads(0)));
        assert_eq!(need(1, 1025), Err(NeedError::Threads(1025)));
        assert_eq!(need(1, (1 << 32) + 1), Err(NeedError::Threads((1 << 32) + 1)));
        assert_eq!(need(1 << 31, 1024).unwrap().warps(), Warps(1 << 36));
        assert_eq!(need(3, 33).unwrap().warps(), Warps(6));
        assert_eq!(need(u64::MAX, 1024).unwrap().warps().0, u128::from(u64::MAX) * 32);
    }
}
