//! The compared strategies: MISO-opt and fixed partitions, as ratios to FAR (Table 5 of the paper).
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

use far::{far, fix_part, fix_part_best, miso, replay};
use far_study::generate::{GOOD, MIXED, NARROW, POOR, WIDE, a100, batch};

/// Mean makespans over FAR's of MISO-opt, FixPart(1,...,1), FixPartBest and FixPart(7), on batches of 15.
fn ratios(shares: [usize; 5], range: (f64, f64)) -> [f64; 4] {
    let mut sums = [0.0; 4];
    let runs = 100;
    for seed in 0..runs {
        let problem = a100(batch(seed, 15, shares, range));
        let partitions = problem.tree.partitions();
        let ones = partitions.iter().max_by_key(|p| p.len()).unwrap();
        let whole = partitions.iter().find(|p| p.len() == 1).unwrap();
        let far = replay(&problem, &far(&problem).schedule).unwrap().makespan as f64;
        let miso = replay(&problem, &miso(&problem).unwrap()).unwrap().makespan;
        sums[0] += miso as f64 / far;
        let fixed = [
            fix_part(&problem, ones).unwrap(),
            fix_part_best(&problem).unwrap(),
            fix_part(&problem, whole).unwrap(),
        ];
        for (sum, fixed) in sums[1..].iter_mut().zip(fixed) {
            assert!(fixed.schedule.ops.is_empty());
            *sum += replay(&fixed.problem, &fixed.schedule).unwrap().makespan as f64 / far;
        }
    }
    sums.map(|s| s / runs as f64)
}

#[test]
fn table_5_has_the_paper_s_shape() {
    let table = [
        ("Poor, Narrow", POOR, NARROW, [1.19, 1.25, 1.24, 3.29]),
        ("Poor, Wide", POOR, WIDE, [1.55, 1.29, 1.22, 3.39]),
        ("Mixed, Narrow", MIXED, NARROW, [1.62, 1.39, 1.13, 2.17]),
        ("Mixed, Wide", MIXED, WIDE, [2.03, 1.47, 1.09, 2.16]),
        ("Good, Narrow", GOOD, NARROW, [1.83, 1.61, 1.00, 1.31]),
        ("Good, Wide", GOOD, WIDE, [2.14, 1.78, 1.01, 1.28]),
    ];
    for (name, shares, range, paper) in table {
        let [miso, ones, best, whole] = ratios(shares, range);
        println!("{name:14} {miso:.2} {ones:.2} {best:.2} {whole:.2}, paper {paper:?}");
        assert!(miso > 1.05 && ones > 1.05 && whole > 1.05, "{name}: FAR is better than each");
        assert!(best > 0.97 && best <= ones && best <= whole, "{name}: the best of all partitions");
    }
}
