//! Jobs against a scheduler, event by event.
//!
//! # Model
//!
//! A job takes turns between the host and the device. A host phase takes the time it says. A GPU phase is one task: begun
//! at its start, freed at its end, and it makes progress from its grant on. Nothing else takes time.
//!
//! A GPU phase has a *demand*: the part of its time in which its kernels would hold the device if it were alone. Each task
//! is slowed by the demand of those beside it: `k` tasks of demand `d` each run at a speed of `1 / (1 + (k - 1) d)`. Alone, a
//! task takes exactly its seconds, and never less. Two tasks of demand 1 share the device fairly; tasks of demand 0 do not
//! notice each other.
//!
//! Everything is deterministic: at one time, jobs are handled in their order.

mod engine;
mod job;
mod meter;
mod summary;

pub use engine::{Setup, Stuck, simulate};
pub use job::{Job, JobError, Phase};
pub use summary::{JobTimes, Outcome, Summary, Versus};
