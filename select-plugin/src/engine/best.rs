//! The bandwidth of the best set of whole GPUs that a node has for a question.

use decision_report::Decision;
use decision_report::report::Fate;
use node_state::Node;
use protocol::{SetWait, Standing};

use super::{Engine, Named, Question, keep};

/// Number of searches without an answer in memory that one test may make, in units of a node with up to 8 free GPUs: each
/// takes some ten microseconds there, and milliseconds with 16.
pub(crate) const SEARCHES: u32 = 64;
pub(super) const FEW_FREE: usize = 8;
pub(super) const MANY_COST: u32 = 16;

/// Bandwidth that a decision's set is predicted to reach, GB/s. Infinity where nothing is predicted: there is nothing to wait for.
pub(crate) fn predicted(decision: &Decision) -> f64 {
    match decision.report.best {
        Some(Fate::Set(score)) => score.scores.eff_bw.unwrap_or(f64::INFINITY),
        _ => f64::INFINITY,
    }
}

impl Question {
    /// Time that its job waits for a better set, if it is one that may: sensitive, with a known number of several whole
    /// GPUs per node.
    pub(crate) fn wait(&self) -> Option<SetWait> {
        let wait = self.ask.request.wait.or(self.policy.sets.wait)?;
        (wait != SetWait::NONE && self.pays_for_links()).then_some(wait)
    }

    /// Bandwidth that the best set that it could get of a node is predicted to reach, GB/s; 0 where it does not fit.
    pub(crate) fn best_on(&self, node: &Node) -> f64 {
        let decision = self.decide(node);
        if decision.chosen.is_some() { predicted(&decision) } else { 0.0 }
    }

    /// Gives [`Self::best_on`], if `searches` lasts for it.
    pub(crate) fn best_within(&self, node: &Node, searches: &mut u32) -> Option<f64> {
        let cost = if node.gpus.len() > FEW_FREE { MANY_COST } else { 1 };
        *searches = searches.checked_sub(cost)?;
        Some(self.best_on(node))
    }
}

impl Engine {
    /// Bandwidth that the question's best set on the node as it is now is predicted to reach, GB/s. `None`: it is not
    /// known, and `searches` does not last for it.
    pub(crate) fn best_now<N: Named + ?Sized>(
        &mut self,
        node: &N,
        question: &Question,
        searches: &mut u32,
    ) -> Option<f64> {
        let number = self.number(question);
        let entry = self.nodes.get_mut(node).filter(|e| !e.unmanaged && e.standing == Standing::Same)?;
        if let Some(known) = entry.best.get(&number) {
            return Some(*known);
        }
        let best = question.best_within(&entry.node, searches)?;
        keep(&mut entry.best, number, best);
        Some(best)
    }

    /// Bandwidth that the best set on any of these nodes is predicted to reach with nothing on them, GB/s.
    pub(crate) fn best_ever(&mut self, names: &[String], question: &Question) -> f64 {
        let mut specs: Vec<usize> = names.iter().filter_map(|n| self.managed(n)).map(|e| e.spec).collect();
        specs.sort_unstable();
        specs.dedup();
        specs.into_iter().map(|spec| self.best_of_spec(spec, question)).fold(0.0, f64::max)
    }

    fn best_of_spec(&mut self, spec: usize, question: &Question) -> f64 {
        let key = (spec, self.number(question));
        if let Some(known) = self.best_ever.get(&key) {
            return *known;
        }
        let best =
            self.config.nodes.get(spec).map_or(0.0, |set| question.best_on(&site_limits::node_of(set)));
        keep(&mut self.best_ever, key, best);
        best
    }
}
