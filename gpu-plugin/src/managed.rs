//! Finds the GPUs of this node that Tessera manages.

use std::path::{Path, PathBuf};

use node_slurm::slurm_conf;
use plugin_rt::read_file::{CONFIG, read_small};
use site_config::{GpuUse, SiteConfig};
use site_files::last_good::LastGood;
use site_files::tessera_toml::{self, LoadError};

/// Why none is managed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGpus {
    /// Slurm does not say which node this is.
    #[error("it is not known which node this is")]
    Nameless,
    /// The site's file does not name the node.
    #[error("{path} does not describe {node}")]
    NotListed {
        /// The file.
        path: PathBuf,
        /// The node.
        node: String,
    },
    /// The file is missing or bad, and no good version of it is known here.
    #[error("no good tessera.toml is known")]
    Bad(#[from] LoadError),
}

impl NoGpus {
    /// Tells whether the site has simply not given this node to Tessera.
    pub(crate) fn is_meant(&self) -> bool {
        matches!(self, Self::NotListed { .. } | Self::Bad(LoadError::Missing(_)))
    }
}

/// Finds the GPUs of `node` by NVML's index, true for those that Tessera manages: the node is in `tessera.toml`, and the GPU is not left
/// to Slurm there. The last good version holds while the file is bad or missing, as in a prolog.
///
/// # Errors
///
/// The node has none.
pub(crate) fn gpus(node: Option<&str>, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<bool>, NoGpus> {
    let node = node.ok_or(NoGpus::Nameless)?;
    let conf = slurm_conf::path(env);
    let plugstack = read_small(&conf.with_file_name("plugstack.conf"), CONFIG).unwrap_or_default();
    let path = named_file(&plugstack).unwrap_or_else(|| site_config::config_path(env));
    let site = site(&path, slurm_conf::spool_dir(&conf, node).as_deref())?;
    let spec = site.node(node).ok_or_else(|| NoGpus::NotListed { path, node: node.to_owned() })?;
    // With AutoDetect, Slurm's numbers are NVML's.
    Ok(spec.uses.iter().map(|of| *of != GpuUse::Slurm).collect())
}

fn site(path: &Path, spool: Option<&Path>) -> Result<SiteConfig, LoadError> {
    let in_force = match (tessera_toml::load(path), spool) {
        (Ok(good), _) => good.into(),
        (Err(bad), None) => return Err(bad),
        (Err(bad), Some(spool)) => LastGood::in_dir(spool).instead_of(path, bad)?,
    };
    Ok(in_force.config)
}

/// Finds the `config=` of Tessera's line in a plugstack.conf. On a node without slurm.conf of its own (configless) the file is not beside
/// the one that slurmd reads.
fn named_file(plugstack: &str) -> Option<PathBuf> {
    let ours =
        |line: &&str| line.split_whitespace().nth(1).is_some_and(|file| file.ends_with("spank_tessera.so"));
    let lines = plugstack.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut words = lines.filter(|line| ours(line)).flat_map(str::split_whitespace);
    words.find_map(|word| word.strip_prefix("config=")).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str =
        "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 3\ngpu_use = { \"1\" = \"slurm\" }\n";

    struct Node {
        dir: tempfile::TempDir,
    }

    impl Node {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let spool = dir.path().join("spool");
            std::fs::create_dir(&spool).unwrap();
            let node = Self { dir };
            node.write("slurm.conf", &format!("SlurmdSpoolDir={}\n", spool.display()));
            node
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.dir.path().join(name), text).unwrap();
        }

        fn gpus(&self, node: Option<&str>) -> Result<Vec<bool>, String> {
            let conf = self.dir.path().join("slurm.conf").display().to_string();
            let env = |name: &str| (name == "SLURM_CONF").then(|| conf.clone());
            gpus(node, &env).map_err(|why| plugin_rt::Chain(&why).to_string())
        }
    }

    #[test]
    fn only_gpus_that_the_file_gives_to_tessera_are_managed() {
        let node = Node::new();
        let said = |name: Option<&str>| node.gpus(name).unwrap_err();
        assert!(said(Some("n1")).starts_with("no good tessera.toml is known: "), "{}", said(Some("n1")));
        node.write("tessera.toml", SITE);
        assert_eq!(node.gpus(Some("n2")), Ok(vec![true, false, true]));
        assert!(said(Some("n3")).ends_with("tessera.toml does not describe n3"), "{}", said(Some("n3")));
        assert_eq!(said(None), "it is not known which node this is");
    }

    #[test]
    fn a_file_that_is_bad_or_gone_leaves_its_last_good_version() {
        let node = Node::new();
        let path = node.dir.path().join("tessera.toml");
        node.write("tessera.toml", SITE);
        LastGood::in_dir(&node.dir.path().join("spool")).load(&path).unwrap();
        node.write("tessera.toml", "x");
        assert_eq!(node.gpus(Some("n1")), Ok(vec![true, false, true]));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(node.gpus(Some("n1")), Ok(vec![true, false, true]));
    }

    #[test]
    fn the_file_is_the_one_that_plugstack_conf_names() {
        let node = Node::new();
        node.write("elsewhere.toml", SITE);
        let file = node.dir.path().join("elsewhere.toml");
        node.write(
            "plugstack.conf",
            &format!("required spank_tessera.so config={} # ours\n", file.display()),
        );
        assert_eq!(node.gpus(Some("n1")), Ok(vec![true, false, true]));
        for other in [
            "",
            "include /etc/slurm/plugstack.conf.d/*\n",
            "# required spank_tessera.so config=/x\n",
            "required spank_pyxis.so config=/x\n",
            "required spank_tessera.so config=x\n",
            "required spank_tessera.so # config=/x\n",
        ] {
            assert_eq!(named_file(other), None, "{other}");
        }
    }
}
