//! Every GPU model whose geometry is known, with two and more applications.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use std::collections::BTreeSet;

use calibration::{Calibration, GPU, Numbers};
use geometry::Model;
use power::{Basis, CounterTable};
use power_study::{Problem, Question, State, choose, fit, runs};

/// All private states with two to four parts that fit, largest part first.
fn states(model: &Model) -> Vec<State> {
    let slices: BTreeSet<u8> =
        model.profiles.iter().filter(|p| !p.is_variant()).map(|p| p.compute_slices).collect();
    let (mut open, mut found): (Vec<Vec<u8>>, Vec<State>) = (vec![Vec::new()], Vec::new());
    while let Some(parts) = open.pop() {
        for size in slices.iter().filter(|size| parts.last().is_none_or(|last| *size <= last)) {
            let more = [parts.clone(), vec![*size]].concat();
            let words: Vec<String> = more.iter().map(|size| format!("{size}g")).collect();
            let state: State = words.join("+").parse().unwrap();
            if more.len() > 4 || state.fits(model).is_err() {
                continue;
            }
            if more.len() > 1 {
                found.push(state);
            }
            open.push(more);
        }
    }
    found
}

fn check(model: &Model) {
    let (all, mut random) = (states(model), Numbers(1));
    assert!(!all.is_empty(), "{}", model.key);
    let mut data = Calibration::new(1, 0.0);
    data.runs.clear();
    for watts in [200, 300] {
        let parts: BTreeSet<String> = all.iter().flat_map(|s| s.parts()).map(ToString::to_string).collect();
        for part in parts {
            let part: &'static str = part.leak();
            (0..24).for_each(|app| data.add(&[part], watts, &[app], 0.0, &mut random));
        }
        for state in &all {
            let parts: Vec<&'static str> =
                state.parts().iter().map(|part| &*part.to_string().leak()).collect();
            for app in 0..6 {
                let apps: Vec<usize> = (0..parts.len()).map(|at| (app * 4 + at * 5) % 24).collect();
                data.add(&parts, watts, &apps, 0.0, &mut random);
            }
        }
    }
    let counters = CounterTable::parse("c", &data.counters_csv().replace(GPU, &model.key)).unwrap();
    let runs = runs::parse_on(model, "r", &data.runs_csv()).unwrap();
    let fitted = fit(model, &counters, &runs, Basis::Arima2022).unwrap();
    let most = all.iter().map(|state| state.parts().len()).max().unwrap();
    for n in 2..=most {
        let (apps, features) = data.of(&(0..n).map(|at| 2 + 3 * at).collect::<Vec<_>>());
        let problem = Problem::Efficiency;
        let question = Question { apps: &apps, features: &features, problem, alpha: 0.0, guard: false };
        let choice = choose(&fitted, &question).unwrap();
        let chosen = choice.chosen.unwrap();
        assert_eq!((chosen.state.fits(model), chosen.rperf.len()), (Ok(()), n), "{}", model.key);
        let states: BTreeSet<&State> = choice.candidates.iter().map(|c| &c.state).collect();
        assert_eq!(states.len() * 2, choice.candidates.len(), "{}: each order once", model.key);
    }
}

#[test]
fn every_model_with_mig_has_a_choice() {
    Model::all().iter().filter(|m| m.has_mig()).for_each(check);
}
