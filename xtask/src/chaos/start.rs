//! Starts the cluster that is hurt.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use lab::Cluster;
use lab::command::{Done, run};
use lab::config::Templates;
use lab::paths::workspace;

use super::Chaos;
use super::seen::report::{HOLD, LOOK, script};
use crate::cluster::guardian;
use crate::command::{TaskError, absolute, at};

/// The program with GPU tasks of `cargo xtask chaos-tasks`.
const CHURN: &str = include_str!("../chaos_tasks/churn.c");

/// The driver takes half of the real one's time: prologs and epilogs are long enough to be met.
const TIME_SCALE: f64 = 0.5;

/// Room for the journal of every job that a node can have.
const STATE_KIB: u32 = 2048;

/// Room for sockets, pipes and logs of every daemon that a node can have. A user fills it in a moment.
const RUN_KIB: u32 = 16_384;
const RUN_INODES: u32 = 2_000;

/// Two nodes, two slurmctlds, and the jobs' script.
pub(super) fn start(chaos: &Chaos) -> Result<Cluster, TaskError> {
    let mut templates = Templates::shipped()?;
    templates.time_scale = TIME_SCALE;
    // Jobs of GPU tasks are refused without this section.
    let tasks = format!("\n[tasks]\ngpus_per_job = {}\n\n[mps]\n", chaos.gpus_per_job);
    templates.tessera = templates.tessera.replace("\n[mps]\n", &tasks);
    templates.slurm = templates.slurm.replace("Debug=verbose", "Debug=debug");
    let mut builder = Cluster::builder()
        .templates(templates)
        .slurm(chaos.slurm)
        .guardian(guardian()?)
        .backup()
        .clocks()
        .small_run(RUN_KIB, RUN_INODES)
        .slurm_conf("MessageTimeout=30\nKillWait=5\nMinJobAge=300");
    builder = builder.small_state(STATE_KIB);
    if let Some(dir) = &chaos.dir {
        builder = builder.dir(&absolute(dir)?);
    }
    let cluster = builder.start()?;
    let path = cluster.layout().jobs().join("chaos.sh");
    let state = cluster.layout().sim_state("$SLURMD_NODENAME").display().to_string();
    at(&path, fs::write(&path, script(&state)))?;
    at(&path, fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))?;
    crate::submissions::program::build(&cluster)?;
    build(&cluster, "look", LOOK, &[])?;
    build(&cluster, "hold", HOLD, &["libcuda.so.1"])?;
    build(&cluster, "churn", CHURN, &["libcuda.so.1", "libtessera_task.so"])?;
    Ok(cluster)
}

/// Compiles one of the jobs' programs beside their script, with libraries of the cluster.
fn build(cluster: &Cluster, name: &str, text: &str, libraries: &[&str]) -> Result<(), TaskError> {
    let source = cluster.layout().jobs().join(format!("{name}.c"));
    at(&source, fs::write(&source, text))?;
    let mut cc = Command::new("cc");
    cc.arg("-o").args([cluster.layout().jobs().join(name), source]);
    cc.args(["crates/sim/cuda-sim/include", "contrib/case-pass/include"].map(|dir| {
        let mut option = std::ffi::OsString::from("-I");
        option.push(workspace().join(dir));
        option
    }));
    cc.args(libraries.iter().map(|library| cluster.layout().at("lib").join(library)));
    run(&mut cc).and_then(Done::ok)?;
    Ok(())
}
