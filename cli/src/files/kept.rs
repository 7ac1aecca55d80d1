//! A file in which commands remember something, with its locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plugin_rt::kept_file::{KeptFile, Readers};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outcome::Failure;

/// More than any record has.
const MOST: u64 = 16 << 20;
/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names and hints of a record.
#[derive(Clone, Copy)]
pub(crate) struct KeptAs {
    /// Name of the file, `X.json`. Of its locks, `X.lock` is held while the record is changed, and `X-look.lock` while a command
    /// looks at what the record is about.
    pub(crate) file: &'static str,
    /// Advice if another process holds the look's lock for a minute.
    pub(crate) busy: &'static str,
    /// Advice if the files cannot be reached.
    pub(crate) denied: &'static str,
}

/// The file, and its locks.
pub(crate) struct KeptRecord<R> {
    file: KeptFile,
    dir: PathBuf,
    kept: KeptAs,
    record: PhantomData<R>,
}

impl<R: Default + Serialize + DeserializeOwned> KeptRecord<R> {
    pub(crate) fn in_dir(dir: &Path, kept: KeptAs) -> Self {
        let file = KeptFile::in_dir(dir, kept.file);
        Self { file, dir: dir.to_owned(), kept, record: PhantomData }
    }

    /// Waits until no other process looks, at most a minute. One that a hung driver holds for ever does not keep others from
    /// [`KeptRecord::change`].
    pub(crate) fn looking(&self) -> Result<File, Failure> {
        self.locked("-look.lock", self.kept.busy)
    }

    /// Changes the record under its lock, and keeps it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut R) -> T) -> Result<T, Failure> {
        let _lock = self.locked(".lock", "another process has been changing the record for too long")?;
        let mut record = self.read()?;
        let changed = change(&mut record);
        self.keep(&record)?;
        Ok(changed)
    }

    /// Reads the record; an empty one if there is no file.
    pub(crate) fn read(&self) -> Result<R, Failure> {
        let path = self.file.path();
        let failed = |why: &dyn std::fmt::Display| {
            // Not thrown away: what it says must not be undone by a damaged file.
            Failure::new(format!("{}: {why}", path.display()))
                .hint("nothing was changed; remove the file to begin without it")
        };
        match self.file.read(MOST) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| failed(&e)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(R::default()),
            // Not if the file is there, but another user may have written it.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && e.raw_os_error().is_some() => {
                Err(failed(&e).hint(self.kept.denied))
            }
            Err(e) => Err(failed(&e)),
        }
    }

    /// Tells whether there is a record.
    pub(crate) fn is_there(&self) -> bool {
        self.file.path().is_file()
    }

    /// Removes the record.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let path = self.file.path();
        std::fs::remove_file(&path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
    }

    /// Keeps the record.
    pub(crate) fn keep(&self, record: &R) -> Result<(), Failure> {
        let path = self.file.path();
        let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let bytes = serde_json::to_vec(record).map_err(|e| failed(&e))?;
        self.file.keep(&bytes, Readers::Owner).map(|_| ()).map_err(|e| failed(&e))
    }

    fn locked(&self, end: &str, busy: &str) -> Result<File, Failure> {
        let path = self.dir.join(format!("{}{end}", self.kept.file.trim_end_matches(".json")));
        let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = opened.map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotFound => failed(&e).hint(self.kept.denied),
            _ => failed(&e),
        })?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(100));
                }
                Err(e @ TryLockError::WouldBlock) => return Err(failed(&e).hint(busy)),
                Err(TryLockError::Error(e)) => return Err(failed(&e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AS: KeptAs = KeptAs { file: "memory.json", busy: "it is busy", denied: "ask root" };

    #[test]
    fn who_may_not_open_the_files_is_told_who_may() {
        let dir = tempfile::tempdir().unwrap();
        let kept: KeptRecord<Vec<u8>> = KeptRecord::in_dir(dir.path(), AS);
        drop(kept.looking().unwrap());
        assert!(!kept.is_there());
        kept.change(|record| record.push(7)).unwrap();
        assert_eq!(kept.read().unwrap(), [7]);
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["memory-look.lock", "memory.json", "memory.lock"]);
        kept.remove().unwrap();
        assert!(!kept.is_there() && kept.read().unwrap().is_empty());
        let away: KeptRecord<Vec<u8>> = KeptRecord::in_dir(&dir.path().join("none"), AS);
        assert!(away.looking().unwrap_err().to_string().ends_with("hint: ask root\n"));
    }
}
