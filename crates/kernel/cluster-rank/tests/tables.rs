//! The tables against an enumeration of all draws, and the bounds of the mix. The oracle shares no code with the crate.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]

use cluster_rank::{
    Extent, Grid, Mix, Models, NodeView, Schedule, Shape, Tables, Taken, unused_of_gpu, unused_of_node,
};
use proptest::prelude::*;

const LARGEST: Extent = Extent { gpus: 8, cores_milli: 128_000 };

/// Averages what is left over all sequences of draws; the rest of the probability draws nothing.
fn enumerated(classes: &[(usize, usize, f64)], left: (usize, usize), draws: usize) -> f64 {
    if draws == 0 {
        return left.0 as f64;
    }
    let nothing = 1.0 - classes.iter().map(|class| class.2).sum::<f64>();
    let after = |&(gpus, cores, p): &(usize, usize, f64)| {
        let fits = gpus <= left.0 && cores <= left.1;
        let left = if fits { (left.0 - gpus, left.1 - cores) } else { left };
        p * enumerated(classes, left, draws - 1)
    };
    classes.iter().map(after).sum::<f64>() + nothing * enumerated(classes, left, draws - 1)
}

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<u32>(), any::<u8>(), any::<u16>(), 0..4_u8).prop_map(|(cores, gpus, milli, model)| {
        let models = if model == 3 { Models::ANY } else { Models::NONE.with(model) };
        let milli = if gpus == 0 { 0 } else { milli };
        Shape {
            cores_milli: cores >> (cores % 32),
            gpus: gpus >> (gpus % 8),
            milli: milli >> (milli % 16),
            models,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn residuals_are_those_of_all_sequences_of_draws(
        classes in prop::collection::vec((1..7_usize, 0..4_usize, 0.0..0.33), 0..4), draws in 0..5_usize,
    ) {
        let sizes: Vec<(usize, f64)> = classes.iter().map(|class| (class.0 * 13, class.2)).collect();
        let of_gpu = unused_of_gpu(&sizes, draws);
        let without_cores: Vec<_> = sizes.iter().map(|&(size, p)| (size, 0, p)).collect();
        for left in [0, 12, 13, 40, 77, 100] {
            let expected = enumerated(&without_cores, (left, 0), draws) / 100.0;
            prop_assert!((of_gpu[left] - expected).abs() < 1e-9, "{left}: {} {expected}", of_gpu[left]);
        }
        let grid = Grid { gpus: 9, cores: 6 };
        let of_node = unused_of_node(&classes, grid, draws);
        for gpus in 0..=grid.gpus {
            for cores in 0..=grid.cores {
                let expected = enumerated(&classes, (gpus, cores), draws);
                let found = of_node[grid.at(gpus, cores)];
                prop_assert!((found - expected).abs() < 1e-9, "{gpus} {cores}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_residual_is_at_most_what_is_left_and_falls_with_every_draw(
        classes in prop::collection::vec((0..120_usize, 0.0..0.2), 0..5),
    ) {
        let mut before = unused_of_gpu(&classes, 0);
        for draws in 1..40 {
            let now = unused_of_gpu(&classes, draws);
            for left in 0..=100 {
                prop_assert!(now[left] >= 0.0 && now[left] <= before[left] + 1e-12, "{left} after {draws}");
            }
            before = now;
        }
    }

    #[test]
    fn any_input_has_a_finite_cost(
        seen in prop::collection::vec((any::<u32>(), shapes()), 0..60), asked in shapes(),
        free in prop::collection::vec(any::<u16>(), 0..20), cores_milli in any::<u32>(), model in any::<u8>(),
        largest in (any::<u8>(), any::<u32>()),
    ) {
        let mix = Mix::rebuilt(seen);
        let tables = Tables::new(&mix, Extent { gpus: largest.0, cores_milli: largest.1 });
        let node = NodeView { free_milli: &free, cores_milli, model };
        let cost = tables.costs(&node, &asked);
        prop_assert_eq!(cost.is_some(), node.fits(&asked));
        if let Some(cost) = cost {
            for taken in (0..free.len()).map(Taken::PartOf).chain([Taken::Idle]) {
                prop_assert!(cost(taken).is_none_or(|cost| cost.abs() < 200_000_000_000), "{taken:?}");
            }
        }
    }

    #[test]
    fn after_a_restart_the_tables_are_those_of_the_same_requests_in_any_order(
        seen in prop::collection::vec((0..9_u32, shapes()), 0..200), turn in 0..200_usize,
        free in prop::collection::vec(0..1001_u16, 1..9), cores_milli in 0..128_000_u32, asked in shapes(),
    ) {
        let mut other = seen.clone();
        other.reverse();
        other.rotate_left(turn % seen.len().max(1));
        let (one, other) = (Mix::rebuilt(seen), Mix::rebuilt(other));
        prop_assert_eq!(&one, &other);
        let node = NodeView { free_milli: &free, cores_milli, model: 1 };
        let cost = |mix: &Mix| {
            let tables = Tables::new(mix, LARGEST);
            tables.costs(&node, &asked).map(|cost| [Taken::Idle, Taken::PartOf(0)].map(cost))
        };
        prop_assert_eq!(cost(&one), cost(&other));
    }
}

fn part(cores: u32, milli: u16) -> Shape {
    Shape { cores_milli: cores * 1000, gpus: 1, milli, models: Models::ANY }
}

fn odd(n: u32) -> Shape {
    let milli = u16::try_from(n % 997 + 1).unwrap();
    Shape { cores_milli: n, gpus: u8::try_from(n % 9).unwrap(), milli, models: Models::ANY }
}

#[test]
fn a_million_odd_shapes_grow_neither_memory_nor_the_share_of_their_account() {
    let mut mix = Mix::default();
    for round in 0..1_000_000_u32 {
        mix.arrived(1, odd(round));
        if round % 1000 == 0 {
            (2..6).for_each(|account| mix.arrived(account, part(4, 500)));
        }
        assert!(mix.entries() <= cluster_rank::mix::MOST_ENTRIES);
    }
    let weights = mix.weights();
    assert!(weights.len() <= cluster_rank::mix::MOST_ENTRIES + 10);
    let of_others: f64 = weights.iter().filter(|one| one.0 == part(4, 500)).map(|one| one.1).sum();
    assert!(of_others > 0.7499, "{of_others}");
    let node = NodeView { free_milli: &[1000], cores_milli: 8000, model: 0 };
    assert!((0..=1_000_000).contains(&Tables::new(&mix, LARGEST).residual(&node, 1000)));
}

#[test]
fn a_flood_of_one_account_moves_no_residual_by_more_than_its_share_allows() {
    let honest = |mix: &mut Mix| {
        (0..400).for_each(|i| mix.arrived(2 + i % 4, part(4, if i < 200 { 500 } else { 250 })))
    };
    let mut quiet = Mix::default();
    honest(&mut quiet);
    let mut flooded = quiet.clone();
    (0..100_000).for_each(|_| flooded.arrived(1, part(1, 990)));
    let hostile: f64 = flooded.weights().iter().filter(|one| one.0.milli == 990).map(|one| one.1).sum();
    assert!((0.1999..0.2501).contains(&hostile), "{hostile}");
    let (before, after) = (Tables::new(&quiet, LARGEST), Tables::new(&flooded, LARGEST));
    let node = NodeView { free_milli: &[1000], cores_milli: 8000, model: 0 };
    for left in 0..=1000 {
        let moved = (before.residual(&node, left) - after.residual(&node, left)).abs();
        assert!(moved <= 250_000, "{left}: {moved}");
    }
}

#[test]
fn with_nothing_learnt_the_mix_is_uniform_and_goes_with_what_arrives() {
    let weights = Mix::default().weights();
    assert_eq!(weights.len(), 10);
    assert!(weights.iter().all(|(shape, p)| shape.gpus == 1 && (p - 0.1).abs() < 1e-12));
    let mut mix = Mix::default();
    (0..8).for_each(|_| mix.arrived(1, part(4, 333)));
    assert_eq!(mix.weights().len(), 11);
    (0..8).for_each(|_| mix.arrived(1, part(4, 333)));
    assert_eq!(mix.weights(), [(part(4, 333), 1.0)]);
    // A second account with few requests brings the uniform mix not back.
    (0..2).for_each(|_| mix.arrived(2, part(1, 500)));
    assert_eq!(mix.weights(), [(part(1, 500), 0.5), (part(4, 333), 0.5)]);
}

#[test]
fn tables_are_due_as_requests_double_and_then_every_thousand() {
    let mut schedule = Schedule::default();
    let due: Vec<u32> = (1..=4100).filter(|_| schedule.arrived()).collect();
    assert_eq!(due, [16, 32, 64, 128, 256, 512, 1024, 2024, 3024, 4024]);
}
