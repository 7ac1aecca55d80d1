//! On the node as root: starts `tessera node reconcile`, when slurmd starts, when `tessera.toml` has changed and when a job seems
//! to be forgotten, and `tessera node sick` when a job has found a GPU unfit for any job.

use std::time::Duration;

use geometry::{GpuIndex, JobId};
use node_jobs::{Fault, JobContext, loaded};
use node_slurm::{node_name, slurm_conf};
use plugin_rt::log;

use crate::args::Args;
use crate::spank::{Errors, Spank};
use crate::this_node::{IfAbsent, NoNode, ThisNode};

/// Time that a job may be in the journal without a step here before Slurm is asked whether it still runs. For an allocation
/// without steps Slurm is asked again after each such time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Reads this node's description. If no process has read this version of the file here before, the command brings the node's
/// device nodes in order: it may describe other GPUs, and at slurmd's start there may have been none.
pub(crate) fn load_node(
    spank: &dyn Spank,
    args: &Args,
    if_absent: IfAbsent,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ThisNode, NoNode> {
    let loaded = ThisNode::load(args, if_absent, env);
    if let Some(node) = loaded.to_reconcile.filter(|_| args.tessera.is_file()) {
        start(spank, args, Some(&node), &["reconcile"], Errors::Nowhere);
    }
    loaded.node
}

/// After a prolog: lets the command ask Slurm, without waiting for it, if another job seems to be forgotten.
pub(crate) fn for_forgotten_jobs(spank: &dyn Spank, args: &Args, node: &ThisNode, context: &JobContext) {
    if let Some(live) = &context.live
        && node_jobs::seems_forgotten(&node.settings, context.job, live, FORGOTTEN_AFTER)
    {
        start(spank, args, Some(&node.name), &["reconcile", "--if-dead"], Errors::Nowhere);
    }
}

/// slurmctld has forgotten a job: lets the command ask Slurm, without waiting for it, whether what the job has is given back.
pub(crate) fn for_journalled_job(spank: &dyn Spank, args: &Args, node: &ThisNode, job: JobId) {
    if node_jobs::is_journalled(&node.settings, job) {
        start(spank, args, Some(&node.name), &["reconcile", "--if-dead"], Errors::Nowhere);
    }
}

/// slurmd starts: lets the command clean up what no live job owns, and tell slurmctld that this slurmd loads Tessera, without
/// waiting for it.
///
/// Never an error: a slurmd that does not start helps nobody, and prologs repair what they meet.
pub(crate) fn at_slurmds_start(spank: &dyn Spank, args: &Args) {
    let program = &args.tessera;
    if !program.is_file() {
        log::error(format_args!(
            "{} is not there: this node is not reconciled at slurmd's start and takes no jobs with --gpu options \
             (plugstack.conf: tessera=PATH)",
            program.display()
        ));
        return;
    }
    let env = |name: &str| std::env::var(name).ok();
    let node = node_name(std::env::args(), &env, || spank.configured_node_name());
    if let Some(node) = &node
        && let Err(e) = loaded::hold(&loaded::path(&slurm_conf::path(&env), node), spank.detects_gpus())
    {
        log::error(format_args!(
            "this node takes no jobs with --gpu options, because slurmctld cannot be told that it loads Tessera: {e}"
        ));
    }
    start(spank, args, node.as_deref(), &["reconcile", "--until-ended"], Errors::Ours);
}

/// Has the GPU left out, if any, on which the next job would fail as this one did.
pub(crate) fn leave_out_unwell(
    spank: &dyn Spank,
    args: &Args,
    node: &ThisNode,
    context: &JobContext,
    fault: &Fault,
) {
    let Some((index, why)) = fault.unwell_gpu() else { return };
    if let Some(gpu) = context.grant.gpus().iter().find(|gpu| gpu.index == index) {
        leave_out(spank, args, &node.name, gpu.number, &format!("{why} in job {}", context.job));
    }
}

/// Has a GPU left out, named by Slurm's number: one that is lost says no UUID. It stays out until an administrator accepts it.
fn leave_out(spank: &dyn Spank, args: &Args, node: &str, gpu: GpuIndex, why: &str) {
    start(spank, args, Some(node), &["sick", &gpu.to_string(), "--reason", why], Errors::Nowhere);
}

/// Starts `tessera node` with these words and does not wait for it.
fn start(spank: &dyn Spank, args: &Args, node: Option<&str>, words: &[&str], errors: Errors) {
    let program = args.tessera.display().to_string();
    let words = [program.as_str(), "node"].into_iter().chain(words.iter().copied());
    let argv: Vec<String> = words.map(str::to_owned).collect();
    let mut env: Vec<String> = std::env::vars_os()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value.to_str()?)))
        .filter(|v| !v.starts_with("TESSERA_CONF=") || args.config.is_none())
        .filter(|v| !v.starts_with("SLURMD_NODENAME=") && !v.starts_with("SPANK_"))
        .collect();
    if let Some(config) = &args.config {
        env.push(format!("TESSERA_CONF={}", config.display()));
    }
    if let Some(node) = node {
        for (name, value) in args.env_on(node) {
            env.retain(|v| v.split_once('=').is_none_or(|(known, _)| known != name));
            env.push(format!("{name}={value}"));
        }
        env.push(format!("SLURMD_NODENAME={node}"));
    }
    match spank.spawn_detached(&argv, &env, errors) {
        Ok(()) => log::verbose(format_args!("started {}", argv.join(" "))),
        Err(e) => log::error(format_args!("cannot start {}: {e}", argv.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_spank::FakeSpank;

    #[test]
    fn a_gpu_that_failed_in_a_job_is_left_out_by_its_number_on_this_node() {
        let spank = FakeSpank::default();
        let (args, problems) = Args::parse(["tessera=/opt/tessera", "config=/etc/t.toml"]);
        assert!(problems.is_empty());
        leave_out(&spank, &args, "n7", GpuIndex(3), "the GPU is lost (NVML 15) in job 5");
        let started = spank.started.take();
        let [(argv, env)] = &*started else { panic!("{started:?}") };
        assert_eq!(argv[..4], ["/opt/tessera", "node", "sick", "3"]);
        assert_eq!(argv[4..], ["--reason", "the GPU is lost (NVML 15) in job 5"]);
        for variable in ["SLURMD_NODENAME=n7", "TESSERA_CONF=/etc/t.toml"] {
            assert!(env.iter().any(|v| v == variable), "{env:?}");
        }
    }
}
