//! The queue, and the choice of nodes for one job.

use protocol::Grant;

use super::event::StreamEvent;
use super::rule::Rule;
use super::run::Run;

impl Run<'_> {
    /// Goes through the queue once.
    pub(super) fn start_jobs(&mut self, now: u64, on_event: &mut dyn FnMut(&StreamEvent<'_>)) {
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
        let moves =
            self.grmu.as_ref().map(|g| g.defragment(&self.nodes, &self.classes[class], self.policy()));
        let moves = moves.unwrap_or_default();
        let some = !moves.is_empty();
        self.requeue(moves, now, on_event);
        some
    }

    /// Chooses nodes and places.
    fn place(&mut self, at: usize, without: &[usize]) -> Option<Vec<(usize, Grant)>> {
        let (class, policy) = (&self.classes[at], self.policy());
        if class.nodes == 1 {
            let nodes = &self.nodes;
            // Both leave some requests to the way that follows.
            let chosen = match (&self.grmu, &self.learnt) {
                (Some(grmu), _) if grmu.takes(nodes, class, policy) => {
                    return grmu.place(nodes, class, policy, without).map(|part| vec![part]);
                }
                (_, Some(learnt)) => learnt.place(nodes, class, policy, without),
                _ => None,
            };
            if let Some(part) = chosen {
                return Some(vec![part]);
            }
        }
        let whole = self.nodes.iter().filter(|node| node.is_kept_whole()).count();
        let refused = |opens: bool| matches!(self.rule, Rule::Quota(keep) if opens && whole <= keep);
        let mut found = Vec::new();
        for (node, state) in self.nodes.iter_mut().enumerate().filter(|(node, _)| !without.contains(node)) {
            let Some(placed) = state.place(class, self.rule, policy) else { continue };
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
            Some((node, self.nodes[node].place(class, self.rule, policy)?.grant.clone()))
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
}
