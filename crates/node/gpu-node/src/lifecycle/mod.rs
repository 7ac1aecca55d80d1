//! What happens to a job's resources, verb by verb: [`realise()`], [`release()`], [`reconcile()`], [`inspect()`].
//!
//! No verb calls another. What two of them need lies below them: `job`, `give_back`, and `crate::remnants`. Only
//! [`realise_waiting`] stands above a verb, which it calls again and again.

mod begin_batch;
mod conflict;
mod forgotten;
mod give_back;
mod hand_over;
mod inspect;
mod job;
mod make;
mod node_state;
mod power_status;
mod realise;
mod reconcile;
mod refuse;
mod release;
mod retry;
mod serve_tasks;
mod waiting_slurmd;

pub use begin_batch::begin_batch;
pub use forgotten::{is_journalled, seems_forgotten};
pub use give_back::Released;
pub use hand_over::{HandedOver, hand_over};
pub use inspect::{Disagreement, Inspection, inspect};
pub use job::JobContext;
pub use node_state::GpuView;
pub use power_status::{GpuPower, GpuPowerView, driver_version, power_status};
pub use realise::{Realised, realise};
pub use reconcile::{LiveJobs, ReconcileReport, reconcile};
pub use refuse::refuse;
pub use release::{release, release_dead};
pub use retry::realise_waiting;
pub use serve_tasks::serve_tasks;
pub use waiting_slurmd::WaitingSlurmd;
