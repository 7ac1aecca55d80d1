//! Locks between the processes that work on a node: prologs, epilogs, `tessera node reconcile`.
//!
//! Order: the node (shared, or exclusive for reconciliation), the job, GPUs ascending, MPS daemons by key, the GPUs' power
//! limits by UUID, the GPUs' device nodes, the node's `extra` in Slurm. An epilog takes no GPU's lock, because a prolog may hold one for as long as the driver keeps it waiting. The
//! kernel gives a lock back when its holder dies, and that of a GPU's reset when the reset command has ended as well.

use std::os::fd::OwnedFd;
use std::path::Path;

use geometry::JobId;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::GpuRecord;
use crate::own_dirs::{self, StateError};
use node_driver::NvmlIndex;
use node_driver::deadline::{Backoff, Deadline};

/// A lock that could not be had.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LockError {
    /// The file cannot be opened.
    #[error(transparent)]
    State(#[from] StateError),
    /// Somebody else holds it until after the deadline.
    #[error("lock {name} is still held by another process after {waited_ms} ms")]
    Timeout { name: String, waited_ms: u128 },
}

/// Locks held; given back when dropped.
#[must_use]
pub struct Locks {
    _held: Vec<OwnedFd>,
}

/// The lock of a GPU's reset, which the reset command shares: that command outlives a prolog that is killed, and nobody may
/// work on the GPU or believe its MIG mode until it has ended. Given back when dropped, also where the command left a process
/// of its own behind.
#[must_use]
pub struct ResetLock(OwnedFd);

impl ResetLock {
    /// Waits for an earlier reset of the GPU. What the caller starts while it has the lock has the lock too.
    pub fn take(state_dir: &Path, gpu: NvmlIndex, deadline: &Deadline) -> Result<Self, LockError> {
        let fd = exclusive(&open(state_dir)?, state_dir, &reset_name(gpu), deadline)?;
        let path = state_dir.join("locks").join(reset_name(gpu));
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())
            .map_err(own_dirs::io(&path, "share it with the reset command"))?;
        Ok(Self(fd))
    }
}

impl Drop for ResetLock {
    fn drop(&mut self) {
        // Fails only for what is no open file.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

const RESET: &str = "reset-";

fn reset_name(gpu: NvmlIndex) -> String {
    format!("{RESET}{gpu}")
}

/// Job locks are shared by jobs with the same remainder, so that their files need not be removed.
const JOB_LOCKS: u32 = 64;

impl Locks {
    /// For work on one job, on GPUs, and on the MPS daemons with these keys.
    pub fn for_job(
        state_dir: &Path,
        job: JobId,
        gpus: &[NvmlIndex],
        daemons: &[String],
        deadline: &Deadline,
    ) -> Result<Self, LockError> {
        let dir = open(state_dir)?;
        let mut held = vec![
            take(&dir, state_dir, "node", FlockOperation::NonBlockingLockShared, deadline)?,
            exclusive(&dir, state_dir, &format!("job-{:02}", job.0 % JOB_LOCKS), deadline)?,
        ];
        let mut gpus = gpus.to_vec();
        gpus.sort_unstable();
        gpus.dedup();
        for gpu in gpus {
            held.push(exclusive(&dir, state_dir, &format!("gpu-{gpu}"), deadline)?);
            drop(exclusive(&dir, state_dir, &reset_name(gpu), deadline)?);
        }
        let mut daemons = daemons.to_vec();
        daemons.sort_unstable();
        // A job's own GPUs have one daemon together.
        daemons.dedup();
        for key in daemons {
            held.push(exclusive(&dir, state_dir, &format!("daemon-{key}"), deadline)?);
        }
        Ok(Self { _held: held })
    }

    /// For the owners and modes of the GPUs' own nodes; taken last, held briefly.
    pub fn for_nodes(state_dir: &Path, deadline: &Deadline) -> Result<Self, LockError> {
        let dir = open(state_dir)?;
        Ok(Self { _held: vec![exclusive(&dir, state_dir, "nodes", deadline)?] })
    }

    /// For the node's `extra` in Slurm, which is read and then written; taken last, held for two questions to slurmctld.
    pub fn for_extra(state_dir: &Path, deadline: &Deadline) -> Result<Self, LockError> {
        let dir = open(state_dir)?;
        Ok(Self { _held: vec![exclusive(&dir, state_dir, "extra", deadline)?] })
    }

    /// For the power limits of GPUs, by UUID; taken after all others but that of device nodes, held as long as a limit is set, or the
    /// GPU reset.
    pub fn for_power(state_dir: &Path, gpus: &[GpuRecord], deadline: &Deadline) -> Result<Self, LockError> {
        let dir = open(state_dir)?;
        let mut uuids: Vec<String> = gpus.iter().map(GpuRecord::file_stem).collect();
        uuids.sort_unstable();
        uuids.dedup();
        let held = uuids.iter().map(|uuid| exclusive(&dir, state_dir, &format!("power-{uuid}"), deadline));
        Ok(Self { _held: held.collect::<Result<_, _>>()? })
    }

    /// For ending another job's hold while working on `own`. It stands outside the order of locks, so it must not be
    /// waited for long.
    pub fn for_other(
        state_dir: &Path,
        own: JobId,
        other: JobId,
        deadline: &Deadline,
    ) -> Result<Self, LockError> {
        if own.0 % JOB_LOCKS == other.0 % JOB_LOCKS {
            // The same lock, which the caller holds.
            return Ok(Self { _held: Vec::new() });
        }
        let dir = open(state_dir)?;
        let name = format!("job-{:02}", other.0 % JOB_LOCKS);
        Ok(Self { _held: vec![exclusive(&dir, state_dir, &name, deadline)?] })
    }

    /// For work on everything.
    pub fn for_node(state_dir: &Path, deadline: &Deadline) -> Result<Self, LockError> {
        let dir = open(state_dir)?;
        let node = exclusive(&dir, state_dir, "node", deadline)?;
        for name in resets(&dir, state_dir)? {
            drop(exclusive(&dir, state_dir, &name, deadline)?);
        }
        Ok(Self { _held: vec![node] })
    }
}

/// The locks of all GPUs that were ever reset here.
fn resets(dir: &OwnedFd, base: &Path) -> Result<Vec<String>, LockError> {
    let path = base.join("locks");
    let failed = own_dirs::io(&path, "list it");
    let entries = rustix::fs::Dir::read_from(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let names = entries.map_err(failed)?.into_iter().map(|e| e.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.starts_with(RESET)).collect())
}

fn open(state_dir: &Path) -> Result<OwnedFd, StateError> {
    let state = own_dirs::own(state_dir, Mode::RWXU)?;
    own_dirs::own_at(state, state_dir, "locks", Mode::RWXU)
}

/// Checks that the locks' files can be opened.
///
/// # Errors
///
/// They cannot be, for this reason.
pub fn try_out(state_dir: &Path) -> Result<(), StateError> {
    open_file(&open(state_dir)?, state_dir, "node").map(drop)
}

fn exclusive(dir: &OwnedFd, base: &Path, name: &str, deadline: &Deadline) -> Result<OwnedFd, LockError> {
    take(dir, base, name, FlockOperation::NonBlockingLockExclusive, deadline)
}

fn open_file(dir: &OwnedFd, base: &Path, name: &str) -> Result<OwnedFd, StateError> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(own_dirs::io(&base.join("locks").join(name), "open it"))
}

fn take(
    dir: &OwnedFd,
    base: &Path,
    name: &str,
    how: FlockOperation,
    deadline: &Deadline,
) -> Result<OwnedFd, LockError> {
    let path = base.join("locks").join(name);
    let fd = open_file(dir, base, name)?;
    let mut backoff = Backoff::quick();
    loop {
        match rustix::fs::flock(&fd, how) {
            Ok(()) => return Ok(fd),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(own_dirs::io(&path, "lock it")(e).into()),
        }
        if !backoff.pause(deadline) {
            let waited_ms = deadline.timeout.as_millis();
            return Err(LockError::Timeout { name: name.to_owned(), waited_ms });
        }
    }
}
