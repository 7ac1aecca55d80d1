//! Planning a batch of moldable tasks on GPUs that repartition.
//!
//! Times are whole microseconds from the plan's beginning; sizes are compute slices.
//!
//! # Problem
//!
//! Each task has a running time per instance size. Give each an instance and a begin so that the last end (makespan) is
//! early: instances at the model's placements, none overlapping while they exist, each created before and destroyed
//! after its tasks, one creation or destruction at a time ([`replay`](replay()) checks exactly that).
//!
//! # Approach
//!
//! Without reconfiguration times, some best schedule runs all tasks of one place together, and a place before the places
//! below it: between two tasks of a place, the places below work independently, so their work can be moved behind. What
//! remains is which task goes to which place of the [`Tree`]; the length of an assignment is its longest chain of places
//! that contain one another. Reconfiguration times then decide the order of creations and destructions (`timing`).
//!
//! - [`far()`]: the paper's algorithm: sizes by Turek's family, places by list scheduling, moves and swaps.
//! - [`best()`]: the default: every promising member of the family, local search over assignments, and for small batches
//!   on empty GPUs a search that proves a bound.
//! - [`miso`], [`fix_part`], [`fix_part_best`]: what the paper compares with.
//! - [`plan()`]: any of them by [`Policy`]; [`Problem::then`]: the state after a plan, for the next batch.
//! - [`Present`]: plans over GPUs as they are now, named by node, for whoever plans jobs of a running cluster.
//!
//! # Limits
//!
//! The default policy's work is counted in steps, never in time, so an answer does not depend on the machine; what [`best()`]
//! must do whatever its budget grows with the batch. An instance is created at most once per place and plan.
//!
//! Source: Villarrubia, Costero, Igual and Olcoz, "Leveraging Multi-Instance GPUs through moldable task scheduling",
//! Journal of Parallel and Distributed Computing 204 (2025) 105128.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod best;
mod bound;
mod chain;
mod classic;
mod concat;
mod exact;
mod family;
mod fixed;
mod list;
mod lists;
mod local;
mod order;
mod policy;
pub mod present;
pub mod problem;
mod refine;
pub mod replay;
pub mod schedule;
mod table;
mod timing;
pub mod tree;

pub use best::{Plan, STEPS_PER_MS, best};
pub use classic::{Far, Overlap, far};
pub use concat::joined;
pub use fixed::{Fixed, fix_part, fix_part_best, miso};
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
