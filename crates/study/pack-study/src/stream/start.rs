//! The start of a job: what it changes, and what is counted.

use std::cmp::Reverse;

use geometry::JobId;
use protocol::{Bandwidth, Grant, Isolation};

use super::event::StreamEvent;
use super::moves::Move;
use super::run::{Run, id};

impl Run<'_> {
    pub(super) fn start(
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
            self.sums.gpu_s_accepted += self.gpu_s(job);
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
            if self.counts(job) {
                self.sums.summary.instances += done;
                self.sums.summary.reusable += usize::from(idle);
                self.sums.summary.reused += usize::from(idle && done.reused > 0);
            }
        }
        true
    }

    /// Stops jobs and starts them again elsewhere.
    pub(super) fn requeue(&mut self, moves: Vec<Move>, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
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
            let edges = mapa::edges_of(pattern, order.len()).ok()?;
            mapa::score(&self.nodes[*node].node.links, &edges, order, sets.model).eff_bw
        });
        each.filter(|gbps| gbps.is_finite()).reduce(f64::min).filter(|_| request.gpus.is_some_and(|n| n > 1))
    }
}
