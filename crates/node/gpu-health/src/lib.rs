//! Decides which GPUs of a node are unhealthy, from what the driver and the kernel's log show, and remembers it.
//!
//! - [`Rules`] has the treatment of each event: Tessera's table, changed by the site's `[[health]]`.
//! - [`HealthRecord`] is what the node remembers; [`HealthRecord::look`] takes in what was seen.
//! - [`xids`] reads the driver's errors from the kernel's log.
//!
//! There is no I/O and no clock here: `tessera node health` looks and carries out.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod kernel_log;
mod known_gpu;
mod record;
mod rules;

pub use kernel_log::{BusId, KernelXid, bus_id, xids};
pub use known_gpu::{Change, Finding, KnownGpu, Reading};
pub use record::{HealthRecord, Look, Seen};
pub use rules::{Rule, Rules};
