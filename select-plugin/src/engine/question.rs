//! The question of a job to a node.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use decision_report::Decision;
use geometry::{GpuIndex, Uid};
use mapa::Memo;
use node_state::{Ask, Kind, Node, Policy, Spread};
use placement::{Least, Room, decide_with, fits};
use protocol::moldable::PlannedStart;
use protocol::{Bandwidth, Isolation, Plan, Request};
use site_config::Limit;
use site_limits::counted::chooses;
use site_limits::limits_of;
use topology::GpuSet;

use super::Engine;
use crate::view::{GresKind, JobView, Want};

/// The need of a job on one node, as `decide` takes it.
#[derive(Clone)]
pub(crate) struct Question {
    /// The request, and who asks.
    pub(crate) ask: Ask,
    pub(super) policy: Policy,
    /// The least that it needs of a node.
    least: Least,
    pub(super) key: Key,
    /// Generation and number of the key, once it was asked for; see `keys`.
    pub(super) number: Cell<(u32, Number)>,
    memo: Arc<Mutex<Memo>>,
    /// Place that the user wants for the instance, on whatever node.
    wish: Option<PlannedStart>,
    /// The planner's decision that the request follows.
    pub(crate) plan: Option<Plan>,
    /// The partition that its job is tested in.
    pub(super) partition: Option<String>,
}

/// A question's number, which `keys` gives. It is another one after all answers were forgotten.
pub(super) type Number = u32;

/// Everything that an answer depends on, in addition to the node's state.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    request: Request,
    /// Place in the file of what it says of the job's partition: sets are chosen by that.
    described: Option<usize>,
    /// User whose shares or compute instances it may join; `None` where it cannot join any.
    uid: Option<Uid>,
    shards: bool,
    /// True if it may have GPUs that the site leaves to Slurm.
    plain: bool,
    /// The GPU that it waits for, beside others of its plan.
    only: Option<GpuIndex>,
    spread: Spread,
    /// The limits on what is chosen for the job, by their places in the file.
    pub(super) limits: Vec<usize>,
}

impl Question {
    /// Decides. A build for tests has every decision audited by code that shares nothing with it.
    pub(crate) fn decide(&self, node: &Node) -> Decision {
        let ask = self.ask.on(node);
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = decide_with(node, &ask, &self.policy, &mut memo);
        drop(memo);
        #[cfg(any(test, feature = "audited"))]
        if cfg!(any(debug_assertions, feature = "audited")) {
            let findings = audit::audit(node, &ask, &self.policy, &decision);
            assert!(
                findings.is_empty(),
                "audit of {ask:?} on {}: {findings:?}",
                node_layout::layout_of(node)
            );
        }
        decision
    }

    /// Tells whether anything may be chosen on a node with this room.
    pub(super) fn may_fit(&self, room: Room, node: &Node) -> bool {
        let may = room.may_fit(&self.least);
        if cfg!(debug_assertions) {
            assert!(may || !self.fits(node), "{:?} on {}", self.ask, node_layout::layout_of(node));
        }
        may
    }

    /// Tells whether anything would be chosen.
    pub(crate) fn fits(&self, node: &Node) -> bool {
        let fits = fits(node, &self.ask.on(node), &self.policy);
        if cfg!(debug_assertions) {
            assert_eq!(
                fits,
                self.decide(node).chosen.is_some(),
                "{:?} on {}",
                self.ask,
                node_layout::layout_of(node)
            );
        }
        fits
    }

    /// The question with the place that is wanted on this node. Whether it fits does not depend on that.
    pub(crate) fn on(mut self, node: &str) -> Self {
        self.ask.request.place = match &self.plan {
            Some(plan) => plan.start_on(node),
            None => self.wish,
        };
        self
    }

    /// The question with this limit to how instances may lie on the GPUs.
    pub(crate) fn spread(mut self, spread: Spread) -> Self {
        self.ask.spread = spread;
        self.key.spread = spread;
        self.number = Cell::default();
        self
    }

    /// Tells whether limits bind what is chosen for its job.
    pub(crate) fn is_limited(&self) -> bool {
        !self.key.limits.is_empty()
    }

    /// The question with these GPUs permitted and no others.
    pub(crate) fn within(mut self, gpus: GpuSet) -> Self {
        self.ask.allowed = Some(self.ask.allowed.map_or(gpus, |allowed| allowed.and(gpus)));
        self
    }

    /// The question whether exactly these GPUs are free as whole ones.
    pub(crate) fn of_whole(mut self, gpus: GpuSet) -> Self {
        let count = u32::try_from(gpus.len()).ok();
        self.ask.request = Request { gpus: count, ..Request::new(Isolation::Whole) };
        self.ask.allowed = Some(gpus);
        self.ask.quotas.clear();
        self.least = Least::of(&self.ask, &self.policy);
        self
    }

    /// Tells whether its job gets what no other job is on, so that it may have to wait for the pool of GPU tasks.
    pub(crate) fn is_isolated(&self) -> bool {
        !matches!(self.ask.request.isolation, Isolation::Mps | Isolation::Tasks { .. })
    }

    /// Tells whether the job wants good links between several GPUs, rather than GPUs near its cores.
    pub(crate) fn pays_for_links(&self) -> bool {
        let request = &self.ask.request;
        let needs = request.bandwidth.unwrap_or(self.policy.sets.bandwidth) == Bandwidth::Sensitive;
        needs && request.gpus.is_some_and(|n| n > 1)
    }
}

impl Engine {
    /// The limits on what is chosen for a job: of a kind, or of an instance, that it does not name.
    fn limits_on_choice(&self, view: &JobView, want: &Want) -> Vec<&Limit> {
        if !chooses(&want.request) || self.config.limits.is_empty() {
            return Vec::new();
        }
        limits_of(&view.submission(), &self.config)
    }

    /// Makes a question of what a job wants, with the site's defaults filled in.
    pub(crate) fn question(&self, view: &JobView, want: &Want) -> Question {
        self.question_under(view, want, &self.limits_on_choice(view, want))
    }

    /// Makes the question as if no limit bound the job.
    pub(crate) fn unlimited(&self, view: &JobView, want: &Want) -> Question {
        self.question_under(view, want, &[])
    }

    fn question_under(&self, view: &JobView, want: &Want, limits: &[&Limit]) -> Question {
        let (job, uid) = (view.id, view.uid);
        let mut ask = Ask::new(job, uid, want.request.clone());
        let wish = ask.request.place.take();
        ask.spread = Spread::ALIKE;
        ask.plain = !want.managed;
        let bound = want.plan.as_ref().filter(|plan| plan.is_bound()).and_then(|plan| plan.place.as_ref());
        let only = bound.map(|place| place.start.gpu);
        ask.allowed = only.map(|gpu| [gpu].into_iter().collect());
        let mut policy = site_limits::policy_for(&self.config, want.partition.as_deref(), limits);
        if want.kind == GresKind::Shard {
            // Slurm accounts for it by shards: a whole GPU would be used behind its back.
            policy.auto.retain(|k| *k != Kind::Whole);
        }
        let joins =
            matches!(ask.request.isolation, Isolation::Mps | Isolation::Tasks { .. } | Isolation::Auto)
                || ask.request.compute_name().is_some();
        let key = Key {
            request: ask.request.clone(),
            described: self.config.partitions.iter().position(|p| Some(&p.name) == want.partition.as_ref()),
            uid: joins.then_some(uid),
            shards: want.kind == GresKind::Shard,
            plain: ask.plain,
            only,
            spread: ask.spread,
            limits: limits.iter().map(|limit| limit.number).collect(),
        };
        Question {
            least: Least::of(&ask, &policy),
            ask,
            policy,
            key,
            number: Cell::default(),
            memo: Arc::clone(&self.memo),
            wish,
            plan: want.plan.clone(),
            partition: want.partition.clone(),
        }
    }
}
