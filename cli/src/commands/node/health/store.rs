//! The file in which a node remembers the health of its GPUs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpu_health::HealthRecord;
use node_journal::Journal;
use plugin_rt::kept_file::KeptFile;

use crate::outcome::Failure;

/// Name of the file in the journal's directory.
const NAME: &str = "health.json";
/// More than any record has.
const MOST: u64 = 4 << 20;
/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file, and its locks.
pub(super) struct Store {
    file: KeptFile,
    journal: Journal,
    dir: PathBuf,
}

impl Store {
    /// Opens the journal's directory.
    pub(super) fn open(state_dir: &Path) -> Result<Self, Failure> {
        let journal = Journal::open(state_dir).map_err(|e| Failure::of(&e))?;
        Ok(Self { file: KeptFile::in_dir(state_dir, NAME), journal, dir: state_dir.to_owned() })
    }

    /// The id of this boot.
    pub(super) fn boot(&self) -> &str {
        self.journal.boot()
    }

    /// Waits until no other process looks at the GPUs. One that a hung driver holds for ever does not keep others from
    /// [`Store::change`].
    pub(super) fn looking(&self) -> Result<File, Failure> {
        locked(&self.dir.join("health-look.lock"))
            .map_err(|e| e.hint("another look at the GPUs does not end: the driver may hang"))
    }

    /// Changes the record under its lock, and keeps it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut HealthRecord) -> T) -> Result<T, Failure> {
        let _lock = locked(&self.dir.join("health.lock"))?;
        let mut record = self.read()?;
        let changed = change(&mut record);
        self.keep(&record)?;
        Ok(changed)
    }

    /// Reads the record; an empty one if there is no file.
    pub(super) fn read(&self) -> Result<HealthRecord, Failure> {
        let path = self.file.path();
        let failed = |why: &dyn std::fmt::Display| {
            // Not thrown away: GPUs that it names must not come back by a damaged file.
            Failure::new(format!("{}: {why}", path.display()))
                .hint("nothing was changed; remove the file to begin with healthy GPUs")
        };
        match self.file.read(MOST) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| failed(&e)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(HealthRecord::default()),
            Err(e) => Err(failed(&e)),
        }
    }

    fn keep(&self, record: &HealthRecord) -> Result<(), Failure> {
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
