//! Learning in slurmctld for the order of nodes: the requests that arrive, and the CPUs that running jobs leave on each node.
//!
//! Both are rebuilt from pending and running jobs after a restart. Counts of jobs that ended before it are lost.

mod cpus;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use cluster_rank::{Extent, Models, NodeView, Outlook, Shape, Taken, free_milli, part_milli};
use decision_counts::decisions::Cached;
use geometry::{JobId, Model};
use node_state::Node;
use protocol::Isolation;
use site_config::SiteConfig;

use crate::engine::Takes;
use crate::view::JobView;
use cpus::Cpus;

/// Most GPUs of a node: a set of GPUs is one word.
const MOST_GPUS: usize = 64;
/// Stands for the partition of a job that has been counted.
const COUNTED: usize = usize::MAX;
/// Stands for the model of nodes that there are none of: requests that are served by instances alone.
const INSTANCES: u8 = 63;

/// Requests and CPUs; see the module.
pub(crate) struct Learnt {
    outlook: Outlook,
    /// Jobs that have been met and may be tested again, with the addresses of the partitions in which they were: [`COUNTED`] for one
    /// that has been counted.
    met: HashSet<(JobId, usize)>,
    /// Model by which the size of a share is learnt: that of the most GPUs.
    usual: Option<&'static Model>,
    pub(crate) cpus: Cpus,
}

impl Learnt {
    /// Most jobs that are known, once for each of their partitions and once when they are counted. All are forgotten when
    /// there would be more, and pending ones count once more.
    const MOST_MET: usize = 131_072;

    /// Begins with nothing. `cpus` has the places in the node table of the site's nodes, with their CPUs.
    pub(crate) fn new(site: &SiteConfig, cpus: &[(usize, u32)]) -> Self {
        let gpus = site.nodes.iter().map(|set| set.gpus.len()).max().unwrap_or(0);
        let most = cpus.iter().map(|(_, cpus)| *cpus).max().unwrap_or(0);
        let largest =
            Extent { gpus: u8::try_from(gpus).unwrap_or(u8::MAX), cores_milli: most.saturating_mul(1000) };
        let (outlook, met) = (Outlook::new(largest), HashSet::new());
        Self { outlook, met, usual: usual_model(site), cpus: Cpus::new(cpus) }
    }

    /// Takes one step in what takes time, and tells whether a job is met for the first time on nodes of the site: `on` says which
    /// nodes the partition of its test has.
    pub(crate) fn meets(&mut self, job: JobId, partition: usize, on: impl Fn(usize) -> bool) -> bool {
        self.outlook.work();
        if self.met.len() >= Self::MOST_MET {
            self.met.clear();
        }
        // Of each partition once: many have none of the site's nodes, and to look for one takes a step for each.
        self.met.insert((job, partition)) && self.cpus.nodes().any(on) && self.met.insert((job, COUNTED))
    }

    /// Tells how many jobs have been met, and how many may be known.
    pub(crate) fn kept(&self) -> (Cached, [usize; 2]) {
        (Cached::Jobs, [self.met.len(), Self::MOST_MET])
    }

    /// Counts a job that is met for the first time, at nodes of the site.
    pub(crate) fn arrived(&mut self, view: &JobView) {
        if let Some(shape) = self.shape(view) {
            self.outlook.arrived(account(view), shape);
        }
    }

    /// Ends what is done before the first test: all running jobs have been counted.
    pub(crate) fn rebuilt(&mut self) {
        self.outlook.finish();
    }

    /// The job's request on one of its nodes; `None`: a mixture, or a request without a size.
    fn shape(&self, view: &JobView) -> Option<Shape> {
        let cores_milli = view.cpus.saturating_mul(1000);
        let of = |gpus: u8, milli: u16, models| Some(Shape { cores_milli, gpus, milli, models });
        if view.gres.is_empty() {
            return of(0, 0, Models::ANY);
        }
        let request = view.want()?.request;
        let part = || request.mem_mib.zip(self.usual).map(|(mem, model)| part_milli(mem, model));
        match request.isolation {
            Isolation::Whole => match u8::try_from(request.gpus.unwrap_or(1)).ok()? {
                0 => None,
                gpus => of(gpus, 1000, Models::ANY),
            },
            Isolation::Mps | Isolation::Auto => of(1, part()?, Models::ANY),
            // Their part of a GPU counts where cores are weighed, and fills nothing that shares leave.
            Isolation::Mig(_) | Isolation::Tasks { .. } => {
                of(1, part().unwrap_or(500), Models::NONE.with(INSTANCES))
            }
            Isolation::None => None,
        }
    }

    /// Returns what is expected to stay unused of a node because of a job's choice there, millionths of a GPU; 0 while nothing is
    /// learnt, and for instances and GPU tasks. `None`: the node has no room for the job's CPUs now.
    pub(crate) fn expected(&self, index: usize, node: &Node, takes: Takes, cpus: u32) -> Option<i64> {
        let (Some(tables), Some(free)) = (self.outlook.tables(), self.cpus.free(index)) else {
            return Some(0);
        };
        let of =
            |gpus, milli| Shape { cores_milli: cpus.saturating_mul(1000), gpus, milli, models: Models::ANY };
        let (shape, taken) = match takes {
            Takes::Whole(gpus) => (of(u8::try_from(gpus).unwrap_or(u8::MAX), 1000), Taken::Idle),
            Takes::Share(gpu, mem) => (of(1, part_milli(mem, node.gpus.get(gpu)?.model)), Taken::PartOf(gpu)),
            Takes::Else => return Some(0),
        };
        let mut left = [0; MOST_GPUS];
        left.iter_mut().zip(&node.gpus).for_each(|(left, gpu)| *left = free_milli(gpu));
        let free_milli = left.get(..node.gpus.len()).unwrap_or(&left);
        let view = NodeView { free_milli, cores_milli: free.saturating_mul(1000), model: 0 };
        tables.costs(&view, &shape)?(taken)
    }
}

/// The model of the most GPUs of a site, the first among equals.
fn usual_model(site: &SiteConfig) -> Option<&'static Model> {
    let mut counts: Vec<(&'static Model, usize)> = Vec::new();
    for set in &site.nodes {
        for model in &set.gpus {
            match counts.iter_mut().find(|(known, _)| known.key == model.key) {
                Some((_, count)) => *count += set.names.len(),
                None => counts.push((model, set.names.len())),
            }
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map(|(model, _)| *model)
}

/// A number for the job's account, or for its user where it has none.
fn account(view: &JobView) -> u32 {
    let mut hasher = DefaultHasher::new();
    match &view.account {
        Some(account) => account.hash(&mut hasher),
        None => view.uid.0.hash(&mut hasher),
    }
    u32::try_from(hasher.finish() >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests;
