//! slurm.conf and the files that it includes, for those who only read them.

use std::path::Path;

use super::conf::ConfFile;
use super::found;

/// slurm.conf of this machine, with the files that it includes.
pub(crate) struct SlurmConfFile(Vec<ConfFile>);

impl SlurmConfFile {
    /// Reads the files. `None`: one of them cannot be read here, or there is none.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let files = found::files(path).ok()?;
        (!files.is_configless && files.not_followed.is_empty()).then_some(Self(files.slurm))
    }

    /// Finds the last value of a key, as Slurm takes it.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let lines = self.0.iter().flat_map(ConfFile::logical).filter(|line| line.fields.begins(key));
        lines.filter_map(|line| line.fields.field(key).map(str::to_owned)).next_back()
    }
}
