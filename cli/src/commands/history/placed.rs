//! Finds what the jobs of the accounting had, on the nodes of the configuration.

use std::collections::HashMap;

use geometry::GpuIndex;
use node_state::Node;
use protocol::wire::parse_grant;
use replay::history::Placed;
use site_config::SiteConfig;

use crate::site;
use crate::slurm::sacct::jobs::Accounted;

/// Placements, and the jobs without one.
pub(super) struct Past {
    pub(super) nodes: Vec<Node>,
    pub(super) placed: Vec<Placed>,
    /// The place of each job of `placed` among those of the accounting.
    pub(super) jobs: Vec<usize>,
    /// Jobs with GPUs that ended without a start, as places.
    pub(super) never_started: Vec<usize>,
    /// Jobs with GPUs that started, and nobody knows with which.
    pub(super) unnamed: usize,
}

impl Past {
    /// True if any job has GPUs.
    pub(super) fn known(&self) -> bool {
        !self.placed.is_empty() || !self.never_started.is_empty() || self.unnamed > 0
    }
}

pub(super) fn of(jobs: &[Accounted], config: &SiteConfig) -> Past {
    let (names, nodes): (Vec<&str>, Vec<Node>) = site::nodes(config).unzip();
    let names: HashMap<&str, usize> = names.into_iter().zip(0..).collect();
    let mut past =
        Past { nodes, placed: Vec::new(), jobs: Vec::new(), never_started: Vec::new(), unnamed: 0 };
    for (at, job) in jobs.iter().enumerate() {
        match (job.start, job.has_gpus()) {
            (_, false) => {}
            (None, true) if job.is_over() => past.never_started.push(at),
            (None, true) => {}
            (Some(_), true) if was_pending(job) => past.never_started.push(at),
            (Some(start), true) => match parts(job, &names, &past.nodes) {
                Some(parts) => {
                    let end = job.is_over().then(|| start.saturating_add(job.ran_s));
                    past.placed.push(Placed { start, end, parts });
                    past.jobs.push(at);
                }
                None => past.unnamed += 1,
            },
        }
    }
    past
}

/// True if the job was cancelled before it had anything: slurmctld then writes that it started when it was cancelled.
fn was_pending(job: &Accounted) -> bool {
    job.state == "CANCELLED" && job.ran_s == 0 && job.comment.started().is_none()
}

/// Node and grant of each part; `None` if there is none, or one that the configuration does not explain.
fn parts(
    job: &Accounted,
    names: &HashMap<&str, usize>,
    nodes: &[Node],
) -> Option<Vec<(usize, protocol::Grant)>> {
    let part = |(name, grant): (&str, &str)| {
        let at = *names.get(name)?;
        let model = |gpu: GpuIndex| nodes[at].gpus.get(usize::from(gpu.0)).map(|gpu| gpu.model);
        Some((at, parse_grant(grant, &model).ok()?.grant))
    };
    job.comment.started()?.parts().map(part).collect()
}
