//! The node's memory: one file per job and per MPS daemon, written before each change and after it.
//!
//! A file is replaced whole (temporary file, fsync, rename), so that a crash of any kind leaves the old one or the new
//! one, never half of one. The directory is not synced: a power failure may undo the last replacement or removal, but
//! instances, device nodes and daemons do not survive a boot either, and entries of an earlier boot count as dead. An
//! fsync costs 2 to 7 ms on a busy disk, which is most of a prolog's own time.
//!
//! A file that cannot be understood is moved to `bad/` and reported; no other job is touched. One that cannot be read
//! stays where it is, and nothing is done that it might forbid: what it says may be all that keeps a job's GPUs its own.

mod entry;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use placement::JobId;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::own_dirs::{self, DirError, io};

pub use entry::{
    DaemonRecord, Entry, GpuRecord, InstanceRecord, Kind, LiveInstance, Phase, ShareRecord, VERSION,
    daemon_key,
};

/// A journal file that could not be understood and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// Where it is kept.
    pub moved_to: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The open journal.
pub struct Journal {
    base: PathBuf,
    jobs: OwnedFd,
    daemons: OwnedFd,
    bad: OwnedFd,
    boot: String,
}

/// What a file may be at most; a longer one is not ours.
const SIZE_LIMIT: u64 = 1 << 20;

/// What a write has to outlive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outlive {
    /// A killed process.
    Process,
    /// A power failure.
    Machine,
}

trait Versioned: Serialize + DeserializeOwned {
    fn version(&self) -> u32;
}
impl Versioned for Entry {
    fn version(&self) -> u32 {
        self.version
    }
}
impl Versioned for DaemonRecord {
    fn version(&self) -> u32 {
        self.version
    }
}

impl Journal {
    /// Opens the journal, making its directories where they are missing.
    ///
    /// # Errors
    ///
    /// A directory cannot be made, is not ours, or may be written by others; the kernel does not say which boot this is.
    pub fn open(state_dir: &Path) -> Result<Self, DirError> {
        let state = own_dirs::own(state_dir, Mode::RWXU)?;
        let sub = |name| own_dirs::own_at(&state, state_dir, name, Mode::RWXU);
        let boot = boot_id(Path::new("/proc/sys/kernel/random/boot_id"))?;
        Ok(Self {
            base: state_dir.to_owned(),
            jobs: sub("jobs")?,
            daemons: sub("daemons")?,
            bad: sub("bad")?,
            boot,
        })
    }

    /// This boot's id.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// A job's entry. One that cannot be understood is moved aside and counts as absent.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn job(&self, job: JobId) -> Result<Option<Entry>, DirError> {
        let mut bad = Vec::new();
        self.load(&self.jobs, "jobs", &file_of(job), &mut bad)
    }

    /// Every job's entry, by job id; files that could not be understood are moved aside and added to `bad`.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read.
    pub fn jobs(&self, bad: &mut Vec<BadFile>) -> Result<Vec<Entry>, DirError> {
        let mut entries: Vec<Entry> = self.load_all(&self.jobs, "jobs", bad)?;
        entries.sort_by_key(|e| e.job);
        Ok(entries)
    }

    /// Writes a job's entry; its content is on disk before it replaces the old one.
    ///
    /// # Errors
    ///
    /// It cannot be written: no job may be started.
    pub fn store(&self, entry: &Entry) -> Result<(), DirError> {
        self.write(&self.jobs, "jobs", &file_of(entry.job()), entry, Outlive::Machine)
    }

    /// Writes a job's entry before a change that only matters while the machine runs.
    pub(crate) fn note(&self, entry: &Entry) -> Result<(), DirError> {
        self.write(&self.jobs, "jobs", &file_of(entry.job()), entry, Outlive::Process)
    }

    /// How long ago a job's entry was last written; `None`: it is not there, or the clock was set back.
    #[must_use]
    pub fn age(&self, job: JobId) -> Option<Duration> {
        let path = self.base.join("jobs").join(file_of(job));
        std::fs::symlink_metadata(path).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Forgets a job.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub fn remove(&self, job: JobId) -> Result<(), DirError> {
        self.delete(&self.jobs, "jobs", &file_of(job))
    }

    /// A daemon's record.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn daemon(&self, key: &str) -> Result<Option<DaemonRecord>, DirError> {
        self.load(&self.daemons, "daemons", &format!("{key}.json"), &mut Vec::new())
    }

    /// Every daemon's record, by key.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read.
    pub fn daemons(&self, bad: &mut Vec<BadFile>) -> Result<Vec<DaemonRecord>, DirError> {
        self.load_all(&self.daemons, "daemons", bad)
    }

    /// Writes a daemon's record.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn store_daemon(&self, record: &DaemonRecord) -> Result<(), DirError> {
        self.write(&self.daemons, "daemons", &format!("{}.json", record.key), record, Outlive::Process)
    }

    /// Forgets a daemon.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub fn remove_daemon(&self, key: &str) -> Result<(), DirError> {
        self.delete(&self.daemons, "daemons", &format!("{key}.json"))
    }

    /// Files moved aside so far.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn bad_files(&self) -> Result<Vec<String>, DirError> {
        own_dirs::names(&self.bad).map_err(io(&self.base.join("bad"), "list it"))
    }

    /// Removes what writers that were killed left behind. Only while nobody else writes.
    pub(crate) fn sweep(&self) -> Result<(), DirError> {
        for (dir, sub) in [(&self.jobs, "jobs"), (&self.daemons, "daemons")] {
            let path = self.base.join(sub);
            for name in own_dirs::names(dir).map_err(io(&path, "list it"))? {
                if name.starts_with('.') {
                    own_dirs::unlink(dir, &name).map_err(io(&path, "sweep it"))?;
                }
            }
        }
        Ok(())
    }

    fn load_all<T: Versioned>(
        &self,
        dir: &OwnedFd,
        sub: &str,
        bad: &mut Vec<BadFile>,
    ) -> Result<Vec<T>, DirError> {
        let names = own_dirs::names(dir).map_err(io(&self.base.join(sub), "list it"))?;
        let mut all = Vec::new();
        for name in names.iter().filter(|n| !n.starts_with('.')) {
            all.extend(self.load(dir, sub, name, bad)?);
        }
        Ok(all)
    }

    fn load<T: Versioned>(
        &self,
        dir: &OwnedFd,
        sub: &str,
        name: &str,
        bad: &mut Vec<BadFile>,
    ) -> Result<Option<T>, DirError> {
        let path = self.base.join(sub).join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => {
                return self.set_aside(dir, name, "it is a link", bad).map(|()| None);
            }
            Err(e) => return Err(io(&path, "open it")(e)),
        };
        let mut text = Vec::new();
        let parsed = match std::fs::File::from(fd).take(SIZE_LIMIT).read_to_end(&mut text) {
            Ok(_) => serde_json::from_slice::<T>(&text).map_err(|e| e.to_string()),
            Err(e) if e.kind() == std::io::ErrorKind::IsADirectory => Err("it is a directory".to_owned()),
            Err(source) => return Err(DirError::Io { path, what: "read it", source }),
        };
        match parsed {
            Ok(value) if value.version() == VERSION => Ok(Some(value)),
            Ok(value) => {
                let why = format!("version {} is not {VERSION}", value.version());
                self.set_aside(dir, name, &why, bad).map(|()| None)
            }
            Err(why) => self.set_aside(dir, name, &why, bad).map(|()| None),
        }
    }

    fn set_aside(
        &self,
        dir: &OwnedFd,
        name: &str,
        why: &str,
        bad: &mut Vec<BadFile>,
    ) -> Result<(), DirError> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let kept = format!("{name}.{}", since.as_millis());
        let moved_to = self.base.join("bad").join(&kept);
        match rustix::fs::renameat(dir, name, &self.bad, &kept) {
            Ok(()) => bad.push(BadFile { moved_to, why: why.to_owned() }),
            // Another process was quicker.
            Err(rustix::io::Errno::NOENT) => {}
            Err(e) => return Err(io(&moved_to, "move a damaged file there")(e)),
        }
        Ok(())
    }

    fn write<T: Versioned>(
        &self,
        dir: &OwnedFd,
        sub: &str,
        name: &str,
        value: &T,
        outlive: Outlive,
    ) -> Result<(), DirError> {
        let path = self.base.join(sub).join(name);
        let text = serde_json::to_vec_pretty(value).map_err(|e| DirError::Io {
            path: path.clone(),
            what: "write it",
            source: e.into(),
        })?;
        let temporary = format!(".{name}.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .map_err(io(&path, "create it"))?;
        let mut file = std::fs::File::from(fd);
        let sync = |file: &std::fs::File| if outlive == Outlive::Process { Ok(()) } else { file.sync_all() };
        let written = file.write_all(&text).and_then(|()| sync(&file));
        let written = written.map_err(|source| DirError::Io { path: path.clone(), what: "write it", source });
        crate::crash::point("written, not renamed");
        let replaced = written
            .and_then(|()| rustix::fs::renameat(dir, &temporary, dir, name).map_err(io(&path, "replace it")));
        if replaced.is_err() {
            // A full disk should not be filled further; what cannot be removed either is swept later.
            let _ = own_dirs::unlink(dir, &temporary);
        }
        crate::crash::point("journal written");
        replaced
    }

    fn delete(&self, dir: &OwnedFd, sub: &str, name: &str) -> Result<(), DirError> {
        let path = self.base.join(sub).join(name);
        crate::crash::point("before journal removal");
        own_dirs::unlink(dir, name).map_err(io(&path, "remove it"))
    }
}

fn file_of(job: JobId) -> String {
    format!("{job}.json")
}

/// Which boot this is. Without it every entry would seem to be of another one, and its job dead.
fn boot_id(path: &Path) -> Result<String, DirError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| DirError::Io { path: path.to_owned(), what: "read it", source })?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_is_not_known_is_not_another_one() {
        let error = boot_id(Path::new("/nonexistent/boot_id")).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/boot_id: cannot read it");
    }
}
