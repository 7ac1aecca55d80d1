//! The journal's record of a GPU's power limit.

use serde::{Deserialize, Serialize};

use crate::format::JournalRecord;

/// A power limit that we change, or are about to. There is none for a GPU whose limit is as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapRecord {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The kernel's boot id: a limit does not survive a boot.
    pub boot: String,
    /// `GPU-…`; names the file.
    pub uuid: String,
    /// The limit before the first change, mW: the last job that ends puts it back.
    pub found_mw: u32,
    /// The limit before this change, mW.
    pub was_mw: u32,
    /// The limit after it, mW.
    pub to_mw: u32,
}

impl JournalRecord for CapRecord {
    fn file_name(&self) -> String {
        crate::file_names::file_of_key(&self.uuid)
    }
}
