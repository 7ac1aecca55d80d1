//! slurm.conf and the files that it includes, for those who only read them.

use std::path::{Path, PathBuf};

use super::conf::{ConfFile, Logical};
use super::found;
use super::read_order::Lines;
use crate::outcome::Failure;

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

/// plugstack.conf of this machine, with the files that it includes.
pub(crate) struct Plugstack {
    pub(crate) path: PathBuf,
    /// Files of the SPANK plugins that it loads, as it names them; `None` if there is no such file.
    pub(crate) plugins: Option<Vec<String>>,
    /// It includes other files.
    pub(crate) includes: bool,
}

impl Plugstack {
    /// Reads the file that this slurm.conf names, or the one beside it.
    ///
    /// # Errors
    ///
    /// A file of Slurm's cannot be read by this user, or too many are included.
    pub(crate) fn read(slurm_conf: &Path) -> Result<Self, Failure> {
        let files = found::files(slurm_conf)?.plugstack;
        let lines: Vec<Logical> = files.iter().flat_map(ConfFile::logical).collect();
        let plugins = lines.iter().filter_map(Logical::plugin).map(str::to_owned).collect();
        let main = files.into_iter().next().unwrap_or_default();
        let includes = lines.iter().any(|line| line.include().is_some());
        Ok(Self { path: main.path, plugins: main.text.and(Some(plugins)), includes })
    }
}
