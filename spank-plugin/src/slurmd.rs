//! On the node as root: each job's prolog and epilog.
//!
//! A failed prolog or epilog drains the node. Both fail only where the node is unfit for any job; what concerns one
//! job alone is journalled, and the job's own steps are refused with the reason.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use geometry::JobId;
use node_jobs::{
    Fault, JobContext, NodeInSlurm, NvmlGrant, RealiseError, Realised, Settings, WaitingSlurmd,
    journal_problem,
};
use node_journal::is_sluid;
use node_slurm::live_steps::jobs_with_steps;
use plugin_rt::{Chain, log, set_job};
use protocol::set_summary::{MATCH_ENV, on_node};
use protocol::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, parse_request, plain_why};

use crate::args::Args;
use crate::check_placement::{CheckedGrant, check_placement};
use crate::describe;
use crate::requeue::requeue;
use crate::shards::{asked_in_vain, got_nothing, slurms_choice};
use crate::spank::{Spank, SpankError};
use crate::spawn_reconcile::{self, load_node};
use crate::submit::asks_for_none;
use crate::this_node::{IfAbsent, NoNode, ThisNode, Untranslated};

/// Why a prolog or epilog fails, and the node with it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// Slurm does not answer.
    #[error(transparent)]
    Spank(#[from] SpankError),
    /// No job can be started.
    #[error("Slurm drains this node, unfit for any job (met by job {job})")]
    Node {
        job: u32,
        #[source]
        source: Fault,
    },
}

/// Makes the job's placement real. A job without GPUs costs three look-ups in the environment.
pub(crate) fn prolog(
    spank: &dyn Spank,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Unfit> {
    let (begin, slurmd) = (Instant::now(), WaitingSlurmd::of_this_prolog());
    let placement = env(&job_variable(PLACEMENT_ENV));
    let devices = env("SLURM_JOB_GPUS").filter(|d| !d.is_empty());
    if placement.is_none() && devices.is_none() {
        return without_gpus(spank, args, slurmd, env);
    }
    let job = spank.job_id()?;
    set_job(job);
    let here = env("SLURMD_NODENAME").unwrap_or_default();
    args.env_on(&here).for_each(|(name, value)| spank.set_env(name, &value));
    let asked = env(&job_variable(REQUEST_ENV)).is_some();
    let if_absent = if placement.is_some() { IfAbsent::UseLastGood } else { IfAbsent::LeaveToSlurm };
    let node = match load_node(spank, args, if_absent, env) {
        Ok(node) => node,
        // Slurm chose these GPUs, or would have without us.
        Err(e) if placement.is_none() || !asked => {
            log::verbose(format_args!("job {job}: {e}: its GPUs are left as Slurm gave them"));
            return Ok(());
        }
        Err(e) => return start_elsewhere(spank, args, (job, &here), &unknown_here(&e), slurmd, env),
    };
    node.leave_for_accounting(env);
    let choice = || slurms_choice(job, &here, env);
    let granted = check_placement(&node, job, placement.as_deref(), devices.as_deref(), &choice);
    if granted.as_ref().is_ok_and(|granted| node.sees_none_of(&granted.given.grant.gpus())) {
        log::verbose(format_args!("job {job}: its GPUs are left as Slurm gave them"));
        return Ok(());
    }
    let cap_w = granted.as_ref().ok().and_then(|granted| granted.given.cap_w);
    let nodes = granted.as_ref().map_or_else(|_| Vec::new(), |granted| granted.nodes.clone());
    let (grant, refused, own_fault) = match granted.map(|granted| translate(&node, &granted, env)) {
        Ok(Ok(grant)) => (grant, None, false),
        Ok(Err(untold)) => {
            if untold.gpu_is_missing {
                // The same for every job with GPUs.
                block_gpu_jobs(&node, &untold.why, env);
            }
            (NvmlGrant::nothing(), Some(untold.why), false)
        }
        Err(why) => (NvmlGrant::nothing(), Some(why), true),
    };
    let mut context = JobContext {
        cap_w,
        decision: describe::why_on(&node.name, &nodes, &reason(env)),
        matched: env(&job_variable(MATCH_ENV)).and_then(|text| on_node(&text, &node.name)),
        ..context(spank, grant, slurmd, env)?
    };
    if let Some(why) = refused {
        return refuse_job(&node, &context, (job, &why), own_fault, env);
    }
    if let Some(fault) = realise(&node, &mut context, begin, &|| jobs_with_steps(&node.name, env), env)? {
        spawn_reconcile::leave_out_unwell(spank, args, &node, &context, &fault);
        requeue(job, &node.name, &Chain(&fault).to_string(), env);
    }
    spawn_reconcile::for_forgotten_jobs(spank, args, &node, &context);
    Ok(())
}

/// Says why a job that slurmctld has placed on a node cannot start there if nothing describes the node's GPUs.
fn unknown_here(what: &NoNode) -> String {
    format!("slurmctld gave it GPUs here, but this node does not know its GPUs: {what}")
}

/// Lets a job start that Slurm gave no GPU on this node, unless it asked for GPUs by Tessera's options in vain.
fn without_gpus(
    spank: &dyn Spank,
    args: &Args,
    slurmd: WaitingSlurmd,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Unfit> {
    let request = env(&job_variable(REQUEST_ENV)).filter(|text| !asks_for_none(text));
    let Some(request) = request else { return Ok(()) };
    let job = spank.job_id()?;
    set_job(job);
    let Some(why) = got_nothing(job, &request, env) else { return Ok(()) };
    let here = env("SLURMD_NODENAME").unwrap_or_default();
    args.env_on(&here).for_each(|(name, value)| spank.set_env(name, &value));
    start_elsewhere(spank, args, (job, &here), &why, slurmd, env)
}

/// Refuses a job whose GPUs are not known on this node, and requeues it.
fn start_elsewhere(
    spank: &dyn Spank,
    args: &Args,
    (job, here): (u32, &str),
    why: &str,
    slurmd: WaitingSlurmd,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Unfit> {
    log::error(format_args!("job {job}: {why}"));
    // A slurmctld that is being replaced may say yes and end the job a second later: slurmd begins its script meanwhile.
    if let Ok(node) = load_node(spank, args, IfAbsent::BeginJournal, env)
        && let Err(fault) = refuse(&node, &context(spank, NvmlGrant::nothing(), slurmd, env)?, why)
    {
        // Its steps ask slurmctld.
        log::error(format_args!("job {job}: {}", Chain(&fault)));
    }
    requeue(job, here, why, env);
    Ok(())
}

/// Notes in the journal that a job's tasks must not run here. A fault that is not the job's own has it start elsewhere.
fn refuse_job(
    node: &ThisNode,
    context: &JobContext,
    (job, why): (u32, &str),
    own_fault: bool,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Unfit> {
    log::error(format_args!("job {job}: {why}"));
    match refuse(node, context, why) {
        Err(source) if source.drains_node() => return Err(Unfit::Node { job, source }),
        // Its steps find no entry, and are refused as well.
        Err(fault) => job_failed(node, job, &fault, env),
        Ok(()) => {}
    }
    if !own_fault {
        requeue(job, &node.name, why, env);
    }
    Ok(())
}

/// Translates the grant to NVML's numbers.
fn translate(
    node: &ThisNode,
    granted: &CheckedGrant,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<NvmlGrant, Untranslated> {
    let request = || env(&job_variable(REQUEST_ENV));
    if granted.shards
        && let Some(why) = asked_in_vain(request().as_deref())
    {
        return Err(Untranslated { why, gpu_is_missing: false });
    }
    let grant = node.translate(&granted.given.grant, env)?;
    Ok(if granted.shards { grant.as_shards() } else { grant })
}

/// The job, without what is told of its place.
fn context(
    spank: &dyn Spank,
    grant: NvmlGrant,
    slurmd: WaitingSlurmd,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<JobContext, SpankError> {
    Ok(JobContext {
        job: JobId(spank.job_id()?),
        uid: spank.job_uid()?,
        gid: spank.job_gid()?,
        restart: env("SLURM_JOB_RESTART_COUNT").and_then(|v| v.parse().ok()).unwrap_or(0),
        grant,
        cap_w: None,
        decision: String::new(),
        plain: env(&job_variable(REQUEST_ENV)).is_none_or(|text| asks_for_none(&text)),
        matched: None,
        live: None,
        group: group(spank.slurm_number(), env),
        slurmd: Some(slurmd),
    })
}

/// Gives [`node_journal::Entry::group`] from a prolog's environment. 25.11 has the variable, too, and names groups by the job's number.
fn group(slurm_number: u32, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    env("SLURM_JOB_SLUID").filter(|name| slurm_number >= SLUID_GROUPS && is_sluid(name))
}

/// The first Slurm that names a job's control group by its SLUID: 26.05.0 [`cgroup_p_step_create`, `cgroup_v2.c`].
const SLUID_GROUPS: u32 = 0x1a_0500;

/// slurmctld's own words, else what was asked for.
fn reason(env: &dyn Fn(&str) -> Option<String>) -> String {
    let why = env(&job_variable(WHY_ENV)).map(|text| plain_why(&text)).filter(|text| !text.is_empty());
    let asked = || env(&job_variable(REQUEST_ENV)).and_then(|text| parse_request(&text).ok());
    why.or_else(|| asked().map(|r| format!("asked for {}", describe::asked(&r))))
        .unwrap_or_else(|| "GPUs by --gres".to_owned())
}

/// Lists the jobs that have a step on this node now.
type FindLiveJobs<'a> = &'a dyn Fn() -> Option<HashSet<JobId>>;

/// Longest wait of a job for another one that still has what slurmctld has given to this one: a slurmctld that was killed
/// has forgotten that the other was started, and ends it when the node registers.
const HOLDER_WAIT: Duration = Duration::from_secs(25);

/// Makes what was granted; see [`HOLDER_WAIT`].
pub(crate) fn realise_waiting(
    settings: &Settings,
    context: &mut JobContext,
    live: FindLiveJobs<'_>,
) -> Result<Realised, RealiseError> {
    let done = node_jobs::realise_waiting(settings, context, live, HOLDER_WAIT)?;
    for dead in &done.evicted {
        log::info(format_args!(
            "job {}: took over what job {dead} still held: it has no step here and its epilog did not end",
            context.job
        ));
    }
    for left in &done.leftovers {
        log::info(format_args!(
            "job {}: GPU {}: {left} was still on it and is gone now",
            context.job, left.gpu
        ));
    }
    for note in &done.notes {
        log::info(format_args!("job {}: {note}", context.job));
    }
    if let Some(problem) = &done.entry.cap_problem {
        log::error(format_args!("job {}: {problem}", context.job));
    }
    for file in &done.damaged {
        log::error(format_args!("job {}: {file}: `tessera node reconcile` moves it aside", context.job));
    }
    Ok(done)
}

/// Makes the job's place. The answer says why it could not be had, where only this job is concerned.
fn realise(
    node: &ThisNode,
    context: &mut JobContext,
    begin: Instant,
    live: FindLiveJobs<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Fault>, Unfit> {
    let job = context.job.0;
    match realise_waiting(&node.settings, context, live) {
        Ok(done) => {
            log::verbose(format_args!(
                "job {job} on {}: {}; took {:.1} ms, the driver {:.1} ms of it",
                node.name,
                describe::got(&done.entry),
                millis(begin.elapsed()),
                millis(done.driver_time)
            ));
            Ok(None)
        }
        Err(RealiseError::NodeUnfit(source)) => Err(Unfit::Node { job, source }),
        Err(RealiseError::JobFailed(gone @ Fault::Abandoned)) => {
            log::info(format_args!("job {job}: {gone}"));
            Ok(None)
        }
        Err(RealiseError::JobFailed(fault)) => {
            // Journalled by `realise`; unless the job is requeued, its steps will be refused with this reason.
            job_failed(node, job, &fault, env);
            Ok(Some(fault))
        }
    }
}

/// Says why a job cannot start or be given back here, and lets no more jobs with GPUs onto the node if none could start.
fn job_failed(node: &ThisNode, job: u32, fault: &Fault, env: &dyn Fn(&str) -> Option<String>) {
    let why = Chain(fault).to_string();
    if fault.blocks_gpu_jobs() {
        block_gpu_jobs(node, &why, env);
    } else if fault.without_journal() {
        // The same for each job, where it is still so. What users can cause may have passed.
        let lasting = (!fault.users_can_cause()).then(|| why.clone());
        if let Some(problem) = journal_problem(&node.settings).or(lasting) {
            block_gpu_jobs(node, &problem, env);
        }
    }
    log::error(format_args!("job {job}: {why}"));
}

/// Lets no further job with GPUs onto the node. Slurm alone gives out the GPUs of one that the file does not list.
fn block_gpu_jobs(node: &ThisNode, why: &str, env: &dyn Fn(&str) -> Option<String>) {
    if node.site.node(&node.name).is_none() {
        return;
    }
    let slurm = NodeInSlurm::new(&node.name, &node.settings.node.state_dir, env("SLURM_CONF"));
    match slurm.block_gpu_jobs(&node.settings, why) {
        Ok(true) => log::error(format_args!("{} takes no more jobs with GPUs: {why}", node.name)),
        Ok(false) => {}
        Err(e) => log::error(format_args!("slurmctld cannot be told that {why}: {}", Chain(&e))),
    }
}

/// Facts about the job in an epilog's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    WithoutGpus,
    WithGpus,
    /// slurmctld does not say what it had. One that was killed may have forgotten the job, or that it began, and has it aborted
    /// when a node tells of it: the epilog then gets no placement and no GPUs, but at most the job's request, and user 0 for a
    /// job that slurmctld does not know.
    Forgotten,
}

fn ended(env: &dyn Fn(&str) -> Option<String>) -> Ended {
    let has = |name: &str| env(name).is_some();
    if has(&job_variable(PLACEMENT_ENV)) || has("SLURM_JOB_GPUS") {
        Ended::WithGpus
    } else if has(&job_variable(REQUEST_ENV)) || env("SLURM_JOB_UID").is_some_and(|uid| uid == "0") {
        Ended::Forgotten
    } else {
        Ended::WithoutGpus
    }
}

/// Takes everything back. What could not be taken back is logged; the next reconciliation or prolog tries again.
pub(crate) fn epilog(
    spank: &dyn Spank,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Unfit> {
    let begin = Instant::now();
    let ended = ended(env);
    if ended == Ended::WithoutGpus {
        return Ok(());
    }
    let job = spank.job_id()?;
    set_job(job);
    let node = match load_node(spank, args, IfAbsent::UseJournal, env) {
        Ok(node) => node,
        Err(e) if e.unmanaged() => return Ok(()),
        Err(e) => {
            // A drained node would not change that. What the job had is given back by the next reconciliation.
            log::error(format_args!("job {job}: nothing could be released: {e}"));
            return Ok(());
        }
    };
    args.env_on(&node.name).for_each(|(name, value)| spank.set_env(name, &value));
    if ended == Ended::Forgotten {
        // slurmctld may have given its number to another job, which may have begun here meanwhile.
        spawn_reconcile::for_journalled_job(spank, args, &node, JobId(job));
        return Ok(());
    }
    let released = match node_jobs::release(&node.settings, JobId(job)) {
        Ok(released) => released,
        Err(fault) if fault.without_journal() => {
            // No job with GPUs comes here before the journal can be used. Then the health check gives back what the job had.
            job_failed(&node, job, &fault, env);
            return Ok(());
        }
        Err(fault) if !fault.drains_node() => {
            // A drained node would not change that. The next reconciliation gives back what the job had.
            log::error(format_args!("job {job}: not released yet: {}", Chain(&fault)));
            return Ok(());
        }
        Err(source) => return Err(Unfit::Node { job, source }),
    };
    for problem in &released.problems {
        log::error(format_args!("job {job}: not released yet: {problem}"));
    }
    for note in &released.notes {
        log::info(format_args!("job {job}: {note}"));
    }
    if released.known {
        log::verbose(format_args!(
            "job {job} on {}: released in {:.1} ms",
            node.name,
            millis(begin.elapsed())
        ));
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The job's variable as prolog and epilog see it: Slurm adds the prefix.
fn job_variable(name: &str) -> String {
    format!("SPANK_{name}")
}

/// Journals why only this job cannot start.
fn refuse(node: &ThisNode, context: &JobContext, why: &str) -> Result<(), Fault> {
    let left = node_jobs::refuse(&node.settings, context, why)?;
    let job = context.job;
    left.problems.iter().for_each(|p| log::error(format_args!("job {job}: not released yet: {p}")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epilog_tells_a_forgotten_job_from_one_without_gpus() {
        let of = |vars: &[(&str, &str)]| {
            ended(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let (user, request) = (("SLURM_JOB_UID", "1001"), ("SPANK_TESSERA_REQUEST", "v1 iso=mig"));
        assert_eq!(of(&[user, request, ("SPANK_TESSERA_PLACEMENT", "v1 job=1;n1=whole:0")]), Ended::WithGpus);
        assert_eq!(of(&[user, ("SLURM_JOB_GPUS", "0")]), Ended::WithGpus);
        assert_eq!(of(&[("SLURM_JOB_UID", "0"), ("SLURM_JOB_GPUS", "0")]), Ended::WithGpus);
        assert_eq!(of(&[("SLURM_JOB_UID", "0")]), Ended::Forgotten);
        assert_eq!(of(&[user, request]), Ended::Forgotten);
        assert_eq!(of(&[user]), Ended::WithoutGpus);
    }

    #[test]
    fn slurm_26_05_names_the_control_group() {
        let name = "s0AVJ3WCXM2T00";
        let of = |number, name: Option<&str>| {
            group(number, &|of| name.filter(|_| of == "SLURM_JOB_SLUID").map(str::to_owned))
        };
        assert_eq!(of(0x1a_0505, Some(name)).as_deref(), Some(name));
        assert_eq!((of(0x19_0b07, Some(name)), of(0x1a_0500, None)), (None, None));
        assert_eq!(of(0x1a_0500, Some("../s0AVJ3WCXM2")), None);
    }

    #[test]
    fn the_reason_is_slurmctlds() {
        let of = |vars: &[(&str, &str)]| {
            reason(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let request = ("SPANK_TESSERA_REQUEST", "v1 iso=mig:2g.10gb");
        assert_eq!(of(&[request, ("SPANK_TESSERA_WHY", "as named;\n best")]), "as named;  best");
        assert_eq!(of(&[request, ("SPANK_TESSERA_WHY", "")]), "asked for mig:2g.10gb");
        assert_eq!(of(&[]), "GPUs by --gres");
    }
}
