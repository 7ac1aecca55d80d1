//! Cores and memory of jobs and nodes.

use placement::{HostResources, Needs};
use slurmctld_rt::item;

use super::host::Host;
use super::jobs;
use super::records::{Job, Resources};
use crate::slurm_rules;

/// The cores that a job has on a node, or that a test means to give it there, numbered within the node.
pub(super) fn cores_of_job(host: &Host, job: Job, node: usize) -> Vec<usize> {
    // SAFETY: null or the live resources of a live job, or of the job that was just tested.
    let Some(resources) = (unsafe { Resources::at(job.job_resrcs()) }) else { return Vec::new() };
    let cores_of = |i: usize| host.node(i).map_or(0, |node| usize::from(node.tot_cores()));
    // SAFETY: a bitmap over the node table.
    let before: usize =
        unsafe { host.bits.at(resources.node_bitmap()) }.below(node).into_iter().map(cores_of).sum();
    let set = |core: &usize| {
        // SAFETY: src/common/job_resources.h: the cores of the job's nodes one after another.
        unsafe { host.bits.at(resources.core_bitmap()) }.test(before + core)
    };
    (0..cores_of(node)).filter(set).collect()
}

/// CPUs that a job has on each of the nodes that are `wanted`, by the node's place in the node table.
pub(super) fn cpus_of_job(host: &Host, job: Job, wanted: impl Fn(usize) -> bool) -> Vec<(usize, u32)> {
    // SAFETY: null or the live resources of a live job.
    let Some(resources) = (unsafe { Resources::at(job.job_resrcs()) }) else { return Vec::new() };
    // SAFETY: a bitmap over the node table.
    let nodes = unsafe { host.bits.at(resources.node_bitmap()) }.below(host.node_count());
    let mut before = 0;
    let mut has = Vec::new();
    for node in nodes {
        let cores = host.node(node).map_or(0, |record| usize::from(record.tot_cores()));
        if wanted(node) {
            // SAFETY: src/common/job_resources.h: the cores of the job's nodes one after another.
            let set = |core: &usize| unsafe { host.bits.at(resources.core_bitmap()) }.test(before + core);
            has.push((
                node,
                slurm_rules::cpus(cpus_of_node(host, node), cores, (0..cores).filter(set).count()),
            ));
        }
        before += cores;
    }
    has
}

pub(super) fn cpus_of_node(host: &Host, node: usize) -> u32 {
    host.node(node).map_or(0, |record| u32::from(record.cpus()))
}

/// Cores and memory that a job has on a node, or that a test means to give it there.
pub(super) fn of_job(host: &Host, job: Job, node: usize) -> HostResources {
    // SAFETY: null or the live resources of a live job.
    let Some(resources) = (unsafe { Resources::at(job.job_resrcs()) }) else {
        return HostResources::default();
    };
    // SAFETY: a bitmap over the node table, or null.
    if !unsafe { host.bits.at(resources.node_bitmap()) }.test(node) {
        return HostResources::default();
    }
    // SAFETY: as above.
    let place = unsafe { host.bits.at(resources.node_bitmap()) }.below(node).len();
    // SAFETY: src/common/job_resources.h: an element for each of the job's nodes, or null.
    let memory_mib = unsafe { item(resources.memory_allocated(), place) }.unwrap_or(0);
    HostResources { cores: cores_of_job(host, job, node).len() as u64, memory_mib }
}

/// Cores and memory that the job lacks on each of these nodes: more than running jobs leave.
pub(super) fn lacking(host: &Host, job: Job, nodes: &[usize]) -> Vec<HostResources> {
    let needs = |node: &usize| Needs { empty: of_node(host, *node), needed: of_job(host, job, *node) };
    let needs: Vec<Needs> = nodes.iter().map(needs).collect();
    let running = host.jobs().into_iter().filter_map(|job| {
        // SAFETY: an element of slurmctld's list of jobs, under its job lock.
        unsafe { Job::at(job) }.filter(|job| jobs::runs(*job))
    });
    placement::lacking(&needs, running, |job, at| of_job(host, *job, nodes[at]))
}

/// Cores and memory that an empty node has for jobs.
fn of_node(host: &Host, node: usize) -> HostResources {
    host.node(node).map_or(HostResources::default(), |record| HostResources {
        cores: u64::from(record.tot_cores()),
        memory_mib: record.real_memory().saturating_sub(record.mem_spec_limit()),
    })
}
