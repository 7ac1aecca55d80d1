//! The arguments of a test of a job.

use std::ffi::c_void;

use slurmctld_rt::{BitString, BitsAt, List, struct_at};

use super::host::Host;
use super::records::Job;

/// The arguments of `select_p_job_test` that matter here.
pub(crate) struct Call {
    /// The job's record, live and under slurmctld's write lock.
    pub(crate) job: Option<Job>,
    /// In: candidates. Out: the choice.
    pub(crate) bitmap: *mut BitString,
    /// Least number of nodes.
    pub(crate) min_nodes: u32,
    /// Slurm's question, with flags.
    pub(crate) mode: u16,
    /// Jobs that may be preempted for it; null, or a list.
    pub(crate) candidates: *mut List,
    /// Out: those that would have to be; null, or a place for a list.
    pub(crate) preempted: *mut *mut List,
    /// Nodes and devices that reservations keep from the job, as Slurm describes them; null without any.
    pub(crate) reserved: *mut c_void,
    /// Time from which on a start is asked for, seconds since 1970; 0: from now on.
    pub(crate) from: i64,
}

impl Call {
    /// The nodes that are candidates, and after Slurm's own test its choice.
    pub(crate) fn nodes<'a>(&self, host: &'a Host) -> BitsAt<'a> {
        // SAFETY: select.h: a live bitmap over the node table, which a test may write to.
        unsafe { host.bits.at(self.bitmap) }
    }

    /// The jobs that would have to go first; `None` if Slurm does not ask.
    pub(crate) fn preempted(&self, host: &Host) -> Option<Vec<Job>> {
        // SAFETY: select.h: null, or a place for a list that the test has filled or left null.
        unsafe { struct_at(self.preempted) }.map(|list| host.listed(*list))
    }
}
