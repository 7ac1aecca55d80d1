//! Every legal choice on clusters of two to four nodes, by the cost as the crate's documentation states it.

#![allow(clippy::unwrap_used, reason = "tests")]

use cluster_rank::{Extent, Mix, Models, NodeView, Shape, Tables, Taken};
use proptest::prelude::*;

const LARGEST: Extent = Extent { gpus: 4, cores_milli: 32_000 };

#[derive(Clone, Debug)]
struct Node {
    free: Vec<u16>,
    cores: u32,
    model: u8,
}

impl Node {
    fn view(&self) -> NodeView<'_> {
        NodeView { free_milli: &self.free, cores_milli: self.cores, model: self.model }
    }

    fn without(&self, shape: &Shape, gpus: &[usize]) -> Self {
        let mut node = self.clone();
        node.cores -= shape.cores_milli;
        gpus.iter().for_each(|&gpu| node.free[gpu] -= shape.milli);
        node
    }

    fn idle(&self) -> usize {
        self.free.iter().filter(|free| **free == 1000).count()
    }
}

/// Millionths of a GPU that are expected to stay unused of a node, sets apart.
fn unused(tables: &Tables, node: &Node) -> i64 {
    let of_gpus: i64 = node.free.iter().map(|free| tables.residual(&node.view(), *free)).sum();
    let left = node.free.iter().map(|free| u32::from(*free)).sum();
    of_gpus + tables.stranded(left, node.cores)
}

/// Half the residual of the sets that no longer have room, times the probability that one of 100 draws is of it.
fn lost_sets(mix: &[(Shape, f64)], tables: &Tables, before: &Node, after: &Node) -> f64 {
    let has =
        |node: &Node, set: &Shape| node.idle() >= usize::from(set.gpus) && node.cores >= set.cores_milli;
    let sets = mix.iter().filter(|(set, _)| set.gpus > 1 && set.models.has(before.model));
    let lost = sets.filter(|(set, _)| has(before, set) && !has(after, set));
    #[expect(clippy::cast_precision_loss, reason = "a residual is below a million")]
    let residual = tables.residual(&before.view(), 1000) as f64;
    lost.map(|(set, p)| 0.5 * f64::from(set.gpus) * residual * (1.0 - (1.0 - p).powi(100))).sum()
}

/// The stated cost, before it is rounded.
fn stated(mix: &[(Shape, f64)], tables: &Tables, node: &Node, shape: &Shape, gpus: &[usize]) -> f64 {
    let after = node.without(shape, gpus);
    #[expect(clippy::cast_precision_loss, reason = "a cost is far below 2^52")]
    let sum = (unused(tables, &after) - unused(tables, node)) as f64;
    sum + lost_sets(mix, tables, node, &after)
}

/// Sets of the node's GPUs that the request may take.
fn legal(node: &Node, shape: &Shape) -> Vec<Vec<usize>> {
    let model = shape.gpus == 0 || shape.models.has(node.model);
    if node.cores < shape.cores_milli || !model {
        return Vec::new();
    }
    let all = 0..1_u32 << node.free.len();
    let members = |set: u32| (0..node.free.len()).filter(move |gpu| set >> gpu & 1 == 1).collect::<Vec<_>>();
    let right = |set: &Vec<usize>| {
        set.len() == usize::from(shape.gpus) && set.iter().all(|gpu| node.free[*gpu] >= shape.milli)
    };
    all.map(members).filter(right).collect()
}

fn step(shape: &Shape) -> f64 {
    match shape.gpus {
        0 | 1 if shape.milli < 1000 => 0.0,
        _ => 300_000.0,
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let models = prop_oneof![3 => Just(Models::ANY), 1 => Just(Models::NONE.with(1))];
    (0..8_u32, 0..4_u8, 1..=10_u16, models).prop_map(|(cores, gpus, tenths, models)| {
        let milli = [0, tenths * 100, 1000, 1000][usize::from(gpus)];
        Shape { cores_milli: cores * 2000, gpus, milli, models }
    })
}

fn clusters() -> impl Strategy<Value = Vec<Node>> {
    let left = prop_oneof![2 => Just(1000_u16), 3 => (0..=20_u16).prop_map(|steps| steps * 50)];
    let node = (prop::collection::vec(left, 1..5), 0..17_u32, 0..2_u8);
    prop::collection::vec(
        node.prop_map(|(free, cores, model)| Node { free, cores: cores * 2000, model }),
        2..5,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_choice_costs_what_is_stated_and_no_other_has_a_cost(
        seen in prop::collection::vec((0..6_u32, shapes()), 0..80), nodes in clusters(), asked in shapes(),
    ) {
        let mix = Mix::rebuilt(seen);
        let (tables, weights) = (Tables::new(&mix, LARGEST), mix.weights());
        for node in &nodes {
            let all = legal(node, &asked);
            let view = node.view();
            let cost = tables.costs(&view, &asked);
            prop_assert_eq!(cost.is_some(), !all.is_empty());
            let Some(cost) = cost else { continue };
            for gpus in &all {
                let taken = if asked.is_part() { Taken::PartOf(gpus[0]) } else { Taken::Idle };
                #[expect(clippy::cast_precision_loss, reason = "a cost is far below 2^52")]
                let found = cost(taken).unwrap() as f64;
                let stated = stated(&weights, &tables, node, &asked, gpus);
                prop_assert!((found - stated).abs() <= step(&asked) / 2.0 + 10.0, "{found} {stated}");
            }
            let free = node.free.iter().map(|free| *free >= asked.milli).chain([false]);
            for (gpu, has_room) in free.enumerate().filter(|_| asked.is_part()) {
                prop_assert_eq!(cost(Taken::PartOf(gpu)).is_some(), has_room);
            }
        }
    }
}
