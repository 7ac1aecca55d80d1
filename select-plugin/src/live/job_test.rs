//! `select_p_job_test`: Slurm's arguments to a [`PendingTest`], its opinion to a status. What is decided, and in which order it
//! is written: [`crate::job_test`].

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use decision_counts::decisions::Hook;
use geometry::JobId;
use placement::HostResources;
use plugin_rt::guard_ok;
use shared_pages::decisions;
use slurm_numbers as numbers;

use super::{hooks, jobs, nodes, resources, weights};
use crate::effect::Effect;
use crate::ffi::call::Call;
use crate::ffi::host::Host;
use crate::ffi::jobs::{victims, with_components};
use crate::ffi::records::Job;
use crate::ffi::{accounts, apply, licenses, version};
use crate::job_test::{FirstAnswer, Look, Opinion, PendingTest};
use crate::memory::Memory;
use crate::seen;
use crate::slurm::{Ask, Slurm, Test};
use crate::view::{ChosenView, NodeView};

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;

/// How often Slurm looks for an earlier start at most: each answer may be on another node whose places it does not see.
const LOOKS: usize = 3;
/// Time of Slurm's tests after which it is not asked to look again: slurmctld's locks are held, and Slurm gives each test two seconds.
const LONG: Duration = Duration::from_millis(500);

/// The whole of `select_p_job_test`: `real` is Slurm's own.
pub(crate) fn run(call: &Call, real: impl Fn() -> c_int) -> c_int {
    let began = Instant::now();
    let mut test = guard_ok("job_test", None, || look(call));
    let per_node = guard_ok("job_test", None, || {
        test.as_ref().and_then(|_| hooks::again(call.job, |_, host, job| apply::shards_per_node(host, job)))
    });
    let (mut order, mut offered) = (None, Arc::default());
    guard_ok("job_test", (), || {
        let _slurm_answers = decide(call, test.as_mut(), PendingTest::look_before, |test, memory, slurm| {
            let effects = test.before(memory, slurm);
            order = effects.iter().find_map(Effect::order).map(|order| weights::write(slurm.host, order));
            offered = Arc::clone(&slurm.nodes);
            (Opinion::AsSlurmSays, effects)
        });
    });
    let before = began.elapsed();
    let rc = slurms_own(call, test.as_mut(), order.as_ref(), &offered, &real);
    let began = Instant::now();
    let succeeds = rc == SUCCESS;
    let on_failure = test.as_ref().map_or(Opinion::AsSlurmSays, |test| test.if_we_fail(succeeds));
    let opinion = guard_ok("job_test", on_failure, || {
        let look = |test: &PendingTest| if succeeds { test.look_after() } else { Look::No };
        decide(call, test.as_mut(), look, |test, memory, slurm| {
            if succeeds { test.after(memory, slurm) } else { test.merely_waits() }
        })
    });
    let restores = test.as_ref().is_some_and(|test| test.restores_shards(succeeds, opinion));
    if let Some(Some(count)) = per_node.filter(|_| restores) {
        guard_ok("job_test", (), || {
            hooks::again(call.job, |_, host, job| apply::set_shards_per_node(host, job, count));
        });
    }
    let took = before + began.elapsed();
    decisions::count_hook(Hook::JobTest, took);
    guard_ok("job_test", (), || {
        if let Some((ask, answer)) = test.as_ref().and_then(|test| test.counts(succeeds, opinion)) {
            decisions::count(ask, answer, took);
        }
    });
    match opinion {
        Opinion::AsSlurmSays => rc,
        Opinion::Refused(_) => ERROR,
        Opinion::Possible => SUCCESS,
    }
}

/// Runs Slurm's own test, and again where our steps want that.
fn slurms_own(
    call: &Call,
    mut test: Option<&mut PendingTest>,
    order: Option<&weights::Before>,
    offered: &[NodeView],
    real: &impl Fn() -> c_int,
) -> c_int {
    let began = Instant::now();
    let _hidden = guard_ok("job_test", None, || {
        test.as_ref().filter(|test| test.picks_part()).and_then(|_| version::hide_reserved(call.reserved))
    });
    let rc = real();
    if let (Some(order), Ok(host)) = (order, Host::found()) {
        guard_ok("job_test", (), || weights::restore(host, order));
    }
    let widened = guard_ok("job_test", None, || {
        hooks::again(call.job, |_, host, job| {
            let wider = test.as_ref()?.widened((rc == SUCCESS).then(|| job.start_time()), host.now());
            wider.map(|wider| apply::in_test(host, job, call, &[wider]))
        })?
    });
    let mut rc = widened.map_or(rc, |()| real());
    let mut may_be_earlier = rc == SUCCESS;
    for _ in 0..LOOKS {
        if may_be_earlier && began.elapsed() < LONG {
            (rc, may_be_earlier) = earlier(call, test.as_deref_mut(), offered, real);
        }
    }
    rc
}

/// Has Slurm look for an earlier start than the one that it foretells, if that has to be moved. Its first answer stands if the second is no
/// better; tells whether it was.
fn earlier(
    call: &Call,
    mut test: Option<&mut PendingTest>,
    offered: &[NodeView],
    real: &impl Fn() -> c_int,
) -> (c_int, bool) {
    if !test.as_ref().is_some_and(|test| test.may_look_earlier()) {
        return (SUCCESS, false);
    }
    let mut first = None;
    guard_ok("job_test", (), || {
        decide(call, test.as_deref_mut(), PendingTest::look_after, |test, memory, slurm| {
            first = test.first_answer(&mut memory.engine, slurm, offered);
            (Opinion::AsSlurmSays, first.iter().map(FirstAnswer::ask_again).collect())
        });
    });
    let Some(first) = first else { return (SUCCESS, false) };
    let rc = real();
    let look = |test: &PendingTest| if rc == SUCCESS { test.look_after() } else { Look::No };
    // If a bug of ours keeps us from an opinion, the second answer stands.
    guard_ok("job_test", (rc, false), || {
        let mut answer = (rc, false);
        decide(call, test, look, |test, memory, slurm| {
            let better = rc == SUCCESS && test.is_before(&first, &memory.engine, slurm);
            answer = (SUCCESS, better);
            (Opinion::AsSlurmSays, if better { Vec::new() } else { first.stands() })
        });
        answer
    })
}

/// The job and what is asked of it; `None`: Slurm alone answers.
fn look(call: &Call) -> Option<PendingTest> {
    let ask = match call.mode & numbers::SELECT_MODE_BASE {
        numbers::SELECT_MODE_RUN_NOW => Ask::RunNow,
        numbers::SELECT_MODE_TEST_ONLY => Ask::TestOnly,
        numbers::SELECT_MODE_WILL_RUN => Ask::WillRun,
        _ => return None,
    };
    if ask == Ask::RunNow {
        hooks::forget_placement(call.job);
    }
    hooks::with(call.job, |memory, host, job| {
        if ask == Ask::RunNow {
            memory.pending = None;
        }
        count_arrival(memory, host, job, call);
        let may_preempt = !call.candidates.is_null();
        let test = Test { ask, min_nodes: call.min_nodes, may_preempt, record: jobs::address(job) };
        let concerns_us = jobs::concerns_us(job) || ask == Ask::RunNow && licenses::is_held_to_slices(job);
        concerns_us.then(|| PendingTest::new(test, jobs::view(host, job)))
    })
    .flatten()
}

/// Counts a job that Slurm tests for the first time on nodes of the site.
fn count_arrival(memory: &mut Memory, host: &Host, job: Job, call: &Call) {
    let nodes = call.nodes(host);
    let partition = job.part_ptr().map_or(0, |part| part.address().addr());
    if memory.learnt.meets(JobId(job.job_id()), partition, |node| nodes.test(node)) {
        memory.learnt.arrived(&jobs::view(host, job));
    }
}

/// Lets `body` decide, and writes what it wants. Nodes are looked at where they count; after a test that fails the bitmap may hold any.
fn decide(
    call: &Call,
    test: Option<&mut PendingTest>,
    look: impl FnOnce(&PendingTest) -> Look,
    body: impl FnOnce(&mut PendingTest, &mut Memory, &Live<'_>) -> (Opinion, Vec<Effect>),
) -> Opinion {
    test.and_then(|test| {
        hooks::again(call.job, |memory, host, job| {
            let nodes = nodes::of_test(memory, host, job, (call.nodes(host), look(test)));
            let reach = OnceCell::new();
            let (opinion, effects) = body(test, memory, &Live { call, host, job, nodes, reach });
            apply::in_test(host, job, call, &effects);
            opinion
        })
    })
    .unwrap_or(Opinion::AsSlurmSays)
}

/// slurmctld before or after its own test.
struct Live<'a> {
    call: &'a Call,
    host: &'a Host,
    job: Job,
    nodes: Arc<Vec<NodeView>>,
    reach: OnceCell<Vec<String>>,
}

impl Slurm for Live<'_> {
    fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }

    fn within_reach(&self) -> &[String] {
        self.reach.get_or_init(|| jobs::within_reach(self.host, self.job))
    }

    fn victims(&self) -> Vec<JobId> {
        victims(self.host, self.call.candidates).into_iter().map(|(id, _)| id).collect()
    }

    fn preempted(&self) -> Option<HashSet<JobId>> {
        let jobs = self.call.preempted(self.host)?;
        Some(jobs.into_iter().flat_map(|job| with_components(self.host, job)).collect())
    }

    fn rooms(&self, node: &NodeView, jobs: &[JobId]) -> Vec<HostResources> {
        let of = |job: &JobId| self.host.job(*job).map(|job| resources::of_job(self.host, job, node.index));
        jobs.iter().map(|job| of(job).unwrap_or_default()).collect()
    }

    fn lacks(&self, nodes: &[&NodeView]) -> Vec<HostResources> {
        let nodes: Vec<usize> = nodes.iter().map(|node| node.index).collect();
        resources::lacking(self.host, self.job, &nodes)
    }

    fn choice(&self, node: &NodeView) -> Option<ChosenView> {
        let cores = resources::cores_of_job(self.host, self.job, node.index);
        let binds = jobs::enforces_binding(self.job);
        accounts::choice_on(self.host, self.job, node, (&cores, binds, self.call.reserved))
    }

    fn gpus(&self, node: &NodeView) -> Option<u64> {
        nodes::gpus_on(self.host, node.index)
    }

    fn end_of(&self, job: JobId) -> i64 {
        self.host.job(job).map_or(0, |record| record.end_time())
    }

    fn completing(&self) -> HashSet<String> {
        seen::completing(nodes::all(self.host))
    }

    fn is_pending(&self, job: JobId) -> bool {
        self.host.job(job).is_some_and(|r| r.job_state() & numbers::JOB_STATE_BASE == numbers::JOB_PENDING)
    }

    fn says_start(&self) -> i64 {
        self.job.start_time()
    }

    fn asked_from(&self) -> i64 {
        self.call.from
    }

    fn forgets_shards(&self) -> bool {
        // Up to 24.11 its copy of a node's GRES does not say so [`gres_node_state_list_dup`, gres.c].
        !version::slurm().since(25, 5)
    }

    fn in_backfill(&self) -> bool {
        self.job.bit_flags() & numbers::BACKFILL_TEST != 0
    }

    fn now(&self) -> u64 {
        self.host.now()
    }
}
