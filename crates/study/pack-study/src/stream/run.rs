//! A stream under one rule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use geometry::JobId;
use node_state::Policy;
use protocol::{Bandwidth, Grant, Isolation};

use super::class::Class;
use super::grmu::{Grmu, Move};
use super::node::NodeState;
use super::rule::Rule;
use super::site::{StreamJob, StreamSite};
use super::summary::{StreamSummary, Sums};

/// Something that happened. `job` is a position in the list of jobs; times in ms.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<'a> {
    /// A job starts.
    Start {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
        /// Its nodes, as positions in the site, and what it gets on each.
        parts: &'a [(usize, Grant)],
    },
    /// A job found no place at once, or never will.
    Drop {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
    },
    /// A job ends, or is stopped to start elsewhere.
    End {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
    },
}

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

struct Run<'a> {
    site: &'a StreamSite,
    jobs: &'a [StreamJob],
    rule: Rule,
    warm_ms: u64,
    last_submit_ms: u64,
    classes: Vec<Class>,
    class_of: Vec<usize>,
    nodes: Vec<NodeState>,
    grmu: Option<Grmu>,
    /// In the order of submission.
    waiting: Vec<usize>,
    /// When a job ends, the job, and how often it has been moved.
    ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    ran: HashMap<usize, (Vec<(usize, Grant)>, u32)>,
    now_ms: u64,
    busy: usize,
    sums: Sums,
}

/// The job as the kernel knows it: no job has the number 0.
fn id(job: usize) -> JobId {
    JobId(u32::try_from(job + 1).unwrap_or(u32::MAX))
}

impl<'a> Run<'a> {
    fn new(site: &'a StreamSite, jobs: &'a [StreamJob], rule: Rule, warm_ms: u64) -> Self {
        let (classes, class_of) = Class::of(jobs);
        let nodes: Vec<NodeState> =
            site.nodes.iter().map(|spec| NodeState::new(spec, classes.len())).collect();
        let grmu = (rule == Rule::Grmu).then(|| Grmu::new(&nodes));
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
            waiting: Vec::new(),
            ends: BinaryHeap::new(),
            ran: HashMap::new(),
            now_ms: 0,
            busy: 0,
            sums: Sums::default(),
        }
    }

    fn policy(&self) -> &'a Policy {
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

    fn counts(&self, job: usize) -> bool {
        self.jobs[job].submit_ms >= self.warm_ms
    }

    fn submitted(&mut self, at: usize, job: &StreamJob) {
        if self.counts(at) {
            self.sums.summary.submitted += 1;
            self.sums.summary.whole_node_submitted += usize::from(self.site.asks_for_node(job));
        }
    }

    fn end_jobs(&mut self, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
        while let Some(Reverse((at_ms, job, moved))) = self.ends.peek().copied().filter(|Reverse(e)| e.0 <= now) {
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

    fn leave(&mut self, node: usize, job: JobId) {
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

    /// Goes through the queue once.
    fn start_jobs(&mut self, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
        let mut reserved: Option<(u64, Vec<usize>)> = None;
        // Classes that found no place in this round, with and without the reserved nodes.
        let mut none = vec![[false; 2]; self.classes.len()];
        for job in std::mem::take(&mut self.waiting) {
            let class = self.class_of[job];
            let ends = now.saturating_add(self.jobs[job].run_ms);
            let anywhere = reserved.as_ref().is_none_or(|(from, _)| ends <= *from);
            if none[class][usize::from(anywhere)] {
                self.waiting.push(job);
                continue;
            }
            let without = reserved.as_ref().filter(|_| !anywhere).map_or(&[][..], |(_, nodes)| nodes);
            let mut parts = self.place(class, without);
            if parts.is_none() && self.make_room(class, now, on_event) {
                parts = self.place(class, without);
            }
            if let Some(parts) = parts
                && self.start(job, now, parts, on_event)
            {
                continue;
            }
            none[class][usize::from(anywhere)] = true;
            if reserved.is_none() {
                reserved = self.soonest(class);
            }
            self.waiting.push(job);
        }
    }

    /// Moves jobs for one of this class, if the rule does.
    fn make_room(&mut self, class: usize, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) -> bool {
        let moves = self.grmu.as_ref().map(|g| g.defragment(&self.nodes, &self.classes[class], self.policy()));
        let moves = moves.unwrap_or_default();
        let some = !moves.is_empty();
        self.requeue(moves, now, on_event);
        some
    }

    /// Chooses nodes and places.
    fn place(&mut self, at: usize, without: &[usize]) -> Option<Vec<(usize, Grant)>> {
        let (class, policy) = (&self.classes[at], self.policy());
        if let Some(grmu) = self.grmu.as_ref().filter(|_| class.nodes == 1) {
            return grmu.place(&self.nodes, class, policy, without).map(|part| vec![part]);
        }
        let whole = self.nodes.iter().filter(|node| node.is_kept_whole()).count();
        let refused = |opens: bool| matches!(self.rule, Rule::Quota(keep) if opens && whole <= keep);
        let mut found = Vec::new();
        for (node, state) in self.nodes.iter_mut().enumerate().filter(|(node, _)| !without.contains(node)) {
            let Some(placed) = state.place(at, class, self.rule, policy) else { continue };
            if !refused(placed.opens_node) {
                found.push((placed.key, node));
            }
        }
        // Slurm takes several nodes by their order, and Tessera does not rank those yet.
        if class.nodes == 1 {
            found = found.into_iter().min().into_iter().collect();
        }
        if found.len() < class.nodes {
            return None;
        }
        let parts = found.into_iter().take(class.nodes).filter_map(|(_, node)| {
            Some((node, self.nodes[node].place(at, class, self.rule, policy)?.grant.clone()))
        });
        Some(parts.collect())
    }

    /// Finds the nodes that have room soonest, and when.
    fn soonest(&mut self, at: usize) -> Option<(u64, Vec<usize>)> {
        let (class, policy) = (&self.classes[at], self.policy());
        let each = self.nodes.iter_mut().enumerate();
        let mut times: Vec<(u64, usize)> =
            each.filter_map(|(node, state)| Some((state.soonest(at, class, policy)?, node))).collect();
        times.sort_unstable();
        times.truncate(class.nodes);
        let from = times.last()?.0;
        Some((from, times.into_iter().map(|(_, node)| node).collect()))
    }

    fn start(
        &mut self,
        job: usize,
        now: u64,
        parts: Vec<(usize, Grant)>,
        on_event: &mut dyn FnMut(&StreamEvent<'_>),
    ) -> bool {
        let class = self.class_of[job];
        let end = now.saturating_add(self.jobs[job].run_ms);
        let idle = parts.first().is_some_and(|(_, grant)| {
            self.nodes.iter().any(|node| node.has_idle_for(grant, &self.classes[class]))
        });
        if !self.enter(job, &parts, end, idle) {
            return false;
        }
        on_event(&StreamEvent::Start { job, at_ms: now, parts: &parts });
        if self.counts(job) {
            let wait = now - self.jobs[job].submit_ms;
            self.sums.waits_ms.push(wait);
            if self.site.asks_for_node(&self.jobs[job]) {
                self.sums.whole_waits_ms.push(wait);
            }
            self.sums.bandwidths.extend(self.bandwidth(job, &parts));
        }
        self.ends.push(Reverse((end, job, 0)));
        self.ran.insert(job, (parts, 0));
        true
    }

    /// Enters a job into its nodes.
    fn enter(&mut self, job: usize, parts: &[(usize, Grant)], end: u64, idle: bool) -> bool {
        for (node, grant) in parts {
            let class = &self.classes[self.class_of[job]];
            let state = &mut self.nodes[*node];
            self.busy -= state.busy();
            let done = state.start(id(job), grant, class, end);
            self.busy += state.busy();
            let Some(done) = done else { return false };
            if let Some(grmu) = &mut self.grmu {
                grmu.taken(*node, &state.node, grant);
            }
            if self.jobs[job].submit_ms >= self.warm_ms {
                self.sums.summary.instances += done;
                self.sums.summary.reusable += usize::from(idle);
                self.sums.summary.reused += usize::from(idle && done.reused > 0);
            }
        }
        true
    }

    /// Stops jobs and starts them anew elsewhere.
    fn requeue(&mut self, moves: Vec<Move>, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
        let job_of = |id: JobId| usize::try_from(id.0).unwrap_or(usize::MAX).saturating_sub(1);
        for one in &moves {
            on_event(&StreamEvent::End { job: job_of(one.job), at_ms: now });
            self.leave(one.from, one.job);
        }
        for one in moves {
            let job = job_of(one.job);
            let end = now.saturating_add(self.jobs[job].run_ms);
            let parts = vec![(one.to, one.grant)];
            let entered = self.enter(job, &parts, end, false);
            debug_assert!(entered, "a move was planned that is not possible");
            on_event(&StreamEvent::Start { job, at_ms: now, parts: &parts });
            let moved = self.ran.remove(&job).map_or(1, |(_, moves)| moves + 1);
            self.ends.push(Reverse((end, job, moved)));
            self.ran.insert(job, (parts, moved));
            self.sums.summary.moved += usize::from(self.counts(job));
        }
    }

    /// Predicts the bandwidth of a set of several GPUs whose job is sensitive to it, GB/s.
    fn bandwidth(&self, job: usize, parts: &[(usize, Grant)]) -> Option<f64> {
        let (request, sets) = (&self.jobs[job].request, &self.policy().sets);
        let sensitive = request.bandwidth.unwrap_or(sets.bandwidth) == Bandwidth::Sensitive;
        if request.isolation != Isolation::Whole || !sensitive {
            return None;
        }
        let pattern = request.pattern.as_ref().unwrap_or(&sets.pattern);
        let each = parts.iter().filter_map(|(node, grant)| {
            let Grant::Whole(order) = grant else { return None };
            let edges = pattern.edges(order.len()).ok()?;
            mapa::score(self.nodes[*node].node.links.graph(), &edges, order, sets.model).eff_bw
        });
        each.filter(|gbps| gbps.is_finite()).reduce(f64::min).filter(|_| request.gpus.is_some_and(|n| n > 1))
    }
}
