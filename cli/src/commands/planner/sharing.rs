//! The jobs and GPUs that share, read from what Slurm and the layouts say now.

use std::collections::{HashMap, HashSet};

use geometry::{GpuIndex, JobId, Model};
use node_layout::{GpuLayout, HolderLayout};
use power::{Memory, Part};
use protocol::wire::parse_request;
use protocol::{AdminComment, Grant, NodeGrant, Request};
use site_config::{Objective, SiteConfig};

use super::jobs::Pending;
use super::pairs::{self, Board, Paired, PowerPolicy, Running, TimeLimit, Waiting, full_size};
use super::site::Found;
use super::time_limit;
use crate::power_models::PowerModels;
use crate::runtimes::Learnt;
use crate::slurm::squeue::QueuedJob;

/// Plans of jobs that share GPUs.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) plans: Vec<Paired>,
    /// Every job that these plans were made among.
    pub(super) among: HashSet<u32>,
}

impl Shared {
    /// True if a GPU is planned for one of them.
    pub(super) fn has(&self, found: &Found<'_>) -> bool {
        let now = &found.gpu.now;
        self.plans.iter().any(|p| p.place.node == now.node && p.place.start.gpu.0 == now.index.0)
    }
}

/// Decides for those of the pending jobs that the site pairs. `longest` has the longest time of each partition.
pub(super) fn shared(
    config: &SiteConfig,
    models: &PowerModels,
    found: &[Found<'_>],
    pending: &[Pending],
    jobs: &[QueuedJob],
    learnt: &Learnt,
    longest: &HashMap<String, Option<u64>>,
) -> Shared {
    let boards: Vec<Board> = found.iter().filter_map(|found| board(config, models, found, jobs)).collect();
    let mut gpu_models: Vec<&'static Model> = boards.iter().map(|b| b.model).collect();
    gpu_models.sort_by_key(|model| &model.key);
    gpu_models.dedup_by_key(|model| &model.key);
    let mut sorted: Vec<&Pending> = pending.iter().collect();
    sorted.sort_by_key(|p| (std::cmp::Reverse(p.job.priority), p.job.id));
    let known = (&boards[..], &gpu_models[..], found);
    let waiting: Vec<Waiting> =
        sorted.iter().filter_map(|p| waiting(config, known, p, learnt, longest)).collect();
    let among = waiting.iter().map(|w| w.job).collect();
    Shared { plans: pairs::decide(&waiting, &boards, &config.power), among }
}

/// True if any partition of the site pairs jobs.
pub(super) fn pairs_anywhere(config: &SiteConfig) -> bool {
    let own = config.partitions.iter().filter_map(|p| p.objective);
    own.chain([config.power.objective]).any(|objective| objective != Objective::Off)
}

/// Gives the rules for jobs of this partition that share GPUs under power caps.
fn power_policy(config: &SiteConfig, partition: &str) -> PowerPolicy {
    let own = config.partitions.iter().find(|own| own.name == partition);
    PowerPolicy {
        objective: own.and_then(|own| own.objective).unwrap_or(config.power.objective),
        alpha: site_limits::alpha(config, Some(partition)),
        guard: config.power.guard,
    }
}

/// The partitions of a job that pair, and how the first does.
fn pairing(config: &SiteConfig, job: &QueuedJob, request: &Request) -> Option<(Vec<String>, PowerPolicy)> {
    // A job that says how it scales, or has chosen its cap, has decided for itself.
    if !request.times.is_empty() || request.cap_w.is_some() || request.job_profile.is_none() {
        return None;
    }
    let on = |partition: &&str| power_policy(config, partition).objective != Objective::Off;
    let partitions: Vec<String> = job.partition.split(',').filter(on).map(str::to_owned).collect();
    let policy = power_policy(config, partitions.first()?);
    Some((partitions, policy))
}

fn waiting(
    config: &SiteConfig,
    (boards, models, found): (&[Board], &[&'static Model], &[Found<'_>]),
    p: &Pending,
    learnt: &Learnt,
    longest: &HashMap<String, Option<u64>>,
) -> Option<Waiting> {
    let (partitions, policy) = pairing(config, &p.job, &p.request)?;
    let app = p.request.job_profile.clone()?;
    let mut models = models.to_vec();
    models.retain(|model| !p.request.sizes_on(model).is_empty());
    let fits = |b: &&Board| models.iter().any(|model| model.key == b.model.key);
    let on =
        || boards.iter().filter(|b| b.partitions.iter().any(|name| partitions.contains(name))).filter(fits);
    if !p.job.wanted_nodes.is_empty() || on().next().is_none() {
        return None;
    }
    let takes = |b: &Board| learnt.longest(&p.job, &app, &full_size(b.model)?.name);
    let own_s = time_limit::own(&p.job);
    // The strictest of its partitions; one that nobody knows allows no more than the job has.
    let most = |name: &String| longest.get(name).copied().unwrap_or(own_s);
    let strictest = partitions.iter().filter_map(most).min();
    Some(Waiting {
        job: p.job.id,
        user: p.job.user.clone(),
        own: p.request.counters.clone(),
        mem_mib: p.request.mem_mib,
        limit: TimeLimit {
            own_s,
            most_s: if config.power.stretch_limits { strictest } else { own_s },
            takes_s: on().map(takes).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()),
        },
        elsewhere: found.iter().any(|found| could_take(found, boards, p, &partitions)),
        partitions,
        policy,
        app,
        models,
    })
}

/// Tells whether a job could have a GPU that is none of the boards for which it is paired, in these `partitions`.
fn could_take(found: &Found<'_>, boards: &[Board], p: &Pending, partitions: &[String]) -> bool {
    let now = &found.gpu.now;
    let is_paired = || {
        let is_it = |b: &&Board| b.node == now.node && b.index.0 == now.index.0;
        boards.iter().find(is_it).is_some_and(|b| b.partitions.iter().any(|name| partitions.contains(name)))
    };
    let is_of_job = |name: &String| p.job.partition.split(',').any(|of| of == name);
    found.gpu.partitions.iter().any(is_of_job)
        && !p.request.sizes_on(found.gpu.model).is_empty()
        && !is_paired()
}

fn board(config: &SiteConfig, models: &PowerModels, found: &Found<'_>, jobs: &[QueuedJob]) -> Option<Board> {
    let Found { gpu, layout, spec } = found;
    let now = &gpu.now;
    let ends = now.instances.iter().map(|i| i.until).chain([now.usable_from]);
    let index = GpuIndex(now.index.0);
    Some(Board {
        node: now.node.clone(),
        index,
        model: gpu.model,
        power: models.whole(spec.power.model.as_ref()?)?,
        cap_w: spec.power.cap_w,
        partitions: gpu.partitions.clone(),
        free_at: ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()),
        running: holders(layout)
            .and_then(|here| here.iter().map(|job| running(config, found, *job, jobs)).collect())
            .unwrap_or_default(),
    })
}

/// The jobs on a GPU if all have parts that can lie beside others.
fn holders(layout: &GpuLayout) -> Option<Vec<JobId>> {
    let GpuLayout::Mig(instances) = layout else { return None };
    let mut here = Vec::new();
    for instance in instances {
        match &instance.holder {
            HolderLayout::Idle => {}
            HolderLayout::Job(job) => here.push(*job),
            HolderLayout::Compute(parts) => here.extend(parts.iter().map(|part| part.job)),
            HolderLayout::Mps(_) | HolderLayout::Tasks(_) => return None,
        }
    }
    Some(here)
}

/// Reads a running job's part of the GPU from its AdminComment; `None`: no other job may be put beside it.
fn running(config: &SiteConfig, found: &Found<'_>, job: JobId, jobs: &[QueuedJob]) -> Option<Running> {
    let (model, node) = (found.gpu.model, &found.gpu.now.node);
    let job = jobs.iter().find(|j| j.id == job.0 && j.state == "RUNNING")?;
    let comment = AdminComment::parse(&job.comment);
    let request = parse_request(comment.asks.as_deref()?).ok()?;
    let (_, policy) = pairing(config, job, &request)?;
    let started = comment.started()?;
    let placement = started.placement(JobId(job.id), &|_, _| Some(model)).ok()?;
    let NodeGrant { grant, cap_w } = placement.on(node)?;
    let (part, start, mem_mib) = match grant {
        Grant::Compute { within, part, mem_mib } => {
            let is_whole = full_size(model)?.id == within.profile;
            let shared = Part { memory: Memory::Shared, slices: part.slices };
            is_whole.then_some((shared, part.start, *mem_mib))?
        }
        Grant::Mig(specs) => {
            let [spec] = specs[..] else { return None };
            let profile = model.profile_by_id(spec.profile)?;
            let private = Part { memory: Memory::Private, slices: profile.compute_slices };
            (private, spec.start, request.mem_mib?)
        }
        _ => return None,
    };
    Some(Running {
        job: job.id,
        user: job.user.clone(),
        app: request.job_profile.clone()?,
        own: request.counters.clone(),
        mem_mib,
        policy,
        part,
        start,
        cap_w: *cap_w,
        low: started.low,
        has_limit: job.limit.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_its_own_alpha_and_objective() {
        let text = "[power]\nobjective = \"throughput\"\nalpha = 0.3\n\
                    [[partitions]]\nname = \"strict\"\nalpha = 0.5\n\
                    [[partitions]]\nname = \"off\"\nobjective = \"off\"\n\
                    [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let of = |partition| {
            let policy = power_policy(&config, partition);
            (policy.objective, policy.alpha, policy.guard)
        };
        assert_eq!(of("strict"), (Objective::Throughput, 0.5, true));
        assert_eq!(of("off"), (Objective::Off, 0.3, true));
        assert_eq!(of("other"), (Objective::Throughput, 0.3, true));
        assert_eq!(site_limits::alpha(&config, None), 0.3);
    }
}
