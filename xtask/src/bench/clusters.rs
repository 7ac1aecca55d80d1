//! Starts the clusters that are compared, and inspects them.

use std::path::Path;
use std::time::Duration;

use error_chain::with_causes;
use lab::command::wait_for;
use lab::config::Templates;
use lab::{Builder, Cluster, HarnessError, User};

use super::Bench;
use crate::cluster::guardian;
use crate::command::TaskError;

/// How long the simulated driver takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// No time: what is left is Slurm's and ours.
    Instant,
    /// As long as the real one.
    Real,
}

/// A cluster of the example files with Tessera.
pub(super) fn tessera(bench: &Bench, driver: Driver) -> Result<Cluster, TaskError> {
    start_in(bench, driver, false, None)
}

/// Starts the nodes under Slurm alone.
pub(super) fn stock(bench: &Bench) -> Result<Cluster, TaskError> {
    start_in(bench, Driver::Instant, true, None)
}

/// Starts the nodes under Slurm with a prolog and an epilog that do nothing. Without an epilog, Slurm 22.05 starts a fifth as many short jobs per second:
/// slurmctld then learns of a job's end in another way.
pub(super) fn stock_with_scripts(bench: &Bench) -> Result<Cluster, TaskError> {
    let scripts = "Prolog=/bin/true\nEpilog=/bin/true";
    Ok(builder(bench, Driver::Instant, true, None)?.slurm_conf(scripts).start()?)
}

/// Starts either cluster; in `dir`, its files stay there and the daemons write down what they do.
pub(super) fn start_in(
    bench: &Bench,
    driver: Driver,
    stock: bool,
    dir: Option<&Path>,
) -> Result<Cluster, TaskError> {
    Ok(builder(bench, driver, stock, dir)?.start()?)
}

fn builder(bench: &Bench, driver: Driver, stock: bool, dir: Option<&Path>) -> Result<Builder, TaskError> {
    let mut templates = Templates::shipped()?;
    templates.tessera = templates.tessera.replace("\n[mps]\n", "\n[tasks]\n\n[mps]\n");
    templates.time_scale = if driver == Driver::Real { 1.0 } else { 0.0 };
    if dir.is_some() {
        templates.slurm = templates.slurm.replace("Debug=verbose", "Debug=debug2");
    }
    // Every job is still there to be asked about at the end.
    let builder = Cluster::builder().templates(templates).stock(stock).slurm_conf("MinJobAge=86400");
    let builder = builder.guardian(guardian()?);
    let builder = match dir {
        Some(dir) => {
            let etc = dir.join("etc");
            let scripts = format!("Prolog={0}/prolog\nEpilog={0}/epilog", etc.display());
            builder.dir(dir).slurm_conf(&scripts)
        }
        None => builder,
    };
    Ok(if bench.debug { builder } else { builder.release() })
}

/// Waits until no job is completing: such a node takes no new ones.
pub(super) fn settled(cluster: &Cluster) -> Result<(), HarnessError> {
    wait_for("jobs to be over", Duration::from_secs(60), || {
        let left =
            cluster.run(User::Root, "squeue", &["-h", "-t", "completing"]).map_err(|e| with_causes(&e))?;
        if left.code == Some(0) && left.stdout.trim().is_empty() {
            return Ok(());
        }
        Err(left.stdout)
    })
}

/// Unexpected lines in the daemons' logs and unexpected states of nodes. One line each.
pub(super) fn findings(cluster: &Cluster) -> Result<Vec<String>, HarnessError> {
    let mut found = Vec::new();
    let names = cluster.nodes().iter().map(|node| format!("slurmd-{node}"));
    for name in names.chain(["slurmctld".to_owned()]) {
        let log = std::fs::read(cluster.layout().log(&name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let bad = |line: &&str| line.contains("error: tessera") || line.contains("bug in this plugin");
        found.extend(text.lines().filter(bad).map(|line| format!("{name}: {line}")));
    }
    let nodes = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T %E"])?.ok()?;
    found.extend(nodes.lines().filter(|line| !line.contains(" idle ")).map(|line| format!("node {line}")));
    if let Err(error) = cluster.assert_clean() {
        found.push(with_causes(&error));
    }
    Ok(found)
}
