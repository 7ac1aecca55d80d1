//! `tessera check`: is `tessera.toml` good?

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use geometry::counted;
use node_state::MigPolicy;
use site_config::SiteConfig;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;

/// Check tessera.toml
///
/// Reports all errors at once, each with its line, its column and a remedy. Exit status 1 if there is one; slurmctld and the
/// nodes go on with the last good version of such a file.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The file; by default the one that --config, TESSERA_CONF or SLURM_CONF selects
    pub(crate) file: Option<PathBuf>,
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let path = site::path(args.file.as_deref().or(globals.config.as_deref()));
    let (config, errors) = site::parse(&path)?;
    if let Some(config) = config {
        return Ok(Outcome::ok(format!("{}: good\n{}", path.display(), summary(&config))));
    }
    let mut text: String = errors.iter().map(|e| e.render() + "\n").collect();
    let _ = writeln!(text, "{}: {}", path.display(), counted(errors.len(), "error"));
    Ok(Outcome { text, status: 1 })
}

/// One line per node set: what it was understood as.
fn summary(config: &SiteConfig) -> String {
    let mut text = String::new();
    for spec in &config.nodes {
        let mig = match spec.mig {
            MigPolicy::On => "on",
            MigPolicy::Off => "off",
            MigPolicy::Dynamic => "dynamic",
        };
        let _ = writeln!(text, "  {}, MIG {mig}", site::title(spec));
    }
    text
}
