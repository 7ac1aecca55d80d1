//! A stream under one rule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use geometry::JobId;
use node_state::Policy;
use protocol::Grant;

use super::class::Class;
use super::event::StreamEvent;
use super::grmu::Grmu;
use super::learnt::Learnt;
use super::node::NodeState;
use super::rule::Rule;
use super::site::{StreamJob, StreamSite};
use super::summary::{StreamSummary, Sums, seconds};

/// Runs the jobs, which are in the order of submission, on the empty site. With `queue`, jobs wait; otherwise a job without a
/// place is dropped. Jobs submitted before `warm_ms` are left out of the summary.
pub fn simulate(
    site: &StreamSite,
    jobs: &[StreamJob],
    (rule, queue, warm_ms): (Rule, bool, u64),
    on_event: &mut dyn FnMut(&StreamEvent<'_>),
) -> StreamSummary {
    let mut run = Run::new(site, jobs, rule, warm_ms);
    let mut coming = 0;
    loop {
        let submit = jobs.get(coming).map(|job| job.submit_ms);
        let end = run.ends.peek().map(|Reverse((end, ..))| *end);
        let Some(now) = submit.into_iter().chain(end).min() else { break };
        run.pass(now);
        run.end_jobs(now, on_event);
        while let Some(job) = jobs.get(coming).filter(|job| job.submit_ms <= now) {
            run.submitted(coming, job);
            run.waiting.push(coming);
            coming += 1;
            if !queue {
                run.start_jobs(now, on_event);
                run.drop_waiting(now, on_event);
            }
        }
        if queue {
            run.start_jobs(now, on_event);
            if run.ends.is_empty() && coming == jobs.len() {
                run.drop_waiting(now, on_event);
            }
        }
    }
    run.sums.finish()
}

pub(super) struct Run<'a> {
    pub(super) site: &'a StreamSite,
    pub(super) jobs: &'a [StreamJob],
    pub(super) rule: Rule,
    warm_ms: u64,
    last_submit_ms: u64,
    pub(super) classes: Vec<Class>,
    pub(super) class_of: Vec<usize>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) grmu: Option<Grmu>,
    pub(super) learnt: Option<Learnt>,
    /// In the order of submission.
    pub(super) waiting: Vec<usize>,
    /// When a job ends, the job, and how often it has been moved.
    pub(super) ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    pub(super) ran: HashMap<usize, (Vec<(usize, Grant)>, u32)>,
    now_ms: u64,
    pub(super) busy: usize,
    pub(super) sums: Sums,
}

/// The job as the kernel knows it: no job has the number 0.
pub(super) fn id(job: usize) -> JobId {
    JobId(u32::try_from(job + 1).unwrap_or(u32::MAX))
}

impl<'a> Run<'a> {
    fn new(site: &'a StreamSite, jobs: &'a [StreamJob], rule: Rule, warm_ms: u64) -> Self {
        let (classes, class_of) = Class::of(jobs);
        let nodes: Vec<NodeState> = site.nodes.iter().map(NodeState::new).collect();
        let grmu = (rule == Rule::Grmu).then(|| Grmu::new(&nodes));
        let learnt = (rule == Rule::Learnt).then(Learnt::new);
        Self {
            site,
            jobs,
            rule,
            warm_ms,
            last_submit_ms: jobs.last().map_or(0, |job| job.submit_ms),
            classes,
            class_of,
            nodes,
            grmu,
            learnt,
            waiting: Vec::new(),
            ends: BinaryHeap::new(),
            ran: HashMap::new(),
            now_ms: 0,
            busy: 0,
            sums: Sums::default(),
        }
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.site.policy
    }

    /// Counts the GPUs in use up to `now`.
    fn pass(&mut self, now: u64) {
        let (from, to) = (self.now_ms.max(self.warm_ms), now.min(self.last_submit_ms));
        if from < to {
            self.sums.opened += self.busy as u128 * u128::from(to - from);
            self.sums.opened_ms += to - from;
        }
        self.now_ms = now;
    }

    pub(super) fn counts(&self, job: usize) -> bool {
        self.jobs[job].submit_ms >= self.warm_ms
    }

    fn submitted(&mut self, at: usize, job: &StreamJob) {
        let class = &self.classes[self.class_of[at]];
        if let Some(learnt) = &mut self.learnt {
            learnt.saw(&self.nodes, class, &self.site.policy);
        }
        if self.counts(at) {
            self.sums.summary.submitted += 1;
            self.sums.gpu_s_asked += self.gpu_s(at);
            self.sums.summary.whole_node_submitted += usize::from(self.site.asks_for_node(job));
        }
    }

    fn end_jobs(&mut self, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
        while let Some(Reverse((at_ms, job, moved))) =
            self.ends.peek().copied().filter(|Reverse(e)| e.0 <= now)
        {
            self.ends.pop();
            if self.ran.get(&job).is_some_and(|(_, moves)| *moves == moved) {
                on_event(&StreamEvent::End { job, at_ms });
                let (parts, _) = self.ran.remove(&job).unwrap_or_default();
                parts.iter().for_each(|(node, _)| self.leave(*node, id(job)));
            }
        }
        let moves = self.grmu.as_mut().map(|grmu| grmu.consolidate(&self.nodes, now));
        self.requeue(moves.unwrap_or_default(), now, on_event);
    }

    /// Computes the GPU time that the job asks for, s, as on the first node: see [`NodeState::gpus`].
    pub(super) fn gpu_s(&self, job: usize) -> f64 {
        let class = &self.classes[self.class_of[job]];
        let gpus = self.nodes.first().map_or(0.0, |node| node.gpus(class, self.policy()));
        seconds(self.jobs[job].run_ms) * gpus
    }

    pub(super) fn leave(&mut self, node: usize, job: JobId) {
        let state = &mut self.nodes[node];
        self.busy -= state.busy();
        state.end(job);
        self.busy += state.busy();
        if let Some(grmu) = &mut self.grmu {
            grmu.released(node, &state.node);
        }
    }

    fn drop_waiting(&mut self, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
        for job in std::mem::take(&mut self.waiting) {
            on_event(&StreamEvent::Drop { job, at_ms: now });
        }
    }
}
