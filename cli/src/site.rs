//! The site's `tessera.toml`, read from where it is.

use std::env;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use geometry::counted;
use node_slurm::slurm_conf;
use node_state::{MigPolicy, Node, Purpose};
use site_config::{ConfigError, NodeSpec, SiteConfig};
use site_files::last_good::{InForce, LastGood};
use site_files::tessera_toml;
use site_files::tessera_toml::LoadError;

use crate::outcome::{Failure, status};
use crate::slurm::caller;
use crate::this_machine::this_node;
use crate::unknown_name;

/// The file to read: the one named on the command line, else the usual one.
pub(crate) fn path(named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| site_config::config_path(&|name| env::var(name).ok()), Path::to_path_buf)
}

/// Tells whether instances may be made on this GPU of each node; false for one that the node does not have.
pub(crate) fn makes_instances(spec: &NodeSpec, gpu: usize) -> bool {
    let of = spec.gpus.get(gpu).zip(spec.uses.get(gpu)).map(|(model, of)| of.rules(model, spec.mig));
    of.is_some_and(|(purpose, policy)| purpose == Purpose::Any && policy != MigPolicy::Off)
}

/// Reads and parses a file.
pub(crate) fn parse(path: &Path) -> Result<(Option<SiteConfig>, Vec<ConfigError>), Failure> {
    tessera_toml::read(path).map_err(|e| unreadable(path, &e))
}

fn unreadable(path: &Path, why: &io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {why}", path.display()))
        .hint("name another file with --config or TESSERA_CONF; `tessera discover` writes a first one")
}

fn with_errors(path: &Path, errors: &[ConfigError]) -> Failure {
    let shown: Vec<String> = errors.iter().map(site_problems::shown).collect();
    Failure::new(format!("{} has {}\n{}", path.display(), counted(errors.len(), "error"), shown.join("\n")))
}

/// The configuration that slurmctld works with, or the file's errors as a terminal shows them.
///
/// While the site's own file is bad, that is its last good version, and stderr says so. Any other file is only read.
pub(crate) fn load(named: Option<&Path>) -> Result<SiteConfig, Failure> {
    load_with_state(named).map(|(config, _)| config)
}

/// As [`load`]; true with it if the file itself is good.
pub(crate) fn load_with_state(named: Option<&Path>) -> Result<(SiteConfig, bool), Failure> {
    let path = path(named);
    let (failure, bad) = match tessera_toml::read(&path) {
        Ok((Some(config), _)) => return Ok((with_users(config), true)),
        Ok((None, errors)) => (with_errors(&path, &errors), LoadError::Bad { path: path.clone(), errors }),
        // Not text, or too large: daemons go on with the last good version then, too.
        Err(source) if matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
            (unreadable(&path, &source), LoadError::Read { path: path.clone(), source })
        }
        // The site may have closed the file to this user, and has a reason.
        Err(e) => return Err(unreadable(&path, &e)),
    };
    if path != site_config::config_path(&|name| env::var(name).ok().filter(|_| name == "SLURM_CONF")) {
        return Err(failure);
    }
    let good = copies(this_node().as_deref()).into_iter().try_fold(bad, |bad, copy| {
        copy.instead_of(&path, bad).map_or_else(ControlFlow::Continue, ControlFlow::Break)
    });
    let ControlFlow::Break(good) = good else {
        return Err(failure.hint(NO_COPY));
    };
    SAID.call_once(|| {
        status(&format!("{}\nTessera works with the last good version of this file.\n", failure.what()))
    });
    Ok((with_users(good.config), false))
}

/// Advice to a user if no copy of the last good version is here that he may read.
const NO_COPY: &str = "if it had a good version before, slurmctld and the GPU nodes go on with that (`sinfo -O nodelist,extra` shows \
                       config=last-good), and jobs run as before; you may read no copy of it on this machine: try the command on a GPU node, or in \
                       a job, with srun";

/// The configuration with the numbers of the users whom limits name, as this machine knows them.
fn with_users(mut config: SiteConfig) -> SiteConfig {
    config.name_users(|name| caller::uid_of(name)?.parse().ok());
    config
}

/// A command may read the file twice, and says once what is wrong with it.
static SAID: Once = Once::new();

/// The configuration that the node `name`, or else slurmctld, works with on this machine: the file's, which is kept as the
/// last good version if `keep` is set, or the last good version.
pub(crate) fn in_force(named: Option<&Path>, name: Option<&str>, keep: bool) -> Result<InForce, Failure> {
    let path = path(named);
    let look = |copy: LastGood| if keep { copy.load(&path) } else { copy.look(&path) };
    // Without a copy the errors are all there is to say.
    copies(name)
        .into_iter()
        .find_map(|copy| look(copy).ok())
        .map_or_else(|| load(named).map(InForce::from), Ok)
}

/// Lists the paths where last good versions may be: of the node first, then slurmctld's.
pub(crate) fn copies(name: Option<&str>) -> Vec<LastGood> {
    let conf = slurm_conf::path(&|name| env::var(name).ok());
    let node = name.and_then(|name| slurm_conf::spool_dir(&conf, name));
    let text = slurm_conf::read(&conf).unwrap_or_default();
    let dirs = node.into_iter().chain(slurm_conf::value(&text, "StateSaveLocation").map(PathBuf::from));
    dirs.filter(|dir| is_slurms(dir, &text)).map(|dir| LastGood::in_dir(&dir)).collect()
}

/// Tells whether a directory belongs to root, the `SlurmUser` of this slurm.conf or the caller. Below `/tmp`, another user could have made it first.
fn is_slurms(dir: &Path, slurm_conf: &str) -> bool {
    let Ok(owner) = std::fs::metadata(dir).map(|meta| meta.uid()) else { return false };
    let slurm_user = || caller::uid_of(slurm_conf::value(slurm_conf, "SlurmUser")?)?.parse().ok();
    [0, rustix::process::geteuid().as_raw()].contains(&owner) || slurm_user() == Some(owner)
}

/// The error for a node that `tessera.toml` does not have.
pub(crate) fn unknown_node(name: &str, config: &SiteConfig) -> Failure {
    let known = config.nodes.iter().flat_map(|spec| &spec.names).map(String::as_str);
    unknown_name::unknown_node(name, known)
}

/// The nodes of a configuration by name, without jobs, in its order.
pub(crate) fn nodes(config: &SiteConfig) -> impl Iterator<Item = (&str, Node)> {
    config
        .nodes
        .iter()
        .flat_map(|spec| spec.names.iter().map(|name| (name.as_str(), site_limits::node_of(spec))))
}

/// `3 nodes in 2 sets`.
pub(crate) fn node_count(config: &SiteConfig) -> String {
    let (nodes, sets) = (config.nodes.iter().map(|s| s.names.len()).sum::<usize>(), config.nodes.len());
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    format!("{nodes} node{} in {sets} set{}", plural(nodes), plural(sets))
}

/// `n1 to n9 (9 nodes): 8 x a100-40gb, links dgx-v`.
pub(crate) fn title(spec: &NodeSpec) -> String {
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in &spec.gpus {
        match models.last_mut().filter(|(key, _)| *key == gpu.key) {
            Some((_, n)) => *n += 1,
            None => models.push((&gpu.key, 1)),
        }
    }
    let gpus: Vec<String> = models.iter().map(|(key, n)| format!("{n} x {key}")).collect();
    let names = match &spec.names[..] {
        [one] => one.clone(),
        [first, .., last] => format!("{first} to {last} ({} nodes)", spec.names.len()),
        [] => String::new(),
    };
    format!("{names}: {}, links {}", gpus.join(" + "), spec.interconnect)
}
