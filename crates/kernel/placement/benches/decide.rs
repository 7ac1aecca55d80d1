//! How long a decision takes. The last lines compare with an exhaustive search by the audit's plain code.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group};
use geometry::*;
use node_state::*;
use placement::*;
use protocol::*;
use topology::*;

fn node(n: usize) -> Node {
    let model = Model::find("a100-40gb").unwrap();
    let gpus = (0..n).map(|_| Gpu::new(model, MigPolicy::Dynamic)).collect();
    // Random links: harder than any real machine's, whose links repeat.
    let bw = |i: usize, j: usize| {
        let seed = u32::try_from(i * 64 + j + 1).unwrap().wrapping_mul(2_654_435_761);
        f64::from((seed ^ (seed >> 15)) >> 8 & 7) * 12.5
    };
    let links = HardwareGraph::of_bandwidths(n, &|i, j| bw(i.min(j), i.max(j)));
    Node::new(gpus, links)
}

fn ask(isolation: &str, mem: &str) -> Ask {
    let mut request = Request::new(Isolation::parse(isolation).unwrap());
    request.mem_mib = size::parse_mib(mem).ok();
    Ask::new(JobId(1 << 20), Uid(1000), request)
}

/// Half of the slices in use: instances on four GPUs of eight, a shared GPU, two whole ones.
fn half_full(n: usize) -> Node {
    let mut node = node(n);
    let mut job = 0;
    let mut place = |node: &mut Node, gpu: usize, profile: &str, start: u8| {
        let profile = node.gpus[gpu].model.profile(profile).unwrap().id;
        job += 1;
        let spec = MigSpec { gpu: GpuIndex(u16::try_from(gpu).unwrap()), profile, start: Slice(start) };
        node.apply(JobId(job), Uid(1000), &Grant::Mig(vec![spec])).unwrap();
    };
    for gpu in (0..n).step_by(2) {
        place(&mut node, gpu, "2g.10gb", 0);
        place(&mut node, gpu, "1g.5gb", 3);
        place(&mut node, gpu, "3g.20gb", 4);
    }
    for gpu in (1..n).step_by(8) {
        let share = Grant::Mps {
            on: ShareOn::Gpu(GpuIndex(u16::try_from(gpu).unwrap())),
            mem_mib: 9000,
            threads: 30,
        };
        node.apply(JobId(10_000 + u32::try_from(gpu).unwrap()), Uid(1000), &share).unwrap();
    }
    node
}

/// Every slice in use, in instances of one each.
fn full(n: usize) -> Node {
    let mut node = node(n);
    for job in 1.. {
        let mut ask = ask("mig:1g.5gb", "");
        ask.job = JobId(job);
        let Some(grant) = decide(&node, &ask, &Policy::default()).chosen else { break };
        node.apply(ask.job, ask.uid, &grant).unwrap();
    }
    node
}

fn cases() -> Vec<(String, Node, Ask)> {
    let mut cases = Vec::new();
    for n in [8, 16] {
        let mut four = ask("mig", "4G");
        four.request.instances = 4;
        let mut hundred = four.clone();
        hundred.request.instances = 100;
        let mut case = |name: &str, node: Node, ask: Ask| cases.push((format!("{n}xA100 {name}"), node, ask));
        case("half full, mig 10G", half_full(n), ask("mig", "10G"));
        case("half full, mig 4G", half_full(n), ask("mig", "4G"));
        case("half full, 4 instances", half_full(n), four);
        case("half full, 100 instances: not now", half_full(n), hundred);
        case("half full, mps 3G", half_full(n), ask("mps", "3G"));
        case("half full, auto 10G", half_full(n), ask("auto", "10G"));
        case("half full, auto 100G: never", half_full(n), ask("auto", "100G"));
        case("full, mig 41G: not now", full(n), ask("mig", "41G"));
        case("full, mig 4G: not now", full(n), ask("mig", "4G"));
        case("full, auto 4G: not now", full(n), ask("auto", "4G"));
        let mut whole = ask("whole", "");
        whole.request.gpus = Some(2);
        case("half full, whole 2", half_full(n), whole.clone());
        whole.request.gpus = Some(u32::try_from(n).unwrap());
        case("half full, whole all: not now", half_full(n), whole.clone());
        whole.request.gpus = Some(u32::try_from(n / 2).unwrap());
        case("empty, whole half", node(n), whole.clone());
        let mut even = node(n);
        even.links = HardwareGraph::uniform(n, 450.0).into();
        case("empty, whole half, NVSwitch", even, whole);
    }
    let mut cut = ask("whole", "");
    cut.request.gpus = Some(16);
    cases.push(("32xA100 empty, whole half: ends at the limit".to_owned(), node(32), cut));
    cases
}

/// So many GPUs of each of two sockets.
fn per_socket(n: u16, each: usize) -> Ask {
    let mut whole = ask("whole", "");
    whole.request.gpus = u32::try_from(2 * each).ok();
    let half = |from: u16| (from..from + n / 2).map(GpuIndex).collect();
    whole.quotas = [0, n / 2].map(|from| Quota { of: half(from), n: each }).to_vec();
    whole
}

fn bench(c: &mut Criterion) {
    let policy = Policy::default();
    for (name, node, ask) in cases() {
        c.bench_function(&name, |b| b.iter(|| decide(black_box(&node), black_box(&ask), &policy)));
    }
    for (name, n, each) in [("8xA100", 8_u16, 2), ("16xA100", 16, 1), ("16xA100", 16, 2)] {
        let (node, ask, mut memo) = (node(usize::from(n)), per_socket(n, each), mapa::Memo::default());
        let name = format!("{name} empty, {each} of each socket");
        c.bench_function(&name, |b| b.iter(|| decide(black_box(&node), black_box(&ask), &policy)));
        let again = |memo: &mut mapa::Memo| decide_with(black_box(&node), black_box(&ask), &policy, memo);
        c.bench_function(&format!("{name}, remembered"), |b| b.iter(|| again(&mut memo)));
    }
}

/// The dearest question of preemption on a full node, and the node: whichever of these requests takes longest.
fn preemption(name: &str, instances: u32) -> (Node, Ask, Vec<Victim>) {
    let node = full(8);
    let mut ask = ask(name, "");
    ask.spread = Spread::ALIKE;
    ask.request.instances = instances;
    let jobs: std::collections::BTreeSet<JobId> = (1..=56).map(JobId).collect();
    let victims = jobs.into_iter().map(|job| Victim { job, has: HostResources::default() }).collect();
    (node, ask, victims)
}

/// Every single place weighed by the audit's code: what a plain exhaustive search costs.
fn exhaustive(node: &Node, ask: &Ask, policy: &Policy) -> Option<Grant> {
    let grants = audit::every_place(node).map(|s| Grant::Mig(vec![s]));
    let legal = grants.filter(|g| audit::legal(node, ask, policy, g).is_empty());
    let priced = legal.map(|g| (audit::price(node, policy, &g), g));
    priced.reduce(|a, b| if b.0.beats_same_kind(&a.0) { b } else { a }).map(|(_, g)| g)
}

fn median<T>(mut f: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..2001)
        .map(|_| {
            let start = Instant::now();
            black_box(f());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(800));
    targets = bench
}

fn main() {
    benches();
    let policy = Policy::default();
    for (name, instances) in [("mig:7g.40gb", 1), ("mig:3g.20gb", 1), ("mig:2g.10gb", 4), ("mig:7g.40gb", 2)]
    {
        let (node, ask, victims) = preemption(name, instances);
        let start = Instant::now();
        let chosen = black_box(least_victims(&node, &ask, &policy, &victims, HostResources::default()));
        let took = start.elapsed();
        let one = median(|| decide(&node, &ask, &policy));
        println!(
            "{instances} x {name} by preemption of 56 jobs: {} end, {took:?}, {:.0} times a decision",
            chosen.map_or(0, |jobs| jobs.len()),
            took.as_secs_f64() / one.as_secs_f64()
        );
    }
    for (name, node, ask) in cases().into_iter().filter(|(name, ..)| name.contains(", mig")) {
        let (ours, theirs) = (decide(&node, &ask, &policy).chosen, exhaustive(&node, &ask, &policy));
        assert_eq!(ours, theirs, "{name}");
        let (fast, slow) =
            (median(|| decide(&node, &ask, &policy)), median(|| exhaustive(&node, &ask, &policy)));
        println!(
            "{name}: median {fast:?}, exhaustive {slow:?}, {:.0} times as long",
            slow.as_secs_f64() / fast.as_secs_f64()
        );
    }
}
