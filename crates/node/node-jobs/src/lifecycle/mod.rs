//! The life of a job's resources, verb by verb: [`realise()`], [`release()`], [`refuse()`].
//!
//! No verb calls another. What two of them need is below them: `job`, `give_back`, and `crate::stale_instances`. Only
//! [`realise_waiting`] stands above a verb, which it calls again and again.

mod begin_batch;
mod conflict;
mod forgotten;
mod give_back;
mod job;
mod make;
mod realise;
mod refuse;
mod release;
mod retry;
mod serve_tasks;
mod waiting_slurmd;

pub use begin_batch::begin_batch;
pub use forgotten::{is_journalled, seems_forgotten};
pub use give_back::{Released, finish};
pub use job::{JobContext, require_root};
pub use realise::{Realised, realise};
pub use refuse::refuse;
pub use release::{release, release_if};
pub use retry::realise_waiting;
pub use serve_tasks::serve_tasks;
pub use waiting_slurmd::WaitingSlurmd;
