//! `tessera check`: is `tessera.toml` good?

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use geometry::counted;
use node_state::MigPolicy;
use plugin_rt::read_file::{CONFIG, read_small};
use site_config::{ConfigError, SiteConfig};
use site_files::tessera_toml;
use site_problems::{names_in_slurm_conf, own_problems, shown, state_lost_at_reboot, unknown_to_slurm};

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::power_models::PowerModels;
use crate::site;

/// Check the file tessera.toml, before it is used
///
/// Reports all errors at once, each with its line, its column and a remedy. Exit status 1 if there is one; slurmctld and the
/// nodes go on with the last good version of such a file. If the file has no errors, also reports settings without effect, power limits that no board
/// takes, and partitions that are not in the slurm.conf next to the file or in the one that SLURM_CONF names. Slurm's daemons work with
/// such a file all the same; the exit status is 1 too.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The file; by default the one that --config, TESSERA_CONF or SLURM_CONF selects
    pub(crate) file: Option<PathBuf>,
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let path = site::path(args.file.as_deref().or(globals.config.as_deref()));
    let (config, errors) = site::parse(&path)?;
    if let Some(config) = config {
        PowerModels::of(&config).map_err(|e| e.within(path.display()))?;
        let problems = problems(&path);
        if problems.is_empty() {
            return Ok(Outcome::ok(format!("{}: good\n{}", path.display(), summary(&config))));
        }
        let listed: String = problems.iter().map(|e| shown(e) + "\n").collect();
        let count = counted(problems.len(), "problem");
        let text =
            format!("{listed}{}: {count}; Slurm's daemons work with the file all the same\n", path.display());
        return Ok(Outcome { text, status: 1 });
    }
    let mut text: String = errors.iter().map(|e| shown(e) + "\n").collect();
    let _ = writeln!(text, "{}: {}", path.display(), counted(errors.len(), "error"));
    Ok(Outcome { text, status: 1 })
}

/// Lists what a good file asks for in vain, as far as files show it. Paths may be those of other machines: `tessera doctor` on a node
/// checks them.
fn problems(path: &Path) -> Vec<ConfigError> {
    let Ok((_, texts)) = tessera_toml::load(path) else { return Vec::new() };
    let (name, text) = (path.to_string_lossy(), texts.main.as_str());
    let mut found = own_problems(&name, text);
    found.extend(state_lost_at_reboot(&name, text));
    if let Some(slurm_conf) = slurm_conf(path) {
        found.extend(unknown_to_slurm(&name, text, &names_in_slurm_conf(&slurm_conf)));
    }
    found.sort_by_key(|error| (error.line, error.column));
    found
}

/// The text of the slurm.conf next to the file, else of the one that `SLURM_CONF` names.
fn slurm_conf(tessera_toml: &Path) -> Option<String> {
    let named = env::var_os("SLURM_CONF").filter(|path| !path.is_empty()).map(PathBuf::from);
    let beside = tessera_toml.with_file_name("slurm.conf");
    [Some(beside), named].into_iter().flatten().find_map(|path| read_small(&path, CONFIG).ok())
}

/// Describes each node set in a line, as it was understood.
fn summary(config: &SiteConfig) -> String {
    let mut text = String::new();
    for spec in &config.nodes {
        let mig = match spec.mig {
            _ if !spec.gpus.iter().any(|gpu| gpu.has_mig()) => "no MIG",
            MigPolicy::On => "MIG on",
            MigPolicy::Off => "MIG off",
            MigPolicy::Dynamic => "MIG dynamic",
        };
        let _ = writeln!(text, "  {}, {mig}", site::title(spec));
    }
    text
}
