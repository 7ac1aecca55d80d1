//! For a chosen set of whole GPUs: what other policies, and Slurm alone, would choose.

use decision_report::Decision;
use decision_report::report::{Fate, SetScore};
use mapa::{Match, Query, choose};
use mapa_study::{StockRule, stock};
use node_state::{Ask, Node, Policy};
use placement::decide;
use serde_json::{Value, json};
use topology::{GpuSet, Selection};

/// Another way to choose, and its set.
pub(super) struct Rival {
    name: &'static str,
    gpus: GpuSet,
    eff_bw: Option<f64>,
    preserved_bw: f64,
}

/// The other choices beside a set of two GPUs or more; none if no policy chose a set.
pub(super) fn of(node: &Node, ask: &Ask, policy: &Policy, decision: &Decision) -> Vec<Rival> {
    let Some(Fate::Set(chosen)) = decision.report.best.filter(|_| decision.chosen.is_some()) else {
        return Vec::new();
    };
    let n = chosen.gpus.len();
    if n < 2 || n == chosen.free as usize {
        return Vec::new();
    }
    let mut rivals = Vec::new();
    for selection in Selection::ALL.into_iter().rev().filter(|s| *s != chosen.policy) {
        let mut other = ask.clone();
        other.request.policy = Some(selection);
        if let Some(Fate::Set(score)) = decide(node, &other, policy).report.best {
            rivals.push(Rival::new(selection.name(), &score));
        }
    }
    let ruled = decision.report.weighed.iter().filter(|c| matches!(c.fate, Fate::Ruled(_)));
    let ruled: GpuSet = ruled.map(|c| c.gpu).collect();
    let graph = &node.links;
    let free = GpuSet::from_bits(graph.all().bits() & !ruled.bits());
    let pattern = ask.request.pattern.as_ref().unwrap_or(&policy.sets.pattern);
    let rules = [("Slurm to 23.11", StockRule::MostLinks), ("Slurm from 24.05", StockRule::FewestLinks)];
    for (name, rule) in rules {
        let Some(set) = stock(graph, free, n, rule) else { continue };
        let (policy, model, sensitive) = (Selection::Preserve, chosen.model, true);
        let query = Query { graph, free: set, next: GpuSet::EMPTY, n, pattern, sensitive, policy, model };
        if let Ok(Match { scores, .. }) = choose(&query) {
            let rest = GpuSet::from_bits(free.bits() & !set.bits());
            let eff_bw = scores.eff_bw.filter(|_| scores.bounds.is_some());
            rivals.push(Rival { name, gpus: set, eff_bw, preserved_bw: graph.preserved_bw(rest) });
        }
    }
    rivals
}

impl Rival {
    fn new(name: &'static str, score: &SetScore) -> Self {
        let eff_bw = score.scores.eff_bw.filter(|_| score.scores.bounds.is_some());
        Self { name, gpus: score.gpus, eff_bw, preserved_bw: score.preserved_bw }
    }

    pub(super) fn line(&self) -> String {
        let gpus = format!("GPU {}", self.gpus);
        let eff_bw = self.eff_bw.map_or_else(String::new, |gbps| format!("{gbps:.1} GB/s, "));
        format!("{:16} {gpus:12} {eff_bw}leaves {} GB/s of links", self.name, self.preserved_bw)
    }

    pub(super) fn json(&self) -> Value {
        let gpus: Vec<u16> = self.gpus.iter().map(|g| g.0).collect();
        json!({ "by": self.name, "gpus": gpus, "eff_bw": self.eff_bw, "preserved_bw": self.preserved_bw })
    }
}
