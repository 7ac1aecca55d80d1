//! This node as `tessera.toml` describes it.

use std::path::{Path, PathBuf};

use geometry::GpuIndex;
use node_jobs::{Numbering, NvmlGrant, Settings};
use node_slurm::accounting::Accounting;
use node_slurm::slurm_conf;
use plugin_rt::{Chain, log};
use protocol::Grant;
use site_config::{NodeSettings, SiteConfig};
use site_files::last_good::{InForce, LastGood};
use site_files::tessera_toml::{self, LoadError};

use crate::args::Args;

/// The site's description and what follows from it for this node.
pub(crate) struct ThisNode {
    /// Name in Slurm.
    pub(crate) name: String,
    /// The whole site: a placement names the job's other nodes too.
    pub(crate) site: SiteConfig,
    /// Paths, programs and GPUs of this node.
    pub(crate) settings: Settings,
}

/// Why there is no description.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoNode {
    /// The node is not ours to manage.
    #[error("{path} does not exist")]
    NoFile { path: PathBuf },
    /// Not ours either.
    #[error("{path} has no [[nodes]] with {node} in it")]
    NotListed { path: PathBuf, node: String },
    /// The file cannot be read or has errors, of which this is the first, and no good version of it is known here.
    #[error("{0}")]
    Bad(String),
    /// Slurm has not said which node this is.
    #[error("SLURMD_NODENAME is not set")]
    Nameless,
}

impl NoNode {
    /// True where Tessera simply does not manage this node, rather than being unable to.
    pub(crate) fn unmanaged(&self) -> bool {
        matches!(self, Self::NoFile { .. } | Self::NotListed { .. })
    }
}

/// Why it cannot be told which GPUs a grant means, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Untranslated {
    pub(crate) why: String,
    /// The node has lost a GPU: no job with GPUs could be started here.
    pub(crate) gpu_is_missing: bool,
}

/// Stand-in if `tessera.toml` is absent, or this node is absent from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// The node is not managed.
    LeaveToSlurm,
    /// The last good version, as for a bad file: there are, or may be, jobs here that were placed by it.
    UseLastGood,
    /// As `UseLastGood`. The GPUs of a node that has been taken out of the file have no description: the journal says what jobs
    /// still have here.
    UseJournal,
    /// As `UseJournal` for a node without a journal, which begins one: slurmctld has placed a job here, and its refusal is noted.
    BeginJournal,
}

/// Outcome of reading the description.
pub(crate) struct Loaded {
    pub(crate) node: Result<ThisNode, NoNode>,
    /// Name of this node if no process has read this version of the file here before: the node is to be reconciled.
    pub(crate) to_reconcile: Option<String>,
}

impl From<NoNode> for Loaded {
    fn from(why: NoNode) -> Self {
        Self { node: Err(why), to_reconcile: None }
    }
}

impl ThisNode {
    /// Reads `tessera.toml`, or its last good version, for the node that Slurm names in `SLURMD_NODENAME`.
    ///
    /// `env` is the environment of slurmd's own process, never the job's.
    pub(crate) fn load(args: &Args, if_absent: IfAbsent, env: &dyn Fn(&str) -> Option<String>) -> Loaded {
        let Some(name) = env("SLURMD_NODENAME").filter(|n| !n.is_empty()) else {
            return NoNode::Nameless.into();
        };
        let path = args.config.clone().unwrap_or_else(|| site_config::config_path(env));
        let spool = slurm_conf::spool_dir(&slurm_conf::path(env), &name);
        let copy = spool.as_deref().map(LastGood::in_dir);
        match site(&path, if_absent, copy.as_ref()) {
            Ok(InFile { site, is_new }) => Loaded {
                to_reconcile: is_new.then(|| name.clone()),
                node: Self::described(site, name, path, if_absent, env),
            },
            Err(why) => why.into(),
        }
    }

    /// Finds the node of this name in the site's file at `path`.
    fn described(
        site: SiteConfig,
        name: String,
        path: PathBuf,
        if_absent: IfAbsent,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, NoNode> {
        let mut settings = Settings::of(&site, &name);
        // A node that the file does not list has had jobs of ours if it has a journal.
        let is_ours = site.node(&name).is_some()
            || if_absent == IfAbsent::BeginJournal
            || if_absent == IfAbsent::UseJournal && settings.node.state_dir.is_dir();
        if !is_ours {
            return Err(NoNode::NotListed { path, node: name });
        }
        // Where it cannot be told, a job that has GPUs is refused for that: see `translate`.
        settings.numbering = Numbering::read(&settings, &gres_conf(env), &name).unwrap_or_default();
        Ok(Self { name, settings, site })
    }

    /// Tells the accounting plugins of this node's steps where journal and driver are. For root alone: a prolog.
    pub(crate) fn leave_for_accounting(&self, env: &dyn Fn(&str) -> Option<String>) {
        let Some(spool) = slurm_conf::spool_dir(&slurm_conf::path(env), &self.name) else { return };
        let NodeSettings { state_dir, nvml_library, .. } = self.settings.node.clone();
        if let Err(e) = (Accounting { state_dir, nvml_library, energy: self.settings.energy }).keep(&spool) {
            let place = spool.display();
            log::error(format_args!("energy and usage of jobs may not be accounted here: {place}: {e}"));
        }
    }

    /// The GPUs that no job gets whole from us, by Slurm's numbers: an exclusive job has them in Slurm's accounts alone. What
    /// the driver does not show is nothing to give.
    pub(crate) fn kept_from_whole_jobs(&self) -> Vec<GpuIndex> {
        let unseen = |number| self.settings.numbering.is_unseen(number);
        let numbered = (0_u16..).map(GpuIndex).zip(&self.settings.gpus);
        let kept = numbered.filter(|(n, gpu)| !gpu.purpose.is_ever_whole(gpu.policy) || unseen(*n));
        kept.map(|(number, _)| number).collect()
    }

    /// Tells whether Slurm has given a job nothing but GPUs that are left to it and that the driver does not show.
    pub(crate) fn sees_none_of(&self, gpus: &[GpuIndex]) -> bool {
        !gpus.is_empty() && gpus.iter().all(|gpu| self.settings.numbering.is_unseen(*gpu))
    }

    /// A grant in NVML's numbers, from one in Slurm's, which count the device files in gres.conf.
    ///
    /// # Errors
    ///
    /// It cannot be told which GPUs Slurm means: why, and what to do.
    pub(crate) fn translate(
        &self,
        grant: &Grant,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<NvmlGrant, Untranslated> {
        let numbering = Numbering::read(&self.settings, &gres_conf(env), &self.name)
            .map_err(|e| Untranslated { why: e.to_string(), gpu_is_missing: e.gpu_is_missing })?;
        numbering.translate(&self.settings, grant).map_err(|e| Untranslated {
            why: format!("{}; see `tessera doctor` on {}", Chain(&e), self.name),
            gpu_is_missing: false,
        })
    }
}

/// The gres.conf beside the slurm.conf that the environment names.
fn gres_conf(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    slurm_conf::path(env).with_file_name("gres.conf")
}

/// The configuration in force.
struct InFile {
    site: SiteConfig,
    /// No process has read this version here before.
    is_new: bool,
}

/// Reads the configuration in force. What is wrong with the file is said once, by whichever process is first to see it.
fn site(path: &Path, if_absent: IfAbsent, copy: Option<&LastGood>) -> Result<InFile, NoNode> {
    let read = match copy {
        Some(copy) => copy.load(path),
        None => tessera_toml::load(path).map(|(config, _)| config.into()),
    };
    let read = match (read, copy) {
        (Err(bad @ LoadError::Missing(_)), Some(copy)) if if_absent != IfAbsent::LeaveToSlurm => {
            copy.instead_of(path, bad)
        }
        (read, _) => read,
    };
    let news = |bad: Option<&LoadError>| copy.is_none_or(|copy| copy.is_news(bad));
    match read {
        Ok(InForce { config, bad: Some(bad), .. }) => {
            if news(Some(&bad)) {
                bad.lines().iter().for_each(log::error);
                log::error("the last good version of tessera.toml stays in force on this node");
            }
            Ok(InFile { site: config, is_new: false })
        }
        Ok(InForce { config, is_new, not_kept, .. }) => {
            if copy.is_some_and(|copy| copy.is_news(None)) {
                log::info("tessera.toml is good again on this node");
            }
            if let Some(why) = not_kept {
                log::verbose(format_args!("no copy of tessera.toml can be kept: {}", Chain(&why)));
            }
            Ok(InFile { site: config, is_new })
        }
        Err(LoadError::Missing(path)) => Err(NoNode::NoFile { path }),
        Err(bad) => {
            if news(Some(&bad)) {
                bad.lines().iter().for_each(log::error);
                log::error(
                    "no good version of tessera.toml is known on this node: its GPUs are left to Slurm",
                );
            }
            Err(NoNode::Bad(bad.first_line()))
        }
    }
}

#[cfg(test)]
mod tests {
    use geometry::GpuIndex;
    use node_driver::NvmlIndex;

    use super::*;

    const SITE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 4\n";

    /// Gives the GPUs of a job with Slurm's GPU 0 on n1, whose gres.conf has this text.
    fn first(gres: Option<&str>) -> Result<Vec<NvmlIndex>, String> {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = gres {
            std::fs::write(dir.path().join("gres.conf"), text).unwrap();
        }
        let (site, _) = site_config::parse("t", SITE, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let mut site = site.unwrap();
        site.node.proc_root = dir.path().to_owned();
        let settings = Settings::of(&site, "n1");
        let node = ThisNode { name: "n1".to_owned(), site, settings };
        for minor in 0..4 {
            let gpu = dir.path().join(format!("driver/nvidia/gpus/0000:0{minor}:00.0"));
            std::fs::create_dir_all(&gpu).unwrap();
            std::fs::write(gpu.join("information"), format!("Device Minor: {minor}\n")).unwrap();
        }
        let conf = dir.path().join("slurm.conf").display().to_string();
        let grant = Grant::Whole(vec![GpuIndex(0)]);
        let grant = node.translate(&grant, &|name| (name == "SLURM_CONF").then(|| conf.clone()));
        let grant = grant.map_err(|e| format!("{e} missing={}", e.gpu_is_missing))?;
        Ok(grant.gpus().iter().map(|gpu| gpu.index).collect())
    }

    #[test]
    fn what_gres_conf_does_not_tell_is_refused_with_what_to_do() {
        assert_eq!(first(Some("AutoDetect=nvml\n")), Ok(vec![NvmlIndex(0)]));
        for (gres, want) in [
            (None, "gres.conf: No such file"),
            (Some("Include other.conf\n"), "it includes another file; list n1's GPUs there"),
            (Some("Name=gpu File=/dev/null\n"), "no GPU's device file; see `tessera doctor` on n1"),
            (Some("Name=gpu File=/dev/nvidia99\n"), "/dev/nvidia99, which cannot be looked at"),
            (Some("Name=gpu File=/dev/nvidia99\n"), "missing=true"),
            (Some("Name=gpu File=/dev/null\n"), "missing=false"),
        ] {
            let why = first(gres).unwrap_err();
            assert!(why.contains(want), "{gres:?}: {why}");
        }
    }

    #[test]
    fn a_bad_or_missing_file_leaves_the_last_good_version() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, file) = (dir.path().join("slurm.conf"), dir.path().join("tessera.toml"));
        let spool = dir.path().join("spool");
        std::fs::create_dir(&spool).unwrap();
        std::fs::write(&conf, format!("SlurmdSpoolDir={}\n", spool.display())).unwrap();
        let env = |name: &str| match name {
            "SLURM_CONF" => Some(conf.display().to_string()),
            "SLURMD_NODENAME" => Some("n1".to_owned()),
            _ => None,
        };
        let load =
            |if_absent| ThisNode::load(&Args::default(), if_absent, &env).node.map(|n| n.settings.gpus.len());
        assert!(load(IfAbsent::UseLastGood).unwrap_err().unmanaged());
        std::fs::write(&file, "x").unwrap();
        let why = load(IfAbsent::LeaveToSlurm).unwrap_err();
        assert!(!why.unmanaged() && why.to_string().contains("tessera.toml:1:"), "{why}");
        std::fs::write(&file, SITE).unwrap();
        let wanted = || ThisNode::load(&Args::default(), IfAbsent::LeaveToSlurm, &env).to_reconcile.is_some();
        assert!(wanted() && !wanted(), "once for each version");
        assert_eq!(load(IfAbsent::LeaveToSlurm).unwrap(), 4);
        std::fs::write(&file, "x").unwrap();
        assert_eq!(load(IfAbsent::LeaveToSlurm).unwrap(), 4);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(load(IfAbsent::UseLastGood).unwrap(), 4);
        assert!(load(IfAbsent::LeaveToSlurm).unwrap_err().unmanaged());
        // Another node's, and this one has had no jobs; then it has.
        let state = dir.path().join("state");
        let others = SITE.replace("n1", "n9") + &format!("\n[node]\nstate_dir = {state:?}\n");
        std::fs::write(&file, others).unwrap();
        assert!(load(IfAbsent::UseJournal).unwrap_err().unmanaged());
        assert_eq!(load(IfAbsent::BeginJournal).unwrap(), 0);
        std::fs::create_dir(&state).unwrap();
        assert_eq!(load(IfAbsent::UseJournal).unwrap(), 0);
        assert_eq!(load(IfAbsent::BeginJournal).unwrap(), 0);
        assert!(load(IfAbsent::UseLastGood).unwrap_err().unmanaged());
    }
}
