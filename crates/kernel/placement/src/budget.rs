//! Power budgets: what the GPUs of some nodes may draw together.
//!
//! # Problem
//!
//! In each budget, the caps of GPUs with jobs and the idle draw of the others add up to at most its watts. Running jobs keep
//! the caps that they began with, so the cap of a starting job is all that can be chosen.
//!
//! # Terminology
//!
//! - *Commitment* of a GPU: the highest cap of the jobs on it, or its idle draw. A job without a cap counts as the node's
//!   `cap_w`.
//! - *Floor*: the lowest cap with which a job starts, [`PowerBudget::floor`].
//!
//! # Approach
//!
//! Sums are kept per node and budget and corrected when the jobs of a node change. A job has one cap on all its nodes, at most
//! each node's `cap_w`: it is as fast as its slowest GPU. What a start commits does not fall when the cap rises, so
//! bisection finds the highest cap that fits.

use std::collections::{BTreeSet, HashMap};

use geometry::GpuIndex;
use node_state::{PowerBudget, PowerRange};
use topology::GpuSet;

/// Watts committed in every budget.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    budgets: Vec<PowerBudget>,
    /// Watts committed in each.
    committed: Vec<u32>,
    nodes: HashMap<String, Powered>,
}

/// A node of some budget.
#[derive(Clone, Debug)]
struct Powered {
    range: PowerRange,
    /// Budgets, as places in [`Budgets::budgets`].
    within: Vec<usize>,
    /// GPUs that Slurm gives out alone: their jobs are not seen here, so they count as used.
    unseen: GpuSet,
    /// The highest cap on each GPU; `None` without jobs.
    caps: Vec<Option<u16>>,
    /// The sum over its GPUs.
    watts: u32,
}

/// A job on one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode<'a> {
    /// The node's name.
    pub node: &'a str,
    /// GPUs of which the job gets something.
    pub gpus: GpuSet,
}

/// Need of a job on a node before it is known which of its GPUs the job gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// GPUs of which it gets something.
    pub gpus: usize,
    /// Gets them whole: those that have no jobs.
    pub whole: bool,
    /// The cap that it asks for, W.
    pub asked_w: Option<u16>,
    /// The cap cannot be set: it starts with the node's `cap_w` or not at all.
    pub fixed: bool,
}

/// A job does not fit into a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "power budget {budget} has {free} of {watts} W free, {need} W more are needed with GPUs at {floor_w} W"
)]
pub struct Short {
    /// The budget's hostlist.
    pub budget: String,
    /// Watts that the budget allows.
    pub watts: u32,
    /// Watts that are not committed.
    pub free: u32,
    /// Watts that the job would add with the lowest cap that it may start with.
    pub need: u32,
    /// The lowest cap, W.
    pub floor_w: u16,
}

impl Powered {
    /// Gives the highest cap, W, of a job with this cap of its own, or without one, here.
    fn at_most(&self, asked_w: Option<u16>) -> u16 {
        asked_w.map_or(self.range.cap_w, |asked| asked.min(self.range.cap_w))
    }

    fn of_gpu(&self, cap: Option<u16>) -> u32 {
        u32::from(cap.map_or(self.range.idle_w, |cap| cap.max(self.range.idle_w)))
    }

    /// Watts that the node commits more if a job gets these GPUs with this cap.
    fn rise(&self, gpus: GpuSet, cap_w: u16) -> u32 {
        gpus.iter().map(|gpu| self.rise_of(gpu, cap_w)).sum()
    }

    /// Watts that the node commits more if a job gets something of so many GPUs: those for which it is least.
    fn least_rise(&self, need: Need, cap_w: u16) -> u32 {
        let comes = |now: &&Option<u16>| !need.whole || now.is_none();
        let of = |now: &Option<u16>| self.of_gpu((*now).max(Some(cap_w))) - self.of_gpu(*now);
        let mut each: Vec<u32> = self.caps.iter().filter(comes).map(of).collect();
        each.sort_unstable();
        each.iter().take(need.gpus).sum()
    }

    fn rise_of(&self, gpu: GpuIndex, cap_w: u16) -> u32 {
        let Some(now) = self.caps.get(usize::from(gpu.0)) else { return 0 };
        self.of_gpu((*now).max(Some(cap_w))) - self.of_gpu(*now)
    }
}

impl Budgets {
    /// Budgets without jobs. `nodes` has each node's name, number of GPUs, those of them that Slurm gives out alone, and their
    /// power; nodes that are in no budget are passed over.
    #[must_use]
    pub fn new<'a>(
        budgets: &[PowerBudget],
        nodes: impl Iterator<Item = (&'a str, usize, GpuSet, PowerRange)>,
    ) -> Self {
        let mut own =
            Self { budgets: budgets.to_vec(), committed: vec![0; budgets.len()], ..Self::default() };
        let mut holding: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, budget) in budgets.iter().enumerate() {
            budget.nodes.iter().for_each(|node| holding.entry(node).or_default().push(at));
        }
        for (name, gpus, unseen, range) in nodes {
            let Some(within) = holding.remove(name) else { continue };
            let powered = Powered { range, within, unseen, caps: vec![None; gpus], watts: 0 };
            own.nodes.insert(name.to_owned(), powered);
            own.set_jobs(name, std::iter::empty());
        }
        own
    }

    /// Makes these all jobs on a node: the GPUs of each, and its cap.
    pub fn set_jobs(&mut self, node: &str, jobs: impl Iterator<Item = (GpuSet, Option<u16>)>) {
        let Some(powered) = self.nodes.get_mut(node) else { return };
        powered.caps.fill(None);
        for (gpus, cap_w) in jobs.chain([(powered.unseen, None)]) {
            // A running job keeps a cap above what the node allows by now.
            let cap_w = Some(cap_w.unwrap_or(powered.range.cap_w));
            for (_, cap) in (0_u16..).zip(&mut powered.caps).filter(|(gpu, _)| gpus.contains(GpuIndex(*gpu)))
            {
                *cap = cap_w.max(*cap);
            }
        }
        let before = powered.watts;
        powered.watts = powered.caps.iter().map(|cap| powered.of_gpu(*cap)).sum();
        for at in &powered.within {
            self.committed[*at] = self.committed[*at] - before + powered.watts;
        }
    }

    /// Each budget with what is committed in it, W.
    pub fn committed(&self) -> impl Iterator<Item = (&PowerBudget, u32)> {
        self.budgets.iter().zip(self.committed.iter().copied())
    }

    /// Watts that the GPUs of a node commit; `None`: the node is in no budget.
    #[must_use]
    pub fn watts_on(&self, node: &str) -> Option<u32> {
        self.nodes.get(node).map(|powered| powered.watts)
    }

    /// The other nodes that are in a budget with this one; a node can come twice.
    pub fn beside<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a str> {
        let within = self.nodes.get(node).into_iter().flat_map(|powered| &powered.within);
        within.flat_map(|at| &self.budgets[*at].nodes).map(String::as_str).filter(move |other| *other != node)
    }

    /// GPUs of a node of which a job that may have `asked_w` could get one, and that job alone; `None`: the node is in no
    /// budget.
    #[must_use]
    pub fn possible(&self, node: &str, asked_w: Option<u16>) -> Option<GpuSet> {
        let powered = self.nodes.get(node)?;
        let floor_w = self.floor_on(powered, asked_w);
        let fits = |gpu: &GpuIndex| {
            let need = powered.rise_of(*gpu, floor_w);
            powered.within.iter().all(|at| self.check(*at, need, floor_w).is_ok())
        };
        Some((0_u16..).map(GpuIndex).take(powered.caps.len()).filter(fits).collect())
    }

    /// Tells whether a job can get what it needs of a node, on the GPUs that cost least; true for a node in no budget.
    ///
    /// # Errors
    ///
    /// The budget that is too small.
    pub fn has_room(&self, node: &str, need: Need) -> Result<(), Short> {
        let Some(powered) = self.nodes.get(node) else { return Ok(()) };
        let floor_w = self.least_cap(powered, need);
        let more = powered.least_rise(need, floor_w);
        powered.within.iter().try_for_each(|at| self.check(*at, more, floor_w))
    }

    /// On which of these nodes a job can get what it needs of each at the same time, counted in their order. Where their floors
    /// differ, [`Self::cap`] may still refuse them all together.
    #[must_use]
    pub fn together<'n>(&self, nodes: impl Iterator<Item = (&'n str, Need)>) -> Vec<bool> {
        let mut committed = self.committed.clone();
        let fits = |(name, need): (&str, Need)| {
            let Some(powered) = self.nodes.get(name) else { return true };
            let more = powered.least_rise(need, self.least_cap(powered, need));
            let fits = powered.within.iter().all(|at| committed[*at] + more <= self.budgets[*at].watts);
            if fits {
                powered.within.iter().for_each(|at| committed[*at] += more);
            }
            fits
        };
        nodes.map(fits).collect()
    }

    /// The highest cap that a job can start with on all these nodes, at most `asked_w`, W. On each node it then has that, or the
    /// node's `cap_w` if that is lower. `None`: no node is in a budget.
    ///
    /// # Errors
    ///
    /// Its floor does not fit: the budget that is too small.
    pub fn cap(&self, job: &[OnNode<'_>], asked_w: Option<u16>) -> Result<Option<u16>, Short> {
        let held: Vec<(&Powered, GpuSet)> =
            job.iter().filter_map(|on| Some((self.nodes.get(on.node)?, on.gpus))).collect();
        let touched: BTreeSet<usize> =
            held.iter().flat_map(|(powered, _)| powered.within.iter().copied()).collect();
        let (Some(mut low), Some(mut high)) = (
            held.iter().map(|(powered, _)| self.floor_on(powered, asked_w)).max(),
            held.iter().map(|(powered, _)| powered.at_most(asked_w)).max(),
        ) else {
            return Ok(None);
        };
        let check = |cap_w: u16| {
            touched.iter().try_for_each(|at| {
                let inside = held.iter().filter(|(powered, _)| powered.within.contains(at));
                let need =
                    inside.map(|(powered, gpus)| powered.rise(*gpus, cap_w.min(powered.at_most(asked_w))));
                self.check(*at, need.sum(), cap_w)
            })
        };
        check(low)?;
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if check(middle).is_ok() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(Some(low))
    }

    /// Tells whether a node is in a budget.
    #[must_use]
    pub fn limits(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    fn least_cap(&self, powered: &Powered, need: Need) -> u16 {
        if need.fixed { powered.range.cap_w } else { self.floor_on(powered, need.asked_w) }
    }

    fn floor_on(&self, powered: &Powered, asked_w: Option<u16>) -> u16 {
        let asked = powered.at_most(asked_w);
        powered.within.iter().map(|at| self.budgets[*at].floor(asked)).max().unwrap_or(asked)
    }

    fn free(&self, at: usize) -> u32 {
        self.budgets[at].watts.saturating_sub(self.committed[at])
    }

    fn check(&self, at: usize, need: u32, floor_w: u16) -> Result<(), Short> {
        let PowerBudget { name, watts, .. } = &self.budgets[at];
        // More may be committed than is allowed: the budget was larger when jobs started.
        if self.committed[at].saturating_add(need) <= *watts {
            return Ok(());
        }
        Err(Short { budget: name.clone(), watts: *watts, free: self.free(at), need, floor_w })
    }
}
