//! Facts of the node for the accounting plugins in a step's daemon. A process that reads `tessera.toml` as root on a node
//! leaves it in `SlurmdSpoolDir`, so those plugins read three lines instead of a site's configuration.
//!
//! ```text
//! tessera-accounting 1
//! state_dir /var/lib/tessera
//! nvml_library libnvidia-ml.so.1
//! energy no
//! ```

use std::io;
use std::path::{Path, PathBuf};

use plugin_rt::kept_file::{KeptFile, Readers};

use crate::slurm_conf;

/// Name in `SlurmdSpoolDir`.
const NAME: &str = "tessera.accounting";
const HEAD: &str = "tessera-accounting 1";
/// More than two paths of the greatest length.
const MAX_BYTES: u64 = 16 << 10;

/// Paths of a node's journal and driver, and the things counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// The journal's directory.
    pub state_dir: PathBuf,
    /// NVML's file name or path, as for `dlopen`.
    pub nvml_library: PathBuf,
    /// The energy that jobs use is accounted.
    pub energy: bool,
}

impl Accounting {
    /// Leaves it in `SlurmdSpoolDir` for the plugins of later steps. False: it is there already.
    ///
    /// # Errors
    ///
    /// A path is no line of text, or the directory cannot be written to.
    pub fn keep(&self, spool: &Path) -> io::Result<bool> {
        let text = self.text();
        if Self::parse(&text).as_ref() != Some(self) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path is no line of text"));
        }
        KeptFile::in_dir(spool, NAME).keep(text.as_bytes(), Readers::Owner)
    }

    /// Reads the settings that were left for the plugins of `node`, whose environment is `env`. `None` where nothing was:
    /// no prolog of Tessera's has run there.
    #[must_use]
    pub fn on_node(node: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let spool = slurm_conf::spool_dir(&slurm_conf::path(env), node)?;
        let bytes = KeptFile::in_dir(&spool, NAME).read(MAX_BYTES).ok()?;
        Self::parse(std::str::from_utf8(&bytes).ok()?)
    }

    fn text(&self) -> String {
        format!(
            "{HEAD}\nstate_dir {}\nnvml_library {}\nenergy {}\n",
            self.state_dir.display(),
            self.nvml_library.display(),
            if self.energy { "yes" } else { "no" },
        )
    }

    /// `None` for anything that [`Self::text`] does not write, such as a cut file.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != HEAD {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let (state_dir, nvml_library) = (value("state_dir")?.into(), value("nvml_library")?.into());
        let energy = match value("energy")? {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        lines.next().is_none().then_some(Self { state_dir, nvml_library, energy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounting(state_dir: &str) -> Accounting {
        Accounting { state_dir: state_dir.into(), nvml_library: "libnvidia-ml.so.1".into(), energy: true }
    }

    #[test]
    fn plugins_read_what_a_prolog_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        std::fs::write(&conf, format!("SlurmdSpoolDir={}\n", dir.path().display())).unwrap();
        let env = |name: &str| (name == "SLURM_CONF").then(|| conf.display().to_string());
        assert_eq!(Accounting::on_node("n1", &env), None);
        let all = accounting("/var/lib/a directory");
        assert!(all.keep(dir.path()).unwrap());
        assert!(!all.keep(dir.path()).unwrap());
        assert_eq!(Accounting::on_node("n1", &env), Some(all));
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_nothing() {
        let text = accounting("/a").text();
        assert!(Accounting::parse(&text).is_some());
        for cut in 0..text.len() {
            assert_eq!(Accounting::parse(&text[..cut]), None, "{cut}");
        }
        for other in [text.replace(" 1\n", " 2\n"), text.replace("yes", "maybe"), format!("{text}more\n")] {
            assert_eq!(Accounting::parse(&other), None, "{other}");
        }
        assert!(accounting("/a\nenergy no").keep(Path::new("/nonexistent")).is_err());
    }
}
