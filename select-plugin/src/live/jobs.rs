//! Slurm's records of jobs, read as plain values.

use geometry::{JobId, Uid};
use protocol::AdminComment;
use protocol::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, parse_request};
use site_limits::amounts::time_limit;
use slurm_numbers as numbers;

use super::nodes;
use crate::ffi::host::Host;
use crate::ffi::jobs::{allocated, changed_request, qos, spank_env};
use crate::ffi::records::{Details, Job, Partition};
use crate::ffi::{accounts, licenses, version};
use crate::lifecycle_hooks::Running;
use crate::memory::JobAddress;
use crate::slurm_rules::{self, starts_by};
use crate::view::{GresRequest, JobView};

/// Tells whether a job's record, its details and its partition have their marks. Nothing that a user can fill counts.
pub(super) fn is_marked(job: Job) -> bool {
    // slurmctld fills both before it tests a job.
    let (details, part) = (job.details(), job.part_ptr());
    job.is_marked() && details.is_none_or(Details::is_marked) && part.is_none_or(Partition::is_marked)
}

/// Tells whether the job can be of any interest: it asks for GRES, carries something from SPANK, gets all GPUs of its
/// nodes, or still has the slices of GPUs that it no longer asks for.
pub(super) fn concerns_us(job: Job) -> bool {
    let carries_any = !job.gres_list_req().list.is_null() || job.spank_job_env_size() > 0;
    carries_any || is_exclusive(job) || licenses::has_slices(job)
}

fn is_exclusive(job: Job) -> bool {
    job.details().is_some_and(|d| version::exclusive(d.whole_node()))
}

/// The job, as far as placement goes.
pub(super) fn view(host: &Host, job: Job) -> JobView {
    let (gres, most_gpus) = requests(host, job);
    JobView {
        id: JobId(job.job_id()),
        uid: Uid(job.user_id()),
        request: changed_request(job)
            .or_else(|| spank_env(job, REQUEST_ENV))
            .and_then(|text| parse_request(&text).ok()),
        gres,
        most_gpus,
        exclusive: is_exclusive(job),
        enforce_bind: enforces_binding(job),
        ranked: is_ranked(host, job),
        cpus: cpus(job),
        partition: job.part_ptr().and_then(Partition::name),
        account: job.account(),
        qos: qos(job),
        minutes: minutes(job),
        comment: AdminComment::parse(&job.admin_comment().unwrap_or_default()),
        now: host.now(),
        starts_by: starts_by(job.deadline(), [job.time_min(), job.time_limit()]),
    }
}

/// See [`JobView::minutes`].
fn minutes(job: Job) -> u32 {
    let [default, most] =
        job.part_ptr().map_or([numbers::NO_VAL; 2], |part| [part.default_time(), part.max_time()]);
    time_limit(job.time_limit(), default, most, numbers::NO_VAL)
}

/// See [`JobView::cpus`].
fn cpus(job: Job) -> u32 {
    // `tres_req_cnt` is not there yet when a job is first tested.
    job.details().map_or(0, |d| slurm_rules::cpus_per_node(d.min_cpus(), d.min_nodes()))
}

/// See [`JobView::ranked`].
fn is_ranked(host: &Host, job: Job) -> bool {
    let flags = job.part_ptr().map_or(0, |part| part.flags().0);
    let least_loaded = host.takes_least_loaded() || flags & numbers::PART_FLAG_LLN != 0;
    let one_node = |d: Details| slurm_rules::gets_one_node(d.max_nodes(), d.min_nodes(), d.num_tasks());
    !least_loaded && job.details().is_some_and(one_node)
}

fn requests(host: &Host, job: Job) -> (Vec<GresRequest>, u64) {
    let asked = accounts::requested(host, job).into_iter().map(|(k, state)| (k, accounts::asked(state)));
    slurm_rules::requests(asked, job.details().is_some_and(|d| d.max_nodes() == 1))
}

/// `--gres-flags=enforce-binding`.
pub(super) fn enforces_binding(job: Job) -> bool {
    job.bit_flags() & numbers::GRES_ENFORCE_BIND != 0
}

/// Identifies the record.
pub(super) fn address(job: Job) -> JobAddress {
    JobAddress(job.address().addr())
}

/// Tells whether a job holds what it was given; a suspended one keeps its GPUs.
pub(super) fn runs(job: Job) -> bool {
    [numbers::JOB_RUNNING, numbers::JOB_SUSPENDED].contains(&(job.job_state() & numbers::JOB_STATE_BASE))
}

/// The jobs that run. No more of each is read than that: there are many.
pub(super) fn running_ids(host: &Host) -> impl Iterator<Item = JobId> {
    host.jobs().into_iter().filter(|job| runs(*job)).map(|job| JobId(job.job_id()))
}

/// The jobs that run, or have epilogs to come.
pub(super) fn holders(host: &Host) -> impl Iterator<Item = Job> {
    host.jobs().into_iter().filter(|job| runs(*job) || completes(*job))
}

/// Tells whether a job that has ended has an epilog to come.
fn completes(job: Job) -> bool {
    job.job_state() & numbers::JOB_COMPLETING != 0
}

/// The names of the nodes that the job may run on: of any of its partitions, and those it insists on.
pub(super) fn within_reach(host: &Host, job: Job) -> Vec<String> {
    let mut parts = host.records(job.part_ptr_list());
    if parts.is_empty() {
        parts.extend(job.part_ptr());
    }
    let nodes_of = |part: Partition| {
        let nodes = nodes::of_job(host, job, host.bits(part.node_bitmap()));
        nodes.filter_map(|node| Some((node.own_name()?, node.required)))
    };
    slurm_rules::within_reach(parts.into_iter().flat_map(nodes_of).collect())
}

/// A job that holds something.
pub(super) fn running(host: &Host, job: Job) -> Running {
    Running {
        record: address(job),
        view: view(host, job),
        allocated: allocated(host, job),
        placement: spank_env(job, PLACEMENT_ENV),
        why: spank_env(job, WHY_ENV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::records::tests::{JOB_MAGIC, NODE_MAGIC, PART_MAGIC, Zeroed};

    fn fits(job: &Zeroed) -> bool {
        is_marked(job.job())
    }

    #[test]
    fn a_record_whose_mark_is_another_is_not_trusted() {
        let mut part = Zeroed::of("part_record");
        part.put("magic", &PART_MAGIC.to_ne_bytes());
        let mut job = Zeroed::of("job_record");
        job.put("magic", &JOB_MAGIC.to_ne_bytes());
        assert!(fits(&job));
        job.put("part_ptr", &part.address().to_ne_bytes());
        assert!(fits(&job));
        part.put("magic", &JOB_MAGIC.to_ne_bytes());
        assert!(!fits(&job));
        job.put("part_ptr", &[0; 8]);
        assert!(fits(&job));
        job.put("magic", &NODE_MAGIC.to_ne_bytes());
        assert!(!fits(&job));
    }
}
