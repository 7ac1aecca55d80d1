//! `job_test`: what happens before and after Slurm's own test of a job. Safe code on plain values: [`Slurm`] answers
//! questions, [`Effect`]s say what to write.
//!
//! # The order of effects
//!
//! `live::job_test` runs these steps. Each but the second has a guard of its own: if it fails, the next goes on.
//!
//! 1. *Before*: the job is read once, as [`PendingTest`]. Of a job that a limit forbids, or whose shards are not counted per node,
//!    [`PendingTest::before`] says so in a `Comment` and rules all nodes out. Else it gives, in this order: `Comment` where it said
//!    so before; `Shards` for a job that may have those of another size; `Layouts` of nodes on which a job has claimed
//!    devices of the pool of GPU tasks, or has let them go; `Order` for a job that gets one node of several; `RuleOut` for the nodes that cannot serve the job, and for those
//!    that it is led away from ([`Ways`](crate::memory::Ways)). Slurm looks for a job's shards on one GPU. For a job with several instances, `SearchShards`
//!    makes it look for one GPU with room for all of them, or, where enough nodes do not have that, for one of them.
//! 2. Slurm's own test runs once. It runs again in *will run* alone: after [`PendingTest::widened`], where busy nodes were left aside
//!    and the job cannot start on the others now, and after [`PendingTest::first_answer`], where another node may have a place for
//!    the job before the time to which step 5 would move its start.
//! 3. *After a failure* [`PendingTest::merely_waits`] may `Offer` nodes that have not registered. Nothing else is written.
//! 4. *After a success* of *run now*:
//!    - A job that wants nothing from us loses every `Placement`. `Slices` follows: those of the GPUs that Slurm gives it, else 0.
//!    - `Devices`, node by node, as decided. Each GPU of a job carries the same number of its instances, on all nodes: Slurm
//!      22.05 counts the same number of shards on each. All seats of a job of GPU tasks count on each GPU that it may use. They stay where a later node has no legal placement.
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
//! not: another job may have its slices ([`PendingTest::if_we_fail`]).

mod aside;
mod before;
mod chosen;
mod earlier;
mod start;
#[cfg(test)]
mod tests;
mod wait;
mod wait_without_placement;

use decision_counts::decisions::{self, Reason};
use geometry::JobId;

use crate::effect::Effect;
use crate::limited;
use crate::memory::Memory;
use crate::node_order::Costs;
use crate::slices;
use crate::slurm::{Ask, Slurm, Test};
use crate::view::{GresKind, JobView, Want};
use aside::Aside;
use start::Start;

pub(crate) use earlier::FirstAnswer;

/// Tessera's opinion of Slurm's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opinion {
    /// Slurm's answer stands.
    AsSlurmSays,
    /// The job cannot start, though Slurm says that it can.
    Refused(Reason),
    /// The job can start, though Slurm says that it never can.
    Possible,
}

/// How nodes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Now,
    Lately,
    No,
}

/// A job in one test, read once before Slurm's own.
#[derive(Debug)]
pub(crate) struct PendingTest {
    test: Test,
    view: JobView,
    /// `None`: nothing from us.
    want: Option<Want>,
    /// Nodes that could serve the job once all have registered: first those of whose devices Slurm does not know yet. Empty if
    /// Slurm knows all devices.
    once_registered: Vec<usize>,
    /// The nodes for a second test, where Slurm is asked when the job can start.
    aside: Aside,
    /// Enough nodes have GPUs above what the job waits for.
    has_good: bool,
    /// Shards of each of its instances, if it has several.
    per_instance: Option<u32>,
    /// The candidates for preemption, least important first: Slurm's own test may order them otherwise.
    victims: Vec<JobId>,
    /// Costs of the nodes that Slurm may choose from; empty if they keep Slurm's order.
    costs: Costs,
    /// Resource that the nodes lack from which Slurm was left to choose.
    lack: Option<Reason>,
}

impl PendingTest {
    /// Nothing has been decided yet.
    pub(crate) fn new(test: Test, view: JobView) -> Self {
        Self {
            test,
            want: view.want(),
            view,
            once_registered: Vec::new(),
            aside: Aside::default(),
            has_good: false,
            per_instance: None,
            victims: Vec::new(),
            costs: Costs::default(),
            lack: None,
        }
    }

    /// Tells whether the test is to start the job.
    fn starts(&self) -> bool {
        self.test.ask == Ask::RunNow
    }

    /// Tells whether the job can start only with devices that we choose for its part: among those of its reservation.
    pub(crate) fn picks_part(&self) -> bool {
        self.want.as_ref().is_some_and(|want| want.kind == GresKind::Shard && want.managed)
    }

    /// Tells whether Slurm's request for shards is to be put back after the test: Slurm was made to look for GPUs with another number than
    /// the job asks for, and does not start it.
    pub(crate) fn restores_shards(&self, slurm_says_yes: bool, opinion: Opinion) -> bool {
        let starts = slurm_says_yes && opinion == Opinion::AsSlurmSays && self.starts();
        self.per_instance.is_some() && !starts
    }

    /// Gives the opinion that holds if a bug of ours keeps us from one. A job that is to start with a part of a device must not: Slurm
    /// alone cannot give it that.
    pub(crate) fn if_we_fail(&self, slurm_says_yes: bool) -> Opinion {
        let wants_part = self.starts() && self.want.as_ref().is_some_and(|w| w.kind == GresKind::Shard);
        if slurm_says_yes && wants_part { Opinion::Refused(Reason::Failure) } else { Opinion::AsSlurmSays }
    }

    /// Gives the question to count, and the answer to it: yes, or why not. `None`: nothing of Tessera's was asked.
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

    /// Decides what follows when Slurm calls the job impossible. One that only has to wait until nodes register would be
    /// held with `BadConstraints`, for without devices there is no shard: these nodes are then the answer.
    pub(crate) fn merely_waits(&self) -> (Opinion, Vec<Effect>) {
        let wanted = usize::try_from(self.test.min_nodes.max(1)).unwrap_or(usize::MAX);
        match self.once_registered.get(..wanted) {
            Some(nodes) if self.test.ask == Ask::TestOnly => {
                (Opinion::Possible, vec![Effect::Offer(nodes.to_vec())])
            }
            _ => (Opinion::AsSlurmSays, Vec::new()),
        }
    }

    /// See [`Aside::widened`].
    pub(crate) fn widened(&self, starts_at: Option<i64>, now: u64) -> Option<Effect> {
        self.aside.widened(starts_at, now)
    }

    /// The look at the nodes for [`Self::before`]. A test that only predicts takes what was seen in this second.
    pub(crate) fn look_before(&self) -> Look {
        if self.starts() { Look::Now } else { Look::Lately }
    }

    /// The look at the nodes for [`Self::after`].
    pub(crate) fn look_after(&self) -> Look {
        match self.test.ask {
            Ask::RunNow => Look::Now,
            Ask::WillRun if self.want.is_some() => Look::Now,
            Ask::WillRun | Ask::TestOnly => Look::No,
        }
    }

    fn start<'a>(&'a self, want: &'a Want) -> Start<'a> {
        let Self { test, view, per_instance, victims, costs, .. } = self;
        Start { test, view, want, per_instance: *per_instance, victims, costs }
    }

    /// Decides what follows a success of Slurm's own test.
    pub(crate) fn after(&mut self, memory: &mut Memory, slurm: &impl Slurm) -> (Opinion, Vec<Effect>) {
        // Slurm's own test may have taken its time, and predicts starts from now on.
        self.view.now = slurm.now();
        match (self.test.ask, &self.want) {
            (Ask::RunNow, Some(want)) => self.start(want).now(memory, slurm),
            // Slurm may have chosen more nodes than the least.
            (Ask::RunNow, None)
                if self.draws_unplaced(&memory.engine)
                    && !self.short_of_power(&memory.engine, slurm.nodes(), true).is_empty() =>
            {
                (Opinion::Refused(Reason::Power), Effect::refusal().into())
            }
            (Ask::RunNow, None) => {
                let (view, engine) = (&self.view, &memory.engine);
                let takes = || slices::taken_without_decision(engine, view, slurm);
                if let Some(why) = limited::why_not_with(view, takes, engine) {
                    return (Opinion::Refused(Reason::Limit), limited::refuse(view, why));
                }
                (Opinion::AsSlurmSays, vec![Effect::Placement(None), Effect::Slices(takes().slices)])
            }
            (Ask::WillRun, Some(want)) => {
                start::later(&self.view, want, &mut memory.engine, slurm, self.has_good)
            }
            _ => (Opinion::AsSlurmSays, Vec::new()),
        }
    }
}
