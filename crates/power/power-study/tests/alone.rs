//! Problem 2 for an application that has its GPU to itself, against the ground truth of the runs.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, Numbers, h, true_c};
use power::Model;
use power_cap::{Alone, AloneError, choose_alone};

/// What slurmctld reads of a model with runs of every application alone on the whole GPU, without measurement errors.
fn fitted() -> (Calibration, Model) {
    let mut calibration = Calibration::new(3, 0.0);
    let mut random = Numbers(3);
    for cap in CAPS {
        (0..calibration.apps.len()).for_each(|app| calibration.add(&["7g"], cap, &[app], 0.0, &mut random));
    }
    let file = calibration.fit().unwrap().to_json().to_string();
    (calibration, Model::from_json(&file).unwrap())
}

#[test]
fn the_most_efficient_cap_that_keeps_alpha_is_chosen() {
    let (calibration, model) = fitted();
    let mut chosen = Vec::new();
    for (_, features) in &calibration.apps {
        let truth = |cap: u32| true_c("7g", cap).iter().zip(h(features)).map(|(c, h)| c * h).sum::<f64>();
        for alpha in [0.2, 0.6, 0.7, 0.75, 2.0] {
            let allowed = CAPS.into_iter().filter(|cap| truth(*cap) > alpha);
            let best =
                allowed.max_by(|a, b| (truth(*a) / f64::from(*a)).total_cmp(&(truth(*b) / f64::from(*b))));
            match (choose_alone(&model, 7, features, alpha, false), best) {
                (Ok(Alone { cap, rperf }), Some(best)) => {
                    assert_eq!(cap.watts(), best);
                    assert!((rperf - truth(best)).abs() < 1e-6, "{rperf} at {cap}");
                    chosen.push(best);
                }
                (Err(AloneError::NotAllowed { kept, .. }), None) => assert!(kept <= alpha + 1e-6),
                (other, best) => panic!("{other:?} where {best:?} W is right"),
            }
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    assert!(chosen.len() > 2, "the test meets different caps: {chosen:?}");
}

#[test]
fn what_the_model_cannot_tell_is_refused() {
    let (calibration, model) = fitted();
    let features = calibration.apps[0].1;
    let refused = |slices, features: &_, alpha, guard| {
        choose_alone(&model, slices, features, alpha, guard).unwrap_err().to_string()
    };
    assert_eq!(
        refused(6, &features, 0.2, true),
        "the power model has no runs alone on 6g or 6c: calibrate with them"
    );
    let mut odd = features;
    odd[1] = 1000.0;
    assert!(refused(7, &odd, 0.2, true).starts_with("f2 is 1000, outside the calibrated"));
    assert!(refused(7, &features, 3.0, false).starts_with("no cap keeps it above 3: the best keeps "));
    // With the guard the promise is kept with a margin.
    let plain = choose_alone(&model, 7, &features, 0.2, false).unwrap();
    let guarded = choose_alone(&model, 7, &features, 0.2, true).unwrap();
    assert!(guarded.cap >= plain.cap);
}
