//! The arguments of a test of a job.

use std::ffi::c_void;

use super::sys;

/// The arguments of `select_p_job_test` that matter here.
pub(super) struct Call {
    /// The job's record, live and under slurmctld's write lock.
    pub(super) job: *mut sys::job_record_t,
    /// In: candidates. Out: the choice.
    pub(super) bitmap: *mut sys::bitstr_t,
    /// Least number of nodes.
    pub(super) min_nodes: u32,
    /// Slurm's question, with flags.
    pub(super) mode: u16,
    /// Jobs that may be preempted for it; null, or a list.
    pub(super) candidates: *mut c_void,
    /// Out: those that would have to be; null, or a place for a list.
    pub(super) preempted: *mut *mut c_void,
    /// Nodes and devices that reservations keep from the job, as Slurm describes them; null without any.
    pub(super) reserved: *mut c_void,
}
