//! The node of a cluster: starts where Slurm's own choice is poor, and an oracle that enumerates small clusters.

use crate::common::*;
use decision_report::Cost;
use geometry::*;
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::*;
use topology::HardwareGraph;

/// The node on which the request costs least, the first of several; `None` if it fits none.
fn best(nodes: &[Node], ask: &Ask, fill: Fill) -> Option<usize> {
    let cost = |node: &Node| Some(rank(node, &decide(node, ask, &Policy::default()))?.under(fill));
    let costs = nodes.iter().enumerate().filter_map(|(i, node)| Some((cost(node)?, i)));
    costs.min().map(|(_, i)| i)
}

fn pick(nodes: &[Node], ask: &Ask) -> usize {
    best(nodes, ask, Fill::Pack).unwrap()
}

fn dgx() -> Node {
    node(&[A100; 8], MigPolicy::Dynamic)
}

/// Makes job `job` hold these GPUs whole.
fn whole(node: &mut Node, job: u32, list: &[u16]) {
    node.apply(JobId(job), Uid(1), &Grant::Whole(gpus(list))).unwrap();
}

fn several(job: u32, count: u32) -> Ask {
    let mut ask = ask(job, "whole", "");
    ask.request.gpus = Some(count);
    ask
}

#[test]
fn an_idle_instance_is_used_again() {
    let mut nodes = [dgx(), dgx()];
    held(&mut nodes[1], 1, 0, "1g.5gb", 0);
    nodes[1].release(JobId(1));
    assert_eq!(pick(&nodes, &ask(2, "mig:1g.5gb", "")), 1);
}

#[test]
fn a_gpu_that_is_cut_comes_before_a_fresh_one() {
    let mut nodes = [dgx(), dgx()];
    held(&mut nodes[1], 1, 0, "1g.5gb", 0);
    for job in 2..8 {
        let ask = ask(job, "mig:1g.5gb", "");
        assert_eq!(pick(&nodes, &ask), 1);
        let _ = run(&mut nodes[1], &ask, &Policy::default());
    }
    // GPU 0 is full; a second one of the used node still keeps the other node whole.
    assert_eq!(pick(&nodes, &ask(9, "mig:1g.5gb", "")), 1);
}

#[test]
fn small_jobs_leave_nodes_whole() {
    let mut nodes = [dgx(), dgx(), dgx()];
    for job in 1..=10 {
        let ask = ask(job, "mig:1g.5gb", "");
        let at = pick(&nodes, &ask);
        let _ = run(&mut nodes[at], &ask, &Policy::default());
    }
    let starts = nodes.iter().filter(|node| fits(node, &several(11, 8), &Policy::default())).count();
    assert_eq!(starts, 2);
}

#[test]
fn jobs_are_spread_if_the_site_says_so() {
    let mut nodes = [dgx(), dgx(), dgx()];
    for job in 1..=3 {
        let ask = ask(job, "mig:1g.5gb", "");
        let at = best(&nodes, &ask, Fill::Spread).unwrap();
        let _ = run(&mut nodes[at], &ask, &Policy::default());
    }
    assert!(nodes.iter().all(|node| node.gpus.iter().any(Gpu::is_cut)));
}

#[test]
fn a_set_goes_where_its_links_are_good() {
    let mut nodes = [dgx(), dgx()];
    nodes.iter_mut().for_each(|node| node.links = dgx1().into());
    whole(&mut nodes[0], 1, &[1, 2, 3, 4, 6, 7]);
    whole(&mut nodes[1], 2, &[1, 2, 4, 5, 6, 7]);
    assert_eq!(pick(&nodes, &several(3, 2)), 1);
    // Whoever does not care leaves the good links to others: both nodes cost the same, and Slurm's order stays.
    let mut ask = several(3, 2);
    ask.request.bandwidth = Some(Bandwidth::Insensitive);
    assert_eq!(pick(&nodes, &ask), 0);

    let mut mixed = [node(&["v100-16gb"; 8], MigPolicy::Off), dgx()];
    mixed[0].links = dgx1().into();
    mixed[1].links = HardwareGraph::uniform(8, 300.0).into();
    assert_eq!(pick(&mixed, &several(3, 4)), 1);
}

#[test]
fn the_model_is_the_one_of_which_least_is_taken() {
    let nodes = [dgx(), dgx(), node(&["h100-80gb-sxm"; 8], MigPolicy::Dynamic)];
    assert_eq!(pick(&nodes, &ask(1, "auto", "40G")), 2);
}

#[test]
fn a_share_joins_its_users_others() {
    let mut nodes = [dgx(), dgx()];
    let _ = run(&mut nodes[1], &ask(1, "mps", "5G"), &Policy::default());
    assert_eq!(pick(&nodes, &ask(2, "mps", "5G")), 1);
    let other = Ask { uid: Uid(7), ..ask(2, "mps", "5G") };
    assert_eq!(pick(&nodes, &other), 1, "another user opens a GPU beside it, and n1 stays whole");
}

#[test]
fn whole_gpus_fill_the_fullest_node() {
    let mut nodes = [dgx(), dgx(), dgx()];
    whole(&mut nodes[1], 1, &[0, 1, 2, 3, 4]);
    whole(&mut nodes[2], 2, &[0]);
    for (count, at) in [(1, 1), (3, 1), (4, 2), (7, 2), (8, 0)] {
        let mut ask = several(3, count);
        ask.request.bandwidth = Some(Bandwidth::Insensitive);
        assert_eq!(pick(&nodes, &ask), at, "{count} GPUs");
    }
}

/// GPUs of a pool's own are a set, as whole ones are.
#[test]
fn tasks_own_gpus_open_as_many_and_may_take_a_node_whole() {
    let policy = Policy { tasks: Some(PoolPolicy::default()), ..Policy::default() };
    let cost = |count: u32| {
        let node = node(&["v100-16gb"; 2], MigPolicy::Off);
        let mut ask = ask(1, "tasks:probes", "");
        ask.request.seats = count;
        ask.request.gpus = Some(count);
        rank(&node, &decide(&node, &ask, &policy)).unwrap()
    };
    assert_eq!((cost(1).cost.opened, cost(1).opens_node), (1, true));
    assert_eq!((cost(2).cost.opened, cost(2).opens_node), (2, false));
}

/// Counts the cost of a place for one instance from the node before and after. Shares no code with `rank`.
fn counted(node: &Node, spec: MigSpec) -> (u32, bool, usize, usize, bool, bool, usize, usize) {
    let in_use = |gpu: &Gpu| match &gpu.state {
        GpuState::Free => false,
        GpuState::Mig(all) => all.iter().any(|i| i.holder != Holder::Idle),
        _ => true,
    };
    let gpu = &node.gpus[usize::from(spec.gpu.0)];
    let profile = gpu.model.profile_by_id(spec.profile).unwrap();
    let units = |p: Placement| u32::from(p.start.0)..u32::from(p.start.0) + u32::from(p.size);
    let place = profile.at(spec.start);
    let idle = |exact: bool| match &gpu.state {
        GpuState::Mig(all) => all
            .iter()
            .filter(|i| i.holder == Holder::Idle)
            .filter(|i| (i.profile == spec.profile && i.start == spec.start) == exact)
            .filter(|i| {
                exact || units(gpu.profile_of(i).unwrap().at(i.start)).any(|u| units(place).contains(&u))
            })
            .count(),
        _ => 0,
    };
    let reused = idle(true) == 1;
    let after = {
        let mut after = node.clone();
        after.apply(JobId(999), Uid(1000), &Grant::Mig(vec![spec])).unwrap();
        after
    };
    let left = |node: &Node| audit_places(node);
    let all_units = u32::from(gpu.model.placement_units);
    let free = node.gpus.iter().filter(|gpu| !in_use(gpu)).count();
    (
        u32::from(place.size) * 5040 / all_units,
        free == node.gpus.len(),
        usize::from(!in_use(gpu)),
        left(node) - left(&after),
        !matches!(gpu.state, GpuState::Mig(_)) && gpu.policy != MigPolicy::On,
        !reused,
        if reused { 0 } else { idle(false) },
        free,
    )
}

/// Free base placements of a node, idle instances counting as free.
fn audit_places(node: &Node) -> usize {
    let mut bare = node.clone();
    node_layout::forget_idle(&mut bare);
    audit::every_place(&bare)
        .filter(|spec| {
            let gpu = &bare.gpus[usize::from(spec.gpu.0)];
            let is_base = gpu.model.profile_by_id(spec.profile).is_some_and(|p| !p.name.contains('+'));
            let mut tried = bare.clone();
            is_base && tried.apply(JobId(998), Uid(1), &Grant::Mig(vec![*spec])).is_ok()
        })
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No legal place on any node of a small cluster costs less than what is taken on the node that ranks first.
    #[test]
    fn no_place_of_the_cluster_is_cheaper(
        counts in prop::collection::vec(1..=2_usize, 2..=4),
        lives in prop::collection::vec(events(6), 4),
        profile in prop::sample::select(vec!["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"]),
    ) {
        let mut nodes: Vec<Node> = counts.iter().map(|n| node(&vec![A100; *n], MigPolicy::Dynamic)).collect();
        for (node, events) in nodes.iter_mut().zip(&lives) {
            live(node, &Policy::default(), events);
            node.claims.clear();
        }
        let ask = ask(500, &format!("mig:{profile}"), "");
        let wanted = Model::find(A100).unwrap().profile(profile).unwrap().id;
        let legal = |node: &Node| -> Vec<MigSpec> {
            audit::every_place(node)
                .filter(|spec| spec.profile == wanted)
                .filter(|spec| audit::legal(node, &ask, &Policy::default(), &Grant::Mig(vec![*spec])).is_empty())
                .collect()
        };
        let cheapest = nodes.iter().flat_map(|node| legal(node).into_iter().map(|spec| counted(node, spec))).min();
        let first = best(&nodes, &ask, Fill::Pack);
        prop_assert_eq!(first.is_some(), cheapest.is_some());
        let Some(first) = first else { return Ok(()) };
        let decision = decide(&nodes[first], &ask, &Policy::default());
        let Some(Grant::Mig(specs)) = &decision.chosen else { panic!("{}", decision_text::decision(&decision)) };
        prop_assert_eq!(counted(&nodes[first], specs[0]), cheapest.unwrap());
    }

    /// A request that does not fit has no cost, and a state always has the same one.
    #[test]
    fn what_fits_has_one_cost(mut node in empty_nodes(4), events in events(8), ask in asks(2)) {
        live(&mut node, &Policy::default(), &events);
        let decision = decide(&node, &ask, &Policy::default());
        let cost = rank(&node, &decision);
        prop_assert_eq!(cost.is_some(), decision.chosen.is_some());
        prop_assert_eq!(cost, rank(&node.clone(), &decide(&node, &ask, &Policy::default())));
    }
}

proptest! {
    /// Exactly the cheaper of two nodes has an advantage.
    #[test]
    fn the_cheaper_node_has_the_advantage(a in prop::array::uniform6(0..2_u32), b in prop::array::uniform6(0..2_u32)) {
        let cost = |of: [u32; 6]| NodeCost {
            slower: Slowness::of_gbps([100.0, 50.0][of[0] as usize]),
            parts: of[1],
            opens_node: of[2] == 1,
            cost: Cost { created: of[3], ..Cost::default() },
            free: of[4],
            expected: i64::from(of[5]) - 1,
            ..NodeCost::default()
        };
        let (a, b) = (cost(a), cost(b));
        prop_assert_eq!(a.advantage_over(&b, "b").is_some(), a < b);
        prop_assert_eq!(b.advantage_over(&a, "a").is_some(), b < a);
    }
}

#[test]
fn the_advantage_is_a_sentence_with_numbers() {
    let says = |own: NodeCost, other: NodeCost| own.advantage_over(&other, "n1").unwrap_or_default();
    let fast = |gbps| NodeCost { slower: Slowness::of_gbps(gbps), ..NodeCost::default() };
    let none = NodeCost::default();
    assert_eq!(says(fast(300.2), fast(51.7)), "300 GB/s, 52 GB/s on n1");
    assert_eq!(says(fast(12.0), none), "12 GB/s, nothing predicted on n1");
    assert_eq!(says(fast(50.1), fast(50.0)), "", "within a step nodes are alike");
    let expected = |expected| NodeCost { expected, ..none };
    assert_eq!(
        says(expected(-1), none),
        "fills a GPU that is in use already; less of what the job gets stays unused than on n1"
    );
    let opens =
        |opened, opens_node| NodeCost { cost: Cost { opened, ..Cost::default() }, opens_node, ..none };
    assert_eq!(says(none, opens(1, true)), "fills a GPU that is in use already; keeps n1 whole");
    assert_eq!(says(opens(4, false), opens(4, true)), "keeps n1 whole");
    assert_eq!(says(none, opens(1, false)), "fills a GPU that is in use already; keeps a GPU of n1 whole");
    let free = |free| NodeCost { free, ..none };
    assert_eq!(says(free(2), free(3)), "fewer GPUs are free; those of n1 stay together");
}
