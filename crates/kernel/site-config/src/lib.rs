//! Site configuration: `tessera.toml`.
//!
//! Text goes in, types come out. All errors of the file are reported at once, with line and column: slurmctld's log gets
//! one line per error ([`ConfigError`]'s `Display`), a terminal three (`site_problems::shown`). The crate opens no file.
//! The caller's function reads the topology files that `discovered` names, so the crate can run where files must not be
//! opened.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod budgets;
mod fingerprint;
mod health;
pub mod hostlist;
mod idle;
mod limit;
mod limits;
mod matrix;
mod matrix_cells;
mod models;
mod nodes;
mod power;
mod sections;
mod sets;
mod tasks;
mod types;
mod uses;

use std::io;
use std::path::{Path, PathBuf};

pub use health::{HealthAction, HealthEvent, HealthReturn, HealthRule, health_rules};
pub use idle::{Idle, IdleEnd, IdleKind, IdleRule, IdleTell};
pub use limit::{Limit, Most};
pub use matrix::links_of_file;
pub use sections::{RUN_DIR, STATE_DIR};
pub use toml_tables::{ConfigError, nearest};
pub use topology::{System, systems};
pub use types::{
    Defaults, GpuUse, LearnFrom, LeftoverProcesses, MemoryLimit, Mps, NodePower, NodeSettings, NodeSpec,
    Objective, Overuse, Partition, Power, SiteConfig, TaskPolicy, Tasks, VisibleDevices,
};

use toml_tables::{Errors, TableReader, tables};

/// Parses a `tessera.toml`.
///
/// `file_name` is only for messages. `read_file` gets the file names that `discovered` gives, as written there; the
/// caller resolves them against the directory of the configuration.
///
/// There is a configuration only if there is no error. The errors come in the order of the file.
pub fn parse(
    file_name: &str,
    text: &str,
    read_file: &dyn Fn(&str) -> io::Result<String>,
) -> (Option<SiteConfig>, Vec<ConfigError>) {
    let errors = Errors::new(file_name, text);
    let (root, syntax) = tables(text, &errors);
    let mut root = TableReader::new(root.get_ref(), root.span(), "", &errors);
    let nodes = nodes::read(&mut root, read_file);
    let config = sections(&mut root, nodes, read_file);
    // After a syntax error, what was read is a guess: a "missing" key may stand on the broken line.
    root.finish();
    let errors = if syntax == 0 { errors.into_sorted() } else { errors.keep_first(syntax) };
    (errors.is_empty().then_some(config), errors)
}

/// The configuration of a site that describes these nodes and leaves all else at its defaults.
#[must_use]
pub fn of_nodes(specs: Vec<NodeSpec>) -> SiteConfig {
    let errors = Errors::new("", "");
    let (root, _) = tables("", &errors);
    let mut root = TableReader::new(root.get_ref(), root.span(), "", &errors);
    let nodes = nodes::Nodes { specs, models: Vec::new(), complete: true };
    sections(&mut root, nodes, &|_| Err(io::ErrorKind::NotFound.into()))
}

fn sections(
    root: &mut TableReader<'_, '_>,
    nodes: nodes::Nodes,
    read_file: &dyn Fn(&str) -> io::Result<String>,
) -> SiteConfig {
    let (bandwidth_model, learn_bandwidth) = sets::bandwidth(root);
    SiteConfig {
        defaults: sections::defaults(root, &nodes.models),
        mps: sections::mps(root),
        tasks: tasks::tasks(root),
        node: sections::node(root),
        learn_from: sections::planner(root),
        power: power::read(root, read_file),
        power_budgets: budgets::read(root, nodes.complete.then_some(&nodes.specs[..])),
        bandwidth_model,
        learn_bandwidth,
        partitions: sets::partitions(root, bandwidth_model),
        limits: limits::limits(root, &nodes.models),
        tell_slurm_limits: sections::submission(root),
        health: health::read(root),
        idle: idle::read(root),
        nodes: nodes.specs,
    }
}

/// Path of `tessera.toml`: the value of `TESSERA_CONF`, else next to the file that `SLURM_CONF` names, else in
/// `/etc/slurm`.
#[must_use]
pub fn config_path(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name| env(name).filter(|v| !v.is_empty());
    match (set("TESSERA_CONF"), set("SLURM_CONF")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(slurm)) => Path::new(&slurm).with_file_name("tessera.toml"),
        (None, None) => PathBuf::from("/etc/slurm/tessera.toml"),
    }
}
