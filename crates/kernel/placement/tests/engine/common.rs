//! Nodes and requests for the tests.

use decision_report::*;
use geometry::*;
use node_layout::layout_of;
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::*;
use topology::PatternEdge;
use topology::*;

pub(crate) const A100: &str = "a100-40gb";

/// The instances of a decision: GPU, profile, start.
pub(crate) fn mig(decision: &Decision) -> Vec<(u16, String, u8)> {
    let Some(Grant::Mig(specs)) = &decision.chosen else { panic!("{}", decision_text::decision(decision)) };
    let name = |s: &MigSpec| {
        let models = &decision.report.models;
        models[usize::from(s.gpu.0)].profile_by_id(s.profile).unwrap().name.clone()
    };
    specs.iter().map(|s| (s.gpu.0, name(s), s.start.0)).collect()
}

pub(crate) fn gpus(list: &[u16]) -> Vec<GpuIndex> {
    list.iter().copied().map(GpuIndex).collect()
}

/// Gives job `job` an instance.
pub(crate) fn held(node: &mut Node, job: u32, gpu: u16, profile: &str, start: u8) {
    let profile = node.gpus[usize::from(gpu)].model.profile(profile).unwrap().id;
    let spec = MigSpec { gpu: GpuIndex(gpu), profile, start: Slice(start) };
    node.apply(JobId(job), Uid(1), &Grant::Mig(vec![spec])).unwrap();
}

/// NVLinks of a DGX-1 with V100: 0 none, 1 single, 2 double, of 25 GB/s each.
pub(crate) fn dgx1() -> HardwareGraph {
    let links = [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ];
    HardwareGraph::of_bandwidths(8, &|i, j| f64::from(links[i][j]) * 25.0)
}

/// GPUs of these models, all under one policy, evenly linked.
pub(crate) fn node(keys: &[&str], policy: MigPolicy) -> Node {
    let gpu = |key: &&str| Gpu::new(Model::find(key).unwrap(), policy);
    Node::new(keys.iter().map(gpu).collect(), HardwareGraph::uniform(keys.len(), 25.0))
}

/// A request of user 1000.
pub(crate) fn ask(job: u32, isolation: &str, mem: &str) -> Ask {
    let mut request = Request::new(Isolation::parse(isolation).unwrap());
    if !mem.is_empty() {
        request.mem_mib = Some(size::parse_mib(mem).unwrap());
    }
    Ask::new(JobId(job), Uid(1000), request)
}

/// Decides, audits, applies, audits again.
pub(crate) fn run(node: &mut Node, ask: &Ask, policy: &Policy) -> Decision {
    let decision = decide(node, ask, policy);
    assert_eq!(
        audit::audit(node, ask, policy, &decision),
        [],
        "{}\n{}",
        decision_text::decision(&decision),
        layout_of(node)
    );
    if let Some(grant) = &decision.chosen {
        node.apply(ask.job, ask.uid, grant).unwrap();
        assert_eq!(
            audit::audit_node(node),
            [],
            "{}\n{}",
            decision_text::decision(&decision),
            layout_of(node)
        );
    }
    decision
}

const MODELS: [&str; 5] = ["a30-24gb", "a100-40gb", "h100-80gb-sxm", "rtx-pro-6000-96gb", "v100-16gb"];

fn policies() -> impl Strategy<Value = MigPolicy> {
    prop_oneof![1 => Just(MigPolicy::On), 1 => Just(MigPolicy::Off), 3 => Just(MigPolicy::Dynamic)]
}

/// An empty node of 1 to `most` GPUs, of one or several models, with random links.
pub(crate) fn empty_nodes(most: usize) -> impl Strategy<Value = Node> {
    let gpus = prop_oneof![
        3 => (0..MODELS.len(), 1..=most).prop_map(|(m, n)| vec![m; n]),
        1 => prop::collection::vec(0..MODELS.len(), 1..=most),
    ];
    (gpus, policies(), prop::collection::vec(0..4_u8, 256)).prop_map(|(models, policy, links)| {
        let n = models.len();
        let bw = |i: usize, j: usize| f64::from(links[i.min(j) * 16 + i.max(j)]) * 12.5;
        let gpu = |m: &usize| Gpu::new(Model::find(MODELS[*m]).unwrap(), policy);
        let links = HardwareGraph::of_bandwidths(n, &bw);
        Node::new(models.iter().map(gpu).collect(), links)
    })
}

/// An empty node of 1 to `most` GPUs, each kept for something or for nothing, some of them uncut, and now and then one unhealthy.
pub(crate) fn ruled_nodes(most: usize) -> impl Strategy<Value = Node> {
    let purpose = prop_oneof![
        3 => Just(Purpose::Any), 2 => Just(Purpose::Static), 1 => Just(Purpose::Whole), 1 => Just(Purpose::Shares),
        1 => Just(Purpose::Slurm),
    ];
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 1..6);
    let gpu = (purpose, policies(), picks, prop::bool::weighted(0.1));
    (empty_nodes(most), prop::collection::vec(gpu, most), 0..3_usize).prop_map(|(mut node, kept, keep)| {
        for (gpu, (purpose, policy, picks, left_out)) in node.gpus.iter_mut().zip(kept) {
            *gpu = match purpose {
                Purpose::Any => Gpu::new(gpu.model, policy),
                // Without MIG there is nothing that a site could have cut.
                Purpose::Static if !gpu.model.has_mig() => Gpu::new(gpu.model, policy),
                Purpose::Static => Gpu::kept(gpu.model, purpose, &some_instances(gpu.model, &picks)),
                _ => Gpu::kept(gpu.model, purpose, &[]),
            };
            gpu.left_out = left_out;
        }
        let flexible = node.gpus.iter().filter(|g| g.is_flexible()).count();
        Node { keep_uncut: keep.min(flexible), ..node }
    })
}

/// Instances that can be beside each other on a GPU of this model, at least one.
fn some_instances(model: &'static Model, picks: &[prop::sample::Index]) -> Vec<(ProfileId, Slice)> {
    let gpus = vec![Gpu::new(model, MigPolicy::On)];
    let mut alone = Node::new(gpus, HardwareGraph::uniform(1, 0.0));
    let places: Vec<MigSpec> = audit::every_place(&alone).collect();
    let mut all = Vec::new();
    for (pick, job) in picks.iter().zip(1..) {
        let spec = *pick.get(&places);
        if alone.apply(JobId(job), Uid(0), &Grant::Mig(vec![spec])).is_ok() {
            all.push((spec.profile, spec.start));
        }
    }
    all.sort_by_key(|(_, start)| *start);
    all
}

/// The instances of the static GPUs of a node.
pub(crate) fn static_instances(node: &Node) -> Vec<Vec<(ProfileId, Slice)>> {
    let of = |gpu: &Gpu| match &gpu.state {
        GpuState::Mig(all) => all.iter().map(|i| (i.profile, i.start)).collect(),
        _ => Vec::new(),
    };
    node.gpus.iter().filter(|g| g.purpose == Purpose::Static).map(of).collect()
}

fn spreads() -> impl Strategy<Value = Spread> {
    let most = prop_oneof![2 => Just(u32::MAX), 1 => 1..4_u32];
    prop_oneof![2 => Just(Spread::OneGpu), 2 => most.prop_map(|most| Spread::Alike { most }), 2 => Just(Spread::Any)]
}

/// Requests of every kind, sizes from tiny to more than any GPU has.
pub(crate) fn asks(most_instances: u32) -> impl Strategy<Value = Ask> {
    let isolation = prop_oneof![
        3 => Just("auto"), 5 => Just("mig"), 3 => Just("mps"), 2 => Just("whole"),
        3 => Just("tasks"), 1 => Just("tasks:probes"), 1 => Just("mig:2g.10gb"), 1 => Just("mig:1g.5gb"), 1 => Just("mig:3g.20gb"), 1 => Just("mig:1g.6gb+me"),
        1 => Just("mig:2g.12gb+me"), 1 => Just("mig:1g.24gb+me.all"), 1 => Just("mig:1g.24gb-me"), 1 => Just("mig:1g.5gb+me"),
        2 => Just("mig-shared:4c.7g.40gb"), 2 => Just("mig-shared:3c.7g.40gb"), 2 => Just("mig-shared:1c.2g.10gb"), 1 => Just("mig-shared:2c.4g.24gb"),
    ];
    let mem = prop_oneof![1 => Just(None), 6 => (1_u64..24_000).prop_map(Some), 1 => (1_u64..110_000).prop_map(Some)];
    let threads = prop_oneof![5 => Just(None), 2 => (1_u8..=100).prop_map(Some)];
    let allowed = prop_oneof![5 => Just(None), 1 => (0_u64..256).prop_map(|b| Some(GpuSet::from_bits(b)))];
    let gpus = prop_oneof![2 => Just(None), 1 => (1_u32..6).prop_map(Some)];
    let seats = prop_oneof![2 => Just(1), 2 => 1..9_u32, 1 => 1..60_u32];
    (isolation, mem, threads, 1..=most_instances, allowed, spreads(), gpus, (0..3_u32, seats)).prop_map(
        |(isolation, mem_mib, threads, instances, allowed, spread, gpus, (uid, seats))| {
            let isolation = Isolation::parse(isolation).unwrap();
            let tasks = matches!(isolation, Isolation::Tasks { .. });
            let whole = isolation == Isolation::Whole || (tasks && seats % 4 == 0);
            let gpus = gpus.filter(|_| whole || (isolation == Isolation::Auto && uid == 0));
            let instances = if isolation == Isolation::Mps || tasks { 1 } else { instances };
            let threads = threads.filter(|_| !tasks);
            let request = Request { mem_mib, threads, instances, gpus, seats, ..Request::new(isolation) };
            Ask { allowed, spread, plain: uid == 2, ..Ask::new(JobId(0), Uid(1000 + uid), request) }
        },
    )
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let edge = (0..6_u16, 0..6_u16, 1..4_u32).prop_map(|(a, b, w)| PatternEdge { a, b, milli: w * 500 });
    prop_oneof![
        5 => prop::sample::select(Pattern::NAMED.map(|(_, p)| p).to_vec()),
        1 => prop::collection::vec(edge, 1..6).prop_map(Pattern::Edges),
    ]
}

fn bandwidths() -> impl Strategy<Value = Bandwidth> {
    prop_oneof![Just(Bandwidth::Sensitive), Just(Bandwidth::Insensitive)]
}

/// Requests for 1 to 8 whole GPUs of every pattern, some with so many of each half of the node.
pub(crate) fn whole_asks() -> impl Strategy<Value = Ask> {
    let policy = prop::option::of(prop::sample::select(Selection::ALL.to_vec()));
    let of = (1..8_usize, prop::option::of(patterns()), prop::option::of(bandwidths()), policy);
    let quotas = prop_oneof![3 => Just(None), 1 => (1..4_usize, 1..4_usize).prop_map(Some)];
    (of, quotas).prop_map(|((n, pattern, bandwidth, policy), quotas)| {
        let mut whole = ask(999, "whole", "");
        whole.request = Request { pattern, bandwidth, policy, ..whole.request };
        if let Some((low, high)) = quotas {
            let quota = |bits, n| Quota { of: GpuSet::from_bits(bits), n };
            whole.quotas = vec![quota(0b0000_1111, low), quota(0b1111_0000, high)];
        }
        let n = quotas.map_or(n, |(low, high)| low + high);
        whole.request.gpus = u32::try_from(n).ok();
        whole
    })
}

fn set_policies() -> impl Strategy<Value = SetPolicy> {
    let models = vec![BandwidthModel::default(), BandwidthModel::Mapa2021];
    (prop::sample::select(Selection::ALL.to_vec()), prop::sample::select(models), patterns(), bandwidths())
        .prop_map(|(selection, model, pattern, bandwidth)| SetPolicy {
            selection,
            model,
            pattern,
            bandwidth,
            wait: None,
        })
}

/// Site policies.
pub(crate) fn site_policies() -> impl Strategy<Value = Policy> {
    let orders = prop_oneof![
        Just(vec![Kind::Mig, Kind::Mps, Kind::Whole]),
        Just(vec![Kind::Mps, Kind::Whole, Kind::Mig]),
        Just(vec![Kind::Whole, Kind::Mig]),
        Just(vec![Kind::Tasks, Kind::Mig, Kind::Whole, Kind::Mps]),
    ];
    let shares = (any::<bool>(), 50_u32..150, prop::option::of(1_u8..60), prop::option::of(500_u64..9000));
    let memory = prop_oneof![
        1 => Just(SharedMemory::Never), 4 => Just(SharedMemory::SameUser), 2 => Just(SharedMemory::Any)
    ];
    let pool = (prop_oneof![2 => Just(4), 1 => 1..20_u32], 0..1000_u64, prop_oneof![Just(1), 2..5_u32]);
    let pool = pool.prop_map(|(workers_per_slice, context_mib, gpus_per_job)| PoolPolicy {
        workers_per_slice,
        context_mib,
        gpus_per_job,
    });
    let names = vec!["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb", "1g.10gb", "1g.6gb"];
    let only = prop::collection::vec(prop::sample::select(names).prop_map(str::to_owned), 1..3);
    let most = prop::sample::select(vec![5_u32, 10, 12, 20]).prop_map(size::gigabytes_as_mib);
    let slices = prop::option::weighted(0.1, 1..5_u64);
    let limits = (prop::option::weighted(0.2, most), prop::option::weighted(0.1, only), slices);
    let limits =
        limits.prop_map(|(most_mib, only, most_slices)| InstanceLimit { most_mib, only, most_slices });
    let of_jobs = (set_policies(), limits);
    (orders, shares, (memory, prop::option::weighted(0.9, pool)), of_jobs).prop_map(
        |(
            auto,
            (share_between_users, max_threads, mps_threads, default_mem_mib),
            (shared_memory, tasks),
            (sets, instances),
        )| Policy {
            auto,
            shared_memory,
            share_between_users,
            max_threads,
            mps_threads,
            default_mem_mib,
            tasks,
            sets,
            instances,
        },
    )
}

/// What happens to a node before the question is put: instances at places nobody would choose, jobs, ends of jobs.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// An instance of any profile anywhere, if it fits.
    Place(usize, usize),
    /// A job, placed by `decide`.
    Job(Box<Ask>),
    /// The end of the n-th job.
    End(u32),
    /// An isolated job claims this device of the pool.
    Claim(usize),
}

pub(crate) fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        2 => (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Event::Place(a.index(1000), b.index(3))),
        2 => asks(3).prop_map(|a| Event::Job(Box::new(a))),
        2 => (1..40_u32).prop_map(Event::End),
        1 => (0..8_usize).prop_map(Event::Claim),
    ];
    prop::collection::vec(event, 0..=most)
}

/// Lets events happen; jobs get numbers from 1.
pub(crate) fn live(node: &mut Node, policy: &Policy, events: &[Event]) {
    for (event, job) in events.iter().zip(1..) {
        match event {
            Event::Place(at, holder) => {
                let places: Vec<MigSpec> = audit::every_place(node).collect();
                // A node whose GPUs have no MIG has no place.
                let Some(&spec) = places.get(at % places.len().max(1)) else { continue };
                let _ = node.apply(JobId(job), Uid(1000), &Grant::Mig(vec![spec]));
                if *holder == 0 {
                    node.release(JobId(job));
                }
            }
            Event::Job(ask) => {
                let ask = Ask { job: JobId(job), ..(**ask).clone() };
                let _ = run(node, &ask, policy);
            }
            Event::End(job) => {
                node.release(JobId(*job));
            }
            Event::Claim(at) => {
                let device = node.pool().map(|device| device.on).nth(*at);
                if let Some(on) = device.filter(|on| node.claim_on(*on).is_none()) {
                    node.claims.push(Claim { job: JobId(job), on });
                }
            }
        }
        assert_eq!(audit::audit_node(node), [], "{}", layout_of(node));
        assert_eq!(audit::audit_shards(node), [], "{}", layout_of(node));
    }
}
