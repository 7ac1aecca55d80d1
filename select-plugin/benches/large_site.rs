//! How long the plugin holds slurmctld's locks at a site of 1000 nodes with 8 GPUs each, half of them full, the rest half
//! full, and how that grows with the site: `cargo bench -p select-plugin --bench large_site`.
//!
//! The plugin is a library for Slurm alone, so its pure half is compiled into this once more.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "a benchmark of modules that have more than it uses"
)]

use std::collections::HashSet;
use std::hint::black_box;
use std::time::Instant;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use decision_counts::decisions::Ask;
use geometry::{GpuIndex, JobId, Uid};
use node_state::Fill;
use protocol::Grant;
use protocol::wire::JobPlacement;
use shared_pages::decisions;
use topology::GpuSet;

#[path = "../src/engine/mod.rs"]
mod engine;
#[path = "../src/learnt/mod.rs"]
mod learnt;
#[path = "../src/narrow.rs"]
mod narrow;
#[path = "../src/node_order.rs"]
mod node_order;
#[path = "../src/patience.rs"]
mod patience;
#[path = "../src/place_on_node.rs"]
mod place_on_node;
#[path = "../src/view.rs"]
mod view;

use engine::{Engine, SEARCHES};
use learnt::Learnt;
use narrow::{Mode, narrow};
use patience::Patient;
use place_on_node::place;
use view::{ChosenView, EntryChoice, GresKind, GresRequest, JobView, NodeView, Want};

const NODES: usize = 1000;
/// Names the page of counters.
const PAGE: &str = "/bench";
const JOB: JobId = JobId(9);
const USER: Uid = Uid(1000);

fn holder(node: usize) -> JobId {
    JobId(u32::try_from(10 * node + 10).unwrap())
}

fn occupy(engine: &mut Engine, job: JobId, node: usize, gpus: &[u16]) {
    let grant = Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect());
    let placement = JobPlacement { job, nodes: vec![(format!("n{}", node + 1), grant.into())] };
    assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
}

fn empty(nodes: usize, gpus: usize, more: &str) -> Engine {
    let text = format!("[[nodes]]\nnames = \"n[1-{nodes}]\"\ngpu = \"a100-40gb\"\ncount = {gpus}\n{more}");
    let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    Engine::new(config.unwrap())
}

fn site() -> Engine {
    let mut engine = empty(NODES, 8, "interconnect = \"dgx-v\"\n");
    for node in 0..NODES {
        let gpus: &[u16] = if node % 2 == 0 { &[0, 1, 2, 3, 4, 5, 6, 7] } else { &[0, 2, 4, 6] };
        occupy(&mut engine, holder(node), node, gpus);
    }
    engine
}

fn view(request: Option<&str>, kind: GresKind, per_node: u64) -> JobView {
    JobView {
        id: JOB,
        uid: USER,
        request: request.and_then(|text| protocol::wire::parse_request(text).ok()),
        gres: vec![GresRequest { kind, per_node, per_socket: false }],
        most_gpus: 0,
        exclusive: false,
        enforce_bind: false,
        ranked: true,
        cpus: 1,
        partition: None,
        account: None,
        qos: None,
        minutes: 0,
        comment: protocol::AdminComment::default(),
        now: 100,
        starts_by: None,
    }
}

fn want(request: Option<&str>, kind: GresKind, per_node: u64) -> Want {
    view(request, kind, per_node).want().unwrap()
}

/// Fifty jobs of five shapes have come; jobs have 16 of 128 CPUs of every node.
fn learnt(engine: &Engine) -> Learnt {
    let cpus: Vec<(usize, u32)> = (0..NODES).map(|node| (node, 128)).collect();
    let mut learnt = Learnt::new(engine.site(), &cpus);
    for node in 0..NODES {
        learnt.cpus.begin(holder(node), vec![(node, 16)]);
    }
    for i in 0..50 {
        let shape = view(None, GresKind::Gpu, [1, 1, 2, 4, 8][i % 5]);
        learnt.arrived(&JobView { cpus: [1, 8, 4, 16, 64][i % 5], ..shape });
    }
    learnt.rebuilt();
    learnt
}

fn views(engine: &Engine, count: usize) -> Vec<NodeView> {
    let view = |index: usize| {
        let name = format!("n{}", index + 1);
        let slot = engine.slot(&name);
        let (config, name) = (7, name.into());
        let (completing, registered, unfit, required) = (false, true, false, false);
        NodeView { index, name, slot, config, completing, registered, unfit, required }
    };
    (0..count).map(view).collect()
}

fn tests(c: &mut Criterion) {
    let job = view(None, GresKind::Gpu, 1);
    let nodes = views(&site(), NODES);
    let victims: HashSet<JobId> = (0..NODES).map(holder).collect();
    let modes = [
        ("run now", Mode::RunNow),
        ("will run", Mode::WillRun),
        ("test only", Mode::TestOnly),
        ("preempt", Mode::Preempt { victims: &victims, widen: true }),
    ];
    let mut group = c.benchmark_group("1000 nodes");
    group.sample_size(20);
    for (what, want) in [
        ("mig", want(Some("v1 iso=mig:3g.20gb"), GresKind::Shard, 40)),
        ("whole", want(None, GresKind::Gpu, 4)),
    ] {
        let test = |engine: &mut Engine, mode: Mode<'_>| {
            let question = engine.question(&job, &want);
            black_box(narrow(engine, &question, &want, mode, 1, &nodes).out.len())
        };
        group.bench_function(format!("{what}/run now, nothing cached"), |b| {
            b.iter_batched_ref(site, |engine| test(engine, Mode::RunNow), BatchSize::LargeInput);
        });
        let mut engine = site();
        for (name, mode) in modes {
            group.bench_function(format!("{what}/{name}, cached"), |b| b.iter(|| test(&mut engine, mode)));
        }
    }
    for (what, want) in [
        ("mig", want(Some("v1 iso=mig:1g.5gb"), GresKind::Shard, 5)),
        ("whole", want(None, GresKind::Gpu, 1)),
    ] {
        let learnt = learnt(&site());
        let order = |engine: &mut Engine| {
            let question = engine.question(&job, &want);
            let mut searches = SEARCHES;
            let mut cost = |node: &NodeView| {
                let expected = |state: &_, takes| learnt.expected(node.index, state, takes, 2);
                engine.cost_now(node, &question, Fill::Pack, &mut searches, expected)
            };
            let costs = nodes.iter().map(|node| (node.index, &*node.name, cost(node)));
            let order = node_order::Costs::of(costs).places();
            let now: Vec<(u64, u32)> = order.iter().map(|placed| (0x1ff, placed.place)).collect();
            black_box(node_order::weights(&now).len())
        };
        group.bench_function(format!("{what}/nodes in order of cost, nothing cached"), |b| {
            b.iter_batched_ref(site, order, BatchSize::LargeInput);
        });
        let mut engine = site();
        group.bench_function(format!("{what}/nodes in order of cost, cached"), |b| {
            b.iter(|| order(&mut engine))
        });
    }
    let waits = view(Some("v1 iso=whole wait=43:60"), GresKind::Gpu, 3);
    let split = |engine: &mut Engine| {
        let question = engine.question(&waits, &waits.want().unwrap());
        black_box(Patient::of(&question, &waits).unwrap().split(engine, &question, &nodes).good)
    };
    group.bench_function("whole/nodes with better GPUs, nothing cached", |b| {
        b.iter_batched_ref(site, split, BatchSize::LargeInput);
    });
    let mut engine = site();
    for _ in 0..10 {
        let _warm: u32 = split(&mut engine);
    }
    group.bench_function("whole/nodes with better GPUs, cached", |b| b.iter(|| split(&mut engine)));
    let mut engine = site();
    let three = want(None, GresKind::Gpu, 3);
    let chosen = ChosenView {
        name: "n2".to_owned(),
        entries: vec![EntryChoice {
            chosen: GpuSet::from_bits(0b1110),
            available: GpuSet::from_bits(0xff),
            sockets: Vec::new(),
            amount: 0,
        }],
        near: GpuSet::from_bits(0xff),
    };
    group.bench_function("whole/the set on the chosen node", |b| {
        b.iter(|| place(&engine, engine.question(&job, &three), &three, &chosen).unwrap().unwrap());
    });
    group.bench_function("commit and release", |b| {
        b.iter(|| {
            occupy(&mut engine, JOB, 1, &[1]);
            engine.release(JOB);
        });
    });
    decisions::begin(PAGE);
    group.bench_function("counting one decision", |b| {
        b.iter(|| {
            let began = Instant::now();
            decisions::count(Ask::RunNow, black_box(Ok(())), began.elapsed());
        });
    });
    let _ = std::fs::remove_file(decisions::path(PAGE));
    group.finish();
}

/// A site that is measured with others which differ in one number.
#[derive(Clone, Copy)]
struct Grown {
    nodes: usize,
    gpus: usize,
    /// Jobs with an instance each on every node.
    running: usize,
    /// Different requests that come in turn.
    shapes: usize,
    /// Every GPU is full: a job has each half of it.
    full: bool,
}

const MIDDLE: Grown = Grown { nodes: 1000, gpus: 8, running: 8, shapes: 4, full: false };

impl Grown {
    fn all() -> Vec<(&'static str, usize, Self)> {
        let nodes = [200, 1000, 5000].map(|nodes| ("nodes", nodes, Self { nodes, ..MIDDLE }));
        let gpus = [4, 8, 16].map(|gpus| ("GPUs per node", gpus, Self { gpus, ..MIDDLE }));
        let running =
            [0, 8, 32].map(|running| ("running jobs per node", running, Self { running, ..MIDDLE }));
        let shapes = [4, 64, 2048].map(|shapes| ("shapes of request", shapes, Self { shapes, ..MIDDLE }));
        let full = Self { running: 16, full: true, ..MIDDLE };
        let full = [4, 64, 2048].map(|shapes| ("shapes on full nodes", shapes, Self { shapes, ..full }));
        nodes.into_iter().chain(gpus).chain(running).chain(shapes).chain(full).collect()
    }

    fn site(self) -> Engine {
        let mut engine = empty(self.nodes, self.gpus, "");
        let model = engine.model_of("n1", GpuIndex(0)).unwrap();
        for job in 0..self.nodes * self.running {
            let (node, nth) = (job / self.running, job % self.running);
            let (gpu, row) = (nth % self.gpus, nth / self.gpus);
            let (profile, start) = if self.full { ("3g.20gb", 4 * row) } else { ("1g.5gb", row) };
            let place = format!("v1 job={};n{}=mig:{gpu}/{profile}@{start}", job + 1, node + 1);
            let placement = protocol::wire::parse_placement(&place, &|_, _| Some(model)).unwrap();
            assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
        }
        engine
    }

    fn want(self, nth: usize) -> Want {
        want(Some(&format!("v1 iso=auto mem={}", 5000 + nth % self.shapes)), GresKind::Shard, 10)
    }
}

/// Tests of waiting jobs, each for another shape than the one before.
fn growth(c: &mut Criterion) {
    let job = view(None, GresKind::Gpu, 1);
    let mut group = c.benchmark_group("growth");
    group.sample_size(10);
    for (what, size, grown) in Grown::all() {
        for (name, mode) in [("will run", Mode::WillRun), ("test only", Mode::TestOnly)] {
            let mut engine = grown.site();
            let nodes = views(&engine, grown.nodes);
            let mut nth = 0;
            let mut test = || {
                nth += 1;
                let want = grown.want(nth);
                let question = engine.question(&job, &want);
                black_box(narrow(&mut engine, &question, &want, mode, 1, &nodes).out.len())
            };
            for _ in 0..grown.shapes {
                let _warm: usize = test();
            }
            group.bench_function(format!("{what}/{size}/{name}"), |b| b.iter(&mut test));
        }
    }
    group.finish();
}

criterion_group!(benches, tests, growth);
criterion_main!(benches);
