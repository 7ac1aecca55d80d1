//! The paper's definitions again, without the crate's code: normal equations instead of a decomposition, and every
//! candidate by hand.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, STATES, cap, h, j};
use power_study::{Model, Problem, Question, choose};
use proptest::prelude::*;

/// Solves `a x = b` by elimination with pivots.
fn eliminate(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|p, q| a[*p][column].abs().total_cmp(&a[*q][column].abs())).unwrap();
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in (0..n).filter(|row| *row != column) {
            let factor = a[row][column] / a[column][column];
            let pivot = a[column].clone();
            a[row].iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= factor * pivot);
            b[row] -= factor * b[column];
        }
    }
    (0..n).map(|at| b[at] / a[at][at]).collect()
}

/// Least squares: AᵀA x = Aᵀy.
fn least_squares(rows: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let n = rows[0].0.len();
    let product = |p: usize, q: usize| rows.iter().map(|(x, _)| x[p] * x[q]).sum();
    let a = (0..n).map(|p| (0..n).map(|q| product(p, q)).collect()).collect();
    eliminate(a, (0..n).map(|p| rows.iter().map(|(x, y)| x[p] * y).sum()).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// C of a part at a cap, without runs of some applications.
fn c_of(data: &Calibration, part: &str, cap: u32, without: &[usize]) -> Vec<f64> {
    let solo =
        data.runs.iter().filter(|r| r.parts == [part] && r.cap == cap && !without.contains(&r.apps[0]));
    least_squares(&solo.map(|r| (h(&data.apps[r.apps[0]].1).to_vec(), r.rperf[0])).collect::<Vec<_>>())
}

/// D of a part with another beside it, both sides of each run.
fn d_of(data: &Calibration, [part, beside]: [&str; 2], cap: u32, without: &[usize]) -> Vec<f64> {
    let c = c_of(data, part, cap, without);
    let mut rows = Vec::new();
    for run in data.runs.iter().filter(|r| r.parts.len() == 2 && r.cap == cap) {
        if run.apps.iter().any(|app| without.contains(app)) {
            continue;
        }
        for (me, other) in [(0, 1), (1, 0)] {
            if run.parts[me] == part && run.parts[other] == beside {
                let rest = run.rperf[me] - dot(&c, &h(&data.apps[run.apps[me]].1));
                rows.push((j(&data.apps[run.apps[other]].1).to_vec(), rest));
            }
        }
    }
    least_squares(&rows)
}

/// RPerf of two applications.
fn predict(data: &Calibration, [p, q]: [&str; 2], cap: u32, apps: [usize; 2], without: &[usize]) -> [f64; 2] {
    let one = |part, beside, me: usize, other: usize| {
        dot(&c_of(data, part, cap, without), &h(&data.apps[me].1))
            + dot(&d_of(data, [part, beside], cap, without), &j(&data.apps[other].1))
    };
    [one(p, q, apps[0], apps[1]), one(q, p, apps[1], apps[0])]
}

/// The errors of throughput and fairness, and over-estimates by part.
fn judge(data: &Calibration, hold_out: bool) -> ([f64; 2], Vec<(&'static str, f64)>) {
    let (mut throughput, mut fairness, mut n, mut over) = (0.0, 0.0, 0.0, Vec::new());
    for run in data.runs.iter().filter(|r| r.parts.len() == 2) {
        let without: &[usize] = if hold_out { &run.apps } else { &[] };
        let [p, q] =
            predict(data, [run.parts[0], run.parts[1]], run.cap, [run.apps[0], run.apps[1]], without);
        let (sum, least) = (run.rperf[0] + run.rperf[1], run.rperf[0].min(run.rperf[1]));
        throughput += ((p + q) - sum).abs() / sum;
        fairness += (p.min(q) - least).abs() / least;
        n += 1.0;
        over.extend([(run.parts[0], p - run.rperf[0]), (run.parts[1], q - run.rperf[1])]);
    }
    ([throughput / n, fairness / n], over)
}

/// The 95 % quantile for a part: of 216 values sorted, a quarter of the way from the 205th to the 206th.
fn over95(over: &[(&'static str, f64)], part: &str) -> f64 {
    let mut values: Vec<f64> = over.iter().filter(|(p, _)| *p == part).map(|(_, v)| *v).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values.len(), 216, "36 rows for each of 6 caps");
    (values[204] + 0.25 * (values[205] - values[204])).max(0.0)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-7
}

#[test]
fn coefficients_and_errors_are_those_of_the_definitions() {
    let data = Calibration::new(11, 0.15);
    let model = data.fit().unwrap().to_json();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    for row in model["solo"].as_array().unwrap() {
        let cap = u32::try_from(row["cap_w"].as_u64().unwrap()).unwrap();
        let want = c_of(&data, row["part"].as_str().unwrap(), cap, &[]);
        assert!(numbers(&row["c"]).iter().zip(&want).all(|(a, b)| near(*a, *b)), "{row} {want:?}");
    }
    for row in model["corun"].as_array().unwrap() {
        let cap = u32::try_from(row["cap_w"].as_u64().unwrap()).unwrap();
        let view = [row["part"].as_str().unwrap(), row["beside"].as_str().unwrap()];
        let want = d_of(&data, view, cap, &[]);
        assert!(numbers(&row["d"]).iter().zip(&want).all(|(a, b)| near(*a, *b)), "{row} {want:?}");
    }
    let (_, over) = judge(&data, true);
    for (field, hold_out) in [("errors", false), ("held_out", true)] {
        let [throughput, fairness] = judge(&data, hold_out).0;
        assert!(near(model[field]["throughput"].as_f64().unwrap(), throughput), "{field} {throughput}");
        assert!(near(model[field]["fairness"].as_f64().unwrap(), fairness), "{field} {fairness}");
    }
    for row in model["over95"].as_array().unwrap() {
        let want = over95(&over, row["part"].as_str().unwrap());
        assert!(want > 0.0 && near(row["over"].as_f64().unwrap(), want), "{row} {want}");
    }
}

/// A candidate by the definitions: RPerf and the cautious values.
struct Weighed {
    state: String,
    cap: u32,
    rperf: [f64; 2],
    low: [f64; 2],
}

fn weigh(data: &Calibration, over: &[(&'static str, f64)], apps: [usize; 2], guard: bool) -> Vec<Weighed> {
    let mut all = Vec::new();
    for (cap, parts) in CAPS.into_iter().flat_map(|cap| STATES.map(|parts| (cap, parts))) {
        let measured = data.runs.iter().find_map(|run| {
            let same = |order: [usize; 2]| {
                run.cap == cap
                    && order.iter().zip(parts).all(|(at, part)| run.parts.get(*at) == Some(&part))
                    && order.iter().zip(apps).all(|(at, app)| run.apps[*at] == app)
            };
            let pair = run.parts.len() == 2 && guard;
            let order = [[0, 1], [1, 0]].into_iter().find(|order| pair && same(*order))?;
            Some(order.map(|at| run.rperf[at]))
        });
        let rperf = measured.unwrap_or_else(|| predict(data, parts, cap, apps, &[]));
        let cautious = [0, 1].map(|at| rperf[at] - over95(over, parts[at]));
        let low = if measured.is_some() { rperf } else { cautious };
        all.push(Weighed { state: parts.join("+"), cap, rperf, low });
    }
    all
}

fn check(
    data: &Calibration,
    model: &Model,
    over: &[(&'static str, f64)],
    (apps, watts, alpha, guard): ([usize; 2], Option<u32>, f64, bool),
) {
    let (names, features) = data.of(&apps);
    let problem = watts.map_or(Problem::Efficiency, |watts| Problem::Throughput(cap(watts)));
    let question = Question { apps: &names, features: &features, problem, alpha, guard };
    let choice = choose(model, &question).unwrap();
    let mut weighed = weigh(data, over, apps, guard);
    weighed.retain(|w| watts.is_none_or(|watts| w.cap == watts));
    assert_eq!(choice.candidates.len(), weighed.len());
    for (have, want) in choice.candidates.iter().zip(&weighed) {
        assert_eq!((have.state.to_string(), have.cap.watts()), (want.state.clone(), want.cap));
        let low = have.low.as_ref().unwrap();
        assert!((0..2).all(|at| near(have.rperf[at], want.rperf[at]) && near(low[at], want.low[at])));
    }
    let goal = |w: &Weighed| (w.rperf[0] + w.rperf[1]) / watts.map_or(f64::from(w.cap), |_| 1.0);
    let keeps = |w: &&Weighed| {
        let kept = if guard { w.low } else { w.rperf };
        kept[0].min(kept[1]) > alpha
    };
    let best = weighed.iter().filter(keeps).max_by(|a, b| goal(a).total_cmp(&goal(b)));
    match (choice.chosen, best) {
        (None, None) => {}
        (Some(chosen), Some(best)) => {
            let is_chosen = |w: &&Weighed| w.cap == chosen.cap.watts() && w.state == chosen.state.to_string();
            let mine = weighed.iter().find(is_chosen).unwrap();
            assert!(keeps(&mine), "legal");
            assert!(near(goal(mine), goal(best)), "none better: {} {}", mine.state, best.state);
            assert!(near(chosen.throughput, mine.rperf[0] + mine.rperf[1]));
            assert!(near(chosen.fairness, mine.rperf[0].min(mine.rperf[1])));
        }
        (have, want) => panic!("{have:?}, but {:?}", want.map(|w| (&w.state, w.cap, w.low))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn the_choice_is_legal_and_none_is_better(
        seed in any::<u64>(),
        noise in 0.0..0.3_f64,
        questions in proptest::collection::vec(
            ([0..24_usize, 0..24_usize], proptest::option::of(0..6_usize), 0.0..0.7_f64, any::<bool>()), 12),
    ) {
        let data = Calibration::new(seed, noise);
        let model = data.fit().unwrap();
        let (_, over) = judge(&data, true);
        for (apps, at, alpha, guard) in questions {
            check(&data, &model, &over, (apps, at.map(|at| CAPS[at]), alpha, guard));
        }
        // Workloads that were measured.
        for run in data.runs.iter().filter(|run| run.parts == ["4c", "3c"] && run.cap == 150) {
            check(&data, &model, &over, ([run.apps[0], run.apps[1]], None, 0.3, true));
        }
    }
}
