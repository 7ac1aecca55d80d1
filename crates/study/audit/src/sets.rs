//! Checks that a set of whole GPUs is worth what the report says, and that no other one is worth more.
//!
//! Every order of every set is weighed if there are at most [`MOST_ORDERS`]; else those that differ from the chosen one
//! by one GPU or by two ranks.

use crate::finding::{Finding, finding};
use crate::whole_rules::{could_be_whole, meets_quotas};
use decision_report::Decision;
use decision_report::report::{Fate, SetScore};
use geometry::GpuIndex;
use node_state::{Ask, Node, Policy};
use protocol::Bandwidth;
use topology::{BandwidthModel, LinkKind, Pattern, Selection, THETA};

/// Most orders that are all weighed.
const MOST_ORDERS: usize = 2000;

/// An edge's two ranks and its weight.
type Edge = (usize, usize, f64);

/// The GPUs that the job could be given whole.
fn free(node: &Node, ask: &Ask) -> Vec<GpuIndex> {
    let all = (0_u16..).take(node.gpus.len()).map(GpuIndex);
    all.filter(|at| could_be_whole(node, ask, *at)).collect()
}

/// Checks a legal set in its order against what the report says about it, and against other sets.
pub(super) fn check(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    decision: &Decision,
    order: &[GpuIndex],
) -> Vec<Finding> {
    let free = free(node, ask);
    let pattern = ask.request.pattern.as_ref().unwrap_or(&policy.sets.pattern);
    let edges = edges(pattern, order.len());
    match (decision.report.best, edges) {
        (Some(Fate::Set(said)), Some(edges)) => {
            let case = Case { node, ask, free: &free, edges: &edges, said: &said };
            let mut findings = case.stated(policy, pattern, order);
            if !decision.report.inexact {
                findings.extend(case.none_better(order));
            }
            findings
        }
        (Some(Fate::Links { mb_s, .. }), edges) => {
            let mut findings = Vec::new();
            if edges.is_some() && free.len() <= 16 {
                findings.push(finding(None, "no policy was asked"));
            }
            if sum(node, order) != mb_s {
                findings.push(finding(None, format!("links add up to {}, not {mb_s}", sum(node, order))));
            }
            findings
        }
        _ => vec![finding(None, "no word on the set's worth, or an edge list that does not fit")],
    }
}

fn sum(node: &Node, gpus: &[GpuIndex]) -> u64 {
    let mut links = 0;
    for (i, a) in gpus.iter().enumerate() {
        links +=
            gpus[..i].iter().filter_map(|b| node.links.link(*a, *b)).map(|l| u64::from(l.mb_s)).sum::<u64>();
    }
    links
}

/// The pattern's edges among `n` GPUs; `None` for an edge list that does not fit their number.
fn edges(pattern: &Pattern, n: usize) -> Option<Vec<Edge>> {
    let ring = || if n < 2 { vec![] } else { (0..n).map(|i| (i, (i + 1) % n)).collect() };
    let pairs: Vec<(usize, usize)> = match pattern {
        Pattern::None => vec![],
        Pattern::Ring => ring(),
        Pattern::Chain => (1..n).map(|i| (i, i - 1)).collect(),
        Pattern::Star => (1..n).map(|i| (i, 0)).collect(),
        Pattern::All => (0..n).flat_map(|b| (0..b).map(move |a| (a, b))).collect(),
        Pattern::Tree => (1..n).map(|i| (i, tree_parent(i, n))).collect(),
        Pattern::RingTree => {
            let mut all = ring();
            for (a, b) in (1..n).map(|i| (i, tree_parent(i, n))) {
                if !all.contains(&(a, b)) && !all.contains(&(b, a)) {
                    all.push((a, b));
                }
            }
            all
        }
        Pattern::Edges(list) => {
            let edge = |e: &topology::PatternEdge| {
                let (a, b) = (usize::from(e.a), usize::from(e.b));
                (a < n && b < n && a != b && e.milli > 0).then(|| (a, b, f64::from(e.milli) / 1000.0))
            };
            return list.iter().map(edge).collect();
        }
    };
    Some(pairs.into_iter().map(|(a, b)| (a, b, 1.0)).collect())
}

fn tree_parent(rank: usize, n: usize) -> usize {
    let low = 1 << rank.trailing_zeros();
    let up = if (rank / low) % 4 == 3 { rank - low } else { rank + low };
    if up < n { up } else { rank - low }
}

/// Bandwidth of a link, GB/s, and its lanes if it is NVLink.
fn link(node: &Node, a: GpuIndex, b: GpuIndex) -> (f64, Option<u8>) {
    match node.links.link(a, b) {
        Some(l) => match l.kind {
            LinkKind::NvLink { lanes, .. } => (f64::from(l.mb_s) / 1000.0, Some(lanes)),
            _ => (f64::from(l.mb_s) / 1000.0, None),
        },
        None => (0.0, None),
    }
}

/// Bandwidth at which the slowest GPU of a set can send to the others, GB/s.
fn sends(node: &Node, set: &[GpuIndex]) -> f64 {
    let of = |a: GpuIndex| {
        let links = set.iter().filter(|b| **b != a).map(|b| link(node, a, *b));
        let (mut nvlink, mut pcie) = (0.0, 0.0_f64);
        for (gbps, lanes) in links {
            match lanes {
                Some(_) => nvlink += gbps,
                None => pcie = pcie.max(gbps),
            }
        }
        pcie + nvlink.min(f64::from(node.links.sends_mb_s(a)) / 1000.0)
    };
    set.iter().map(|a| of(*a)).fold(f64::INFINITY, f64::min)
}

/// Links of a pattern's edges on GPUs in this order: how many are NVLinks of two lanes and more, of one lane, and others.
fn counts(node: &Node, edges: &[Edge], order: &[GpuIndex]) -> [u32; 3] {
    let mut xyz = [0; 3];
    for (a, b, _) in edges {
        xyz[match link(node, order[*a], order[*b]).1 {
            None => 2,
            Some(0 | 1) => 1,
            Some(_) => 0,
        }] += 1;
    }
    xyz
}

/// Bandwidth that a model predicts for GPUs in this order, GB/s; `None` for a pattern without edges.
fn eff_bw(node: &Node, model: &BandwidthModel, edges: &[Edge], order: &[GpuIndex]) -> Option<f64> {
    let heaviest = edges.iter().fold(0.0, |h: f64, e| h.max(e.2));
    let slowest = edges
        .iter()
        .map(|(a, b, weight)| link(node, order[*a], order[*b]).0 * heaviest / weight)
        .fold(f64::INFINITY, f64::min);
    (!edges.is_empty()).then(|| match model {
        BandwidthModel::Mapa2021 => eq2(counts(node, edges, order).map(f64::from)),
        BandwidthModel::Bottleneck(c) => c.slowest * slowest + c.sends * sends(node, order),
    })
}

/// Bandwidth that the site's model predicts for a job's GPUs in this order, GB/s; `None` if it predicts nothing.
pub(super) fn predicted(node: &Node, ask: &Ask, policy: &Policy, order: &[GpuIndex]) -> Option<f64> {
    let pattern = ask.request.pattern.as_ref().unwrap_or(&policy.sets.pattern);
    eff_bw(node, &policy.sets.model, &edges(pattern, order.len())?, order)
}

/// Worth of one order of a set.
struct Worth {
    xyz: [u32; 3],
    agg_bw: f64,
    /// Predicted bandwidth, GB/s; `None` for a pattern without edges.
    eff_bw: Option<f64>,
    preserved_bw: f64,
}

struct Case<'a> {
    node: &'a Node,
    ask: &'a Ask,
    free: &'a [GpuIndex],
    edges: &'a [Edge],
    said: &'a SetScore,
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

impl Case<'_> {
    fn worth(&self, order: &[GpuIndex]) -> Worth {
        let mut worth = Worth {
            xyz: counts(self.node, self.edges, order),
            agg_bw: 0.0,
            eff_bw: eff_bw(self.node, &self.said.model, self.edges, order),
            preserved_bw: 0.0,
        };
        for (a, b, weight) in self.edges {
            worth.agg_bw += link(self.node, order[*a], order[*b]).0 * weight;
        }
        let rest: Vec<GpuIndex> = self.free.iter().copied().filter(|g| !order.contains(g)).collect();
        let gpus: Vec<GpuIndex> = self.node.links.all().iter().collect();
        let pairs =
            gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a < *b).map(|b| link(self.node, *a, *b)));
        let slowest_pcie =
            pairs.filter(|(_, lanes)| lanes.is_none()).map(|l| l.0).fold(f64::INFINITY, f64::min);
        for (i, a) in rest.iter().enumerate() {
            let links = rest[..i].iter().map(|b| link(self.node, *a, *b));
            // A PCIe link counts only by what it has more than the slowest one of the node.
            let over =
                |(gbps, lanes): (f64, Option<u8>)| if lanes.is_some() { gbps } else { gbps - slowest_pcie };
            worth.preserved_bw += links.map(over).sum::<f64>();
        }
        worth
    }

    /// Counts again what the report says about the set.
    fn stated(&self, policy: &Policy, pattern: &Pattern, order: &[GpuIndex]) -> Vec<Finding> {
        let (said, own) = (self.said, self.worth(order));
        let request = &self.ask.request;
        let sensitive = request.bandwidth.unwrap_or(policy.sets.bandwidth) == Bandwidth::Sensitive;
        let fallback =
            policy.sets.model == BandwidthModel::Mapa2021 && said.model == BandwidthModel::default();
        let eff_matches = match own.eff_bw {
            Some(own) => said.scores.eff_bw.is_some_and(|said| close(said, own)),
            None => said.scores.bounds.is_none(),
        };
        let lowest: Vec<GpuIndex> = self.free.iter().copied().take(order.len()).collect();
        let baseline = said.policy == Selection::Baseline && self.ask.quotas.is_empty();
        let checks = [
            ("policy", said.policy == request.policy.unwrap_or(policy.sets.selection)),
            ("model", said.model == policy.sets.model || fallback),
            ("pattern", said.pattern == pattern.name()),
            ("sensitivity", said.sensitive == sensitive),
            ("set", said.gpus == order.iter().copied().collect()),
            ("number of free GPUs", said.free as usize == self.free.len()),
            ("counts of links", [said.scores.x, said.scores.y, said.scores.z] == own.xyz),
            ("AggBW", close(said.scores.agg_bw, own.agg_bw)),
            ("EffBW", eff_matches),
            ("preserved bandwidth", close(said.preserved_bw, own.preserved_bw)),
            ("choice of the lowest", !baseline || order.iter().all(|g| lowest.contains(g))),
        ];
        let wrong = checks.into_iter().filter(|(_, right)| !right);
        wrong.map(|(what, _)| finding(None, format!("the set's {what} is not as said: {said:?}"))).collect()
    }

    /// Returns the value that the policy maximises, then the values that break ties; more is better.
    fn key(&self, order: &[GpuIndex]) -> (f64, f64) {
        let worth = self.worth(order);
        match self.said.policy {
            Selection::Greedy => (worth.agg_bw, worth.preserved_bw),
            Selection::Preserve if self.said.sensitive => (worth.eff_bw.unwrap_or(0.0), worth.preserved_bw),
            Selection::Preserve => (worth.preserved_bw, 0.0),
            // Rules, not goals.
            Selection::Baseline | Selection::TopoAware => (0.0, 0.0),
        }
    }

    fn none_better(&self, order: &[GpuIndex]) -> Option<Finding> {
        let chosen = self.key(order);
        let mut better = None;
        let mut weigh = |other: &[GpuIndex]| {
            if better.is_none() && meets_quotas(self.ask, other) {
                let key = self.key(other);
                if key.0 > chosen.0 + 1e-6 || (close(key.0, chosen.0) && key.1 > chosen.1 + 1e-6) {
                    better = Some(finding(None, format!("{other:?} has {key:?}, {order:?} only {chosen:?}")));
                }
            }
        };
        let orders =
            (0..order.len()).fold(1_usize, |n, i| n.saturating_mul(self.free.len().saturating_sub(i)));
        if orders <= MOST_ORDERS {
            every_order(self.free, order.len(), &mut Vec::new(), &mut weigh);
        } else {
            neighbours(self.free, order, &mut weigh);
        }
        better
    }
}

pub(super) fn every_order(
    free: &[GpuIndex],
    n: usize,
    order: &mut Vec<GpuIndex>,
    f: &mut dyn FnMut(&[GpuIndex]),
) {
    if order.len() == n {
        return f(order);
    }
    for gpu in free {
        if !order.contains(gpu) {
            order.push(*gpu);
            every_order(free, n, order, f);
            order.pop();
        }
    }
}

fn neighbours(free: &[GpuIndex], order: &[GpuIndex], f: &mut dyn FnMut(&[GpuIndex])) {
    let mut other = order.to_vec();
    for i in 0..order.len() {
        for j in 0..i {
            other.swap(i, j);
            f(&other);
            other.swap(i, j);
        }
        for gpu in free.iter().filter(|g| !order.contains(g)) {
            other[i] = *gpu;
            f(&other);
            other[i] = order[i];
        }
    }
}

/// Equation 2 of MAPA, term by term.
fn eq2([x, y, z]: [f64; 3]) -> f64 {
    let one = |v: f64| 1.0 / (1.0 + v);
    let linear = THETA[0] * x + THETA[1] * y + THETA[2] * z;
    let inverse = THETA[3] * one(x) + THETA[4] * one(y) + THETA[5] * one(z);
    let pairs = THETA[6] * x * y + THETA[7] * y * z + THETA[8] * z * x;
    let pairs_inverse = THETA[9] * one(x * y) + THETA[10] * one(y * z) + THETA[11] * one(z * x);
    linear + inverse + pairs + pairs_inverse + THETA[12] * x * y * z + THETA[13] * one(x * y * z)
}
