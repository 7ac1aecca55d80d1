//! Slurm's records of jobs, read as plain values.

use std::ffi::c_void;

use geometry::{JobId, Uid};
use protocol::AdminComment;
use protocol::wire::{CHANGE_ENV, PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, parse_request, request_of_change};
use site_limits::amounts::time_limit;
use slurm_numbers as numbers;
use slurm_tables::Bitmap;
use slurmctld_rt::spank_env::{BadEnv, MAX_RECORDED_ENTRIES};
use slurmctld_rt::{List, entries, item, qos_name, variable};

use super::host::{Host, name_of};
use super::records::{Details, Job, JobGres, Partition, Resources};
use super::{accounts, licenses, nodes, version};
use crate::lifecycle_hooks::Running;
use crate::memory::JobAddress;
use crate::slurm_rules::{self, PreemptMode, starts_by};
use crate::view::{Allocated, GresRequest, JobView};

/// Tells whether a job's record, its details and its partition have their marks. Nothing that a user can fill counts.
pub(super) fn is_marked(job: Job) -> bool {
    // slurmctld fills both before it tests a job.
    let (details, part) = (job.details(), job.part_ptr());
    job.is_marked() && details.is_none_or(Details::is_marked) && part.is_none_or(Partition::is_marked)
}

/// Checks that a job's SPANK environment is not larger than the job submit plugin accepts: the nodes' prologs get all of it, and
/// Slurm drains a node whose prolog cannot be started. Only a job that was submitted without that plugin has a larger one.
pub(super) fn check_env(job: Job) -> Result<(), BadEnv> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { entries(job.spank_job_env(), job.spank_job_env_size(), MAX_RECORDED_ENTRIES) }.map(drop)
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
        // SAFETY: hooks run under slurmctld's job lock.
        qos: unsafe { qos_name(job.qos_ptr()) },
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
    // SAFETY: as in `holders`.
    let records = holders(host).filter_map(|job| unsafe { Job::at(job) });
    records.filter(|job| runs(*job)).map(|job| JobId(job.job_id()))
}

/// The jobs that run, or have epilogs to come.
pub(super) fn holders(host: &Host) -> impl Iterator<Item = *mut c_void> {
    // SAFETY: elements of slurmctld's list of jobs are records of live jobs.
    let holds = |job: &*mut c_void| unsafe { Job::at(*job) }.is_some_and(|job| runs(job) || completes(job));
    host.jobs().into_iter().filter(holds)
}

/// Tells whether a job that has ended has an epilog to come.
pub(super) fn completes(job: Job) -> bool {
    job.job_state() & numbers::JOB_COMPLETING != 0
}

/// The names of the nodes that the job may run on: of any of its partitions, and those it insists on.
pub(super) fn within_reach(host: &Host, job: Job) -> Vec<String> {
    let mut parts = host.lists.of(job.part_ptr_list());
    if parts.is_empty() {
        parts.extend(job.part_ptr());
    }
    let nodes_of = |part: Partition| {
        let nodes = nodes::of_job(host, job, host.bits.of(part.node_bitmap()));
        nodes.filter_map(|node| Some((node.own_name()?, node.required)))
    };
    slurm_rules::within_reach(parts.into_iter().flat_map(nodes_of).collect())
}

/// The value of a variable in the job's SPANK environment, the last one if it stands there twice.
pub(super) fn spank_env(job: Job, name: &str) -> Option<String> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { variable(job.spank_job_env(), job.spank_job_env_size(), name) }
}

/// The request that a change has brought, if Slurm has accepted the job's last one.
pub(super) fn changed_request(job: Job) -> Option<String> {
    request_of_change(&spank_env(job, CHANGE_ENV)?, job.tres_per_node().as_deref()).map(str::to_owned)
}

/// Gives the numbers of a job and, if it is the first component of a heterogeneous one, of the others: Slurm preempts all by that record.
pub(super) fn with_components(host: &Host, job: *mut c_void) -> impl Iterator<Item = JobId> {
    // SAFETY: null or the record of a live job.
    let id = |job| unsafe { Job::at(job) }.map(Job::job_id);
    let first = id(job);
    // SAFETY: slurmctld.h: finds a job under the job lock; null: there is none.
    let component = move |place| Some(unsafe { (host.find_component)(first?, place) });
    let others = (1..).map_while(move |place| id(component(place)?));
    first.into_iter().chain(others).map(JobId)
}

/// Finds the jobs of a list that preemption ends, in its order. Each component of a heterogeneous job has the record of the first one.
pub(super) fn victims(host: &Host, list: *mut List) -> Vec<(JobId, *mut c_void)> {
    // SAFETY: select.h: null or a live list of job records.
    let jobs = unsafe { host.lists.elements::<c_void>(list) };
    let mode = |job: *mut c_void| {
        // SAFETY: preempt.h: asks for the mode of a live job, under slurmctld's job lock.
        match unsafe { (host.preempt_mode)(job) } {
            numbers::PREEMPT_MODE_REQUEUE => PreemptMode::Requeue,
            numbers::PREEMPT_MODE_CANCEL => PreemptMode::Cancel,
            _ => PreemptMode::Other,
        }
    };
    jobs.into_iter()
        .filter(|job| mode(*job).ends_the_job())
        .flat_map(|job| with_components(host, job).map(move |id| (id, job)))
        .collect()
}

/// The places of the nodes of a job that has resources.
pub(super) fn nodes_of(host: &Host, job: Job) -> Vec<usize> {
    // Slurm keeps them until the job's epilog is over.
    let bits = job.job_resrcs().map_or(Bitmap::NONE, Resources::node_bitmap);
    nodes::set(host, host.bits.of(bits))
}

/// Reads the devices that Slurm has allocated to a running job, per node: whole devices, and shards with their devices.
fn allocated(host: &Host, job: Job) -> Vec<Allocated> {
    let name = |index| host.node(index).and_then(name_of);
    let nodes: Vec<String> = nodes_of(host, job).into_iter().filter_map(name).collect();
    let mut found = Vec::new();
    for (kind, state) in accounts::states::<JobGres>(host, job.gres_list_alloc()) {
        for (i, node) in nodes.iter().enumerate().take(state.node_cnt() as usize) {
            let gpus = accounts::gpus_at(host, state.gres_bit_alloc(), i);
            // SAFETY: the `_alloc` arrays have `node_cnt` elements, or are null.
            let amount = unsafe { item(state.gres_cnt_node_alloc(), i) }.unwrap_or(0);
            found.push(Allocated { node: node.clone(), kind, gpus, amount });
        }
    }
    found.retain(|allocated| !allocated.gpus.is_empty());
    found
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

    #[test]
    fn nothing_that_a_user_can_fill_makes_the_structs_misfit() {
        let mut job = Zeroed::of("job_record");
        job.put("magic", &JOB_MAGIC.to_ne_bytes());
        for entries in [0, 1 << 16, u32::MAX] {
            job.put("spank_job_env_size", &entries.to_ne_bytes());
            assert!(fits(&job));
            assert_eq!(spank_env(job.job(), "TESSERA_REQUEST"), None);
            assert_eq!(check_env(job.job()).is_ok(), entries == 0);
        }
    }
}
