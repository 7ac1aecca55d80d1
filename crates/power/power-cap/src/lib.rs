//! Which power cap for an application that has its GPU alone: what slurmctld decides itself.
//!
//! Given the application's hardware counters and a fairness α, find the power cap with the highest performance per watt under
//! which it keeps more than α of its performance (Problem 2). [`power`] has the words and the source.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod alone;
mod monotone;

pub use alone::{Alone, AloneError, choose_alone};
pub use monotone::never_falling;
