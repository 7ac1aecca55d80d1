//! Power budgets in the engine: what running and ending jobs commit, and the caps that jobs start with.

use std::collections::{BTreeMap, HashSet};

use geometry::{GpuIndex, JobId};
use placement::{Budgets, Need, OnNode, Short};
use protocol::{Isolation, NodeGrant, Request};
use topology::GpuSet;

use super::auto_cap::{self, AutoCap};
use super::{Engine, Named, NodeEntry, Question};
use crate::view::CapOf;

/// GPUs and cap of a job on each of its nodes if Slurm chooses its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlurmsGpus {
    /// Number of the GPUs; `None`: all of the node.
    pub(crate) gpus: Option<u64>,
    /// The cap that it asks for, W.
    pub(crate) asked_w: Option<u16>,
    /// Nobody sets a cap for it.
    pub(crate) fixed: bool,
}

/// Every GPU of a node.
fn all_gpus(count: usize) -> GpuSet {
    (0_u16..).map(GpuIndex).take(count).collect()
}

impl NodeEntry {
    /// Lists the GPUs and the cap that each job commits here. A job whose epilog is not over still draws.
    fn draws(&self) -> Vec<(JobId, GpuSet, Option<u16>)> {
        if self.unmanaged {
            return vec![(JobId(0), all_gpus(self.node.gpus.len()), None)];
        }
        let of =
            |job: &JobId, given: &NodeGrant| (*job, given.grant.gpus().into_iter().collect(), given.cap_w);
        self.jobs.iter().chain(&self.ending).map(|(job, (_, given))| of(job, given)).collect()
    }
}

fn put(budgets: &mut Budgets, node: &str, draws: &[(JobId, GpuSet, Option<u16>)]) {
    budgets.set_jobs(node, draws.iter().map(|(_, gpus, cap_w)| (*gpus, *cap_w)));
}

impl Question {
    fn cap_of(&self) -> CapOf<'_> {
        CapOf { request: &self.ask.request, partition: self.partition.as_deref() }
    }

    /// Derives the need of the question's job on each of its nodes, with the cap that it asks for.
    fn need(&self, asked_w: Option<u16>) -> Need {
        let Request { isolation, gpus, .. } = &self.ask.request;
        let whole = *isolation == Isolation::Whole || gpus.is_some();
        let gpus = if whole { gpus.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX)) } else { 1 };
        Need { gpus, whole, asked_w, fixed: false }
    }
}

impl Engine {
    /// Tells whether the site has power budgets.
    pub(crate) fn has_budgets(&self) -> bool {
        self.budgets.committed().next().is_some()
    }

    /// Watts of its budgets that a node's GPUs commit; `None`: the node is in no budget.
    pub(super) fn watts_on(&self, node: &str) -> Option<u32> {
        self.budgets.watts_on(node)
    }

    /// Counts a node's jobs again. Its neighbours' answers may be others from now on.
    pub(super) fn recount(&mut self, node: &str) {
        let Some(entry) = self.nodes.get(node).filter(|_| self.budgets.limits(node)) else { return };
        put(&mut self.budgets, node, &entry.draws());
        let beside: HashSet<&str> = self.budgets.beside(node).collect();
        for name in beside {
            if let Some(other) = self.nodes.get_mut(name) {
                other.now.clear();
            }
        }
    }

    /// The cap that a request is to have on a node, at most, W: the one that it states, or the most efficient one.
    fn asked_on(&self, node: &str, of: CapOf<'_>) -> Option<u16> {
        of.request.cap_w.or_else(|| self.auto_cap(node, of)?.cap_w)
    }

    /// The highest of the caps that a request is to have on these nodes; `None` where it is to have none on some.
    fn asked_on_all(&self, nodes: &[&str], of: CapOf<'_>) -> Option<u16> {
        let asked: Option<Vec<u16>> = nodes.iter().map(|node| self.asked_on(node, of)).collect();
        asked?.into_iter().max()
    }

    /// The most efficient cap of a request on a node, and why; `None`: it does not ask for that, or the node is not managed.
    pub(crate) fn auto_cap(&self, node: &str, of: CapOf<'_>) -> Option<AutoCap> {
        auto_cap::of_request(of, self.nodes.get(node)?.spec, &self.config)
    }

    /// GPUs of a node of which the question's job could get one as its budgets are now; `None`: any.
    pub(crate) fn powered_gpus(&self, node: &str, question: &Question) -> Option<GpuSet> {
        self.budgets.possible(node, self.asked_on(node, question.cap_of()))
    }

    /// Tells whether a node's budgets leave what a job needs that fits there otherwise.
    pub(crate) fn has_power<N: Named + ?Sized>(&self, node: &N, question: &Question) -> bool {
        if !self.has_budgets() {
            return true;
        }
        let node = node.name();
        let Some(entry) = self.nodes.get(node) else { return true };
        let Some(possible) = self.powered_gpus(node, question) else { return true };
        let need = question.need(self.asked_on(node, question.cap_of()));
        self.budgets.has_room(node, need).is_ok()
            && (possible == all_gpus(entry.node.gpus.len())
                || question.clone().within(possible).fits(&entry.node))
    }

    /// Finds the budget that keeps the question's job from a node, and why; `None`: none does.
    pub(crate) fn short_of_power(&self, node: &str, question: &Question) -> Option<Short> {
        // Where there is room for the job beside others, but not for these others' GPUs, one more GPU is what is missing.
        let need = question.need(self.asked_on(node, question.cap_of()));
        let fresh = Need { whole: true, ..need };
        self.budgets.has_room(node, need).and_then(|()| self.budgets.has_room(node, fresh)).err()
    }

    /// Returns those of these nodes that cannot serve the question's job at the same time.
    pub(crate) fn too_many<'n>(&self, nodes: &[&'n str], question: &Question) -> Vec<&'n str> {
        let asked_w = self.asked_on_all(nodes, question.cap_of());
        let need = question.need(asked_w);
        let kept = self.budgets.together(nodes.iter().map(|node| (*node, need)));
        nodes.iter().zip(kept).filter(|(_, kept)| !kept).map(|(node, _)| *node).collect()
    }

    /// Returns those of these nodes whose budgets lack the watts of a job that gets its GPUs from Slurm alone: each by itself,
    /// or, with `at_once`, all of them together, counted in their order.
    pub(crate) fn without_power<'n>(&self, nodes: &[&'n str], of: SlurmsGpus, at_once: bool) -> Vec<&'n str> {
        let SlurmsGpus { gpus, asked_w, fixed } = of;
        let need = |node: &str| {
            let count = || self.nodes.get(node).map_or(0, |entry| entry.node.gpus.len());
            let gpus = gpus.and_then(|gpus| usize::try_from(gpus).ok());
            Need { gpus: gpus.unwrap_or_else(count), whole: true, asked_w, fixed }
        };
        let fits: Vec<bool> = if at_once {
            self.budgets.together(nodes.iter().map(|node| (*node, need(node))))
        } else {
            nodes.iter().map(|node| self.budgets.has_room(node, need(node)).is_ok()).collect()
        };
        nodes.iter().zip(fits).filter(|(_, fits)| !fits).map(|(node, _)| *node).collect()
    }

    /// Gives a job its cap on each of its nodes: the highest that its budgets leave, at most what it asks for and the site
    /// allows. True: a budget makes it lower.
    ///
    /// # Errors
    ///
    /// The budget that leaves less than the job may start with.
    pub(crate) fn set_caps(&self, grants: &mut [(String, NodeGrant)], of: CapOf<'_>) -> Result<bool, Short> {
        let names: Vec<&str> = grants.iter().map(|(node, _)| node.as_str()).collect();
        let asked_w = self.asked_on_all(&names, of);
        let gpus: Vec<GpuSet> =
            grants.iter().map(|(_, given)| given.grant.gpus().into_iter().collect()).collect();
        let places: Vec<OnNode<'_>> =
            grants.iter().zip(&gpus).map(|((node, _), gpus)| OnNode { node, gpus: *gpus }).collect();
        let cap = self.budgets.cap(&places, asked_w)?;
        let mut lower = false;
        for (node, given) in grants {
            let site_w =
                self.nodes.get(node).and_then(|entry| self.config.nodes.get(entry.spec)?.power.cap_w);
            let most = lower_of(asked_w, site_w);
            given.cap_w = if self.budgets.limits(node) { lower_of(cap, most) } else { most };
            lower |= given.cap_w != most;
        }
        Ok(lower)
    }

    /// Gives a job that has started already the lowest cap that it may have where [`Self::set_caps`] finds no other.
    pub(crate) fn set_caps_late(&self, grants: &mut [(String, NodeGrant)], of: CapOf<'_>) {
        if self.set_caps(grants, of).is_err() {
            let floors = self.config.power_budgets.iter().filter_map(|budget| budget.floor_w).min();
            for (node, given) in grants {
                let site_w =
                    self.nodes.get(node).and_then(|entry| self.config.nodes.get(entry.spec)?.power.cap_w);
                given.cap_w = lower_of(lower_of(self.asked_on(node, of), site_w), floors);
            }
        }
    }

    /// Tells whether jobs of these nodes leave enough power for the question's job once these are gone.
    pub(crate) fn has_power_without(
        &self,
        nodes: &[&str],
        question: &Question,
        gone: &HashSet<JobId>,
    ) -> bool {
        let mut budgets = self.budgets.clone();
        for name in self.concerned(nodes) {
            let mut draws = self.nodes.get(name).map(NodeEntry::draws).unwrap_or_default();
            draws.retain(|(job, _, _)| !gone.contains(job));
            put(&mut budgets, name, &draws);
        }
        let need = question.need(self.asked_on_all(nodes, question.cap_of()));
        budgets.together(nodes.iter().map(|node| (*node, need))).into_iter().all(|fits| fits)
    }

    /// The first moment from `start` on at which jobs that end by then leave enough power on these nodes, seconds since 1970;
    /// `start` if that is not known. `end` tells when a job ends.
    pub(crate) fn first_powered(
        &self,
        nodes: &[&str],
        question: &Question,
        end: &dyn Fn(JobId) -> i64,
        start: i64,
    ) -> i64 {
        let concerned = self.concerned(nodes);
        if concerned.is_empty() || self.has_power_without(nodes, question, &HashSet::new()) {
            return start;
        }
        let mut ends: BTreeMap<i64, HashSet<JobId>> = BTreeMap::new();
        for entry in concerned.iter().filter_map(|name| self.nodes.get(*name)) {
            for job in entry.jobs.keys() {
                ends.entry(end(*job).max(start)).or_default().insert(*job);
            }
            ends.entry(start).or_default().extend(entry.ending.keys());
        }
        // The more jobs are gone, the more power is left.
        let ends: Vec<(i64, HashSet<JobId>)> = ends.into_iter().collect();
        let (mut few, mut many) = (0, ends.len());
        while few < many {
            let middle = few + (many - few) / 2;
            let gone = ends[..=middle].iter().flat_map(|(_, jobs)| jobs).copied().collect();
            if self.has_power_without(nodes, question, &gone) {
                many = middle;
            } else {
                few = middle + 1;
            }
        }
        ends.get(few).map_or(start, |(at, _)| *at)
    }

    /// These nodes, where they are in a budget, and those beside them.
    fn concerned<'n>(&'n self, nodes: &[&'n str]) -> HashSet<&'n str> {
        let limited = nodes.iter().copied().filter(|name| self.budgets.limits(name));
        limited.flat_map(|name| self.budgets.beside(name).chain([name])).collect()
    }
}

fn lower_of(a: Option<u16>, b: Option<u16>) -> Option<u16> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
