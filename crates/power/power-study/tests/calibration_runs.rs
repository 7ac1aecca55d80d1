//! Which settings are measured, and which laps count.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use geometry::Model;
use power::{Cap, CounterTable};
use power_cap::choose_alone;
use power_study::calibration::{
    App, Design, LAPS, Lap, Log, MAX_PAUSE_MS, Progress, Setting, beside, check, progress, settings,
};
use power_study::{FitError, Run, fit_best};
use proptest::prelude::*;

fn caps(design: Design) -> Vec<Cap> {
    design.caps_w().iter().map(|watts| Cap::new(*watts).unwrap()).collect()
}

fn apps(n: usize) -> Vec<App> {
    let app = |at| App { name: format!("app{at}"), seconds: 10.0, command: "true".to_owned() };
    (0..n).map(app).collect()
}

/// Counters that differ enough to be told apart.
fn counters(n: usize) -> CounterTable {
    CounterTable::parse("c", &counters_of("a100-40gb", n)).unwrap()
}

/// Such counters of a GPU model, CSV.
fn counters_of(gpu: &str, n: usize) -> String {
    let row = |at: usize| {
        let f = |k: usize| 5 + (at * (7 + 6 * k) + k * k) % 89;
        let rest: Vec<String> = (0..8).map(|k| f(k).to_string()).collect();
        format!("app{at},{gpu},ncu,{}\n", rest.join(","))
    };
    let text: String = (0..n).map(row).collect();
    format!("app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n{text}")
}

#[test]
fn the_papers_design_has_every_application_in_every_state_under_every_cap() {
    let gpu = Model::find("a100-40gb").unwrap();
    let all = settings(gpu, &caps(Design::Paper), 24).unwrap();
    let count = |state: &str| all.iter().filter(|s| s.state.to_string() == state).count();
    assert_eq!(count("full"), 24);
    for state in ["4c", "3c", "4g", "3g", "4c+3c", "3c+4c", "4g+3g", "3g+4g", "7g"] {
        assert_eq!(count(state), 24 * 6, "{state}");
    }
    assert_eq!(all.len(), 24 + 9 * 24 * 6);
    // References come first: without them no time can be compared.
    assert!(all[..24].iter().all(|s| s.state.is_full() && s.cap.watts() == 250));
    // A GPU changes its state nine times.
    let mut states: Vec<String> = all.iter().map(|s| s.state.to_string()).collect();
    states.dedup();
    assert_eq!(states, ["full", "4c", "4c+3c", "3c+4c", "3c", "4g", "4g+3g", "3g+4g", "3g", "7g"]);
}

#[test]
fn equal_parts_are_one_state() {
    let gpu = Model::find("a30-24gb").unwrap();
    let all = settings(gpu, &caps(Design::Small), 6).unwrap();
    let mut states: Vec<String> = all.iter().map(|s| s.state.to_string()).collect();
    states.dedup();
    assert_eq!(states, ["full", "2c", "2c+2c", "2g", "2g+2g", "4g"]);
}

#[test]
fn every_setting_fits_its_gpu_and_is_measured_once() {
    for gpu in Model::all().iter().filter(|m| m.has_mig()) {
        let Ok(all) = settings(gpu, &caps(Design::Small), 5) else { continue };
        let apps = apps(5);
        for (at, setting) in all.iter().enumerate() {
            setting.state.fits(gpu).unwrap();
            assert_eq!(setting.apps.len(), setting.state.applications());
            let run = |s: &Setting| Run {
                state: s.state.clone(),
                cap: s.cap,
                apps: s.names(&apps),
                rperf: vec![1.0; s.apps.len()],
            };
            let same: Vec<usize> = (0..all.len()).filter(|b| setting.is_of(&run(&all[*b]), &apps)).collect();
            assert_eq!(same, [at], "{} {setting:?}", gpu.key);
            assert!(f64::from(setting.limit_minutes(&apps, gpu)) * 60.0 > 5.0 * setting.estimate(&apps, gpu));
        }
    }
}

#[test]
fn what_cannot_be_fitted_is_said_before_it_is_measured() {
    let gpu = Model::find("a100-40gb").unwrap();
    let all = |n| settings(gpu, &caps(Design::Small), n).unwrap();
    check(gpu, &counters(9), &apps(9), &all(9)).unwrap();
    let few = check(gpu, &counters(4), &apps(4), &all(4)).unwrap_err();
    assert!(matches!(few, FitError::TooFewRuns { runs: 4, needed: 6, .. }), "{few}");
    let unknown = check(gpu, &counters(8), &apps(9), &all(9)).unwrap_err();
    assert!(unknown.to_string().contains("`app8`"), "{unknown}");
}

/// On every GPU model, slurmctld can choose a cap for an application alone by the model that a calibration of it gives.
#[test]
fn a_model_of_a_calibration_serves_an_application_that_is_alone() {
    for gpu in Model::all().iter().filter(|m| m.has_mig()) {
        let Ok(all) = settings(gpu, &caps(Design::Small), 20) else { continue };
        let (apps, text) = (apps(20), counters_of(&gpu.key, 20));
        let counters = CounterTable::parse("c", &text).unwrap();
        // Speed by the compute slices and the cap, a little different for each application.
        let rperf = |setting: &Setting, at: usize| {
            let slices = setting.state.parts().get(at).map_or(gpu.compute_slices, |part| part.slices);
            let share = f64::from(slices) / f64::from(gpu.compute_slices);
            let watts = f64::from(setting.cap.watts()) / 250.0;
            share * (0.9 + 0.1 * watts) - 0.001 * f64::from(u32::try_from(setting.apps[at]).unwrap())
        };
        let run = |setting: &Setting| Run {
            state: setting.state.clone(),
            cap: setting.cap,
            apps: setting.names(&apps),
            rperf: (0..setting.apps.len()).map(|at| rperf(setting, at)).collect(),
        };
        let runs: Vec<Run> = all.iter().map(run).collect();
        let file = fit_best(gpu, &counters, &runs).unwrap().to_json().to_string();
        let model = power::Model::from_json(&file).unwrap();
        let features = counters.features(model.inputs(), "app3").unwrap();
        let chosen = choose_alone(&model, gpu.compute_slices, &features, 0.8, false).unwrap();
        assert_eq!(chosen.cap.watts(), 150, "{}", gpu.key);
    }
}

/// Laps one after the other: pauses and lengths, ms.
fn laps() -> impl Strategy<Value = Vec<Lap>> {
    prop::collection::vec((0_u64..2 * MAX_PAUSE_MS, 1_u64..5000), 0..12).prop_map(|steps| {
        let mut now = 1000;
        let lap = |(pause, length)| {
            let begin_ms = now + pause;
            now = begin_ms + length;
            Lap { begin_ms, end_ms: now, said: None }
        };
        steps.into_iter().map(lap).collect()
    })
}

/// Whether an application ran at a moment, by looking at its laps one by one.
fn ran(laps: &[Lap], at: u64) -> bool {
    let before = laps.iter().filter(|l| l.begin_ms <= at).map(|l| l.end_ms).max();
    let after = laps.iter().filter(|l| l.end_ms >= at).map(|l| l.begin_ms).min();
    match (before, after) {
        (Some(end), Some(begin)) => begin.saturating_sub(end) <= MAX_PAUSE_MS,
        _ => false,
    }
}

proptest! {
    #[test]
    fn a_lap_counts_where_the_other_ran_at_every_moment(own in laps(), other in laps()) {
        let counted = beside(&own, &other);
        for lap in &own {
            let moments = lap.begin_ms..=lap.end_ms;
            let was_there = moments.clone().all(|at| ran(&other, at));
            prop_assert_eq!(counted.contains(lap), was_there, "{:?} beside {:?}", lap, other);
        }
    }

    #[test]
    fn more_laps_never_take_a_measurement_back(one in laps(), two in laps(), cut in 0_usize..12) {
        let part = |laps: &[Lap]| laps[..cut.min(laps.len())].to_vec();
        let rank = |p: &Progress| match p { Progress::Laps(n) => *n, Progress::Measured(_) => LAPS };
        let (earlier, later) = (progress(&[part(&one), part(&two)]), progress(&[one.clone(), two.clone()]));
        prop_assert!(rank(&earlier) <= rank(&later));
        if let Progress::Measured(seconds) = later {
            let bounds = |laps: &[Lap]| {
                let of = |l: &Lap| l.seconds();
                (laps.iter().map(of).fold(f64::MAX, f64::min), laps.iter().map(of).fold(0.0, f64::max))
            };
            for (value, laps) in seconds.iter().zip([&one, &two]) {
                let (least, most) = bounds(laps);
                prop_assert!(least <= *value && *value <= most);
            }
        }
    }

    #[test]
    fn a_log_is_read_as_far_as_it_is_written(laps in laps(), cut in 0_usize..1000) {
        let text: String = laps.iter().map(|l| format!("{} {} 0\n", l.begin_ms, l.end_ms)).collect();
        let part = &text[..cut.min(text.len())];
        let lines = part.matches('\n').count();
        prop_assert_eq!(Log::parse(part), Log { laps: laps[..lines].to_vec(), failed: None });
    }
}

#[test]
fn an_application_alone_is_measured_after_three_laps() {
    let lap = |begin_ms, end_ms| Lap { begin_ms, end_ms, said: None };
    let laps = vec![lap(0, 9000), lap(9000, 11_000), lap(11_000, 14_000)];
    assert_eq!(progress(&[laps[..2].to_vec()]), Progress::Laps(2));
    assert_eq!(progress(&[laps]), Progress::Measured(vec![3.0]));
}

#[test]
fn a_log_says_which_run_failed_and_what_the_application_says() {
    let log = Log::parse("1000 2000 0 0.25\n2000 2500 0\nbash: warning\n2500 2600 3\n2600 27");
    assert_eq!(log.failed.as_deref(), Some("exit status 3"));
    let seconds: Vec<f64> = log.laps.iter().map(Lap::seconds).collect();
    assert_eq!(seconds, [0.25, 0.5]);
    for word in ["inf", "0", "-1", "x"] {
        let failed = Log::parse(&format!("1000 2000 0 {word}\n")).failed.unwrap();
        assert!(failed.contains(&format!("`{word}`")), "{failed}");
    }
}

#[test]
fn designs_differ_in_caps_alone() {
    let gpu = Model::find("a100-40gb").unwrap();
    let by_state = |design| {
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for setting in settings(gpu, &caps(design), 6).unwrap() {
            *states.entry(setting.state.to_string()).or_default() += 1;
        }
        states
    };
    let (paper, small) = (by_state(Design::Paper), by_state(Design::Small));
    assert_eq!(paper.keys().collect::<Vec<_>>(), small.keys().collect::<Vec<_>>());
    assert_eq!((paper["4c"], small["4c"], small["full"]), (36, 12, 6));
}
