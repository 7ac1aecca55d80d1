//! Reads of a job by pointers, and of jobs by slurmctld's functions. The rest: `live::jobs`.

use std::ffi::c_void;

use geometry::JobId;
use protocol::wire::{CHANGE_ENV, request_of_change};
use slurm_numbers as numbers;
use slurm_tables::Bitmap;
use slurmctld_rt::spank_env::{BadEnv, MAX_RECORDED_ENTRIES};
use slurmctld_rt::{List, entries, item, qos_name, variable};

use super::accounts;
use super::host::{Host, name_of};
use super::records::{Job, JobGres, Resources};
use crate::slurm_rules::PreemptMode;
use crate::view::Allocated;

/// Checks that a job's SPANK environment is not larger than the job submit plugin accepts: the nodes' prologs get all of it, and
/// Slurm drains a node whose prolog cannot be started. Only a job that was submitted without that plugin has a larger one.
pub(crate) fn check_env(job: Job) -> Result<(), BadEnv> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { entries(job.spank_job_env(), job.spank_job_env_size(), MAX_RECORDED_ENTRIES) }.map(drop)
}

/// The value of a variable in the job's SPANK environment, the last one if it stands there twice.
pub(crate) fn spank_env(job: Job, name: &str) -> Option<String> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { variable(job.spank_job_env(), job.spank_job_env_size(), name) }
}

/// The request that a change has brought, if Slurm has accepted the job's last one.
pub(crate) fn changed_request(job: Job) -> Option<String> {
    request_of_change(&spank_env(job, CHANGE_ENV)?, job.tres_per_node().as_deref()).map(str::to_owned)
}

/// The name of the job's QOS.
pub(crate) fn qos(job: Job) -> Option<String> {
    // SAFETY: hooks run under slurmctld's job lock.
    unsafe { qos_name(job.qos_ptr()) }
}

/// Gives the numbers of a job and, if it is the first component of a heterogeneous one, of the others: Slurm preempts all by that record.
pub(crate) fn with_components(host: &Host, job: Job) -> impl Iterator<Item = JobId> {
    let first = job.job_id();
    let component = move |place| {
        // SAFETY: slurmctld.h: finds a job under the job lock.
        let found = unsafe { (host.find_component)(first, place) };
        // SAFETY: null, or the record of a live job.
        unsafe { Job::at(found) }.map(Job::job_id)
    };
    std::iter::once(first).chain((1..).map_while(component)).map(JobId)
}

/// Finds the jobs of a list that preemption ends, in its order. Each component of a heterogeneous job has the record of the first one.
pub(crate) fn victims(host: &Host, list: *mut List) -> Vec<(JobId, *mut c_void)> {
    let ends = |job: &Job| {
        // SAFETY: preempt.h: asks for the mode of a live job, under slurmctld's job lock.
        let mode = match unsafe { (host.preempt_mode)(job.address()) } {
            numbers::PREEMPT_MODE_REQUEUE => PreemptMode::Requeue,
            numbers::PREEMPT_MODE_CANCEL => PreemptMode::Cancel,
            _ => PreemptMode::Other,
        };
        mode.ends_the_job()
    };
    let jobs = host.listed(list).into_iter().filter(ends);
    jobs.flat_map(|job| with_components(host, job).map(move |id| (id, job.address()))).collect()
}

/// The places of the nodes of a job that has resources.
pub(crate) fn nodes_of(host: &Host, job: Job) -> Vec<usize> {
    // Slurm keeps them until the job's epilog is over.
    let bits = job.job_resrcs().map_or(Bitmap::NONE, Resources::node_bitmap);
    host.bits(bits).below(host.node_count())
}

/// Reads the devices that Slurm has allocated to a running job, per node: whole devices, and shards with their devices.
pub(crate) fn allocated(host: &Host, job: Job) -> Vec<Allocated> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::records::tests::{JOB_MAGIC, Zeroed};

    #[test]
    fn no_environment_is_read_that_the_job_does_not_have() {
        let mut job = Zeroed::of("job_record");
        job.put("magic", &JOB_MAGIC.to_ne_bytes());
        for entries in [0, 1 << 16, u32::MAX] {
            job.put("spank_job_env_size", &entries.to_ne_bytes());
            assert!(job.job().is_marked());
            assert_eq!(spank_env(job.job(), "TESSERA_REQUEST"), None);
            assert_eq!(check_env(job.job()).is_ok(), entries == 0);
        }
    }
}
