//! Past jobs again on a site's GPUs: what their waits would have been under other rules, and, in [`history`], what they did to the
//! GPUs when they ran.
//!
//! # Problem
//! Given the jobs of some months (when each was submitted, how long it ran, what it asked) and the site's nodes, find when each
//! job starts if a given policy gives out the GPUs. Two policies are compared under the same queue: Tessera's, and stock
//! Slurm's, which gives whole GPUs or instances of a fixed cut ([`stock`]).
//!
//! # Approach
//! Events in the order of time; at each the queue is gone through once, in the order of submission, as Slurm's backfill does:
//!
//! ```text
//! for job in queue:
//!     start it on the nodes that come first of those that have room for it and that it may use
//!     else, if it is among the first that cannot start: reserve the nodes that have room for it soonest
//! ```
//!
//! Which nodes come first, [`NodeChoice`] says: Slurm takes those with the fewest free CPUs, Tessera those where a job costs the
//! others least ([`placement::rank()`]). Without [`Site::hosts`] all nodes count as having as many CPUs: the fewest are free
//! where the replayed jobs have most. The site's weights are not known.
//!
//! A job may use a reserved node only if its time limit ends before the reservation begins. So nothing delays the first job that
//! waits. Each of several reservations has nodes of its own. Room on a node is [`placement::fits`], the place there [`placement::decide_with`]: the engine's own answers.
//!
//! # Assumptions
//! A job runs as long as it did, whatever it gets. Only GPUs limit what starts, and with [`Site::hosts`] CPUs and memory: limits of accounts,
//! priorities and partitions do not. Waits for better links, power budgets and planners
//! play no part.
//!
//! # Terminology
//! Times are seconds since any epoch. A *class* is the jobs that ask the same, of users between whom no share tells a difference.
#![forbid(unsafe_code)]

mod class;
pub mod earlier;
pub mod history;
mod instances;
mod node;
mod queue;
pub mod stock;

pub use instances::Instances;
pub use queue::{MOST_RESERVED, replay};

use geometry::Uid;
use node_state::{Fill, Node, Policy};
use protocol::{Grant, Request};

/// A past job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it could have started: its submission, or the end of a hold or a dependency.
    pub submit: u64,
    /// How long it ran.
    pub run_s: u64,
    /// Time limit, s; `None`: none.
    pub limit_s: Option<u64>,
    /// Nodes that it ran on, 1 or more. It asks the same on each.
    pub nodes: usize,
    /// User of the job.
    pub uid: Uid,
    /// CPUs that it has on each node; 0 if nobody knows.
    pub cpus: u64,
    /// Memory that it has on each node, MiB; 0 if nobody knows.
    pub mem_mib: u64,
    /// Request on each node; never [`protocol::Isolation::None`].
    pub request: Request,
    /// True if it used none of Tessera's options, so that it may have GPUs that the site leaves to Slurm.
    pub plain: bool,
}

/// Rule by which a job gets some of the nodes that have room for it. Nodes that are equal by it stay in the site's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChoice {
    /// Slurm's: the nodes with the fewest free CPUs.
    Slurm,
    /// Tessera's: the node where a job costs the others least, then Slurm's. Jobs with several nodes get Slurm's.
    Rank(Fill),
}

/// CPUs and memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// CPUs that jobs may have.
    pub cpus: u64,
    /// Memory that jobs may have, MiB.
    pub mem_mib: u64,
}

impl Host {
    /// As much as any job needs, for a node of which nothing is known.
    pub const BOUNDLESS: Self = Self { cpus: u64::MAX, mem_mib: u64::MAX };
}

/// The nodes, and who gives out their GPUs.
#[derive(Clone, Debug)]
pub struct Site {
    /// Without jobs.
    pub nodes: Vec<Node>,
    /// CPUs and memory of each of the nodes; none at all: they limit nothing.
    pub hosts: Vec<Host>,
    /// How a job's nodes are chosen.
    pub choice: NodeChoice,
    /// How GPUs are given out.
    pub policy: Policy,
}

/// How a job ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// When it started.
    pub start: u64,
    /// Nodes of the job, as places in [`Site::nodes`], and its grant on each.
    pub parts: Vec<(usize, Grant)>,
    /// Instances that were made, used again and unmade for it.
    pub instances: Instances,
}
