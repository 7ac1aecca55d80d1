//! Planning a batch of moldable tasks on GPUs that repartition: FAR.

mod best;
mod bound;
mod chain;
mod classic;
mod concat;
mod exact;
mod family;
mod fixed;
mod list;
mod local;
pub mod problem;
mod refine;
pub mod replay;
pub mod schedule;
mod table;
mod timing;
pub mod tree;

pub use best::{Plan, STEPS_PER_MS, best};
pub use classic::{Far, far};
pub use concat::joined;
pub use fixed::{Fixed, fix_part, fix_part_best, miso};
pub use problem::{Blocked, Busy, Costs, GpuNow, Held, MAX_TIME, Micros, Problem, ProblemError, Task};
pub use refine::Operations;
pub use replay::{Replay, Violation, replay};
pub use schedule::{Op, OpKind, Run, Schedule};
pub use tree::{Tree, TreeError, TreeNode};
