//! slurm.conf and the files that it includes, for those who only read them.

use std::path::Path;

use super::found;
use super::read_order::Lines;

/// slurm.conf of this machine, with the files that it includes.
pub(crate) struct SlurmConfFile(Lines);

impl SlurmConfFile {
    /// Reads the files. `None`: one of them cannot be read here, or there is none.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let files = found::files(path).ok()?;
        (!files.is_configless && files.not_followed.is_empty()).then(|| Self(Lines::of(&files.slurm)))
    }

    /// Finds the last value of a key, as Slurm takes it.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        self.0.value(key).map(str::to_owned)
    }
}
