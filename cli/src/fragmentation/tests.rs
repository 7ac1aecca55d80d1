//! Examples that can be counted by hand, and every set of free units against a count that tries all places.

use super::*;
use crate::cluster_snapshot::tests::node;

fn a100() -> &'static Model {
    Model::find("a100-40gb").unwrap()
}

fn of(lines: &[&str]) -> Wholeness {
    let nodes: Vec<NodeSeen> = lines
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let gpus = line.matches("gpu").count();
            node(&format!("n{i}"), "gpu", true, &vec!["a100-40gb"; gpus], &format!("tessera {line}"))
        })
        .collect();
    wholeness(&nodes.iter().collect::<Vec<_>>())
}

fn lost(all: &Wholeness, shape: &str) -> (u32, u32) {
    let places = all.places.iter().find(|places| places.shape.to_string() == shape).unwrap();
    (places.lost(), places.packed)
}

#[test]
fn half_gpus_cost_whole_ones() {
    let all = of(&["gpu0=mig[3g.20gb@0:job1] gpu1=mig[3g.20gb@0:job2]"]);
    assert_eq!((all.gpus, all.of_gpus, all.nodes, all.of_nodes), (0, 2, 0, 1));
    assert_eq!(lost(&all, "1 GPU"), (1, 1));
    assert_eq!(lost(&all, "7g.40gb"), (1, 1));
    // Only unit 0 begins a 4g.20gb: packed, one GPU would be free.
    assert_eq!(lost(&all, "4g.20gb"), (1, 1));
    assert_eq!(lost(&all, "3g.20gb"), (0, 2));
    assert_eq!(
        all.words().unwrap(),
        [
            "without jobs: 0 of 2 GPUs, 0 of 1 nodes",
            "lost to fragmentation: 1 of 1 places for 4g.20gb, 1 of 1 for 7g.40gb, 1 of 1 for 1 GPU, and 2 more shapes"
        ]
    );
}

#[test]
fn what_runs_together_costs_nothing() {
    let free = of(&["gpu0=free gpu1=mig[1g.5gb@0:idle]", "gpu0=whole[job1] gpu1=whole[job1]"]);
    assert!(free.places.iter().all(|places| places.lost() == 0), "{free:?}");
    assert_eq!((free.gpus, free.nodes), (2, 1));
    // The eighth unit of a GPU with seven 1g.5gb has no compute slice left.
    let full = (0..7).map(|i| format!("1g.5gb@{i}:job{}", i + 1)).collect::<Vec<_>>().join(",");
    let full = of(&[&format!("gpu0=mig[{full}] gpu1=free")]);
    assert!(full.places.iter().all(|places| places.lost() == 0), "{full:?}");
    assert_eq!(full.words().unwrap()[1], "lost to fragmentation: nothing");
}

#[test]
fn small_jobs_on_many_nodes_cost_large_ones() {
    let one = "gpu0=whole[job1] gpu1=free gpu2=free gpu3=free";
    let all = of(&[one, one, one, one]);
    let of_gpus = all.places.iter().filter_map(|places| match places.shape {
        Shape::Gpus(n) => Some((n, places.now, places.packed)),
        Shape::Instance(_) => None,
    });
    assert_eq!(of_gpus.collect::<Vec<_>>(), [(1, 12, 12), (2, 4, 6), (4, 0, 3)]);
    let is_lost = |text: &str| all.is_lost(&protocol::wire::parse_request(text).unwrap());
    assert!(is_lost("v1 iso=whole gpus=4") && is_lost("v1 iso=whole gpus=3"));
    assert!(
        !is_lost("v1 iso=whole gpus=2") && !is_lost("v1 iso=mig:1g.5gb") && !is_lost("v1 iso=mig mem=30000")
    );
    assert_eq!(all.places.last().unwrap().lost_percent(), 100);
}

#[test]
fn nodes_that_take_no_jobs_do_not_count() {
    let away = node("n1", "gpu", false, &["a100-40gb"], "tessera gpu0=free");
    let slurms = node("n2", "gpu", true, &["a100-40gb"], "tessera gpu0=slurm");
    assert_eq!(wholeness(&[&away, &slurms]), Wholeness::default());
    assert_eq!(wholeness(&[&away]).words(), None);
}

/// Most instances in free units, found by trying every set of places.
fn by_trying(profile: &Profile, units: u16) -> u32 {
    let starts = &profile.starts;
    let fits = |set: u32| {
        let mut taken = 0_u16;
        (0..starts.len()).filter(|i| set >> i & 1 == 1).all(|i| {
            let place = profile.at(starts[i]).mask();
            let free = place & !units == 0 && place & taken == 0;
            taken |= place;
            free
        })
    };
    (0..1_u32 << starts.len()).filter(|set| fits(*set)).map(u32::count_ones).max().unwrap_or(0)
}

#[test]
fn places_are_counted_as_by_trying_all() {
    for model in ["a100-40gb", "a30-24gb"].map(|key| Model::find(key).unwrap()) {
        for profile in model.profiles.iter().filter(|profile| !profile.is_variant()) {
            for units in 0..=all_units(model) {
                assert_eq!(most(profile, units), by_trying(profile, units), "{} {units:b}", profile.name);
            }
        }
    }
}

/// Packed is the best that any GPU with so many free units and slices could have, beside the GPUs that are free.
#[test]
fn packed_is_the_best_arrangement_of_what_is_free() {
    let model = a100();
    let best = |profile: &Profile, units: u32, slices: u32| {
        let masks = (0..=all_units(model)).filter(|mask| mask.count_ones() <= units);
        let most = masks.map(|mask| by_trying(profile, mask)).max().unwrap_or(0);
        (0..=most).rev().find(|n| n * u32::from(profile.compute_slices) <= slices).unwrap_or(0)
    };
    for (units, slices) in [(3_u16, 2_u32), (8, 7), (5, 5), (1, 0), (4, 3), (7, 7)] {
        let half = Room { units: (1 << units) - 1, slices, cuttable: true, whole: true };
        let group = Group { model, nodes: vec![vec![half, half]] };
        for profile in model.profiles.iter().filter(|profile| !profile.is_variant()) {
            let (all, all_slices) = (2 * u32::from(units), 2 * slices);
            let gpus = (all / 8).min(all_slices / 7);
            let wanted =
                gpus * by_trying(profile, 0xff) + best(profile, all - gpus * 8, all_slices - gpus * 7);
            let places = group.of_profile(profile);
            assert_eq!(places.packed, wanted.max(places.now), "{} {units} {slices}", profile.name);
        }
    }
}
