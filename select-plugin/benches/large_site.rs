//! How long the plugin holds slurmctld's locks at a site of 1000 nodes with 8 GPUs each, half of them full, the rest half
//! full: `cargo bench -p select-plugin --bench large_site`.
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

fn site() -> Engine {
    let text = format!(
        "[[nodes]]\nnames = \"n[1-{NODES}]\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\ninterconnect = \"dgx-v\"\n"
    );
    let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    let mut engine = Engine::new(config.unwrap());
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

fn tests(c: &mut Criterion) {
    let nodes: Vec<NodeView> = (0..NODES)
        .map(|i| NodeView {
            index: i,
            name: format!("n{}", i + 1).into(),
            slot: None,
            config: 7,
            completing: false,
            registered: true,
            unfit: false,
            required: false,
        })
        .collect();
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
            let question = engine.question(JOB, USER, &want);
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
            let question = engine.question(JOB, USER, &want);
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
        let question = engine.question(JOB, USER, &waits.want().unwrap());
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
        b.iter(|| place(&engine, engine.question(JOB, USER, &three), &three, &chosen).unwrap().unwrap());
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

criterion_group!(benches, tests);
criterion_main!(benches);
