//! Hill climbing beside weighing every candidate.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, Numbers, cap};
use power_study::{Candidate, Problem, Question, choose, choose_within};

fn value(problem: Problem, candidate: &Candidate) -> f64 {
    match problem {
        Problem::Throughput(_) => candidate.throughput,
        Problem::Efficiency => candidate.efficiency,
    }
}

/// Two and three applications on many parts, at the caps of the paper.
fn data(seed: u64) -> Calibration {
    let mut data = Calibration::new(seed, 0.05);
    let mut random = Numbers(seed + 1);
    for cap in CAPS {
        for part in ["2g", "1g", "2c", "1c"] {
            (0..24).for_each(|app| data.add(&[part], cap, &[app], 0.05, &mut random));
        }
        for parts in [["4g", "2g", "1g"], ["3g", "2g", "2g"], ["4c", "2c", "1c"], ["3c", "2c", "2c"]] {
            for app in 0..12 {
                data.add(&parts, cap, &[app, app + 6, app + 12], 0.05, &mut random);
            }
        }
    }
    data
}

#[test]
fn climbing_is_allowed_where_anything_is_and_hardly_ever_worse() {
    let mut random = Numbers(4);
    let (mut asked, mut same) = (0, 0);
    for seed in 0..3 {
        let data = data(seed);
        let model = data.fit().unwrap();
        for n in [2, 3].into_iter().cycle().take(60) {
            let apps: Vec<usize> = (0..n).map(|_| random.below(24)).collect();
            let (apps, features) = data.of(&apps);
            for problem in [Problem::Efficiency, Problem::Throughput(cap(190))] {
                let alpha = 0.6 * random.next();
                let question = Question { apps: &apps, features: &features, problem, alpha, guard: false };
                let all = choose(&model, &question).unwrap();
                let climbed = choose_within(&model, &question, 0).unwrap();
                assert_eq!(all.chosen.is_some(), climbed.chosen.is_some(), "{apps:?} {alpha}");
                assert!(climbed.candidates.iter().all(|c| all.candidates.contains(c)));
                let Some((best, found)) = all.chosen.as_ref().zip(climbed.chosen.as_ref()) else { continue };
                let (best, found) = (value(problem, best), value(problem, found));
                assert!(found <= best && found >= 0.95 * best, "{apps:?} {found} {best}");
                (asked, same) = (asked + 1, same + usize::from(found == best));
            }
        }
    }
    assert!(asked > 150 && same * 20 >= asked * 19, "{same} of {asked}");
}
