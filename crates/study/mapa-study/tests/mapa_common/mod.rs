//! Named systems, and an oracle that weighs every order of every set. It shares no search with the library.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "shared test support"
)]

pub mod ring_tree;

use geometry::GpuIndex;
use job_options::parse_edges;
use mapa::Edge;
use mapa::{Match, Query};
use topology::{
    BandwidthModel, Coefficients, GpuSet, HardwareGraph, Link, LinkClass, Pattern, Selection, System,
};

/// A named system's graph.
pub fn system(name: &str) -> HardwareGraph {
    let system = System::find(name).unwrap();
    system.graph(system.size).unwrap()
}

/// A graph from a list of bandwidths for the pairs in order; repeats it where it is short.
pub fn from_list(n: usize, list: &[f64]) -> HardwareGraph {
    let at = |a: usize, b: usize| a * n - a * (a + 1) / 2 + (b - a - 1);
    HardwareGraph::new(n, None, n.div_ceil(2), &|a, b| Link::of_bandwidth(list[at(a, b) % list.len()]))
}

/// Worth of a match to a policy; larger is better, and only the first number counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// Value that the policy asks for.
    pub worth: f64,
    /// Sets that have it.
    pub tied: u64,
    /// Largest rest that any of them leaves: among the free GPUs, these and the ones that come back next, and all.
    /// MB/s, so that a sum has no order.
    pub left: [i64; 3],
}

impl Truth {
    /// Takes a set into account.
    fn weigh(&mut self, worth: f64, left: impl FnOnce() -> [i64; 3]) {
        if worth > self.worth + 1e-9 {
            *self = Self { worth, tied: 1, left: left() };
        } else if worth > self.worth - 1e-9 {
            self.tied += 1;
            self.left = self.left.max(left());
        }
    }
}

fn sum(graph: &HardwareGraph, gpus: &[GpuIndex]) -> f64 {
    let pairs = gpus.iter().enumerate().flat_map(|(i, a)| gpus[i + 1..].iter().map(move |b| (*a, *b)));
    let links = pairs.map(|(a, b)| graph.link(a, b).unwrap());
    let pcie = |l: &Link| l.class() == LinkClass::Pcie;
    // Of PCIe counts what it has over the slowest way on the node.
    let all = graph.all();
    let every = all.iter().flat_map(|a| all.iter().filter_map(move |b| graph.link(a, b)));
    let slowest = every.filter(pcie).map(|l| l.gbps()).fold(f64::INFINITY, f64::min);
    links.map(|l| if pcie(&l) { l.gbps() - slowest } else { l.gbps() }).sum()
}

/// Returns what a set leaves to others: [`Truth::left`].
pub fn left(query: &Query<'_>, set: &[GpuIndex]) -> [i64; 3] {
    let next = |g: &GpuIndex| query.free.contains(*g) || query.next.contains(*g);
    let free = |g: &GpuIndex| query.free.contains(*g);
    let among = |others: &dyn Fn(&GpuIndex) -> bool| {
        let gpus = query.graph.all().iter().filter(|g| others(g) && !set.contains(g));
        (sum(query.graph, &gpus.collect::<Vec<_>>()) * 1000.0).round() as i64
    };
    [among(&free), among(&next), among(&|_| true)]
}

/// MB/s in GB/s.
pub fn gbps(thousandths: i64) -> f64 {
    thousandths as f64 / 1000.0
}

/// Equation 2 written out again.
fn eq2(c: [f64; 3]) -> f64 {
    let [x, y, z] = c;
    let t = topology::THETA;
    t[0] * x
        + t[1] * y
        + t[2] * z
        + t[3] / (x + 1.0)
        + t[4] / (y + 1.0)
        + t[5] / (z + 1.0)
        + t[6] * x * y
        + t[7] * y * z
        + t[8] * z * x
        + t[9] / (x * y + 1.0)
        + t[10] / (y * z + 1.0)
        + t[11] / (z * x + 1.0)
        + t[12] * x * y * z
        + t[13] / (x * y * z + 1.0)
}

fn sends(graph: &HardwareGraph, set: &[GpuIndex], c: Coefficients, slowest: f64) -> f64 {
    let least = set.iter().map(|a| {
        let links = set.iter().filter_map(|b| graph.link(*a, *b));
        let (fast, slow): (Vec<Link>, Vec<Link>) = links.partition(|l| l.class() != LinkClass::Pcie);
        fast.iter().map(|l| l.gbps()).sum::<f64>() + slow.iter().map(|l| l.gbps()).fold(0.0, f64::max)
    });
    c.slowest * slowest + c.sends * least.fold(f64::INFINITY, f64::min)
}

/// Calls `f` with every order of `items`.
pub fn permutations<T: Copy>(items: &mut Vec<T>, from: usize, f: &mut dyn FnMut(&[T])) {
    if from + 1 >= items.len() {
        f(items);
        return;
    }
    for i in from..items.len() {
        items.swap(from, i);
        permutations(items, from + 1, f);
        items.swap(from, i);
    }
}

/// Returns the worth of an order under greedy, or under preserve for a sensitive job.
pub fn worth(query: &Query<'_>, edges: &[Edge], order: &[GpuIndex]) -> f64 {
    let heaviest = edges.iter().map(|e| e.weight).fold(0.0, f64::max);
    let mut counts = [0.0; 3];
    let (mut agg, mut slowest) = (0.0, f64::INFINITY);
    for e in edges {
        let link = query.graph.link(order[e.a], order[e.b]).unwrap();
        counts[link.class() as usize] += 1.0;
        agg += link.gbps() * e.weight;
        slowest = slowest.min(link.gbps() * heaviest / e.weight);
    }
    match (query.policy, query.model) {
        (Selection::Greedy, _) => agg,
        (_, BandwidthModel::Mapa2021) => eq2(counts),
        (_, BandwidthModel::Bottleneck(_)) if edges.is_empty() => 0.0,
        (_, BandwidthModel::Bottleneck(c)) => sends(query.graph, order, c, slowest),
    }
}

/// The best there is for greedy and preserve, by weighing everything.
pub fn truth(query: &Query<'_>) -> Truth {
    let edges = mapa::edges_of(query.pattern, query.n).unwrap();
    let gpus: Vec<GpuIndex> = query.free.iter().collect();
    let mut best = Truth { worth: f64::NEG_INFINITY, tied: 0, left: [0; 3] };
    for mask in 0_u64..1 << gpus.len() {
        if mask.count_ones() as usize != query.n {
            continue;
        }
        let of = |(i, g): (usize, &GpuIndex)| (mask >> i & 1 == 1).then_some(*g);
        let mut set: Vec<GpuIndex> = gpus.iter().enumerate().filter_map(of).collect();
        let mut here = f64::NEG_INFINITY;
        if query.policy == Selection::Preserve && !query.sensitive {
            here = gbps(left(query, &set)[0]);
        } else {
            permutations(&mut set, 0, &mut |order| here = here.max(worth(query, &edges, order)));
        }
        best.weigh(here, || left(query, &set));
    }
    best
}

/// Checks slurmctld's answer and the proven one against the oracle; on up to 8 GPUs both are exact.
pub fn check(query: &Query<'_>) {
    let expect = truth(query);
    check_one(query, &mapa::choose(query).unwrap(), expect);
    check_one(query, &mapa_study::choose(query).unwrap(), expect);
}

fn check_one(query: &Query<'_>, found: &Match, expect: Truth) {
    let edges = mapa::edges_of(query.pattern, query.n).unwrap();
    let mut order = found.order.clone();
    let got = if query.policy == Selection::Preserve && !query.sensitive {
        found.preserved_bw
    } else {
        worth(query, &edges, &order)
    };
    let what = format!(
        "{:?} {:?} sensitive {} n {} free {} next {} {:?}: {found:?}",
        query.pattern, query.policy, query.sensitive, query.n, query.free, query.next, query.model
    );
    assert!((got - expect.worth).abs() < 1e-6, "{what}: {got}, best is {expect:?}");
    assert_eq!(left(query, &order), expect.left, "{what}: best is {expect:?}");
    assert!((found.preserved_bw - gbps(expect.left[0])).abs() < 1e-6, "{what}: best is {expect:?}");
    order.sort_unstable();
    order.dedup();
    assert_eq!(order.len(), query.n, "{what}");
    assert!(order.iter().all(|g| query.free.contains(*g)), "{what}");
    assert_eq!(found.gpus, order.iter().copied().collect::<GpuSet>(), "{what}");
    assert!(found.exact, "{what}");
}

/// Patterns to check, with an edge list that is no other pattern and one with weights.
pub fn patterns(n: usize) -> Vec<Pattern> {
    let mut all: Vec<Pattern> = Pattern::NAMED.into_iter().map(|(_, pattern)| pattern).collect();
    if n >= 4 {
        all.push(parse_edges("0 1\n1 2\n2 0\n2 3").unwrap());
        all.push(parse_edges("0 1 3\n1 2\n2 3 0.5").unwrap());
        all.push(parse_edges("0 1\n0 2\n2 3").unwrap());
    }
    all
}
