//! Jobs that ask the same, so that each node is asked once for all of them.

use std::collections::HashMap;

use geometry::{JobId, Uid};
use node_state::{Ask, Spread};
use protocol::wire::encode_request;
use protocol::{Isolation, Request};

use crate::{Host, Job};

/// The classes of some jobs.
pub(crate) struct Classes {
    /// Request of the jobs of each class; the job's number is to be filled in.
    pub(crate) asks: Vec<Ask>,
    /// Use of a node's CPUs and memory by the jobs of each class, if these limit anything.
    pub(crate) needs: Vec<Host>,
    /// The class of each job.
    pub(crate) of: Vec<usize>,
}

impl Classes {
    /// `by_host`: CPUs and memory limit what starts.
    pub(crate) fn new(jobs: &[Job], by_host: bool) -> Self {
        let (mut asks, mut needs, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        let of = jobs.iter().map(|job| {
            let uid = if may_share(&job.request) { job.uid } else { Uid(0) };
            let (cpus, mem_mib) = if by_host { (job.cpus, job.mem_mib) } else { (0, 0) };
            let request = encode_request(&job.request);
            *known.entry((request, uid, job.plain, cpus, mem_mib)).or_insert_with(|| {
                asks.push(ask(job, uid));
                needs.push(Host { cpus, mem_mib });
                asks.len() - 1
            })
        });
        let of = of.collect();
        Self { asks, needs, of }
    }

    /// Returns the request of this job, as the job `id`.
    pub(crate) fn ask(&self, job: usize, id: JobId) -> Ask {
        Ask { job: id, ..self.asks[self.of[job]].clone() }
    }
}

/// Slurm 22.05 gives all of a job's shards on a node alike on its GPUs; the controller asks the same way.
fn ask(job: &Job, uid: Uid) -> Ask {
    Ask { spread: Spread::ALIKE, plain: job.plain, ..Ask::new(JobId(0), uid, job.request.clone()) }
}

/// True if the job may be beside others of its user, and not of others'.
fn may_share(request: &Request) -> bool {
    match &request.isolation {
        Isolation::Auto | Isolation::Mps | Isolation::Tasks { .. } => true,
        Isolation::Mig(_) => request.compute_name().is_some(),
        Isolation::Whole | Isolation::None => false,
    }
}
