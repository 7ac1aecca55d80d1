//! Cores and memory of jobs and nodes.

use placement::{HostResources, Needs};

use super::jobs;
use crate::ffi::host::Host;
use crate::ffi::records::Job;
use crate::slurm_rules;

/// The cores that a job has on a node, or that a test means to give it there, numbered within the node.
pub(super) fn cores_of_job(host: &Host, job: Job, node: usize) -> Vec<usize> {
    let Some(resources) = job.job_resrcs() else { return Vec::new() };
    let cores_of = |i: usize| host.node(i).map_or(0, |node| usize::from(node.tot_cores()));
    let nodes = host.bits(resources.node_bitmap());
    // The cores of the job's nodes, one after another.
    let cores = host.bits(resources.core_bitmap());
    let before: usize = nodes.below(node).into_iter().map(cores_of).sum();
    (0..cores_of(node)).filter(|core| cores.test(before + core)).collect()
}

/// CPUs that a job has on each of the nodes that are `wanted`, by the node's place in the node table.
pub(super) fn cpus_of_job(host: &Host, job: Job, wanted: impl Fn(usize) -> bool) -> Vec<(usize, u32)> {
    let Some(resources) = job.job_resrcs() else { return Vec::new() };
    let all = host.bits(resources.core_bitmap());
    let (mut before, mut has) = (0, Vec::new());
    for node in host.bits(resources.node_bitmap()).below(host.node_count()) {
        let cores = host.node(node).map_or(0, |record| usize::from(record.tot_cores()));
        if wanted(node) {
            let taken = (before..before + cores).filter(|core| all.test(*core)).count();
            has.push((node, slurm_rules::cpus(cpus_of_node(host, node), cores, taken)));
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
    let Some(resources) = job.job_resrcs() else { return HostResources::default() };
    let nodes = host.bits(resources.node_bitmap());
    if !nodes.test(node) {
        return HostResources::default();
    }
    let place = nodes.below(node).len();
    let memory_mib = resources.memory_at(place);
    HostResources { cores: cores_of_job(host, job, node).len() as u64, memory_mib }
}

/// Cores and memory that the job lacks on each of these nodes: more than running jobs leave.
pub(super) fn lacking(host: &Host, job: Job, nodes: &[usize]) -> Vec<HostResources> {
    let needs = |node: &usize| Needs { empty: of_node(host, *node), needed: of_job(host, job, *node) };
    let needs: Vec<Needs> = nodes.iter().map(needs).collect();
    let running = host.jobs().into_iter().filter(|job| jobs::runs(*job));
    placement::lacking(&needs, running, |job, at| of_job(host, *job, nodes[at]))
}

/// Cores and memory that an empty node has for jobs.
fn of_node(host: &Host, node: usize) -> HostResources {
    host.node(node).map_or(HostResources::default(), |record| HostResources {
        cores: u64::from(record.tot_cores()),
        memory_mib: record.real_memory().saturating_sub(record.mem_spec_limit()),
    })
}
