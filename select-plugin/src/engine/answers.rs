//! Answers whether a request can be placed on a node: now, ever, or without other jobs.

use std::collections::{BTreeSet, HashSet};

use geometry::JobId;
use node_state::Node;
use placement::{Admission, HostResources, Victim, least_victims};
use protocol::{Request, Standing};

use super::{Engine, Named, Question, keep};
use crate::view::NodeView;

impl Engine {
    /// Tells whether the request can be placed on the node as it is now; `None`: Slurm alone places jobs there.
    pub(crate) fn fits_now<N: Named + ?Sized>(&mut self, node: &N, question: &Question) -> Option<bool> {
        let number = self.number(question);
        let entry = self.nodes.get_mut(node).filter(|e| !e.unmanaged && e.standing == Standing::Same)?;
        if !question.may_fit(entry.room, &entry.node) {
            return Some(false);
        }
        if let Some(known) = entry.now.get(&number) {
            return Some(*known);
        }
        // One decision serves both: whether there is room, and in which order Slurm takes nodes.
        let fits = if question.is_whole() {
            question.fits(&entry.node)
        } else {
            entry.weigh(number, question).is_some()
        };
        keep(&mut entry.now, number, fits);
        Some(fits)
    }

    /// Tells whether the request could be placed on the node with nothing else on it; `None`: the node is not managed.
    pub(crate) fn fits_ever<N: Named + ?Sized>(&mut self, node: &N, question: &Question) -> Option<bool> {
        let spec = self.managed(node)?.spec;
        let key = (spec, self.number(question));
        if let Some(known) = self.ever.get(&key) {
            return Some(*known);
        }
        let fits = question.fits(&site_limits::node_of(self.config.nodes.get(spec)?));
        keep(&mut self.ever, key, fits);
        Some(fits)
    }

    /// Tells whether the request has no place on the node, whatever ends there, before an unhealthy GPU takes jobs again.
    pub(crate) fn needs_sick<N: Named + ?Sized>(&self, node: &N, question: &Question) -> bool {
        let Some(entry) = self.managed(node).filter(|entry| !entry.sick.is_empty()) else { return false };
        let Some(spec) = self.config.nodes.get(entry.spec) else { return false };
        let mut empty = site_limits::node_of(spec);
        for (gpu, now) in empty.gpus.iter_mut().zip(&entry.node.gpus) {
            gpu.left_out = now.left_out;
        }
        !question.fits(&empty)
    }

    /// Tells whether Slurm, for which unhealthy GPUs are free, could choose more GPUs on the node than are healthy and free, if it
    /// chooses up to `most`.
    pub(crate) fn lacks_healthy<N: Named + ?Sized>(&self, node: &N, most: u64) -> bool {
        let Some(entry) = self.managed(node).filter(|entry| !entry.sick.is_empty()) else { return false };
        let gpus = &entry.node.gpus;
        let free = gpus.iter().filter(|gpu| !gpu.left_out && !gpu.has_job()).count();
        (free as u64) < most.min(gpus.len() as u64)
    }

    /// Tells whether a plan's place on its node could be had now; false without a place.
    pub(crate) fn has_planned_place(&self, question: &Question) -> bool {
        let place = question.plan.as_ref().and_then(|p| p.place.as_ref());
        place.and_then(|p| Some((p, self.node(&p.node)?))).is_some_and(|(place, node)| {
            let decision = question.clone().on(&place.node).decide(node);
            decision.report.planned == Some((place.start, true))
        })
    }

    /// The shards that a request counts for in Slurm, on whichever of these nodes counts fewest; `None`: none of them
    /// could ever serve it with a part of a GPU. The request is of the question's job, whose limits bind it.
    pub(crate) fn shards(&mut self, request: &Request, question: &Question, names: &[String]) -> Option<u32> {
        let specs: BTreeSet<usize> = names.iter().filter_map(|n| self.managed(n)).map(|e| e.spec).collect();
        specs.into_iter().filter_map(|spec| self.shards_of_spec(spec, request, question)).min()
    }

    fn shards_of_spec(&mut self, spec: usize, request: &Request, question: &Question) -> Option<u32> {
        let key = (spec, request.clone(), question.key.limits.clone());
        if let Some(known) = self.counted.get(&key) {
            return *known;
        }
        let node = site_limits::node_of(self.config.nodes.get(spec)?);
        let counted = match placement::admits_ever(&node, request, &question.policy) {
            Ok(Admission::Shards(count)) => Some(count),
            Ok(Admission::Gpus(_)) | Err(_) => None,
        };
        keep(&mut self.counted, key, counted);
        counted
    }

    /// Tells whether some of `victims` hold something on the node and the request could be placed there without them.
    pub(crate) fn fits_without<N: Named + ?Sized>(
        &self,
        node: &N,
        question: &Question,
        victims: &HashSet<JobId>,
    ) -> bool {
        let Some(entry) = self.nodes.get(node) else { return false };
        entry.jobs.keys().any(|id| victims.contains(id)) && question.fits(&without(&entry.node, victims))
    }

    /// The fewest and least important of `victims`, which come least important first, that must go beside those that are
    /// `going`, for the request to fit the node and for it to have what it `lacks` there. `None`: that would not help, or
    /// the node is not managed.
    pub(crate) fn least_victims(
        &self,
        node: &str,
        question: &Question,
        going: &[JobId],
        victims: &[Victim],
        lacks: HostResources,
    ) -> Option<Vec<JobId>> {
        let node = without(&self.managed(node)?.node, &going.iter().copied().collect());
        least_victims(&node, &question.ask.on(&node), &question.policy, victims, lacks)
    }

    /// Tells whether the request would fit the node once these are gone.
    pub(crate) fn fits_once_gone(&self, node: &str, question: &Question, gone: &[JobId]) -> bool {
        let gone = gone.iter().copied().collect();
        self.managed(node).is_some_and(|entry| question.fits(&without(&entry.node, &gone)))
    }

    /// Slurm's own accounts do not let the request be placed on the node as it is now: not asked again until it
    /// changes, or other nodes would never get a turn.
    pub(crate) fn refused<N: Named + ?Sized>(&mut self, node: &N, question: &Question) {
        let number = self.number(question);
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.now.insert(number, false);
        }
    }

    /// Notes a refusal of nodes of which each has room alone: not asked again until one of their power budgets has changed.
    pub(crate) fn refused_everywhere(&mut self, nodes: &[NodeView], question: &Question) {
        nodes.iter().for_each(|node| self.refused(node, question));
    }
}

/// A node once these jobs are gone.
pub(crate) fn without(node: &Node, jobs: &HashSet<JobId>) -> Node {
    let mut node = node.clone();
    node.release_all(&|job| jobs.contains(&job));
    node
}
