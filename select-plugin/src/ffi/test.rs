//! `job_test`: what happens before and after Slurm's own test.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};

use placement::JobId;
use placement::matched::{Matched, encode};
use placement::wire::JobPlacement;
use plugin_rt::{guard_ok, log};

use super::hooks::{Pending, State, forget_placement, stamp, with};
use super::host::Host;
use super::wait::{ends, start_later, wait_alone, wait_later, wait_now};
use super::{choice, ptr as pointer, read, sys, version, write};
use crate::commit::{Veto, place, why_of_all};
use crate::engine::{Engine, Question};
use crate::narrow::{Mode, keep_to_plan, narrow};
use crate::patience::Patient;
use crate::view::{GresKind, JobView, NodeView, Want};

const SUCCESS: c_int = 0;
pub(super) const REFUSED: c_int = sys::SLURM_ERROR;

/// The arguments of a test that matter here.
pub(super) struct Test {
    /// Whose.
    pub(super) job: *mut sys::job_record_t,
    /// In: candidates. Out: the choice.
    pub(super) bitmap: *mut sys::bitstr_t,
    /// Least number of nodes.
    pub(super) min_nodes: u32,
    /// What Slurm wants to know, with flags.
    pub(super) mode: u16,
    /// Jobs that may be preempted for it; null, or a list.
    pub(super) candidates: *mut c_void,
    /// Out: those that would have to be; null, or a place for a list.
    pub(super) preempted: *mut *mut c_void,
    /// What reservations keep from the job, as Slurm describes it; null without any.
    pub(super) reserved: *mut c_void,
}

/// The whole of `select_p_job_test`: `real` is Slurm's own.
pub(super) fn job_test(test: &Test, real: impl FnOnce() -> c_int) -> c_int {
    let before = guard_ok("job_test", Before::default(), || before(test));
    let rc = real();
    if rc != SUCCESS {
        return if guard_ok("job_test", false, || merely_waits(test, &before.unregistered)) {
            SUCCESS
        } else {
            rc
        };
    }
    // If our part fails now, a job with devices of its own starts as under plain cons_tres. One with a part of a
    // device must not: another job may have its slices.
    let on_failure = if guard_ok("job_test", false, || wants_part(test)) { REFUSED } else { rc };
    guard_ok("job_test", on_failure, || after(test, &before).unwrap_or(rc))
}

/// What Slurm wants to know, without the flags.
fn base(test: &Test) -> u32 {
    u32::from(test.mode) & sys::SELECT_MODE_BASE
}

fn wants_part(test: &Test) -> bool {
    base(test) == sys::SELECT_MODE_RUN_NOW
        && with(test.job, |_, host, job| {
            read::job(host, job).want().is_some_and(|w| w.kind == GresKind::Shard)
        })
        .unwrap_or(false)
}

/// Most jobs remembered for a wider test; each is forgotten at its next one.
const WIDEN_LIMIT: usize = 4096;

fn remember(jobs: &mut HashSet<JobId>, id: JobId) {
    if jobs.len() >= WIDEN_LIMIT {
        jobs.clear();
    }
    jobs.insert(id);
}

/// Whether a job that Slurm calls impossible only has to wait until nodes register: it would be held with
/// `BadConstraints`, for without devices there is no shard. These nodes are then the answer.
fn merely_waits(test: &Test, unregistered: &[usize]) -> bool {
    let wanted = usize::try_from(test.min_nodes.max(1)).unwrap_or(usize::MAX);
    if base(test) != sys::SELECT_MODE_TEST_ONLY || unregistered.len() < wanted {
        return false;
    }
    let Some(host) = Host::get() else { return false };
    for index in 0..host.node_count() {
        // SAFETY: select.h: the bitmap is in/out for the test; a test that fails may leave anything in it.
        unsafe { host.put(test.bitmap, index, unregistered[..wanted].contains(&index)) };
    }
    true
}

/// What was seen before Slurm's own test.
#[derive(Default)]
struct Before {
    /// Nodes of whose devices Slurm does not know yet and which could serve the job.
    unregistered: Vec<usize>,
    /// Enough nodes have GPUs above what the job waits for.
    has_good: bool,
}

/// What goes before Slurm's own test.
fn before(test: &Test) -> Before {
    if base(test) == sys::SELECT_MODE_RUN_NOW {
        forget_placement(test.job);
    }
    with(test.job, |state, host, job| {
        let run_now = base(test) == sys::SELECT_MODE_RUN_NOW;
        if run_now {
            state.pending = None;
        }
        if !read::concerns_us(job) {
            return Before::default();
        }
        let view = read::job(host, job);
        let Some(engine) = state.engine.as_mut() else { return Before::default() };
        let Some(want) = wanted(engine, &view, || read::nodes(host, job, test.bitmap)) else {
            return Before::default();
        };
        if view.was_resized() && want.request.is_moldable() {
            // A plan that counts no more, or a size of before a requeue, must not stay in Slurm's accounts.
            let count = engine.shards(&want.request, &read::within_reach(host, job));
            if let Some(count) = count.filter(|_| want.kind == GresKind::Shard) {
                write::shards(host, job, u64::from(count));
            }
        }
        let victims: HashSet<JobId> = if run_now && !test.candidates.is_null() {
            read::victims(host, test.candidates).into_iter().map(|(id, _)| id).collect()
        } else {
            HashSet::new()
        };
        let mode = match base(test) {
            sys::SELECT_MODE_RUN_NOW if test.candidates.is_null() => Mode::RunNow,
            sys::SELECT_MODE_RUN_NOW => {
                Mode::Preempt { victims: &victims, widen: state.widen.remove(&view.id) }
            }
            sys::SELECT_MODE_TEST_ONLY => Mode::TestOnly,
            sys::SELECT_MODE_WILL_RUN => Mode::WillRun,
            _ => return Before::default(),
        };
        let nodes = read::nodes(host, job, test.bitmap);
        let question = engine.question(view.id, view.uid, &want);
        let mut narrowed = narrow(engine, &question, &want, mode, test.min_nodes, &nodes);
        // A plan's node is kept to in every other test at most, in case Slurm cannot use it.
        if run_now && !state.off_plan.remove(&view.id) {
            let others = keep_to_plan(engine, &question, test.min_nodes, &nodes);
            if !others.is_empty() {
                narrowed.out.extend(others);
                remember(&mut state.off_plan, view.id);
            }
        }
        let mut has_good = false;
        if let Some(patient) = Patient::of(&question, &view).filter(|_| mode != Mode::TestOnly) {
            let split = patient.split(engine, &question, &nodes);
            has_good = split.has_good(test.min_nodes);
            // In every other test at most, in case Slurm cannot use the good ones.
            if run_now && has_good && !state.off_good.remove(&view.id) {
                narrowed.out.extend(split.poor);
                remember(&mut state.off_good, view.id);
            }
        }
        if narrowed.held_back {
            // Until the test succeeds, see `after`.
            remember(&mut state.widen, view.id);
        }
        write::rule_out(host, test.bitmap, &narrowed.out);
        Before { unregistered: narrowed.unregistered, has_good }
    })
    .unwrap_or_default()
}

/// What the job wants on these nodes. A plan that neither any of them nor its own node could ever carry out counts as
/// none. Its own node may be missing here because it is full or completing: another model's coming free first must not
/// undo the plan.
fn wanted(engine: &mut Engine, view: &JobView, nodes: impl FnOnce() -> Vec<NodeView>) -> Option<Want> {
    let want = view.want()?;
    if want.plan.is_none() {
        return Some(want);
    }
    let question = engine.question(view.id, view.uid, &want);
    let own = want.plan.as_ref().and_then(|plan| Some(plan.place.as_ref()?.node.as_str()));
    let nodes = nodes();
    let mut names = nodes.iter().map(|n| n.name.as_str()).chain(own);
    if names.any(|name| engine.fits_ever(name, &question) == Some(true)) {
        return Some(want);
    }
    view.want_unplanned()
}

/// What follows a success of Slurm's own test; `None`: its answer stands.
fn after(test: &Test, before: &Before) -> Option<c_int> {
    with(test.job, |state, host, job| {
        if !read::concerns_us(job) {
            return None;
        }
        let view = read::job(host, job);
        let want = wanted(state.engine.as_mut()?, &view, || read::nodes(host, job, test.bitmap));
        match (base(test), want) {
            (sys::SELECT_MODE_WILL_RUN, Some(want)) => {
                let nodes = read::nodes(host, job, test.bitmap);
                let question = state.engine.as_ref()?.question(view.id, view.uid, &want);
                let asked = Asked { question, view: &view, want: &want, fixed: false };
                let gone = preempted(test, host);
                if !gone.is_empty() {
                    let engine = state.engine.as_mut()?;
                    return read::in_backfill(job)
                        .then(|| wait_alone(engine, host, job, &asked, &nodes, &gone))
                        .flatten();
                }
                start_later(state.engine.as_ref()?, host, job, &view, &want, &nodes);
                wait_later(state.engine.as_mut()?, host, job, &asked, &nodes, before.has_good)
            }
            (sys::SELECT_MODE_RUN_NOW, Some(want)) => start_now(test, state, host, job, &view, &want),
            (sys::SELECT_MODE_RUN_NOW, None) => {
                write::placement(host, job, None);
                None
            }
            _ => None,
        }
    })
    .flatten()
}

/// A start that Slurm thinks possible: a decision, the jobs that must go first, or a refusal.
fn start_now(
    test: &Test,
    state: &mut State,
    host: &Host,
    job: &mut sys::job_record_t,
    view: &JobView,
    want: &Want,
) -> Option<c_int> {
    state.widen.remove(&view.id);
    state.off_plan.remove(&view.id);
    state.off_good.remove(&view.id);
    let nodes = read::nodes(host, job, test.bitmap);
    let asked = Asked {
        question: state.engine.as_ref()?.question(view.id, view.uid, want),
        view,
        want,
        fixed: version::reserves_devices(test.reserved),
    };
    let mut outcome = decide_nodes(state.engine.as_ref()?, host, job, &asked, &nodes);
    let veto = match &mut outcome {
        Ok(decided) => {
            let refused = wait_now(state.engine.as_mut()?, host, job, &asked, decided);
            return Some(refused.unwrap_or_else(|| settle(state, host, job, want, outcome)));
        }
        Err(veto) => veto,
    };
    if let Some(gone) = preempt(test, state.engine.as_ref()?, host, job, &asked, &nodes) {
        write::placement(host, job, None);
        return wait_alone(state.engine.as_mut()?, host, job, &asked, &nodes, &gone);
    }
    // Devices near the job's cores and of its type change with other things than the node's GPUs.
    if want.managed && want.kind == GresKind::Shard && !want.keep_choice && !view.enforce_bind {
        state.engine.as_mut()?.refused(&veto.node, &asked.question);
    }
    Some(settle(state, host, job, want, outcome))
}

/// The jobs that Slurm's answer is to preempt first: the test comes again when they are gone.
fn preempted(test: &Test, host: &Host) -> HashSet<JobId> {
    // SAFETY: select.h: null, or a place for a list that the test has filled or left null.
    let list = unsafe { pointer::struct_at(test.preempted) }.copied().unwrap_or(std::ptr::null_mut());
    // SAFETY: null or a live list of job records.
    let jobs = unsafe { host.elements::<sys::job_record_t>(list) };
    // SAFETY: elements of that list are records of live jobs.
    jobs.iter().filter_map(|j| unsafe { j.as_ref() }).map(|j| JobId(j.job_id)).collect()
}

/// Completes Slurm's list of jobs to preempt by those whose slices are in the way; `None`: that would not help.
///
/// cons_tres stops as soon as there are shards enough, and takes a node with enough of them as it is.
fn preempt(
    test: &Test,
    engine: &Engine,
    host: &Host,
    job: &sys::job_record_t,
    asked: &Asked<'_>,
    nodes: &[NodeView],
) -> Option<HashSet<JobId>> {
    // SAFETY: select.h: null, or a place for a list of job records that the caller frees.
    let list = unsafe { test.preempted.as_mut() }?;
    let victims = read::victims(host, test.candidates);
    let order: Vec<JobId> = victims.iter().map(|(id, _)| *id).collect();
    let mut gone = preempted(test, host);
    for node in nodes.iter().filter(|n| engine.node(&n.name).is_some()) {
        let mut question = asked.question.clone();
        if asked.want.kind == GresKind::Gpu {
            let chosen = choice::choice(host, job, asked.view, node).map_or(0, |c| c.chosen().len());
            question.ask.request.gpus = u32::try_from(chosen).ok().filter(|n| *n > 0);
        }
        for id in engine.in_the_way(&node.name, &question, &gone, &order)? {
            let Some((_, record)) = victims.iter().find(|(known, _)| *known == id) else { continue };
            if list.is_null() {
                // SAFETY: list.h: a list that does not own its elements, as cons_tres makes it.
                *list = unsafe { (host.list_create)(std::ptr::null()) };
            }
            // SAFETY: the list made by Slurm or above.
            unsafe { (host.list_append)(*list, record.cast()) };
            gone.insert(id);
        }
    }
    (!gone.is_empty()).then_some(gone)
}

/// One job's question in the course of a test.
pub(super) struct Asked<'a> {
    pub(super) question: Question,
    pub(super) view: &'a JobView,
    want: &'a Want,
    /// A reservation holds some of the devices: only Slurm's own choice of whole GPUs is known to be allowed.
    fixed: bool,
}

/// What was decided for a job on all its nodes.
pub(super) struct Decided {
    placement: JobPlacement,
    /// Why, for the job's user: of several nodes, the one with the least bandwidth.
    pub(super) why: String,
    /// How sets of whole GPUs were chosen, by node.
    matched: Vec<(String, Matched)>,
    /// The node whose set is predicted to reach the least, and that, GB/s.
    pub(super) poorest: Option<(String, f64)>,
}

/// A decision for each of the nodes that Slurm chose, with the device bits replaced.
fn decide_nodes(
    engine: &Engine,
    host: &Host,
    job: &sys::job_record_t,
    asked: &Asked<'_>,
    nodes: &[NodeView],
) -> Result<Decided, Veto> {
    let mut grants = Vec::new();
    let mut whys: Vec<(f64, String)> = Vec::new();
    let mut matched = Vec::new();
    let mut poorest: Option<(String, f64)> = None;
    for node in nodes {
        let Some(mut slurm) = choice::choice(host, job, asked.view, node).filter(|c| !c.chosen().is_empty())
        else {
            continue;
        };
        if asked.fixed && asked.want.kind == GresKind::Gpu {
            slurm.entries.iter_mut().for_each(|entry| entry.available = entry.chosen);
        }
        let question = engine.with_next(asked.question.clone(), &node.name, &ends(engine, host, &node.name));
        let Some(placed) = place(engine, question, asked.want, &slurm) else { continue };
        let placed = placed?;
        write::devices(host, job, node, &placed);
        let gbps = placed.matched.as_ref().and_then(|m| m.gbps()?.parse().ok()).unwrap_or(f64::INFINITY);
        whys.push((gbps, placed.why));
        if poorest.as_ref().is_none_or(|(_, least)| placed.gbps < *least) {
            poorest = Some((node.name.clone(), placed.gbps));
        }
        matched.extend(placed.matched.map(|m| (node.name.clone(), m)));
        grants.push((node.name.clone(), placed.grant));
    }
    let why = why_of_all(whys, &grants);
    Ok(Decided { placement: JobPlacement { job: asked.view.id, nodes: grants }, why, matched, poorest })
}

/// Writes a decision down, or refuses the start.
fn settle(
    state: &mut State,
    host: &Host,
    job: &mut sys::job_record_t,
    want: &Want,
    outcome: Result<Decided, Veto>,
) -> c_int {
    match outcome {
        Ok(Decided { placement, why, matched, .. }) => {
            stamp(state, host, job, &placement);
            write::why(host, job, Some(why.as_str()).filter(|_| !placement.nodes.is_empty()));
            let told = (!matched.is_empty()).then(|| encode(&matched));
            write::matched(host, job, told.as_deref());
            let planned = want.plan.as_ref().and_then(|p| p.begin.zip(p.end));
            state.pending = Some(Pending { address: std::ptr::from_ref(job).addr(), placement, planned });
            SUCCESS
        }
        Err(veto) => {
            log::debug(format_args!("job {}: {veto}", job.job_id));
            write::placement(host, job, None);
            write::refuse(host, job);
            REFUSED
        }
    }
}
