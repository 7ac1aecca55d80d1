//! `job_test`: what happens before and after Slurm's own test of a job. Safe code on plain values: [`Slurm`] answers
//! questions, [`Effect`]s say what to write.
//!
//! # The order of effects
//!
//! `ffi::job_test` runs these steps. Each but the second has a guard of its own: if it fails, the next goes on.
//!
//! 1. *Before*: the job is read once, as [`Case`]. Of a job that a limit forbids, or whose shards are not counted per node,
//!    [`Case::before`] says so in a `Comment` and rules all nodes out. Else it gives, in this order: `Comment` where it said
//!    so before; `Shards` for a job that may have those of another size; `Layouts` of nodes on which a job has claimed
//!    devices of the pool of GPU tasks, or has let them go; `RuleOut` for the nodes that cannot serve the job, and for those
//!    that it is led away from ([`Tried`](crate::memory::Tried)). Slurm looks for a job's shards on one GPU. For a job with several instances, `PerGpu`
//!    makes it look for one GPU with room for all of them, or, where enough nodes do not have that, for one of them.
//! 2. Slurm's own test runs, exactly once.
//! 3. *After a failure* [`Case::merely_waits`] may `Offer` nodes that have not registered. Nothing else is written.
//! 4. *After a success* of *run now*:
//!    - A job that wants nothing from us loses every `Placement`. `Slices` follows: those of the GPUs that Slurm gives it, else 0.
//!    - `Devices`, node by node, as decided. Each GPU of a job carries the same number of its instances, on all nodes: Slurm
//!      22.05 counts the same number of shards on each. They stay where a later node has no legal placement.
//!    - *All decided*: the job may let the set pass, see *hold*. Else `Placement`, `Why`, `Match`, `Slices`, and the decision
//!      is remembered until the job starts.
//!    - *A node vetoes*: `Preempt` for the fewest jobs that make room, then `Placement(None)`, and Slurm's answer
//!      stands: "once these are gone". The job may still let what it would get pass, see *hold*. If preemption does not
//!      help, `Placement(None)` and `Unallocate`: the start is refused.
//! 5. *After a success* of *will run*: `StartAt`, unless jobs have to go first; the job may let the start pass, see *hold*.
//!
//! *Hold* refuses a start on poor GPUs: `Comment` where the wait begins, `JobsChanged`, `Placement(None)`, `Unallocate`.
//!
//! If step 4 or 5 fails, a job with devices of its own starts as under plain cons_tres. One with a part of a device must
//! not: another job may have its slices ([`Case::wants_part`]).

mod asked;
mod hold;
mod start;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::HashSet;

use admission::COUNTED_PER_NODE;
use decision_counts::decisions::{self, Reason};
use geometry::JobId;
use node_state::Spread;
use protocol::{Request, Says};

use crate::effect::{Effect, Layout};
use crate::engine::{Engine, Question};
use crate::life::epilogs_over;
use crate::limited;
use crate::memory::Memory;
use crate::narrow::{Mode, Narrowed, keep_to_plan, narrow, not_bound_for};
use crate::patience::Patient;
use crate::slices;
use crate::view::{GresKind, JobView, NodeView, Want};

pub(crate) use asked::{Ask, Slurm, Test};

/// A request for one of a job's several instances; `None` if it has one, or something else.
fn several_instances(want: &Want) -> Option<Request> {
    let several = want.managed
        && want.kind == GresKind::Shard
        && !want.keep_choice
        && want.request.instances > 1
        && !want.request.is_moldable();
    several.then(|| Request { instances: 1, ..want.request.clone() })
}

/// Whether enough of these nodes have room now.
fn enough_have_room(engine: &mut Engine, question: &Question, min_nodes: u32, nodes: &[NodeView]) -> bool {
    let has_room = |node: &&NodeView| {
        !node.completing
            && node.registered
            && !node.unfit
            && engine.fits_now(&node.name, question) == Some(true)
    };
    nodes.iter().filter(has_room).count() >= min_nodes.max(1) as usize
}

/// The layouts that claims have changed.
fn claims_shown(engine: &mut Engine) -> Option<Effect> {
    let names = engine.take_claimed_nodes();
    let shown = |node: String| engine.layout(&node).map(|text| Layout { node, text });
    let layouts: Vec<Layout> = names.into_iter().filter_map(shown).collect();
    (!layouts.is_empty()).then_some(Effect::Layouts(layouts))
}

/// What Tessera makes of Slurm's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opinion {
    /// Slurm's answer stands.
    AsSlurmSays,
    /// The job cannot start, though Slurm says that it can.
    Refused(Reason),
    /// The job can start, though Slurm says that it never can.
    Possible,
}

/// One job in one test, read once before Slurm's own.
#[derive(Debug)]
pub(crate) struct Case {
    test: Test,
    view: JobView,
    /// `None`: nothing from us.
    want: Option<Want>,
    /// Nodes that could serve the job once all have registered: first those of whose devices Slurm does not know yet. Empty if
    /// Slurm knows all devices.
    once_registered: Vec<usize>,
    /// Enough nodes have GPUs above what the job waits for.
    has_good: bool,
    /// Shards of each of its instances, if it has several.
    per_instance: Option<u32>,
    /// The candidates for preemption, least important first: Slurm's own test may order them otherwise.
    victims: Vec<JobId>,
    /// What the nodes lack that Slurm was left to choose from.
    lack: Option<Reason>,
}

impl Case {
    /// Nothing has been decided yet.
    pub(crate) fn new(test: Test, view: JobView) -> Self {
        Self {
            test,
            want: view.want(),
            view,
            once_registered: Vec::new(),
            has_good: false,
            per_instance: None,
            victims: Vec::new(),
            lack: None,
        }
    }

    /// Whether the test is to start the job.
    pub(crate) fn starts(&self) -> bool {
        self.test.ask == Ask::RunNow
    }

    /// Whether Slurm was made to look for GPUs with another number of shards than the job asks for.
    pub(crate) fn looks_per_gpu(&self) -> bool {
        self.per_instance.is_some()
    }

    /// Whether the job is to start with a part of a device, which Slurm alone cannot give it.
    pub(crate) fn wants_part(&self) -> bool {
        self.test.ask == Ask::RunNow && self.want.as_ref().is_some_and(|w| w.kind == GresKind::Shard)
    }

    /// What is asked, and the answer to it: yes, or why not. `None`: nothing of Tessera's was asked.
    pub(crate) fn counts(
        &self,
        slurm_says_yes: bool,
        opinion: Opinion,
    ) -> Option<(decisions::Ask, Result<(), Reason>)> {
        let answer = match opinion {
            Opinion::Refused(why) => Err(why),
            Opinion::AsSlurmSays if !slurm_says_yes => Err(self.lack.unwrap_or(Reason::Slurm)),
            Opinion::AsSlurmSays | Opinion::Possible => Ok(()),
        };
        let ours = self.want.is_some() || self.lack.is_some() || matches!(opinion, Opinion::Refused(_));
        ours.then_some((self.test.ask.into(), answer))
    }

    /// What goes before Slurm's own test.
    pub(crate) fn before(&mut self, memory: &mut Memory, slurm: &impl Slurm) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.starts() && memory.engine.has_budgets() {
            // What has ended draws no more, and nobody may have looked at the nodes since.
            let over = epilogs_over(memory, || slurm.completing());
            effects.extend((!over.is_empty()).then_some(Effect::Layouts(over)));
        }
        let Memory { engine, tried, .. } = memory;
        if self.test.ask != Ask::TestOnly {
            if let Some(why) = limited::why(&self.view, || slurm.within_reach(), engine.site()) {
                self.lack = Some(Reason::Limit);
                effects.extend(limited::held(&self.view, why, &slurm.nodes()));
                return effects;
            }
            if limited::counts_otherwise(&self.view) {
                let nodes = slurm.nodes();
                let (ours, others): (Vec<NodeView>, Vec<NodeView>) =
                    nodes.into_iter().partition(|node| engine.node(&node.name).is_some());
                if others.is_empty() {
                    self.lack = Some(Reason::Impossible);
                    effects.extend(limited::held(&self.view, COUNTED_PER_NODE.to_owned(), &ours));
                    return effects;
                }
                effects.push(Effect::RuleOut(ours.iter().map(|node| node.index).collect()));
            }
            effects.extend(limited::freed(&self.view));
        }
        if self.want.is_none() {
            effects.extend(self.hold_unfit(slurm));
            effects.extend(self.hold_exclusive(engine, slurm));
            effects.extend(self.hold_without_power(engine, slurm));
            return effects;
        }
        let nodes = slurm.nodes();
        self.give_up_impossible_plan(engine, &nodes);
        let Some(want) = &self.want else { return effects };
        let Test { ask, min_nodes, may_preempt, .. } = self.test;
        let id = self.view.id;
        if want.kind == GresKind::Shard && self.view.was_resized() && want.request.is_moldable() {
            // A plan that counts no more, or a size of before a requeue, must not stay in Slurm's accounts.
            effects.extend(engine.shards(&want.request, &slurm.within_reach()).map(Effect::Shards));
        }
        let run_now = ask == Ask::RunNow;
        if run_now && may_preempt {
            self.victims = slurm.victims();
        }
        let victims: HashSet<JobId> = self.victims.iter().copied().collect();
        let mode = match ask {
            Ask::RunNow if !may_preempt => Mode::RunNow,
            Ask::RunNow => Mode::Preempt { victims: &victims, widen: tried.widen.take(id) },
            Ask::TestOnly => Mode::TestOnly,
            Ask::WillRun => Mode::WillRun,
        };
        let question = engine.question(id, self.view.uid, want);
        if let Some(per_instance) = several_instances(want).filter(|_| ask != Ask::TestOnly) {
            self.per_instance = engine.shards(&per_instance, &slurm.within_reach());
            let on_one = question.clone().spread(Spread::OneGpu);
            let may_wait = run_now && !tried.apart.take(id);
            let together = may_wait && enough_have_room(engine, &on_one, min_nodes, &nodes);
            if together {
                tried.apart.set(id);
            }
            let per_gpu = if together { want.request.instances } else { 1 };
            effects.extend(self.per_instance.map(|one| Effect::PerGpu(one.saturating_mul(per_gpu))));
        }
        if engine.has_claims() {
            engine.expire_claims(self.view.now, &|job| slurm.is_pending(job));
        }
        let mut narrowed = narrow(engine, &question, want, mode, min_nodes, &nodes);
        self.lack = narrowed.lack(run_now, min_nodes);
        if ask != Ask::TestOnly {
            narrowed.out.extend(not_bound_for(&question, &nodes));
        }
        if run_now && !tried.off_plan.take(id) {
            let others = keep_to_plan(engine, &question, min_nodes, &nodes);
            if !others.is_empty() {
                narrowed.out.extend(others);
                tried.off_plan.set(id);
            }
        }
        if let Some(patient) = Patient::of(&question, &self.view).filter(|_| ask != Ask::TestOnly) {
            let split = patient.split(engine, &question, &nodes);
            self.has_good = split.has_good(min_nodes);
            if run_now && self.has_good && !tried.off_good.take(id) {
                narrowed.out.extend(split.poor);
                tried.off_good.set(id);
            }
        }
        if run_now && question.is_isolated() {
            self.claim(engine, &question, &narrowed, slurm);
        }
        if run_now {
            effects.extend(claims_shown(engine));
        }
        if narrowed.held_back {
            tried.widen.set(id);
        }
        if run_now {
            let short = (engine.has_budgets() && narrowed.ready < min_nodes.max(1)).then(|| {
                let fits = |node: &&NodeView| engine.fits_now(&node.name, &question) == Some(true);
                let waiting = nodes.iter().filter(|node| narrowed.out.contains(&node.index));
                let waiting: Vec<&NodeView> = waiting.filter(fits).collect();
                waiting.iter().find_map(|node| engine.short_of_power(&node.name, &question))
            });
            let says = match (short.flatten(), self.lack) {
                (Some(short), lack) => {
                    self.lack = lack.map(|_| Reason::Power);
                    Says::Power(short.to_string())
                }
                (None, Some(Reason::NoRoom)) => wait::for_slices(&want.request),
                (None, _) => Says::Nothing,
            };
            effects.extend(wait::said(&self.view, want, says));
        }
        self.once_registered = narrowed.once_registered();
        effects.push(Effect::RuleOut(narrowed.out));
        effects
    }

    /// An isolated job that only the pool of GPU tasks keeps waiting claims what it is to get of it.
    fn claim(&self, engine: &mut Engine, question: &Question, narrowed: &Narrowed, slurm: &impl Slurm) {
        let (id, now, wanted) = (self.view.id, self.view.now, self.test.min_nodes.max(1));
        if narrowed.ready >= wanted {
            return engine.renew_claims(id, now);
        }
        let missing = usize::try_from(wanted - narrowed.ready).unwrap_or(usize::MAX);
        let later: Vec<&str> = narrowed.later.iter().map(String::as_str).collect();
        engine.claim(question, &later, missing, now, &|job| slurm.end_of(job));
    }

    /// Lets a plan count as none that neither any of these nodes nor its own could ever carry out. Its own node may be
    /// missing here because it is full or completing: another model's coming free first must not undo the plan.
    fn give_up_impossible_plan(&mut self, engine: &mut Engine, nodes: &[NodeView]) {
        let Some(want) = &self.want else { return };
        let Some(plan) = &want.plan else { return };
        let question = engine.question(self.view.id, self.view.uid, want);
        let own = plan.place.as_ref().map(|place| place.node.as_str());
        let mut names = nodes.iter().map(|n| n.name.as_str()).chain(own);
        if !names.any(|name| engine.fits_ever(name, &question) == Some(true)) {
            self.want = self.view.want_unplanned();
        }
    }

    /// What follows when Slurm calls the job impossible. One that only has to wait until nodes register would be held
    /// with `BadConstraints`, for without devices there is no shard: these nodes are then the answer.
    pub(crate) fn merely_waits(&self) -> (Opinion, Vec<Effect>) {
        let wanted = usize::try_from(self.test.min_nodes.max(1)).unwrap_or(usize::MAX);
        match self.once_registered.get(..wanted) {
            Some(nodes) if self.test.ask == Ask::TestOnly => {
                (Opinion::Possible, vec![Effect::Offer(nodes.to_vec())])
            }
            _ => (Opinion::AsSlurmSays, Vec::new()),
        }
    }

    /// What follows a success of Slurm's own test.
    pub(crate) fn after(&mut self, memory: &mut Memory, slurm: &impl Slurm) -> (Opinion, Vec<Effect>) {
        // Slurm's own test may have taken its time, and foretells starts from now on.
        self.view.now = slurm.now();
        match (self.test.ask, &self.want) {
            (Ask::RunNow, Some(want)) => {
                start::now(&self.test, &self.view, (want, self.per_instance), &self.victims, memory, slurm)
            }
            // Slurm may have chosen more nodes than the least.
            (Ask::RunNow, None)
                if self.draws_unplaced(&memory.engine)
                    && !self.short_of_power(&memory.engine, &slurm.nodes(), true).is_empty() =>
            {
                (Opinion::Refused(Reason::Power), Effect::refusal().into())
            }
            (Ask::RunNow, None) => {
                let counted = slices::of_undecided(&memory.engine, &self.view, slurm);
                (Opinion::AsSlurmSays, vec![Effect::Placement(None), counted])
            }
            (Ask::WillRun, Some(want)) => {
                start::later(&self.view, want, &mut memory.engine, slurm, self.has_good)
            }
            _ => (Opinion::AsSlurmSays, Vec::new()),
        }
    }
}
