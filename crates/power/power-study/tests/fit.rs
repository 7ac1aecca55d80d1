//! What a fit recovers, and what it refuses.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, GPU, STATES, cap, table7, table8, true_c, true_d};
use power::{Basis, CounterTable};
use power_study::{FitError, Model, fit, runs};
use serde_json::Value;

/// The row of `rows` for a part, what is beside it, and a cap.
fn row<'v>(model: &'v Value, rows: &str, part: &str, beside: Option<&str>, cap: u32) -> &'v Value {
    let is = |row: &&Value| {
        row["part"] == part && row["cap_w"] == cap && beside.is_none_or(|beside| row["beside"] == beside)
    };
    model[rows].as_array().unwrap().iter().find(is).unwrap()
}

fn near(have: &Value, want: &[f64]) -> bool {
    let have = have.as_array().unwrap();
    have.len() == want.len() && have.iter().zip(want).all(|(a, b)| (a.as_f64().unwrap() - b).abs() < 1e-9)
}

fn refused(change: impl FnOnce(&mut Calibration)) -> String {
    let mut calibration = Calibration::new(1, 0.0);
    change(&mut calibration);
    calibration.fit().unwrap_err().to_string()
}

#[test]
fn the_papers_tables_are_whole() {
    let apps: Vec<&str> = table7().into_iter().flat_map(|(_, apps)| apps).collect();
    assert_eq!((apps.len(), table8().len()), (24, 18));
    assert!(table8().iter().flatten().all(|app| apps.contains(app)));
    let calibration = Calibration::new(1, 0.0);
    let solo = calibration.runs.iter().filter(|run| run.parts.len() == 1).count();
    assert_eq!((solo, calibration.runs.len() - solo), (576, 432), "section 5.1");
}

#[test]
fn a_linear_ground_truth_is_recovered() {
    let model = Calibration::new(7, 0.0).fit().unwrap().to_json();
    for cap in CAPS {
        for [part, beside] in STATES {
            let solo = row(&model, "solo", part, None, cap);
            assert!(near(&solo["c"], &true_c(part, cap)), "{part} {cap}: {}", solo["c"]);
            assert_eq!((&solo["runs"], &solo["rank"]), (&24.into(), &6.into()));
            let corun = row(&model, "corun", part, Some(beside), cap);
            assert!(near(&corun["d"], &true_d(part, cap)), "{part} {cap}: {}", corun["d"]);
            assert_eq!((&corun["runs"], &corun["rank"]), (&36.into(), &3.into()));
        }
    }
    for errors in [&model["errors"], &model["held_out"]] {
        assert!(errors["throughput"].as_f64().unwrap() < 1e-9 && errors["fairness"].as_f64().unwrap() < 1e-9);
    }
    assert!(model["over95"].as_array().unwrap().iter().all(|row| row["over"].as_f64().unwrap() < 1e-9));
}

#[test]
fn a_term_that_is_nowhere_gets_no_coefficient() {
    let mut calibration = Calibration::new(3, 0.0);
    calibration.apps.iter_mut().for_each(|(_, f)| f[5..].fill(0.0));
    let model = calibration.fit().unwrap().to_json();
    let solo = row(&model, "solo", "4c", None, 150);
    assert_eq!(solo["rank"], 5);
    assert!(solo["c"][1].as_f64().unwrap().abs() < 1e-12, "minimum norm: {}", solo["c"]);
}

#[test]
fn too_few_runs_name_part_and_cap() {
    let solo = |cap: u32, keep: usize| {
        move |calibration: &mut Calibration| {
            calibration.runs.retain(|run| run.parts != ["4g"] || run.cap != cap || run.apps[0] < keep);
        }
    };
    let too_few = "expected at least 6, one for each coefficient";
    assert_eq!(refused(solo(170, 5)), format!("too few runs of 4g at 170 W: 5, {too_few}"));
    assert_eq!(refused(solo(250, 0)), format!("too few runs of 4g at 250 W: 0, {too_few}"));
    let corun = |calibration: &mut Calibration| {
        let mut left = 1;
        calibration.runs.retain(|run| {
            let keeps = run.cap != 190 || run.parts.len() == 1 || run.parts[0].ends_with('c') || left > 0;
            left -=
                i32::from(run.cap == 190 && run.parts.len() == 2 && run.parts[0].ends_with('g') && left > 0);
            keeps
        });
    };
    assert_eq!(
        refused(corun),
        "too few runs of 3g beside 4g at 190 W: 1, expected at least 3, one for each coefficient"
    );
    assert_eq!(
        refused(|c| c.runs.retain(|run| run.parts.len() == 1)),
        "no runs of several applications together: interference cannot be calibrated"
    );
}

#[test]
fn six_runs_alone_suffice_but_nothing_can_be_held_out() {
    assert!(Calibration::new(5, 0.01).fit().unwrap().held_out().is_some());
    let six = [0, 1, 3, 4, 7, 9].map(|at| at + 7);
    let mut calibration = Calibration::new(5, 0.0);
    calibration.runs.retain(|run| run.parts.len() == 2 || six.contains(&run.apps[0]));
    assert_eq!(calibration.fit().unwrap().held_out(), None);
}

#[test]
fn a_state_that_the_gpu_cannot_have_is_refused() {
    let odd = |calibration: &mut Calibration| {
        let mut run = calibration.runs.last().unwrap().clone();
        run.parts = vec!["4g", "4g"];
        calibration.runs.push(run);
    };
    assert_eq!(refused(odd), "`4g+4g` does not fit on one a100-40gb");
}

fn fit_with(counters: &str) -> Result<Model, FitError> {
    let runs = runs::parse("r", &Calibration::new(1, 0.0).runs_csv()).unwrap();
    let counters = CounterTable::parse("c", counters).unwrap();
    fit(geometry::Model::find(GPU).unwrap(), &counters, &runs, Basis::Arima2022)
}

#[test]
fn one_source_and_one_gpu_are_taken() {
    let csv = Calibration::new(1, 0.0).counters_csv();
    let lines = csv.split_once('\n').unwrap().1;
    let others = lines.replace(GPU, "a30-24gb") + "stream,a100-40gb,dcgm,20,,88,,60,0,0,0\n";
    let with = fit_with(&format!("{csv}{others}")).unwrap();
    assert_eq!(with, fit_with(&csv).unwrap());
    assert_eq!((with.gpu(), with.inputs().source), (GPU, "ncu"));
    // Complete, other numbers, and earlier by name: still not the one that is taken.
    let cupti = lines.replace("ncu", "cupti").replace(",0,0,0\n", ",1,0,0\n");
    assert_ne!(cupti, lines.replace("ncu", "cupti"));
    assert_eq!(fit_with(&format!("{csv}{cupti}")).unwrap(), with);
    let others = format!("{}{cupti}", csv.replace("ncu", "nsys"));
    assert_eq!(fit_with(&others).unwrap().inputs().source, "cupti");
    assert_eq!(fit_with(&csv.replace(GPU, "a30-24gb")).unwrap_err().to_string(), "no counters of a100-40gb");
    let lacking: String = csv.lines().filter(|l| !l.starts_with("lud,")).map(|l| format!("{l}\n")).collect();
    assert_eq!(
        fit_with(&lacking).unwrap_err().to_string(),
        "no counters of `lud` on a100-40gb: profile it first"
    );
}

#[test]
fn references_are_not_fitted_to() {
    let calibration = Calibration::new(1, 0.0);
    let csv = calibration.runs_csv() + "full,400,unknown,0.1\n";
    let counters = CounterTable::parse("c", &calibration.counters_csv()).unwrap();
    let runs = runs::parse("r", &csv).unwrap();
    let model = fit(geometry::Model::find(GPU).unwrap(), &counters, &runs, Basis::Arima2022).unwrap();
    assert_eq!(model.caps(), CAPS.map(cap));
    assert_eq!(model, calibration.fit().unwrap());
}
