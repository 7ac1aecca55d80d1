//! Why a task has no device.

use task_wire::Refused;

/// Why a task has no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// The broker's answer.
    Refused(Box<Refused>),
    /// There is no broker, or the job ended.
    NoBroker,
    /// Another thread took the request back.
    Withdrawn,
}
