//! The arguments of a test of a job.

use std::ffi::c_void;

use slurmctld_rt::{BitString, BitsAt, List};

use super::host::Host;

/// The arguments of `select_p_job_test` that matter here.
pub(super) struct Call {
    /// The job's record, live and under slurmctld's write lock.
    pub(super) job: *mut c_void,
    /// In: candidates. Out: the choice.
    pub(super) bitmap: *mut BitString,
    /// Least number of nodes.
    pub(super) min_nodes: u32,
    /// Slurm's question, with flags.
    pub(super) mode: u16,
    /// Jobs that may be preempted for it; null, or a list.
    pub(super) candidates: *mut List,
    /// Out: those that would have to be; null, or a place for a list.
    pub(super) preempted: *mut *mut List,
    /// Nodes and devices that reservations keep from the job, as Slurm describes them; null without any.
    pub(super) reserved: *mut c_void,
}

impl Call {
    /// The nodes that are candidates, and after Slurm's own test its choice.
    pub(super) fn nodes<'a>(&self, host: &'a Host) -> BitsAt<'a> {
        // SAFETY: select.h: a live bitmap over the node table, which a test may write to.
        unsafe { host.bits.at(self.bitmap) }
    }
}
