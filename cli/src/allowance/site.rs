//! The site's own limits on what running jobs have together, `[[limits]]`, as bounds beside those of Slurm.

use std::collections::{BTreeMap, HashMap};

use geometry::{GpuIndex, JobId, Uid};
use node_state::slices::{OF_UNCUT_GPU, slices_for_grant, whole_gpus};
use node_state::{GpuState, Holder, Node, Policy, Seat, Share};
use protocol::{ComputeSpec, Grant, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};
use site_config::{Limit, Most, SiteConfig};
use site_limits::Submission;
use site_limits::amounts::{Amount, RunningJobs};
use site_limits::limit;

use super::{Bound, LimitKind, SLICES, Whose};
use crate::layout_line;
use crate::outcome::Failure;
use crate::slurm::squeue::RunningJob;
use crate::slurm::tres::tres;
use crate::slurm::{scontrol, squeue};

/// The limits that add up running jobs and hold for such a job, with what is in use of each. Slurm is asked only if there are any.
///
/// # Errors
///
/// Slurm does not answer.
pub(super) fn bounds(config: &SiteConfig, job: &Submission, user: &str) -> Result<Vec<Bound>, Failure> {
    let limits: Vec<&Limit> = site_limits::limits_of(job, config)
        .into_iter()
        .filter(|limit| limit.running != Most::default())
        .collect();
    if limits.is_empty() {
        return Ok(Vec::new());
    }
    let layouts = scontrol::layouts()?;
    let (owners, jobs) = (squeue::owners()?, squeue::running()?);
    let held = held(config, &layouts);
    let running = counted(config, &jobs, &owners, &held);
    let names: HashMap<JobId, &str> = jobs.iter().map(|job| (job.id, job.user.as_str())).collect();
    Ok(limits
        .into_iter()
        .flat_map(|limit| of_limit(limit, &running.used(limit, job), user, &names))
        .collect())
}

/// RunningJobs jobs, as slurmctld's plugin counts them.
fn counted(
    config: &SiteConfig,
    jobs: &[RunningJob],
    owners: &HashMap<JobId, Uid>,
    held: &BTreeMap<JobId, Vec<(String, Amount)>>,
) -> RunningJobs {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let mut running = RunningJobs::default();
    for job in jobs {
        let as_submitted = Submission {
            partitions: vec![job.partition.clone()],
            account: some(&job.account),
            qos: some(&job.qos),
            user: owners.get(&job.id).map(|uid| uid.0),
            ..Submission::default()
        };
        let on_nodes = held.get(&job.id).cloned().unwrap_or_else(|| by_slurm(&job.given));
        running.begin(job.id, &as_submitted, on_nodes, config);
    }
    running
}

/// Counts GPUs of a job that no layout shows: whole ones that Slurm has given it.
fn by_slurm(given: &str) -> Vec<(String, Amount)> {
    let gpus: u64 = tres(given, "gres/gpu").and_then(|n| n.parse().ok()).unwrap_or(0);
    vec![(String::new(), Amount { gpus, slices: gpus.saturating_mul(OF_UNCUT_GPU) })]
}

fn of_limit(
    limit: &Limit,
    used: &BTreeMap<JobId, Amount>,
    user: &str,
    names: &HashMap<JobId, &str>,
) -> Vec<Bound> {
    let bound = |key: &str, tres: &str, most: Option<u64>, of: fn(&Amount) -> u64| {
        let most = most?;
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for (job, amount) in used {
            *users.entry(names.get(job).copied().unwrap_or("?")).or_default() += of(amount);
        }
        let mut users: Vec<(String, u64)> =
            users.into_iter().filter(|(_, n)| *n > 0).map(|(user, n)| (user.to_owned(), n)).collect();
        users.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let of_user = if limit.each_user { format!("of {user} ") } else { String::new() };
        let whose = Whose::Site {
            jobs: format!("jobs {of_user}{}", limit::whom(limit)),
            place: limit::place(limit, key),
            users,
        };
        let used = used.values().map(of).sum();
        Some(Bound { kind: LimitKind::Together, tres: tres.to_owned(), most, used, reserved: 0, whose })
    };
    let gpus = bound("running_gpus", "gres/gpu", limit.running.gpus, |amount| amount.gpus);
    let slices = bound("running_slices", SLICES, limit.running.slices, |amount| amount.slices);
    gpus.into_iter().chain(slices).collect()
}

/// Reads each job's GPUs and slices on each node from the layouts that the controller publishes.
fn held(config: &SiteConfig, layouts: &HashMap<String, String>) -> BTreeMap<JobId, Vec<(String, Amount)>> {
    let mut all: BTreeMap<JobId, Vec<(String, Amount)>> = BTreeMap::new();
    let policy = site_limits::policy_for(config, None, &[]);
    for (name, line) in layouts {
        let Some(spec) = config.node(name) else { continue };
        let Ok(layout) = layout_line::read(line, &spec.gpus) else { continue };
        let mut node = site_limits::node_of(spec);
        layout_line::take_over(&layout, &mut node, &|_| Uid(0));
        for (job, amount) in on_node(&node, &policy) {
            all.entry(job).or_default().push((name.clone(), amount));
        }
    }
    all
}

/// Reads each job's GPUs and slices on a node.
fn on_node(node: &Node, policy: &Policy) -> BTreeMap<JobId, Amount> {
    let mut grants: BTreeMap<JobId, Vec<Grant>> = BTreeMap::new();
    let mut seats: BTreeMap<JobId, Vec<PoolSeats>> = BTreeMap::new();
    for (gpu, index) in node.gpus.iter().zip((0..).map(GpuIndex)) {
        let mut has = |job, grant| grants.entry(job).or_default().push(grant);
        match &gpu.state {
            GpuState::Free => {}
            GpuState::Whole(job) => has(*job, Grant::Whole(vec![index])),
            GpuState::Mps(list) => list.iter().for_each(|one| has(one.job, share(one, ShareOn::Gpu(index)))),
            GpuState::Tasks(list) => list.iter().for_each(|one| seat(&mut seats, one, ShareOn::Gpu(index))),
            GpuState::Mig(instances) => {
                for instance in instances {
                    let spec = MigSpec { gpu: index, profile: instance.profile, start: instance.start };
                    let on = ShareOn::Instance(spec);
                    match &instance.holder {
                        Holder::Idle => {}
                        Holder::Isolated(job) => has(*job, Grant::Mig(vec![spec])),
                        Holder::Shared(list) => list.iter().for_each(|one| has(one.job, share(one, on))),
                        Holder::Compute(list) => {
                            list.iter().for_each(|one| has(one.job, compute(spec, one.part, one.mem_mib)));
                        }
                        Holder::Pool(list) => list.iter().for_each(|one| seat(&mut seats, one, on)),
                    }
                }
            }
        }
    }
    for (job, seats) in seats {
        let on = TaskDevices::Pool(seats);
        grants.entry(job).or_default().push(Grant::Tasks(TaskGrant { on, mem_mib: None, probes: false }));
    }
    let model = |gpu: GpuIndex| node.gpus.get(usize::from(gpu.0)).map(|gpu| gpu.model);
    let one = |grant: &Grant| Amount {
        gpus: whole_gpus(grant),
        slices: slices_for_grant(grant, model, policy.tasks.unwrap_or_default()),
    };
    grants.into_iter().map(|(job, all)| (job, all.iter().map(one).sum())).collect()
}

fn share(share: &Share, on: ShareOn) -> Grant {
    Grant::Mps { on, mem_mib: share.mem_mib, threads: share.threads }
}

fn compute(within: MigSpec, part: ComputeSpec, mem_mib: u64) -> Grant {
    Grant::Compute { within, part, mem_mib }
}

fn seat(seats: &mut BTreeMap<JobId, Vec<PoolSeats>>, seat: &Seat, on: ShareOn) {
    seats.entry(seat.job).or_default().push(PoolSeats { on, seats: seat.seats });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::{Allowance, Need};

    #[test]
    fn what_running_jobs_have_of_a_limit_is_read_from_layouts() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 4\nmig = \"dynamic\"\n\
                    [[limits]]\nqos = \"normal\"\nrunning_slices = 14\n[[limits]]\neach_user = true\nrunning_gpus = 1\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let line = "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:mps[job3:100M/5%],1g.5gb@3:idle] gpu1=whole[job13] \
                    gpu2=mps[job14:20480M/25%] gpu3=mig[7g.40gb@0:ci[4c@0:job15:9537M]]";
        let held = held(&config, &[("n1".to_owned(), line.to_owned())].into());
        let slices: Vec<(u32, u64, u64)> =
            held.iter().map(|(job, on)| (job.0, on[0].1.gpus, on[0].1.slices)).collect();
        assert_eq!(slices, [(3, 0, 1), (12, 0, 2), (13, 1, 7), (14, 0, 4), (15, 0, 4)]);
        let job = |id: u32, user: &str, qos: &str| RunningJob {
            id: JobId(id),
            user: user.to_owned(),
            account: String::new(),
            qos: qos.to_owned(),
            partition: "gpu".to_owned(),
            given: "cpu=1,gres/gpu=2".to_owned(),
        };
        let jobs = [
            job(12, "alice", "normal"),
            job(13, "bob", "normal"),
            job(14, "bob", "long"),
            job(99, "bob", "long"),
        ];
        let owners =
            [(12, 1001), (13, 1002), (14, 1002), (99, 1002)].map(|(job, uid)| (JobId(job), Uid(uid))).into();
        let running = counted(&config, &jobs, &owners, &held);
        let names = jobs.iter().map(|job| (job.id, job.user.as_str())).collect();
        let bob = Submission { qos: Some("normal".to_owned()), user: Some(1002), ..Submission::default() };
        let bounds =
            config.limits.iter().flat_map(|limit| of_limit(limit, &running.used(limit, &bob), "bob", &names));
        let allowance = Allowance { bounds: bounds.collect(), ..Allowance::default() };
        assert_eq!(
            allowance.lines(),
            [
                "jobs for QOS normal may have 14 slices at once (running_slices, line 6 of tessera.toml); 9 in use (bob 7, alice 2)",
                "jobs of bob here may have 1 GPU at once (running_gpus, line 9 of tessera.toml); 3 in use",
            ]
        );
        let need = Need { slices: 2, nodes: 1, ..Need::default() };
        assert_eq!(allowance.most(&need), Some(2));
        let whole = Need { gpus: 1, slices: 7, nodes: 1, ..Need::default() };
        assert_eq!(
            allowance.keeps(&whole).as_deref(),
            Some(
                "A limit of the site keeps it: jobs for QOS normal may have 14 slices at once (running_slices, line 6 of tessera.toml); \
                 9 in use (bob 7, alice 2); this job needs 7 slices."
            )
        );
    }
}
