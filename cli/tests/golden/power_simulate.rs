//! `tessera lab power simulate`.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::Site;

fn run(line: &str) -> String {
    Site::new().run(&line.split(' ').collect::<Vec<_>>())
}

fn as_json(line: &str) -> Value {
    let printed = run(&format!("{line} --json"));
    serde_json::from_str(printed.strip_suffix("exit 0").unwrap()).unwrap()
}

#[test]
fn the_papers_numbers_and_what_the_guard_costs() {
    assert_snapshot!(run("power simulate"), @r"
    Figures with basis arima2022, guard off

    FIGURE  WHAT                                  PAPER  SIMULATED
         6  S1 over the worst, TI-MI2             1.340      1.357
         6  S3 over the worst, CI-US2             1.250      1.170
         8  mean error, throughput                0.097      0.050
         8  mean error, fairness                  0.145      0.081
         9  geomean chosen                        1.520      1.448
         9  geomean best                          1.540      1.468
         9  violations                            0.000      0.000
        10  violations                            0.000      0.000
        11  violations                            0.000      4.000
        13  violations                            0.000     14.000
        13  highest alpha with solutions for all  0.420      0.420

    Errors on the co-runs, and on those of applications left out of the fit

    BASIS      ERRORS                            HELD OUT
    arima2022  throughput 5.0 %, fairness 8.1 %  throughput 6.8 %, fairness 11.3 %
    tessera    throughput 4.3 %, fairness 6.4 %  throughput 5.6 %, fairness 8.1 %
    dcgm       throughput 4.2 %, fairness 6.2 %  throughput 5.7 %, fairness 8.0 %

    The promise of 18 workloads, by whether the fit has seen their applications

    BASIS      APPS    GUARD  PROBLEM  ALPHA  POSSIBLE  REFUSED  CHOSEN  BROKEN  DEEPEST  OF BEST
    arima2022  seen    off          1   0.20        18        0      18       0    0.000    0.987
    arima2022  seen    off          1   0.35        18        0      18       0    0.000    0.986
    arima2022  seen    off          1   0.42        17        0      18       1    0.017    0.991
    arima2022  seen    off          2   0.20        18        0      18       0    0.000    0.989
    arima2022  seen    off          2   0.35        18        0      18       2    0.044    0.990
    arima2022  seen    off          2   0.42        18        0      18       4    0.093    0.981
    arima2022  unseen  off          1   0.20        14        4      14       0    0.000    0.991
    arima2022  unseen  on           1   0.20        14        4      14       0    0.000    0.991
    arima2022  unseen  off          1   0.35        14        4      14       0    0.000    0.991
    arima2022  unseen  on           1   0.35        14        4      13       0    0.000    0.991
    arima2022  unseen  off          1   0.42        13        4      14       1    0.017    0.995
    arima2022  unseen  on           1   0.42        13        4       9       0    0.000    0.986
    arima2022  unseen  off          2   0.20        14        4      14       0    0.000    0.983
    arima2022  unseen  on           2   0.20        14        4      14       0    0.000    0.983
    arima2022  unseen  off          2   0.35        14        4      14       2    0.044    0.989
    arima2022  unseen  on           2   0.35        14        4      13       0    0.000    0.971
    arima2022  unseen  off          2   0.42        14        4      14       4    0.093    0.986
    arima2022  unseen  on           2   0.42        14        4       9       0    0.000    0.956
    tessera    unseen  off          1   0.20        14        4      14       0    0.000    0.993
    tessera    unseen  on           1   0.20        14        4      14       0    0.000    0.993
    tessera    unseen  off          1   0.35        14        4      14       0    0.000    0.993
    tessera    unseen  on           1   0.35        14        4      14       0    0.000    0.992
    tessera    unseen  off          1   0.42        13        4      14       1    0.017    0.997
    tessera    unseen  on           1   0.42        13        4       9       0    0.000    0.989
    tessera    unseen  off          2   0.20        14        4      14       0    0.000    0.990
    tessera    unseen  on           2   0.20        14        4      14       0    0.000    0.990
    tessera    unseen  off          2   0.35        14        4      14       2    0.044    0.997
    tessera    unseen  on           2   0.35        14        4      14       0    0.000    0.980
    tessera    unseen  off          2   0.42        14        4      14       4    0.071    0.997
    tessera    unseen  on           2   0.42        14        4       9       0    0.000    0.963
    exit 0
    ");
}

#[test]
fn figure_6_has_every_state() {
    assert_snapshot!(run("power simulate --figure 6"), @r"
    FIGURE  WORKLOAD  ALPHA  CAP  METRIC      WORST  PROPOSAL   BEST  STATE  VIOLATES
         6  TI-MI2        -  250  throughput  1.339         -  1.339  4c+3c  -
         6  TI-MI2        -  250  throughput  1.294         -  1.294  3c+4c  -
         6  TI-MI2        -  250  throughput  1.117         -  1.117  4g+3g  -
         6  TI-MI2        -  250  throughput  0.987         -  0.987  3g+4g  -
         6  CI-US2        -  250  throughput  1.419         -  1.419  4c+3c  -
         6  CI-US2        -  250  throughput  1.315         -  1.315  3c+4c  -
         6  CI-US2        -  250  throughput  1.539         -  1.539  4g+3g  -
         6  CI-US2        -  250  throughput  1.413         -  1.413  3g+4g  -
    exit 0
    ");
}

#[test]
fn figure_9_has_every_workload_and_their_geomean() {
    assert_snapshot!(run("power simulate --figure 9"), @r"
    FIGURE  WORKLOAD  ALPHA  CAP  METRIC      WORST  PROPOSAL   BEST  STATE  VIOLATES
         9  TI-TI1     0.20  230  throughput  0.905     0.915  0.921  4g+3g  no
         9  TI-TI2     0.20  230  throughput  0.942     0.945  0.961  4g+3g  no
         9  CI-CI1     0.20  230  throughput  1.091     1.091  1.139  4g+3g  no
         9  CI-CI2     0.20  230  throughput  1.076     1.084  1.095  4g+3g  no
         9  MI-MI1     0.20  230  throughput  1.204     1.485  1.552  4c+3c  no
         9  MI-MI2     0.20  230  throughput  1.237     1.527  1.599  4c+3c  no
         9  US-US1     0.20  230  throughput  1.975     1.975  1.999  4c+3c  no
         9  US-US2     0.20  230  throughput  1.977     1.977  1.999  4c+3c  no
         9  TI-MI1     0.20  230  throughput  1.165     1.367  1.367  4c+3c  no
         9  TI-MI2     0.20  230  throughput  0.987     1.276  1.308  3c+4c  no
         9  CI-MI1     0.20  230  throughput  1.547     1.726  1.748  3c+4c  no
         9  CI-MI2     0.20  230  throughput  0.945     1.363  1.363  3c+4c  no
         9  TI-US1     0.20  230  throughput  1.374     1.632  1.632  4g+3g  no
         9  TI-US2     0.20  230  throughput  1.361     1.601  1.601  4g+3g  no
         9  CI-US1     0.20  230  throughput  1.538     1.650  1.678  4c+3c  no
         9  CI-US2     0.20  230  throughput  1.315     1.539  1.539  4g+3g  no
         9  MI-US1     0.20  230  throughput  1.715     1.768  1.768  4c+3c  no
         9  MI-US2     0.20  230  throughput  1.697     1.794  1.794  4c+3c  no
         9  geomean    0.20  230  throughput  1.297     1.448  1.468  -      no
    exit 0
    ");
}

#[test]
fn the_guard_leaves_workloads_without_a_choice_rather_than_break_alpha() {
    let rows = |rest: &str| as_json(&format!("power simulate --figure 11 {rest}"))["rows"].clone();
    let count =
        |rows: &Value, of: fn(&Value) -> bool| rows.as_array().unwrap().iter().filter(|r| of(r)).count();
    let broken = |row: &Value| row["violates"] == json!(true) && row["workload"] != "geomean";
    let (plain, guarded) = (rows("--basis tessera"), rows("--basis tessera --guard on"));
    assert!(count(&plain, broken) > 0);
    assert_eq!(count(&guarded, broken), 0);
}

#[test]
fn a_row_has_these_fields_in_json_and_csv() {
    let site = Site::new();
    let line = "power simulate --csv rows.csv --json";
    let printed = site.run(&line.split(' ').collect::<Vec<_>>());
    let value: Value = serde_json::from_str(printed.strip_suffix("exit 0").unwrap()).unwrap();
    let rows = value["rows"].as_array().unwrap();
    let fields: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        ["alpha", "best", "cap_w", "figure", "metric", "proposal", "state", "violates", "workload", "worst"]
    );
    // Per figure: 4 applications x 5 sizes x 2 options, x 6 caps; 2 x 4 states; 18 x 4 x 2; 18 and their geomean.
    let of = |figure: u8| rows.iter().filter(|row| row["figure"] == figure).count();
    assert_eq!([4, 5, 6, 8, 9, 10, 11, 12, 13].map(of), [40, 120, 8, 144, 19, 114, 38, 36, 228]);
    let csv = fs::read_to_string(site.path().join("rows.csv")).unwrap();
    assert_eq!(
        csv.lines().next(),
        Some("figure,workload,alpha,cap_w,worst,proposal,best,state,violates,metric")
    );
    assert_eq!(csv.lines().count(), rows.len() + 1);
    // Nothing that is chosen and keeps alpha is better than the best or worse than the worst.
    for row in rows.iter().filter(|row| row["violates"] == json!(false) && row["metric"] != "cap_w") {
        let [worst, proposal, best] = ["worst", "proposal", "best"].map(|name| row[name].as_f64());
        if let (Some(worst), Some(proposal), Some(best)) = (worst, proposal, best) {
            assert!(worst <= proposal + 1e-12 && proposal <= best + 1e-12, "{row}");
        }
    }
}

#[test]
fn the_seed_decides_the_measurement_errors_and_nothing_else() {
    let of = |rest: &str| as_json(&format!("power simulate --figure 8{rest}"));
    let (one, other, exact) = (of(" --seed 7"), of(" --seed 8"), of(" --noise 0"));
    assert_eq!(one, of(" --seed 7"));
    assert_ne!(one["errors"], other["errors"]);
    assert_eq!(one["rows"][0]["best"], other["rows"][0]["best"], "the truth has no error");
    assert_eq!(exact["errors"], of(" --noise 0 --seed 3")["errors"]);
}

#[test]
fn a_figure_is_drawn() {
    let site = Site::new();
    for figure in ["4", "5", "6", "8", "9", "10", "11", "12", "13"] {
        site.run(&["power", "simulate", "--figure", figure, "--svg", "figure.svg"]);
        let svg = fs::read_to_string(site.path().join("figure.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{figure}");
        assert!(svg.contains(&format!("Figure {figure}: ")) && !svg.contains("NaN"), "{figure}");
    }
}

#[test]
fn what_cannot_be_simulated_is_one_line() {
    assert_snapshot!(run("power simulate --figure 7"), @r"
    stderr: tessera: --figure 7: nothing to simulate
    stderr: hint: 4, 5, 6 or 8 to 13
    exit 1
    ");
    assert_snapshot!(run("power simulate --noise 2"), @r"
    stderr: tessera: --noise 2: not a part of a measurement
    stderr: hint: 0 to 0.15
    exit 1
    ");
}
