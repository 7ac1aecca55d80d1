//! Tells whether a file has changed since it was read.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Time of the last change of a file, and its length; `None`: there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState(pub(crate) Option<(SystemTime, u64)>);

impl FileState {
    pub(crate) fn of(path: &Path) -> Self {
        Self(fs::metadata(path).and_then(|meta| Ok((meta.modified()?, meta.len()))).ok())
    }
}
