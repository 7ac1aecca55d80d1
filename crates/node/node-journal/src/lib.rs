//! The node's memory: one file per job, per MPS daemon and per changed power limit, written before each change and after it.
//!
//! A file is replaced whole (temporary file, rename), so that a process that is killed leaves the old one or the new one,
//! never half of one. That holds for a power failure if the file is synced before it is renamed: [`Journal::store`] does
//! that, and power limits are written so. [`Journal::note`], daemons and energy are not, and their files may be left empty; nor is the directory, so the last replacement or removal may be undone. But instances, device nodes and daemons do
//! not survive a boot either: entries of an earlier boot count as dead, and a damaged file that is older than this boot says
//! nothing of a live job. An fsync costs 2 to 7 ms on a busy disk, which is most of a prolog's own time.
//!
//! Reading changes nothing. What becomes of a file that is no good entry depends on why:
//!
//! - Its content makes no sense: it is reported, and no other job is touched. Reconciliation, which has the node to
//!   itself, moves it to `bad/`; so does the prolog of the file's own job.
//! - It cannot be read, or a newer Tessera wrote it ([`StateError::NewerFormat`]): it stays where it is, and nothing is
//!   done that it might forbid. What it says may be all that keeps a job's GPUs its own.
//!
//! Beside it lie the [`lock`]s on GPUs and the way in which root opens [`own_dirs`], where no other user can redirect it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod cap;
pub mod crash;
mod energy;
mod entry;
mod fence;
mod file_names;
mod folder;
mod format;
mod journal;
pub mod lock;
pub mod own_dirs;

pub use cap::CapRecord;
pub use energy::{EnergyRecord, JobEnergy};
pub use entry::{
    DaemonRecord, Entry, GpuRecord, GrantKind, InstanceRecord, LiveInstance, PartRecord, Phase, ShareRecord,
    TaskDevice, TasksRecord, is_sluid,
};
pub use fence::{FenceRecord, RegionLimit};
pub use folder::{Contents, DamagedFile};
pub use format::VERSION;
pub use journal::Journal;
pub use lock::LockError;
pub use own_dirs::StateError;
