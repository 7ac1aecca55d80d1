//! The file in which a node remembers the health of its GPUs.

use std::fs::File;
use std::path::Path;

use gpu_health::HealthRecord;
use node_journal::Journal;

use crate::files::kept::{KeptAs, KeptRecord};
use crate::outcome::Failure;

/// Files in the journal's directory.
const KEPT: KeptAs = KeptAs {
    file: "health.json",
    busy: "another check of the GPUs is still running: the driver may hang",
    denied: "run it as root",
};

/// The file, and the boot that it is about.
pub(super) struct Store {
    kept: KeptRecord<HealthRecord>,
    journal: Journal,
}

impl Store {
    /// Opens the journal's directory.
    pub(super) fn open(state_dir: &Path) -> Result<Self, Failure> {
        let journal = Journal::open(state_dir).map_err(|e| Failure::of(&e))?;
        Ok(Self { kept: KeptRecord::in_dir(state_dir, KEPT), journal })
    }

    /// The id of this boot.
    pub(super) fn boot(&self) -> &str {
        self.journal.boot()
    }

    /// See [`KeptRecord::looking`].
    pub(super) fn looking(&self) -> Result<File, Failure> {
        self.kept.looking()
    }

    /// See [`KeptRecord::change`].
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut HealthRecord) -> T) -> Result<T, Failure> {
        self.kept.change(change)
    }

    /// See [`KeptRecord::read`].
    pub(super) fn read(&self) -> Result<HealthRecord, Failure> {
        self.kept.read()
    }
}
