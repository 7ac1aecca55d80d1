//! Which basis a model has, and what ours promises.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use calibration::{CAPS, Calibration, GPU, Numbers, cap};
use power::Basis;
use power_study::{Model, Problem, Question, State, choose};

fn held_out(model: &Model) -> f64 {
    model.held_out().unwrap().mean()
}

#[test]
fn tessera_is_taken_where_it_predicts_unseen_applications_better() {
    let data = Calibration::new(1, 0.02).with_hungry_neighbours();
    let best = data.fit_from(&data.counters_csv(), None).unwrap();
    let alone = data.fit_from(&data.counters_csv(), Some(Basis::Tessera)).unwrap();
    let paper = data.fit().unwrap();
    assert!(held_out(&alone) < held_out(&paper), "{} {}", held_out(&alone), held_out(&paper));
    assert_eq!((best.basis(), best.refused()), (Basis::Tessera, None));
    assert_eq!(best.held_out(), alone.held_out());
    let compared = [(Basis::Tessera, alone.held_out()), (Basis::Arima2022, paper.held_out())];
    assert_eq!(best.compared(), compared);
    assert_eq!(Model::from_json(&best.to_json().to_string()).unwrap().compared().len(), 2);
}

#[test]
fn tessera_is_refused_where_it_is_no_better_and_the_model_says_so() {
    // The truth is the paper's model itself.
    let data = Calibration::new(1, 0.0);
    let model = data.fit_from(&data.counters_csv(), None).unwrap();
    assert_eq!(model.basis(), Basis::Arima2022);
    let why = model.refused().unwrap();
    assert!(
        why.starts_with("tessera: its mean error on unseen applications, ")
            && why.ends_with(" %, is not below the 0.0 % of arima2022"),
        "{why}"
    );
    let (file, paper) = (model.to_json(), data.fit().unwrap().to_json());
    assert_eq!((&file["refused"], &file["solo"]), (&why.into(), &paper["solo"]));
    assert_eq!(paper.get("refused"), None, "asked for");
}

#[test]
fn tessera_is_refused_where_nothing_can_be_held_out() {
    let mut data = Calibration::new(5, 0.0);
    data.runs.retain(|run| run.parts.len() == 2 || (7..13).contains(&run.apps[0]));
    let model = data.fit_from(&data.counters_csv(), None).unwrap();
    assert_eq!(model.basis(), Basis::Arima2022);
    assert!(model.refused().unwrap().starts_with("tessera: too few runs to leave applications out"));
    // Three co-runs for each view and cap: enough for the paper's coefficients, not for ours.
    let mut few = Calibration::new(5, 0.0);
    few.runs.retain(|run| {
        run.parts.len() == 1 || (run.parts[0].starts_with('4') && [0, 3].contains(&run.apps[0]))
    });
    let model = few.fit_from(&few.counters_csv(), None).unwrap();
    let why = model.refused().unwrap();
    assert!(
        why.starts_with("tessera: too few runs of ") && why.contains(": 3, expected at least 4"),
        "{why}"
    );
}

/// The same counters, as a source without F2 and F4 gives them.
fn partial(data: &Calibration, source: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(',').collect();
        if fields[2] == "ncu" {
            (fields[2], fields[4], fields[6]) = (source, "", "");
        }
        fields.join(",") + "\n"
    };
    data.counters_csv().lines().map(line).collect()
}

#[test]
fn counters_without_f2_and_f4_have_a_basis_of_their_own() {
    let data = Calibration::new(1, 0.02);
    for source in ["dcgm", "gpm"] {
        let model = data.fit_from(&partial(&data, source), None).unwrap();
        assert_eq!((model.basis(), model.inputs().source, model.refused()), (Basis::Dcgm, source, None));
        let file = model.to_json();
        let known: Vec<bool> =
            file["range"]["min"].as_array().unwrap().iter().map(|v| !v.is_null()).collect();
        assert_eq!(known, [true, false, true, false, true, true, true, true]);
        let read = Model::from_json(&file.to_string()).unwrap();
        let counters = power::CounterTable::parse("c", &partial(&data, source)).unwrap();
        let apps = ["hgemm".to_owned(), "lud".to_owned()];
        let features = power_study::features(&read, &counters, &apps).unwrap();
        let question = Question {
            apps: &apps,
            features: &features,
            problem: Problem::Efficiency,
            alpha: 0.1,
            guard: true,
        };
        assert!(choose(&read, &question).unwrap().chosen.is_some());
        let others = power::CounterTable::parse("c", &data.counters_csv()).unwrap();
        let error = power_study::features(&read, &others, &apps).unwrap_err().to_string();
        let want =
            format!("no counters of `hgemm` on {GPU} from {source}; those from ncu cannot replace them");
        assert_eq!(error, want);
    }
}

#[test]
fn sources_are_never_mixed() {
    let data = Calibration::new(1, 0.02);
    let (ncu, dcgm) = (data.counters_csv(), partial(&data, "dcgm"));
    let refused = |csv: &str, basis| data.fit_from(csv, Some(basis)).unwrap_err().to_string();
    let want = |basis: &str, found: &str| {
        format!(
            "basis {basis} cannot be combined with counters from {found}: dcgm is for dcgm and gpm, the others are for ncu"
        )
    };
    assert_eq!(refused(&ncu, Basis::Dcgm), want("dcgm", "ncu"));
    assert_eq!(refused(&dcgm, Basis::Arima2022), want("arima2022", "dcgm"));
    assert_eq!(refused(&dcgm, Basis::Tessera), want("tessera", "dcgm"));
    // A file with both has one model for each.
    let both = ncu.clone() + dcgm.split_once('\n').unwrap().1;
    assert_eq!(data.fit_from(&both, None).unwrap().inputs().source, "ncu");
    assert_eq!(data.fit_from(&both, Some(Basis::Dcgm)).unwrap().inputs().source, "dcgm");
    // Half of the applications from each: neither is whole.
    let half = |csv: &str, which: usize| {
        csv.lines()
            .skip(1)
            .enumerate()
            .filter(|(at, _)| at % 2 == which)
            .map(|(_, l)| format!("{l}\n"))
            .collect::<String>()
    };
    let mixed = format!("{}\n{}{}", ncu.lines().next().unwrap(), half(&ncu, 0), half(&dcgm, 1));
    let error = data.fit_from(&mixed, None).unwrap_err().to_string();
    assert!(error.ends_with("from ncu; those from dcgm cannot replace them"), "{error}");
}

#[test]
fn ours_never_falls_where_the_cap_rises() {
    // With 20 % of noise, arima2022 falls somewhere; any counters, not only calibrated ones.
    let data = Calibration::new(3, 0.2);
    let falls = |basis, csv: &str| {
        let model = data.fit_from(csv, Some(basis)).unwrap();
        let mut random = Numbers(9);
        let mut count = 0;
        for _ in 0..200 {
            let features: Vec<[f64; 8]> =
                (0..2).map(|_| std::array::from_fn(|_| 1.0 + 98.0 * random.next())).collect();
            for state in ["4c+3c", "3c+4c", "4g+3g", "3g+4g"] {
                let state: State = state.parse().unwrap();
                let curve = CAPS.map(|watts| model.predict(&state, cap(watts), &features).unwrap());
                count += curve.windows(2).filter(|w| w[1][0] < w[0][0] || w[1][1] < w[0][1]).count();
            }
        }
        count
    };
    assert!(falls(Basis::Arima2022, &data.counters_csv()) > 0);
    assert_eq!(falls(Basis::Tessera, &data.counters_csv()), 0);
    assert_eq!(falls(Basis::Dcgm, &partial(&data, "dcgm")), 0);
}
