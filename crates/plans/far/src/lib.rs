//! Planning a batch of moldable tasks on GPUs that repartition.
//!
//! Times are whole microseconds from the plan's beginning; sizes are compute slices.
//!
//! # Problem
//!
//! Each task has a running time per instance size. Each gets an instance and a begin, so that the last task ends early
//! (makespan). Instances are at the model's placements and never overlap. An instance is created before its tasks and
//! destroyed after them, and creations and destructions happen one at a time. [`replay`](replay()) checks exactly that.
//!
//! # Approach
//!
//! If reconfiguration took no time, some best schedule would run all tasks of one place together, and a place before the
//! places below it: between two tasks of a place, the places below work independently, so their work can move behind
//! both. What remains is which task goes to which place of the [`Tree`]. An assignment takes as long as its longest chain
//! of places that contain one another. Reconfiguration times then decide the order of creations and destructions
//! (`timing`).
//!
//! - [`far()`]: the paper's algorithm. Sizes come from Turek's family, places from list scheduling, then moves and swaps
//!   refine them.
//! - [`best()`]: the default. It tries every promising member of the family, searches locally over assignments, and proves
//!   a bound for small batches on empty GPUs.
//! - [`miso`], [`fix_part`], [`fix_part_best`]: the strategies that the paper compares with.
//! - [`plan()`]: any of them by [`Policy`]. [`Problem::then`] is the state after a plan, for the next batch.
//! - [`Present`]: plans over the GPUs of a running cluster as they are now, named by node.
//!
//! # Limits
//!
//! The default policy counts its work in steps, never in time, so an answer does not depend on the machine. The part of
//! the work that [`best()`] does with any budget grows with the batch. A plan creates an instance at each place at most
//! once.
//!
//! Source: Villarrubia, Costero, Igual and Olcoz, "Leveraging Multi-Instance GPUs through moldable task scheduling",
//! Journal of Parallel and Distributed Computing 204 (2025) 105128.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod area_bound;
mod batches;
mod chain_length;
mod default_policy;
mod exact_search;
mod family;
mod fixed_partitions;
mod list_scheduling;
mod local_search;
mod op_order;
mod paper;
mod policy;
pub mod present;
pub mod problem;
mod refine;
pub mod replay;
pub mod schedule;
mod steps;
mod table;
mod task_lists;
mod timing;
pub mod tree;

pub use batches::joined;
pub use default_policy::{Plan, STEPS_PER_MS, best};
pub use fixed_partitions::{Fixed, fix_part, fix_part_best, miso};
pub use paper::{Far, Overlap, far, far_wide};
pub use policy::{Answer, Policy, PolicyError, UnknownPolicy, plan};
pub use present::{
    After, Present, PresentError, PresentGpu, PresentInstance, PresentOp, PresentPlace, PresentPlan,
    PresentRun,
};
pub use problem::{
    Blocked, Busy, Costs, GpuNow, Held, MAX_COST, MAX_TASKS, MAX_TIME, MAX_TOTAL, Micros, Problem,
    ProblemError, Task,
};
pub use refine::Operations;
pub use replay::{Replay, Violation, replay};
pub use schedule::{Op, OpKind, Run, Schedule};
pub use tree::{Tree, TreeError, TreeNode};
