//! A directory of the journal: each file is read whole and replaced whole.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::format::{JournalRecord, OLDEST, Parsed, VERSION, parse};
use crate::own_dirs::{self, StateError, io};

/// A journal file that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Description of the damage.
    pub why: String,
}

impl fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged journal file {} ({})", self.path.display(), self.why)
    }
}

/// All that a directory holds. Whoever wants the records is handed the damaged files with them.
#[must_use]
#[derive(Debug)]
pub struct Contents<T> {
    records: Vec<T>,
    damaged: Vec<DamagedFile>,
}

impl<T> Contents<T> {
    /// The records, and the files that could not be understood. The latter are where they were: another job may be the
    /// one that they are about.
    pub fn into_parts(self) -> (Vec<T>, Vec<DamagedFile>) {
        (self.records, self.damaged)
    }

    pub(super) fn sorted_by_key<K: Ord>(mut self, key: impl FnMut(&T) -> K) -> Self {
        self.records.sort_by_key(key);
        self
    }
}

/// The event that a write must outlive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlive {
    /// A killed process.
    Process,
    /// A power failure.
    Machine,
}

/// More than a job's entry usually has, bytes.
const ENTRY_SIZE: usize = 16 << 10;
/// Largest size of a file, bytes; a longer one is not ours.
const SIZE_LIMIT: u64 = 1 << 20;

pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens `name` below the journal's own directory, making it where it is missing.
    pub(super) fn open(state: impl AsFd, state_dir: &Path, name: &str) -> Result<Self, StateError> {
        let fd = own_dirs::own_at(state, state_dir, name, Mode::RWXU)?;
        Ok(Self { fd, path: state_dir.join(name) })
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StateError> {
        own_dirs::names(&self.fd).map_err(io(&self.path, "list it"))
    }

    /// Everything in it but what writers are at work on.
    pub(super) fn read_all<T: JournalRecord>(&self) -> Result<Contents<T>, StateError> {
        let mut all = Contents { records: Vec::new(), damaged: Vec::new() };
        for name in self.names()?.iter().filter(|n| !n.starts_with('.')) {
            match self.read(name)? {
                None => {}
                Some(Ok(record)) => all.records.push(record),
                Some(Err(damaged)) => all.damaged.push(damaged),
            }
        }
        Ok(all)
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read now, or is of a newer format: nothing is known about it.
    pub(super) fn read<T: JournalRecord>(
        &self,
        name: &str,
    ) -> Result<Option<Result<T, DamagedFile>>, StateError> {
        let path = self.path_of(name);
        let damaged = |why: &str| Ok(Some(Err(DamagedFile { path: path.clone(), why: why.to_owned() })));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return damaged("it is a link"),
            Err(e) => return Err(io(&path, "open it")(e)),
        };
        let mut text = Vec::new();
        match std::fs::File::from(fd).take(SIZE_LIMIT).read_to_end(&mut text) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::IsADirectory => return damaged("it is a directory"),
            Err(source) => return Err(StateError::Io { path, what: "read it", source }),
        }
        match parse(&text) {
            Parsed::JournalRecord(record) => match T::file_name(&record) {
                own if own == name => Ok(Some(Ok(record))),
                own => damaged(&format!("a copy of {own}")),
            },
            Parsed::Damaged(why) => damaged(&why),
            Parsed::Newer(format) => {
                Err(StateError::NewerFormat { path, format, oldest: OLDEST, newest: VERSION })
            }
        }
    }

    /// Replaces a file whole.
    pub(super) fn write<T: JournalRecord>(
        &self,
        name: &str,
        record: &T,
        outlive: Outlive,
    ) -> Result<(), StateError> {
        let path = self.path_of(name);
        let failed = |source| StateError::Io { path: path.clone(), what: "write it", source };
        let text = serde_json::to_vec_pretty(record).map_err(|e| failed(e.into()))?;
        let temporary = format!(".{name}.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .map_err(io(&path, "create it"))?;
        let mut file = std::fs::File::from(fd);
        let sync = |file: &std::fs::File| if outlive == Outlive::Process { Ok(()) } else { file.sync_all() };
        let written = file.write_all(&text).and_then(|()| sync(&file)).map_err(failed);
        crate::crash::point("written, not renamed");
        let replaced = written.and_then(|()| {
            rustix::fs::renameat(&self.fd, &temporary, &self.fd, name).map_err(io(&path, "replace it"))
        });
        if replaced.is_err() {
            // A full disk should not be filled further; what cannot be removed either is swept later.
            let _ = own_dirs::unlink(&self.fd, &temporary);
        }
        crate::crash::point("journal written");
        replaced
    }

    /// Checks that a file could be written: there is room, and the file system takes changes.
    pub(super) fn try_out(&self) -> Result<(), StateError> {
        let failed = |source| StateError::Io { path: self.path.clone(), what: "write to it", source };
        let temporary = format!(".try.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| failed(e.into()))?;
        let mut file = std::fs::File::from(fd);
        let written = file.write_all(&[b'\n'; ENTRY_SIZE]).and_then(|()| file.sync_all()).map_err(failed);
        own_dirs::unlink(&self.fd, &temporary).map_err(|e| failed(e.into()))?;
        written
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), StateError> {
        crate::crash::point("before journal removal");
        own_dirs::unlink(&self.fd, name).map_err(io(&self.path_of(name), "remove it"))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StateError> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to).map_err(io(&self.path_of(from), "rename it"))
    }

    /// Removes what writers that were killed left behind. Only while nobody else writes.
    pub(super) fn sweep(&self) -> Result<(), StateError> {
        for name in self.names()?.iter().filter(|n| n.starts_with('.')) {
            own_dirs::unlink(&self.fd, name).map_err(io(&self.path, "sweep it"))?;
        }
        Ok(())
    }

    /// Moves a file into `bad` and returns where it is then. Only while nobody else may replace it: what is moved must be
    /// what was found damaged.
    pub(super) fn set_aside(&self, bad: &Self, file: DamagedFile) -> Result<DamagedFile, StateError> {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let kept = format!("{name}.{}", since.as_millis());
        let path = bad.path_of(&kept);
        match rustix::fs::renameat(&self.fd, &name, &bad.fd, &kept) {
            Ok(()) => Ok(DamagedFile { path, ..file }),
            Err(e) => Err(io(&path, "move a damaged file there")(e)),
        }
    }
}
