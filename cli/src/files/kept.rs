//! A file in which a node's commands remember something, with its locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plugin_rt::kept_file::KeptFile;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outcome::Failure;

/// More than any record has.
const MOST: u64 = 16 << 20;
/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names of the file and its two locks.
pub(crate) struct KeptNames {
    pub(crate) file: &'static str,
    /// Held while the record is changed.
    pub(crate) change: &'static str,
    /// Held while the driver is asked.
    pub(crate) look: &'static str,
}

/// The file, and its locks.
pub(crate) struct KeptRecord<R> {
    file: KeptFile,
    dir: PathBuf,
    names: KeptNames,
    record: PhantomData<R>,
}

impl<R: Default + Serialize + DeserializeOwned> KeptRecord<R> {
    pub(crate) fn in_dir(dir: &Path, names: KeptNames) -> Self {
        let file = KeptFile::in_dir(dir, names.file);
        Self { file, dir: dir.to_owned(), names, record: PhantomData }
    }

    /// Waits until no other process looks at the GPUs. One that a hung driver holds for ever does not keep others from
    /// [`KeptRecord::change`].
    pub(crate) fn looking(&self) -> Result<File, Failure> {
        locked(&self.dir.join(self.names.look))
            .map_err(|e| e.hint("another look at the GPUs does not end: the driver may hang"))
    }

    /// Changes the record under its lock, and keeps it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut R) -> T) -> Result<T, Failure> {
        let _lock = locked(&self.dir.join(self.names.change))?;
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
            Err(e) => Err(failed(&e)),
        }
    }

    /// Keeps the record.
    pub(crate) fn keep(&self, record: &R) -> Result<(), Failure> {
        let path = self.file.path();
        let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let bytes = serde_json::to_vec(record).map_err(|e| failed(&e))?;
        self.file.keep(&bytes).map(|_| ()).map_err(|e| failed(&e))
    }
}

fn locked(path: &Path) -> Result<File, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(|e| failed(&e))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(100)),
            Err(e) => return Err(failed(&e)),
        }
    }
}
