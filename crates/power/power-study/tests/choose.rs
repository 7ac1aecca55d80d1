//! What is chosen for known applications, and which questions have no answer.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, GPU, Numbers, cap};
use power::{CounterTable, Features};
use power_study::{Choice, ChooseError, Model, Problem, Question, choose, features};

/// A question about two applications that were never measured together.
fn ask(calibration: &Calibration, model: &Model, problem: Problem, alpha: f64) -> Choice {
    let (apps, features) = calibration.of(&[2, 20]);
    choose(model, &Question { apps: &apps, features: &features, problem, alpha, guard: true }).unwrap()
}

fn fitted(seed: u64, noise: f64) -> (Calibration, Model) {
    let calibration = Calibration::new(seed, noise);
    let model = calibration.fit().unwrap();
    (calibration, model)
}

fn refused(apps: &[String], features: &[Features], problem: Problem, alpha: f64) -> String {
    let (_, model) = fitted(1, 0.02);
    choose(&model, &Question { apps, features, problem, alpha, guard: true }).unwrap_err().to_string()
}

#[test]
fn two_applications_on_an_a100_have_24_candidates() {
    let (calibration, model) = fitted(1, 0.02);
    let choice = ask(&calibration, &model, Problem::Efficiency, 0.2);
    let of_150: Vec<String> = choice.candidates[..4].iter().map(|c| c.state.to_string()).collect();
    assert_eq!(
        (choice.candidates.len(), of_150),
        (24, ["4c+3c", "3c+4c", "4g+3g", "3g+4g"].map(str::to_owned).to_vec())
    );
    assert!(choice.candidates.is_sorted_by_key(|c| c.cap));
    let chosen = choice.chosen.unwrap();
    assert!((chosen.efficiency - chosen.throughput / f64::from(chosen.cap.watts())).abs() < 1e-15);
    assert!(!chosen.measured && chosen.allowed);
}

#[test]
fn a_cap_between_calibrated_ones_counts_as_the_lower() {
    let (calibration, model) = fitted(1, 0.02);
    let at = |watts| ask(&calibration, &model, Problem::Throughput(cap(watts)), 0.2).candidates;
    for (asked, lower) in [(151, 150), (169, 150), (249, 230), (300, 250)] {
        let (between, calibrated) = (at(asked), at(lower));
        assert_eq!((between.len(), between[0].cap.watts()), (4, asked));
        for (between, calibrated) in between.iter().zip(&calibrated) {
            assert_eq!((&between.state, &between.rperf), (&calibrated.state, &calibrated.rperf));
            assert!((between.efficiency - between.throughput / f64::from(asked)).abs() < 1e-15);
        }
    }
}

#[test]
fn nothing_is_chosen_above_what_the_applications_can_keep() {
    let (calibration, model) = fitted(1, 0.02);
    let (apps, features) = calibration.of(&[2, 20]);
    let question =
        Question { apps: &apps, features: &features, problem: Problem::Efficiency, alpha: 0.95, guard: true };
    let choice = choose(&model, &question).unwrap();
    assert_eq!(choice.chosen, None);
    let best =
        |c: &power_study::Candidate| c.low.as_ref().unwrap().iter().copied().fold(f64::INFINITY, f64::min);
    let best = choice.candidates.iter().map(best).fold(0.0, f64::max);
    let reason = choice.reason(&question).unwrap();
    assert!(
        reason.starts_with(&format!(
            "no candidate keeps every application above 0.95: the best keeps {best:.3} ("
        )),
        "{reason}"
    );
    assert_eq!(ask(&calibration, &model, Problem::Efficiency, 0.0).reason(&question), None);
}

#[test]
fn a_measured_combination_is_not_predicted() {
    let (calibration, model) = fitted(4, 0.2);
    let run = calibration.runs.iter().find(|run| run.parts == ["3g", "4g"] && run.cap == 190).unwrap();
    let (mut apps, mut features) = calibration.of(&run.apps);
    let mut rperf = run.rperf.clone();
    for order in ["3g+4g", "4g+3g"] {
        let of = |guard| {
            let problem = Problem::Throughput(cap(190));
            let question = Question { apps: &apps, features: &features, problem, alpha: 0.1, guard };
            let candidates = choose(&model, &question).unwrap().candidates;
            candidates.into_iter().find(|c| c.state.to_string() == order).unwrap()
        };
        let (measured, predicted) = (of(true), of(false));
        assert!(measured.measured && !predicted.measured);
        assert_eq!((&measured.rperf, &measured.low), (&rperf, &Some(rperf.clone())));
        assert_ne!(predicted.rperf, rperf);
        [&mut rperf].iter_mut().for_each(|r| r.reverse());
        apps.reverse();
        features.reverse();
    }
}

#[test]
fn equal_candidates_are_decided_by_fairness_then_cap_then_state() {
    // Two copies of one application: 4c+3c and 3c+4c are equal in everything.
    let (calibration, model) = fitted(1, 0.0);
    let (apps, features) = calibration.of(&[9, 9]);
    for problem in [Problem::Efficiency, Problem::Throughput(cap(250))] {
        let question = Question { apps: &apps, features: &features, problem, alpha: 0.0, guard: false };
        let chosen = choose(&model, &question).unwrap().chosen.unwrap();
        assert!(["4c+3c", "4g+3g"].contains(&chosen.state.to_string().as_str()), "{}", chosen.state);
    }
}

#[test]
fn without_applications_held_out_there_is_no_guard() {
    let mut calibration = Calibration::new(5, 0.0);
    calibration.runs.retain(|run| run.parts.len() == 2 || (7..13).contains(&run.apps[0]));
    let model = calibration.fit().unwrap();
    let (apps, features) = calibration.of(&[7, 11]);
    let mut question =
        Question { apps: &apps, features: &features, problem: Problem::Efficiency, alpha: 0.1, guard: true };
    assert_eq!(choose(&model, &question).unwrap_err(), ChooseError::NoGuard);
    question.guard = false;
    let choice = choose(&model, &question).unwrap();
    assert!(choice.candidates.iter().all(|c| c.low.is_none()) && choice.chosen.is_some());
}

#[test]
fn three_applications_see_the_sum_of_the_others() {
    let mut calibration = Calibration::new(6, 0.0);
    let mut random = Numbers(1);
    for cap in CAPS {
        for part in ["2g", "1g"] {
            (0..24).for_each(|app| calibration.add(&[part], cap, &[app], 0.0, &mut random));
        }
        for app in 0..12 {
            calibration.add(&["4g", "2g", "1g"], cap, &[app, app + 6, app + 12], 0.0, &mut random);
        }
    }
    let model = calibration.fit().unwrap();
    let states: Vec<String> = model.states(3).iter().map(ToString::to_string).collect();
    assert_eq!(states, ["4g+2g+1g", "4g+1g+2g", "2g+4g+1g", "2g+1g+4g", "1g+4g+2g", "1g+2g+4g"]);
    let beside = |row: &serde_json::Value| (row["part"].clone(), row["beside"].clone());
    let file = model.to_json();
    assert!(file["corun"].as_array().unwrap().iter().any(|r| beside(r) == ("4g".into(), "1g+2g".into())));
    assert_eq!(Model::from_json(&file.to_string()).unwrap().states(3), model.states(3));
    let (apps, features) = calibration.of(&[3, 9, 21]);
    let question =
        Question { apps: &apps, features: &features, problem: Problem::Efficiency, alpha: 0.0, guard: true };
    let choice = choose(&model, &question).unwrap();
    assert_eq!(choice.candidates.len(), 36);
    // The ground truth is linear, so it is what is predicted.
    let mut truth = Calibration { apps: calibration.apps.clone(), runs: Vec::new() };
    truth.add(&["1g", "4g", "2g"], 210, &[3, 9, 21], 0.0, &mut random);
    let predicted = choice.candidates.iter().find(|c| c.state.to_string() == "1g+4g+2g" && c.cap == cap(210));
    let off = predicted.unwrap().rperf.iter().zip(&truth.runs[0].rperf).map(|(a, b)| (a - b).abs());
    assert!(off.fold(0.0, f64::max) < 1e-8);
}

#[test]
fn questions_without_an_answer_say_why() {
    let calibration = Calibration::new(1, 0.02);
    let (apps, features) = calibration.of(&[2, 20]);
    let efficiency = Problem::Efficiency;
    assert_eq!(
        refused(&apps, &features, Problem::Throughput(cap(149)), 0.2),
        "no runs at or below 149 W: the lowest calibrated cap is 150 W"
    );
    for alpha in [-0.1, f64::NAN, f64::INFINITY] {
        let want =
            format!("alpha {alpha} is not a fraction of the performance: expected 0 to 1, such as 0.2");
        assert_eq!(refused(&apps, &features, efficiency, alpha), want);
    }
    let (three, their) = calibration.of(&[1, 2, 3]);
    assert_eq!(refused(&three, &their, efficiency, 0.2), "no calibrated state has 3 parts");
    let two = "expected two or more applications with counters of each: got";
    assert_eq!(refused(&apps[..1], &features[..1], efficiency, 0.2), format!("{two} 1, with counters of 1"));
    assert_eq!(refused(&apps, &features[..1], efficiency, 0.2), format!("{two} 2, with counters of 1"));
}

#[test]
fn counters_outside_the_calibrated_range_are_refused_by_name() {
    let (calibration, model) = fitted(1, 0.02);
    let (apps, known) = calibration.of(&[2, 20]);
    let (min, max) = (model.range().min, model.range().max);
    let with = |at: usize, value: f64| {
        let mut features = known.clone();
        features[1][at] = value;
        let problem = Problem::Efficiency;
        choose(&model, &Question { apps: &apps, features: &features, problem, alpha: 0.2, guard: true }).err()
    };
    for at in 0..5 {
        let margin = (max[at] - min[at]) / 10.0;
        assert_eq!(with(at, max[at] + 0.99 * margin), None);
        assert_eq!(with(at, min[at] - 0.99 * margin), None);
        let name = format!("`dwt2d`: f{} is ", at + 1);
        for value in [max[at] + 1.01 * margin, min[at] - 1.01 * margin] {
            assert!(with(at, value).unwrap().to_string().starts_with(&name), "{:?}", with(at, value));
        }
    }
    let sum = max[5] + max[6] + max[7];
    assert_eq!(with(5, 1.09 * sum), None, "f6 alone is beyond its range, the sum is not");
    assert!(with(7, 1.11 * sum).unwrap().to_string().starts_with("`dwt2d`: f6+f7+f8 is "));
}

#[test]
fn counters_come_from_the_models_gpu_and_source() {
    let (calibration, model) = fitted(1, 0.02);
    let apps = ["lud".to_owned(), "bfs".to_owned()];
    let find = |csv: &str| features(&model, &CounterTable::parse("c", csv).unwrap(), &apps);
    let csv = calibration.counters_csv();
    assert_eq!(find(&csv).unwrap().len(), 2);
    let error = |csv: String| find(&csv).unwrap_err().to_string();
    assert_eq!(
        error(csv.replace(GPU, "a30-24gb")),
        "no counters of `lud` on a100-40gb; those of a30-24gb cannot replace them"
    );
    assert_eq!(
        error(csv.replace("ncu", "dcgm")),
        "no counters of `lud` on a100-40gb from ncu; those from dcgm cannot replace them"
    );
}
