//! Names the nodes that cannot serve a job, among those that Slurm offers. Pure: it writes nothing.
//!
//! What "cannot" means depends on what Slurm wants to know:
//!
//! - *Run now*: the node has no legal placement in its present state.
//! - *Run now, by preemption*: cons_tres tries without preemption first. It counts shards there, not slices: it would
//!   choose a node that is full for us, and the job would wait although another node is free or some job could go. So
//!   while enough nodes have room, the full ones are ruled out. If that test fails, the next one offers the full nodes
//!   that the end of preemptable jobs would free. Which of these jobs go is settled after it: [`Engine::least_victims`].
//! - *Test only* asks whether the job could run on an empty cluster. Only a node that could never serve it is ruled
//!   out: without the busy ones slurmctld would reject a job that merely has to wait.
//! - *Will run* asks when. cons_tres answers by taking running jobs away in the order of their end. So busy nodes must
//!   stay, or backfill would never reserve anything for the job. But it counts shards, not slices, and may say "now,
//!   on n1" where only n2 has room. A busy node is therefore left aside when enough nodes *of the same configuration
//!   record* have room now and the job insists on none. They may lack what we do not count, such as cores, or Slurm may need more
//!   nodes than the fewest: if the job cannot start on them now, Slurm is asked again with the busy nodes. If it foretells a
//!   start on one of these, [`first_fit`] moves it to the end of the jobs in the way, and Slurm looks for an earlier one elsewhere.

use std::collections::{BTreeMap, HashSet};

use decision_counts::decisions::Reason;
use geometry::JobId;
use node_layout::ConfigInForce;
use node_state::Node;
use protocol::plan::PlannedPlace;

use crate::engine::{Engine, Question};
use crate::view::{GresKind, NodeView, Want};

/// Slurm's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode<'a> {
    RunNow,
    /// Start it, and end others for it if need be.
    Preempt {
        /// Jobs whose end would free what they hold.
        victims: &'a HashSet<JobId>,
        /// The nodes that have room now have been tried without success.
        widen: bool,
    },
    /// Could it run on an empty cluster?
    TestOnly,
    /// At what time can it start?
    WillRun,
}

/// The nodes to take out of Slurm's bitmap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Narrowed {
    /// The indices of the nodes.
    pub(crate) out: Vec<usize>,
    /// Busy nodes that are left aside while others have room, where Slurm is asked when the job can start.
    pub(crate) aside: Vec<usize>,
    /// Nodes that preemption could free are among [`Self::out`].
    pub(crate) held_back: bool,
    /// Number of nodes that have room now; any number for [`Mode::TestOnly`].
    pub(crate) ready: u32,
    /// Nodes that could serve the job later, once their jobs end, by their place in the list of nodes.
    pub(crate) later: Vec<usize>,
    /// Nodes that could serve the job, but of whose devices Slurm knows only the number.
    pub(crate) unregistered: Vec<usize>,
    /// The other nodes that could serve it, now or later.
    pub(crate) able: Vec<usize>,
    /// The job insists on a node that has no room now.
    pub(crate) insists_on_busy: bool,
    /// The job insists on a node of which nobody knows whether it could.
    pub(crate) insists_on_unknown: bool,
    /// Some nodes may or may not be able to: see [`Availability::Unknown`].
    pub(crate) unknown: bool,
}

impl Narrowed {
    /// Why fewer nodes can serve the job than it needs, if so: now, or ever.
    pub(crate) fn lack(&self, run_now: bool, min_nodes: u32) -> Option<Reason> {
        if self.insists_on_unknown {
            return Some(Reason::Config);
        }
        let wanted = min_nodes.max(1);
        let ever = self.able.len() + self.unregistered.len();
        if ever < usize::try_from(wanted).unwrap_or(usize::MAX) {
            return Some(if self.unknown { Reason::Config } else { Reason::Impossible });
        }
        (run_now && (self.ready < wanted || self.insists_on_busy)).then_some(Reason::NoRoom)
    }

    /// See [`Self::unregistered`] and [`Self::able`]: a job on several nodes may wait for one of them only.
    pub(crate) fn once_registered(&self) -> Vec<usize> {
        if self.unregistered.is_empty() { Vec::new() } else { [&self.unregistered[..], &self.able].concat() }
    }
}

/// Names the nodes to take out of Slurm's bitmap, those that are only held back, and those that have yet to register.
pub(crate) fn narrow(
    engine: &mut Engine,
    question: &Question,
    want: &Want,
    mode: Mode<'_>,
    min_nodes: u32,
    nodes: &[NodeView],
) -> Narrowed {
    let judge = |node| (node, judge_for(mode, engine, question, want, node));
    let judged: Vec<(&NodeView, Availability)> = nodes.iter().map(judge).collect();
    let mut ready_alike: BTreeMap<usize, u32> = BTreeMap::new();
    for (node, _) in judged.iter().filter(|(_, room)| *room == Availability::Now) {
        *ready_alike.entry(node.config).or_default() += 1;
    }
    let ready = ready_alike.values().sum();
    let enough = |ready: u32| ready >= min_nodes.max(1);
    // Other nodes are no help to a job that insists on a busy one.
    let required = judged.iter().filter(|(node, _)| node.required).map(|(_, room)| *room);
    let required: Vec<Availability> = required.collect();
    let insists_on_busy = required.iter().any(|room| *room != Availability::Now);
    let (mut held_back, mut aside) = (false, Vec::new());
    let mut is_out = |node: &NodeView, room| match (room, mode) {
        (Availability::Never, _) | (Availability::Later, Mode::RunNow) => true,
        (Availability::Now, _) | (Availability::Later | Availability::Unknown, Mode::TestOnly) => false,
        (Availability::Unknown, _) => true,
        (Availability::Later, Mode::Preempt { victims, widen }) => {
            if node.completing || !node.registered || !engine.fits_without(node, question, victims) {
                return true;
            }
            let keep = widen || insists_on_busy || !enough(ready);
            held_back |= !keep;
            !keep
        }
        (Availability::Later, Mode::WillRun) => {
            if required.is_empty() && enough(ready_alike.get(&node.config).copied().unwrap_or(0)) {
                aside.push(node.index);
            }
            false
        }
    };
    let out: Vec<usize> =
        judged.iter().filter(|(node, room)| is_out(node, *room)).map(|(node, _)| node.index).collect();
    let later = || judged.iter().filter(|(_, room)| *room == Availability::Later).map(|(node, _)| *node);
    let waits =
        |(n, room): &(&NodeView, Availability)| *room == Availability::Later && n.registered && !n.completing;
    let waiting = judged.iter().zip(0..).filter(|(judged, _)| waits(judged)).map(|(_, at)| at);
    let serves = |room| matches!(room, Availability::Now | Availability::Later);
    let able = judged.iter().filter(|(node, room)| node.registered && serves(*room));
    Narrowed {
        out,
        aside,
        held_back,
        ready,
        later: waiting.collect(),
        unregistered: later().filter(|n| !n.registered).map(|n| n.index).collect(),
        able: able.map(|(node, _)| node.index).collect(),
        insists_on_busy,
        insists_on_unknown: required.contains(&Availability::Unknown),
        unknown: judged.iter().any(|(_, room)| *room == Availability::Unknown),
    }
}

/// Lists the other nodes to take out, so that a planned job gets the place its plan names: none unless that can be had now.
/// A node that Slurm then cannot use must not be kept to the next time.
pub(crate) fn keep_to_plan(
    engine: &Engine,
    question: &Question,
    min_nodes: u32,
    nodes: &[NodeView],
) -> Vec<usize> {
    let place = question.plan.as_ref().and_then(|p| p.place.as_ref());
    let Some(planned) = place.and_then(|p| nodes.iter().find(|n| *n.name == *p.node)) else {
        return Vec::new();
    };
    let insists = nodes.iter().any(|n| n.required && n.index != planned.index);
    if min_nodes > 1
        || insists
        || planned.completing
        || !planned.registered
        || !engine.has_planned_place(question)
    {
        return Vec::new();
    }
    nodes.iter().map(|n| n.index).filter(|index| *index != planned.index).collect()
}

/// The nodes on which a job that is planned beside others does not start: all but its plan's.
pub(crate) fn not_bound_for(question: &Question, nodes: &[NodeView]) -> Vec<usize> {
    let bound = question.plan.as_ref().filter(|plan| plan.is_bound()).and_then(|plan| plan.place.as_ref());
    let others =
        |place: &PlannedPlace| nodes.iter().filter(|n| *n.name != *place.node).map(|n| n.index).collect();
    bound.map(others).unwrap_or_default()
}

/// Time at which a node has room for a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Availability {
    Now,
    Later,
    Never,
    /// The site's file is bad, or the node's GPUs are not those of the file, or its slurmd does not load Tessera or has another
    /// file, or the job needs a GPU there that is unhealthy, or might get one: it waits until somebody mends that, and nothing is
    /// kept free for it.
    Unknown,
}

/// Tells whether the node is sure to be able to serve the job now or later: a submission need not know which. It reads less than
/// [`judge`], which decides where this is false.
fn could_serve(engine: &mut Engine, question: &Question, want: &Want, node: &NodeView) -> bool {
    let could = !node.unfit
        && !engine.is_away(node)
        && !engine.has_sick(node)
        && engine.fits_ever(node, question) == Some(true);
    if cfg!(debug_assertions) && could {
        let judged = judge(engine, question, want, node);
        assert!(matches!(judged, Availability::Now | Availability::Later), "{}", node.name);
    }
    could
}

fn judge_for(
    mode: Mode<'_>,
    engine: &mut Engine,
    question: &Question,
    want: &Want,
    node: &NodeView,
) -> Availability {
    match mode {
        Mode::TestOnly if could_serve(engine, question, want, node) => Availability::Later,
        _ => judge(engine, question, want, node),
    }
}

fn judge(engine: &mut Engine, question: &Question, want: &Want, node: &NodeView) -> Availability {
    let away = engine.is_away(node);
    // On a node that is away Slurm alone picks the GPUs, unhealthy ones too.
    let slurm_picks = away && (want.managed || engine.has_sick(node));
    if node.unfit || slurm_picks || engine.lacks_healthy(node, want.most_gpus) {
        return Availability::Unknown;
    }
    let plain_shards = !want.managed && want.kind == GresKind::Shard;
    match engine.fits_now(node, question) {
        None if want.managed && engine.version() == ConfigInForce::Bad => Availability::Unknown,
        // Slurm alone decides on nodes that Tessera does not manage, for jobs that do not ask for it.
        None if want.managed => Availability::Never,
        None => Availability::Now,
        // What the last job held is not given back before its epilog is over; and a job that starts before Slurm knows
        // the node's devices would get none.
        Some(true) if node.completing || !node.registered => Availability::Later,
        // A power budget leaves no cap that the job may start with.
        Some(true) if !engine.has_power(node, question) => Availability::Later,
        Some(true) => Availability::Now,
        // Plain shards of a GPU that is Slurm's alone, or more than a device has, which Slurm may have from several: it
        // counts them, those of unhealthy GPUs, too.
        Some(false)
            if plain_shards && (engine.leaves_some(node) || engine.exceeds_devices(node, question)) =>
        {
            match (engine.has_sick(node), node.completing) {
                (true, _) => Availability::Unknown,
                (false, true) => Availability::Later,
                (false, false) => Availability::Now,
            }
        }
        Some(false) if engine.fits_ever(node, question) == Some(true) => {
            if engine.needs_sick(node, question) { Availability::Unknown } else { Availability::Later }
        }
        Some(false) => Availability::Never,
    }
}

/// The first of the jobs' ends, from `start` on, after which the request fits the node, in seconds since 1970; `None`
/// if it does at `start`, or never.
///
/// Jobs that end by `start` are gone then, as in Slurm's own simulation.
pub(crate) fn first_fit(
    node: &Node,
    question: &Question,
    mut ends: Vec<(i64, JobId)>,
    start: i64,
) -> Option<i64> {
    let mut node = node.clone();
    ends.sort_unstable();
    let over = ends.partition_point(|(end, _)| *end <= start);
    let mut fits_without = |gone: &[(i64, JobId)]| {
        gone.iter().for_each(|(_, id)| {
            node.release(*id);
        });
        question.fits(&node)
    };
    if fits_without(&ends[..over]) {
        return None;
    }
    (over..ends.len()).find(|i| fits_without(&ends[*i..=*i])).map(|i| ends[i].0)
}
