//! `select_p_job_test`: Slurm's arguments to a [`PendingTest`], its opinion to a status. What is decided, and in which order it
//! is written: [`crate::job_test`].

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::time::Instant;

use decision_counts::decisions::Reason;
use geometry::JobId;
use placement::HostResources;
use plugin_rt::guard_ok;
use plugin_rt::slurmctld::struct_at;
use shared_pages::decisions;

use super::host::Host;
use super::{apply, chosen, hooks, read, room, sys, version};
use crate::effect::Effect;
use crate::engine::Heard;
use crate::job_test::{Ask, Opinion, PendingTest, Slurm, Test};
use crate::memory::Memory;
use crate::view::{ChosenView, NodeView};

const SUCCESS: c_int = 0;
const REFUSED: c_int = sys::SLURM_ERROR;

/// The arguments of a test that matter here.
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

/// The whole of `select_p_job_test`: `real` is Slurm's own.
pub(super) fn run(call: &Call, real: impl FnOnce() -> c_int) -> c_int {
    let began = Instant::now();
    let mut case = guard_ok("job_test", None, || look(call));
    let per_gpu = guard_ok("job_test", None, || {
        hooks::with(call.job, |_, host, job| apply::per_gpu(host, job)).flatten()
    });
    guard_ok("job_test", (), || {
        decide(call, case.as_mut(), |case, memory, slurm| (Opinion::AsSlurmSays, case.before(memory, slurm)));
    });
    let before = began.elapsed();
    let rc = real();
    let began = Instant::now();
    let opinion = if rc == SUCCESS {
        let wants_part = case.as_ref().is_some_and(PendingTest::wants_part);
        let on_failure = if wants_part { Opinion::Refused(Reason::Failure) } else { Opinion::AsSlurmSays };
        guard_ok("job_test", on_failure, || {
            decide(call, case.as_mut(), |case, memory, slurm| case.after(memory, slurm))
        })
    } else {
        guard_ok("job_test", Opinion::AsSlurmSays, || {
            decide(call, case.as_mut(), |case, _, _| case.merely_waits())
        })
    };
    let starts =
        rc == SUCCESS && opinion == Opinion::AsSlurmSays && case.as_ref().is_some_and(PendingTest::starts);
    if let Some(per_gpu) =
        per_gpu.filter(|_| !starts && case.as_ref().is_some_and(PendingTest::searches_other_shards))
    {
        guard_ok("job_test", (), || {
            hooks::with(call.job, |_, host, job| apply::restore_shards_per_node(host, job, per_gpu));
        });
    }
    guard_ok("job_test", (), || {
        if let Some((ask, answer)) = case.as_ref().and_then(|case| case.counts(rc == SUCCESS, opinion)) {
            decisions::count(ask, answer, before + began.elapsed());
        }
    });
    match opinion {
        Opinion::AsSlurmSays => rc,
        Opinion::Refused(_) => REFUSED,
        Opinion::Possible => SUCCESS,
    }
}

/// The job and what is asked of it; `None`: Slurm alone answers.
fn look(call: &Call) -> Option<PendingTest> {
    let ask = match u32::from(call.mode) & sys::SELECT_MODE_BASE {
        sys::SELECT_MODE_RUN_NOW => Ask::RunNow,
        sys::SELECT_MODE_TEST_ONLY => Ask::TestOnly,
        sys::SELECT_MODE_WILL_RUN => Ask::WillRun,
        _ => return None,
    };
    if ask == Ask::RunNow {
        hooks::forget_placement(call.job);
    }
    hooks::with(call.job, |memory, host, job| {
        if ask == Ask::RunNow {
            memory.pending = None;
        }
        let may_preempt = !call.candidates.is_null();
        let test = Test { ask, min_nodes: call.min_nodes, may_preempt, record: read::record(job) };
        read::concerns_us(job).then(|| PendingTest::new(test, read::job(host, job)))
    })
    .flatten()
}

/// Lets `body` decide, and writes what it wants.
fn decide(
    call: &Call,
    case: Option<&mut PendingTest>,
    body: impl FnOnce(&mut PendingTest, &mut Memory, &Live<'_>) -> (Opinion, Vec<Effect>),
) -> Opinion {
    let decided = case.and_then(|case| {
        hooks::with(call.job, |memory, host, job| {
            let (opinion, effects) = body(case, memory, &Live { call, host, job });
            apply::in_test(host, job, call, &effects);
            opinion
        })
    });
    decided.unwrap_or(Opinion::AsSlurmSays)
}

/// slurmctld in the course of one test.
struct Live<'a> {
    call: &'a Call,
    host: &'a Host,
    job: &'a sys::job_record_t,
}

impl Slurm for Live<'_> {
    fn nodes(&self) -> Vec<NodeView> {
        read::nodes(self.host, self.job, self.call.bitmap)
    }

    fn heard(&self) -> Vec<(String, Heard)> {
        read::heard(self.host, self.call.bitmap)
    }

    fn within_reach(&self) -> Vec<String> {
        read::within_reach(self.host, self.job)
    }

    fn victims(&self) -> Vec<JobId> {
        read::victims(self.host, self.call.candidates).into_iter().map(|(id, _)| id).collect()
    }

    fn preempted(&self) -> Option<HashSet<JobId>> {
        // SAFETY: select.h: null, or a place for a list that the test has filled or left null.
        let list = *unsafe { struct_at(self.call.preempted) }?;
        // SAFETY: null or a live list of job records.
        let jobs = unsafe { self.host.elements::<sys::job_record_t>(list) };
        // SAFETY: elements of that list are records of live jobs.
        Some(jobs.iter().filter_map(|j| unsafe { j.as_ref() }).map(|j| JobId(j.job_id)).collect())
    }

    fn rooms(&self, node: &NodeView, jobs: &[JobId]) -> Vec<HostResources> {
        let of = |job: &JobId| {
            // SAFETY: src/slurmctld/slurmctld.h: finds a job under the job lock.
            let record = unsafe { (self.host.find_job_record)(job.0) };
            // SAFETY: null or live.
            unsafe { struct_at(record) }
                .map_or(HostResources::default(), |job| room::of_job(self.host, job, node.index))
        };
        jobs.iter().map(of).collect()
    }

    fn lacks(&self, nodes: &[&NodeView]) -> Vec<HostResources> {
        room::lacking(self.host, self.job, &nodes.iter().map(|node| node.index).collect::<Vec<_>>())
    }

    fn choice(&self, node: &NodeView) -> Option<ChosenView> {
        chosen::on_node(self.host, self.job, node)
    }

    fn gpus(&self, node: &NodeView) -> Option<u64> {
        read::gpus_on(self.host, node.index)
    }

    fn end_of(&self, job: JobId) -> i64 {
        // SAFETY: src/slurmctld/slurmctld.h: finds a job under the job lock.
        let record = unsafe { (self.host.find_job_record)(job.0) };
        // SAFETY: null or live.
        unsafe { struct_at(record) }.map_or(0, |r| r.end_time)
    }

    fn completing(&self) -> HashSet<String> {
        read::completing(self.host)
    }

    fn is_pending(&self, job: JobId) -> bool {
        // SAFETY: src/slurmctld/slurmctld.h: finds a job under the job lock.
        let record = unsafe { (self.host.find_job_record)(job.0) };
        // SAFETY: null or live.
        unsafe { struct_at(record) }.is_some_and(|r| r.job_state & sys::JOB_STATE_BASE == sys::JOB_PENDING)
    }

    fn start_time(&self) -> i64 {
        self.job.start_time
    }

    fn in_backfill(&self) -> bool {
        self.job.bit_flags & u64::from(sys::TESSERA_BACKFILL_TEST) != 0
    }

    fn reserves_devices(&self) -> bool {
        version::reserves_devices(self.call.reserved)
    }

    fn now(&self) -> u64 {
        self.host.now()
    }
}
