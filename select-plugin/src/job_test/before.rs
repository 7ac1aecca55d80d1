//! The steps before Slurm's own test: the nodes that each rules out, its writes, and the reason.

use std::collections::HashSet;

use decision_counts::decisions::Reason;
use geometry::JobId;
use node_state::{Node, Spread};
use protocol::{CommentBody, Request};
use site_limits::COUNTED_PER_NODE;

use super::aside::Aside;
use super::{PendingTest, wait};
use crate::effect::{Effect, Layout};
use crate::engine::{Engine, Question, SEARCHES};
use crate::learnt::Learnt;
use crate::lifecycle_hooks::epilogs_over;
use crate::limited;
use crate::memory::{Memory, Tried, Ways};
use crate::narrow::{Mode, Narrowed, keep_to_plan, narrow, not_bound_for};
use crate::node_order::Costs;
use crate::patience::Patient;
use crate::slurm::{Ask, Slurm, Test};
use crate::view::{GresKind, JobView, NodeView, Want};

impl PendingTest {
    /// Runs all steps. Their order is that of the effects in the head of `job_test`.
    pub(crate) fn before(&mut self, memory: &mut Memory, slurm: &impl Slurm) -> Vec<Effect> {
        let mut effects = Vec::from_iter(self.ended_draws_nothing(memory, slurm));
        let Memory { engine, tried, learnt, .. } = memory;
        let nodes = slurm.nodes();
        let question = self.question(engine, nodes);
        if self.test.ask != Ask::TestOnly {
            effects.extend(self.keep_to_limits(engine, question.as_ref(), nodes, slurm));
            if self.lack.is_some() {
                return effects;
            }
        }
        if self.want.is_none() {
            effects.extend(self.wait_without_placement(engine, tried, slurm));
            return effects;
        }
        let (Some(want), Some(question)) = (&self.want, question) else { return effects };
        let (view, test) = (&self.view, self.test);
        let run_now = self.test.ask == Ask::RunNow;
        self.victims = if run_now && test.may_preempt { slurm.victims() } else { Vec::new() };
        let gone_before = match test.ask {
            Ask::RunNow => tried.take(view),
            // Backfill starts a job only on the nodes that are foretold.
            Ask::WillRun => Ways { vetoed: tried.vetoed(view), ..Ways::default() },
            Ask::TestOnly => Ways::default(),
        };
        let asking = Asking { test, view, want, question, nodes, slurm, gone_before };

        effects.extend(asking.own_size(engine));
        let (instances, mut ways) = asking.instances(engine);
        if let Some(Instances { shards_of_one, together }) = instances {
            self.per_instance = Some(shards_of_one);
            effects.push(Effect::SearchShards(shards_of_one.saturating_mul(together)));
        }
        asking.expire_claims(engine);
        let mut narrowed = asking.candidates(engine, &self.victims);
        self.lack = narrowed.lack(run_now, test.min_nodes);
        ways = ways.and(asking.keep_to_powered(engine, &mut narrowed));
        asking.keep_to_bound(&mut narrowed);
        asking.keep_from_vetoed(&mut narrowed);
        ways = ways.and(asking.keep_to_plan(engine, &mut narrowed));
        let (has_good, keeps_to_good) = asking.keep_to_good(engine, &mut narrowed);
        self.has_good = has_good;
        let held_back = Ways { held_back: narrowed.held_back, ..Ways::default() };
        ways = ways.and(keeps_to_good).and(held_back);
        if run_now {
            asking.claim(engine, &narrowed);
            effects.extend(claims_shown(engine));
            let (says, lack) = asking.why_it_waits(engine, &narrowed, self.lack);
            self.lack = lack;
            effects.extend(Effect::said(view, says));
            tried.add(view, ways);
        }
        self.once_registered = narrowed.once_registered();
        self.aside = Aside::of((test, want), self.may_look_earlier(), engine, slurm, &mut narrowed);
        let costs = asking.costs(engine, learnt, &narrowed);
        let order = costs.places();
        effects.extend((!order.is_empty()).then_some(Effect::Order(order)));
        effects.push(Effect::RuleOut(narrowed.out));
        self.costs = costs;
        effects
    }

    /// Takes back what jobs drew that have ended: nobody may have looked at their nodes since.
    fn ended_draws_nothing(&self, memory: &mut Memory, slurm: &impl Slurm) -> Option<Effect> {
        if !self.starts() || !memory.engine.has_budgets() {
            return None;
        }
        let over = epilogs_over(memory, || slurm.completing());
        (!over.is_empty()).then_some(Effect::Layouts(over))
    }

    /// Holds a job that a limit forbids, or whose shards nobody counts: then [`Self::lack`] says so. Else takes back what was said
    /// of that before, and rules out the nodes that count otherwise.
    fn keep_to_limits(
        &mut self,
        engine: &mut Engine,
        question: Option<&Question>,
        nodes: &[NodeView],
        slurm: &impl Slurm,
    ) -> Vec<Effect> {
        let why = limited::why(&self.view, self.test.min_nodes, || slurm.within_reach().to_vec(), engine);
        let none_left = || {
            let (want, nodes) = (self.want.as_ref()?, self.test.min_nodes);
            limited::none_left(&self.view, want, question?, (nodes, slurm.within_reach()), engine)
        };
        if let Some(why) = why.or_else(none_left) {
            self.lack = Some(Reason::Limit);
            return limited::block_on_limit(&self.view, why, nodes);
        }
        let mut effects = Vec::new();
        if limited::counts_otherwise(&self.view) {
            let ours = nodes.iter().filter(|node| engine.node(*node).is_some());
            let ours: Vec<usize> = ours.map(|node| node.index).collect();
            if ours.len() == nodes.len() {
                self.lack = Some(Reason::Impossible);
                return limited::block_on_limit(&self.view, COUNTED_PER_NODE.to_owned(), nodes);
            }
            effects.push(Effect::RuleOut(ours));
        }
        effects.extend(limited::clear_limit_note(&mut self.view));
        effects
    }

    /// Keeps a job without a placement of ours from nodes that cannot take it.
    fn wait_without_placement(&self, engine: &Engine, tried: &mut Tried, slurm: &impl Slurm) -> Vec<Effect> {
        let held = [
            self.say_that_it_waits_for_nodes(engine, slurm),
            self.rule_out_unfit(engine, slurm),
            self.rule_out_unregistered(engine, slurm),
            self.rule_out_without_power(engine, tried, slurm),
        ];
        held.into_iter().flatten().collect()
    }

    /// Makes the question to the nodes. A plan counts as none that neither any of these nodes nor its own could ever carry out. Its own
    /// node may be missing here because it is full or completing: another model's coming free first must not undo the plan.
    fn question(&mut self, engine: &mut Engine, nodes: &[NodeView]) -> Option<Question> {
        let want = self.want.as_ref()?;
        let ask = self.test.ask;
        let ask_for = |engine: &Engine, view: &JobView, want: &Want| match ask {
            // Slurm holds a job for good that could never start. One that a limit forbids waits.
            Ask::TestOnly => engine.unlimited(view, want),
            Ask::RunNow | Ask::WillRun => engine.question(view, want),
        };
        let question = ask_for(engine, &self.view, want);
        let Some(plan) = &want.plan else { return Some(question) };
        let own = plan.place.as_ref().map(|place| place.node.as_str());
        let mut names = nodes.iter().map(|n| &*n.name).chain(own);
        if names.any(|name| engine.fits_ever(name, &question) == Some(true)) {
            return Some(question);
        }
        self.want = self.view.want_unplanned();
        self.want.as_ref().map(|want| ask_for(engine, &self.view, want))
    }
}

/// A job's question to the nodes that Slurm offers.
struct Asking<'a, S> {
    test: Test,
    view: &'a JobView,
    want: &'a Want,
    question: Question,
    nodes: &'a [NodeView],
    slurm: &'a S,
    /// The ways on which the last test led the job.
    gone_before: Ways,
}

/// Number of a job's instances that Slurm is to look for on one GPU.
struct Instances {
    shards_of_one: u32,
    together: u32,
}

impl<S: Slurm> Asking<'_, S> {
    fn run_now(&self) -> bool {
        self.test.ask == Ask::RunNow
    }

    /// Puts the job's own size back into Slurm's accounts: not that of a plan that counts no more, nor one of before a requeue.
    fn own_size(&self, engine: &mut Engine) -> Option<Effect> {
        let want = self.want;
        if want.kind != GresKind::Shard || !self.view.was_resized() || !want.request.is_moldable() {
            return None;
        }
        engine.shards(&want.request, &self.question, self.slurm.within_reach()).map(Effect::Shards)
    }

    /// Has Slurm look for all instances on one GPU if enough nodes have such a GPU free now, else for one of them. `None`: the
    /// job has one instance, or something else.
    fn instances(&self, engine: &mut Engine) -> (Option<Instances>, Ways) {
        let one = several_instances(self.want).filter(|_| self.test.ask != Ask::TestOnly);
        let shards = one.and_then(|one| engine.shards(&one, &self.question, self.slurm.within_reach()));
        let Some(shards_of_one) = shards else { return (None, Ways::default()) };
        let on_one = self.question.clone().spread(Spread::OneGpu);
        let may_wait = self.run_now() && !self.gone_before.together;
        if may_wait && enough_have_room(engine, &on_one, self.test.min_nodes, self.nodes) {
            let instances = Instances { shards_of_one, together: self.want.request.instances };
            return (Some(instances), Ways { together: true, ..Ways::default() });
        }
        (Some(Instances { shards_of_one, together: 1 }), Ways::default())
    }

    fn expire_claims(&self, engine: &mut Engine) {
        if engine.has_claims() {
            engine.expire_claims(self.view.now, &|job| self.slurm.is_pending(job));
        }
    }

    /// Rules out the nodes that cannot serve the job.
    fn candidates(&self, engine: &mut Engine, victims: &[JobId]) -> Narrowed {
        let victims: HashSet<JobId> = victims.iter().copied().collect();
        let mode = match self.test.ask {
            Ask::RunNow if !self.test.may_preempt => Mode::RunNow,
            Ask::RunNow => Mode::Preempt { victims: &victims, widen: self.gone_before.held_back },
            Ask::TestOnly => Mode::TestOnly,
            Ask::WillRun => Mode::WillRun,
        };
        narrow(engine, &self.question, self.want, mode, self.test.min_nodes, self.nodes)
    }

    /// Keeps a job to as many nodes as have power for it at once: each has, and all of them together may not. A job of one node whatever
    /// Slurm chooses needs one.
    fn keep_to_powered(&self, engine: &Engine, narrowed: &mut Narrowed) -> Ways {
        let gets_one = self.test.min_nodes < 2 && self.view.ranked;
        if !self.run_now() || gets_one || self.gone_before.powered {
            return Ways::default();
        }
        let kept = self.nodes.iter().filter(|node| !narrowed.out.contains(&node.index));
        let kept: Vec<&str> = kept.map(|node| &*node.name).collect();
        let surplus = engine.too_many(&kept, &self.question);
        let out = self.nodes.iter().filter(|node| surplus.contains(&&*node.name)).map(|node| node.index);
        narrowed.out.extend(out);
        Ways { powered: !surplus.is_empty(), ..Ways::default() }
    }

    /// Keeps a job that is planned beside others to its plan's node.
    fn keep_to_bound(&self, narrowed: &mut Narrowed) {
        if self.test.ask != Ask::TestOnly {
            narrowed.out.extend(not_bound_for(&self.question, self.nodes));
        }
    }

    /// Keeps the job from a node where it had no place beside its others, if enough others have room: Slurm would choose the same again.
    fn keep_from_vetoed(&self, narrowed: &mut Narrowed) {
        let Some(vetoed) = self.gone_before.vetoed.filter(|vetoed| !narrowed.out.contains(vetoed)) else {
            return;
        };
        let required = self.nodes.iter().any(|node| node.required && node.index == vetoed);
        if !required && narrowed.ready > self.test.min_nodes.max(1) {
            narrowed.out.push(vetoed);
        }
    }

    /// Keeps the job to the node that its plan names.
    fn keep_to_plan(&self, engine: &Engine, narrowed: &mut Narrowed) -> Ways {
        if !self.run_now() || self.gone_before.planned {
            return Ways::default();
        }
        let others = keep_to_plan(engine, &self.question, self.test.min_nodes, self.nodes);
        let planned = !others.is_empty();
        narrowed.out.extend(others);
        Ways { planned, ..Ways::default() }
    }

    /// Keeps a job that waits for better GPUs to nodes that have them. Whether enough have comes first.
    fn keep_to_good(&self, engine: &mut Engine, narrowed: &mut Narrowed) -> (bool, Ways) {
        let patient = Patient::of(&self.question, self.view).filter(|_| self.test.ask != Ask::TestOnly);
        let Some(patient) = patient else { return (false, Ways::default()) };
        let split = patient.split(engine, &self.question, self.nodes);
        let has_good = split.has_good(self.test.min_nodes);
        let good = self.run_now() && has_good && !self.gone_before.good;
        if good {
            narrowed.out.extend(split.poor);
        }
        (has_good, Ways { good, ..Ways::default() })
    }

    /// Finds what the job's best choice on each node that is left costs everybody else. A job that Slurm may give several nodes keeps
    /// Slurm's order: it would fill the cheapest node with the tasks or GPUs that fit there and go on to the next. Nobody chooses for a
    /// job that names its node.
    fn costs(&self, engine: &mut Engine, learnt: &Learnt, narrowed: &Narrowed) -> Costs {
        let names_its_node = self.nodes.iter().any(|node| node.required);
        if self.test.ask == Ask::TestOnly || !self.view.ranked || self.test.min_nodes > 1 || names_its_node {
            return Costs::default();
        }
        let Some(fill) = engine.fill(&self.question) else { return Costs::default() };
        if !self.view.gres.iter().all(|entry| entry.per_node > 0) {
            // `--gpus=3`. Of one GPU there are no links, and a number per task or socket has no end.
            let several = (2..u64::MAX).contains(&self.view.most_gpus);
            return if several && self.nodes.len() > 1 { Costs::by_slurm() } else { Costs::default() };
        }
        let (mut out, mut searches) = (narrowed.out.clone(), SEARCHES);
        out.sort_unstable();
        let mut cost = |node: &NodeView| {
            let expected = |state: &Node, takes| learnt.expected(node.index, state, takes, self.view.cpus);
            engine.cost_now(node, &self.question, fill, &mut searches, expected)
        };
        let left = self.nodes.iter().filter(|node| out.binary_search(&node.index).is_err());
        Costs::of(left.map(|node| (node.index, &*node.name, cost(node))))
    }

    /// Claims what an isolated job is to get of the pool of GPU tasks, if that alone keeps it waiting.
    fn claim(&self, engine: &mut Engine, narrowed: &Narrowed) {
        if !self.question.is_isolated() {
            return;
        }
        let (id, now, wanted) = (self.view.id, self.view.now, self.test.min_nodes.max(1));
        if narrowed.ready >= wanted {
            return engine.renew_claims(id, now);
        }
        let missing = usize::try_from(wanted - narrowed.ready).unwrap_or(usize::MAX);
        let later = narrowed.later.iter().filter_map(|at| self.nodes.get(*at));
        engine.claim(&self.question, (self.nodes, later), missing, now, &|job| self.slurm.end_of(job));
    }

    /// Tells the job's user why it waits: for power, or for slices. The lack is then that of power.
    fn why_it_waits(
        &self,
        engine: &mut Engine,
        narrowed: &Narrowed,
        lack: Option<Reason>,
    ) -> (CommentBody, Option<Reason>) {
        if let Some(short) = self.short_of_power(engine, narrowed) {
            return (CommentBody::Power(short), lack.map(|_| Reason::Power));
        }
        let says = match lack {
            Some(Reason::NoRoom) => wait::for_slices(&self.want.request),
            Some(Reason::Config) => wait::for_nodes(engine, self.nodes).unwrap_or_default(),
            _ => CommentBody::Nothing,
        };
        (says, lack)
    }

    /// Finds the budget that keeps the job from a node where it would fit, if too few have room.
    fn short_of_power(&self, engine: &mut Engine, narrowed: &Narrowed) -> Option<String> {
        if !engine.has_budgets() || narrowed.ready >= self.test.min_nodes.max(1) {
            return None;
        }
        let fits = |node: &&NodeView| engine.fits_now(*node, &self.question) == Some(true);
        let waiting = self.nodes.iter().filter(|node| narrowed.out.contains(&node.index));
        let waiting: Vec<&NodeView> = waiting.filter(fits).collect();
        let short = waiting.iter().find_map(|node| engine.short_of_power(&node.name, &self.question));
        short.map(|short| short.to_string())
    }
}

/// A request for one of a job's several instances; `None` if it has one, or something else.
fn several_instances(want: &Want) -> Option<Request> {
    let several = want.managed
        && want.kind == GresKind::Shard
        && !want.keep_choice
        && want.request.instances > 1
        && !want.request.is_moldable();
    several.then(|| Request { instances: 1, ..want.request.clone() })
}

/// Tells whether enough of these nodes have room now.
fn enough_have_room(engine: &mut Engine, question: &Question, min_nodes: u32, nodes: &[NodeView]) -> bool {
    let has_room = |node: &&NodeView| {
        !node.completing && node.registered && !node.unfit && engine.fits_now(*node, question) == Some(true)
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
