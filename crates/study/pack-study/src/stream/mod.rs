//! Jobs that come and go on a cluster of GPUs that are cut, given whole, or given in sets: one rule against another.
//!
//! # Problem
//! Given the same jobs and nodes, which rule for the node and the place there accepts more jobs, or lets them wait less?
//!
//! # Approach
//! Events in the order of time. At each, jobs that end leave, and jobs that arrive or wait are placed by the rule. Without a
//! queue, a job that finds no place at once is dropped. With one, it waits: the queue is gone through in the order of
//! submission, the first job that cannot start reserves the nodes that have room for it soonest, and a later job starts on
//! those only if it ends before.
//!
//! # Assumptions
//! Run times are known, and no place makes a job slower. What a rule gets is entered into the kernel's own node state
//! ([`node_state::Node::apply`]), which refuses whatever is illegal. Instances of jobs that ended stay idle until they are in the
//! way, under every rule.
//!
//! # Sources
//! Each published rule names its paper: [`rule`](self::rule::Rule).

mod class;
mod event;
mod grmu;
mod learnt;
mod mfi;
mod mixes;
mod moves;
mod node;
mod published;
mod queue;
mod rule;
mod run;
mod site;
mod start;
mod summary;
mod table;

pub use event::StreamEvent;
pub use mixes::{INSTANCE_MIXES, MIXES, Mix, STREAM_SITES, named_site, stream};
pub use rule::{RULES, Rule};
pub use run::simulate;
pub use site::{StreamJob, StreamNode, StreamSite};
pub use summary::StreamSummary;
pub use table::{Measure, cell, difference, measures, row, title};
