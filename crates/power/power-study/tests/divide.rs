//! A budget of watts over GPUs, beside trying everything.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, Numbers, cap};
use power_study::{DivideError, Group, Model, Problem, Question, choose, divide};

fn group(data: &Calibration, gpu: usize, apps: &[usize]) -> Group {
    let (apps, features) = data.of(apps);
    Group { gpu: format!("n1:{gpu}"), apps, features }
}

/// Throughput at each cap where something is allowed.
fn worth(model: &Model, group: &Group, alpha: f64, guard: bool) -> Vec<(u64, f64)> {
    let at = |watts: &u32| {
        let (apps, features) = (&group.apps, &group.features);
        let question = Question { apps, features, problem: Problem::Throughput(cap(*watts)), alpha, guard };
        choose(model, &question).unwrap().chosen.map(|c| (u64::from(*watts), c.throughput))
    };
    CAPS.iter().filter_map(at).collect()
}

/// The highest sum, by trying every cap for every GPU.
fn by_trying(of: &[Vec<(u64, f64)>], budget: u64) -> Option<f64> {
    let Some((first, rest)) = of.split_first() else { return Some(0.0) };
    let with = |(watts, worth): &(u64, f64)| Some(worth + by_trying(rest, budget.checked_sub(*watts)?)?);
    first.iter().filter_map(with).reduce(f64::max)
}

#[test]
fn no_other_division_is_better() {
    let mut random = Numbers(5);
    let mut app = || random.below(24);
    for seed in 0..4 {
        let data = Calibration::new(seed, 0.15);
        let model = data.fit().unwrap();
        for guard in [true, false] {
            let groups: Vec<Group> = (0..4).map(|gpu| group(&data, gpu, &[app(), app()])).collect();
            let of: Vec<_> = groups.iter().map(|group| worth(&model, group, 0.2, guard)).collect();
            for budget in (590..=1020).step_by(7) {
                let found = divide(&model, &groups, budget, 0.2, guard);
                let Some(best) = by_trying(&of, budget) else {
                    assert!(matches!(
                        found,
                        Err(DivideError::Budget { .. } | DivideError::NothingAllowed { .. })
                    ));
                    continue;
                };
                let found = found.unwrap();
                assert!((found.throughput - best).abs() < 1e-9, "{budget} W: {} {best}", found.throughput);
                assert!(found.exact && found.used_w <= budget);
                assert_eq!(found.used_w, found.chosen.iter().map(|c| u64::from(c.cap.watts())).sum::<u64>());
                assert!(found.chosen.iter().all(|c| c.allowed));
            }
        }
    }
}

#[test]
fn of_equal_divisions_the_one_with_fewer_watts_is_taken() {
    let data = Calibration::new(1, 0.0);
    let model = data.fit().unwrap();
    let groups: Vec<Group> = (0..3).map(|gpu| group(&data, gpu, &[2, 14])).collect();
    let rich = divide(&model, &groups, 1_000_000, 0.1, false).unwrap();
    let best = worth(&model, &groups[0], 0.1, false).into_iter().map(|(_, worth)| worth).fold(0.0, f64::max);
    assert!((rich.throughput - 3.0 * best).abs() < 1e-9);
    assert_eq!(divide(&model, &groups, rich.used_w, 0.1, false).unwrap(), rich);
    assert!(divide(&model, &groups, rich.used_w - 1, 0.1, false).unwrap().throughput < rich.throughput);
}

#[test]
fn every_group_gets_a_cap_or_none_does() {
    let data = Calibration::new(1, 0.02);
    let model = data.fit().unwrap();
    let groups: Vec<Group> = (0..3).map(|gpu| group(&data, gpu, &[2, 14])).collect();
    let refused = |budget, alpha| divide(&model, &groups, budget, alpha, true).unwrap_err().to_string();
    assert_eq!(
        refused(449, 0.1),
        "the budget of 449 W is too small: the lowest caps that keep every application above alpha add up to 450 W"
    );
    assert_eq!(divide(&model, &groups, 450, 0.1, true).unwrap().used_w, 450);
    let nothing = refused(750, 0.99);
    assert!(
        nothing.starts_with("n1:0: no candidate keeps every application above 0.99: the best keeps "),
        "{nothing}"
    );
    let three = [group(&data, 0, &[1, 2]), group(&data, 1, &[1, 2, 3])];
    assert!(matches!(divide(&model, &three, 900, 0.1, true), Err(DivideError::Group { at: 1, .. })));
}

#[test]
fn sixty_four_gpus_of_different_applications() {
    let data = Calibration::new(2, 0.1);
    let model = data.fit().unwrap();
    let groups: Vec<Group> = (0..64).map(|gpu| group(&data, gpu, &[gpu % 24, (gpu * 7 + 3) % 24])).collect();
    let mut before = 0.0;
    for budget in [9_600, 9_619, 11_000, 12_345, 16_000, 20_000] {
        let found = divide(&model, &groups, budget, 0.1, false).unwrap();
        assert!(found.exact && found.used_w <= budget && found.throughput >= before);
        before = found.throughput;
    }
}
