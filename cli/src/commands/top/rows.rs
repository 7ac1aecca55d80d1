//! The rows of both panes: what the filter leaves, in the chosen order.

use std::cmp::Reverse;

use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen};
use crate::filter::Filter;
use crate::node_groups::{Group, MOST_SINGLE, fold};
use crate::slurm::squeue::QueuedJob;

/// The order of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeSort {
    /// As tessera.toml has them; groups by what is free.
    Site,
    Free,
    Name,
}

/// The order of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobSort {
    /// Waiting jobs by priority, then running ones.
    Queue,
    User,
    /// The longest in its state first.
    Time,
}

/// Rows that a person wants to see, and their order.
pub(super) struct Shown<'a> {
    pub(super) filter: &'a Filter,
    /// `None`: groups if there are many nodes.
    pub(super) grouped: Option<bool>,
    pub(super) node_sort: NodeSort,
    pub(super) job_sort: JobSort,
}

/// A row of nodes.
pub(super) enum NodeRow<'a> {
    One(&'a NodeSeen),
    Group(Group<'a>),
}

impl NodeRow<'_> {
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::One(node) => vec![node.name.clone()],
            Self::Group(group) => group.nodes.iter().map(|node| node.name.clone()).collect(),
        }
    }
}

pub(super) struct Rows<'a> {
    pub(super) nodes: Vec<NodeRow<'a>>,
    /// True if the nodes are in groups.
    pub(super) grouped: bool,
    pub(super) jobs: Vec<&'a QueuedJob>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(shown: &Shown<'_>, seen: Option<&'a ClusterSnapshot>) -> Self {
        let Some(seen) = seen else { return Self { nodes: Vec::new(), grouped: false, jobs: Vec::new() } };
        let mut nodes = shown.filter.nodes(seen);
        let grouped = shown.grouped.unwrap_or(nodes.len() > MOST_SINGLE);
        match shown.node_sort {
            NodeSort::Site => {}
            NodeSort::Free => {
                nodes.sort_by_key(|node| (node.in_use().is_away(), Reverse(node.slices().free)))
            }
            NodeSort::Name => nodes.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        let nodes = if grouped {
            let mut groups = fold(&nodes);
            match shown.node_sort {
                NodeSort::Site => {}
                NodeSort::Free => {
                    groups.sort_by_key(|group| (group.in_use.is_away(), Reverse(group.slices.free)))
                }
                NodeSort::Name => groups.sort_by(|a, b| a.nodes[0].name.cmp(&b.nodes[0].name)),
            }
            groups.into_iter().map(NodeRow::Group).collect()
        } else {
            nodes.into_iter().map(NodeRow::One).collect()
        };
        Self { nodes, grouped, jobs: jobs(shown, seen) }
    }
}

/// The jobs that have not ended.
fn jobs<'a>(shown: &Shown<'_>, seen: &'a ClusterSnapshot) -> Vec<&'a QueuedJob> {
    let mut jobs: Vec<&QueuedJob> =
        seen.jobs.iter().filter(|job| !job.ended() && shown.filter.job(job)).collect();
    let since = |job: &QueuedJob| job.start.filter(|_| !job.waits()).or(job.submit).unwrap_or(u64::MAX);
    match shown.job_sort {
        JobSort::Queue => jobs.sort_by_key(|job| {
            let waits = job.waits();
            (!waits, Reverse(if waits { job.priority } else { 0 }), job.id)
        }),
        JobSort::User => jobs.sort_by(|a, b| (&a.user, a.id).cmp(&(&b.user, b.id))),
        JobSort::Time => jobs.sort_by_key(|job| (since(job), job.id)),
    }
    jobs
}
