//! `tessera simulate case --figure`, as people and scripts read it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

/// Runs it in `dir`: standard output, standard error and exit status together.
fn run_in(dir: &std::path::Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.env_clear().current_dir(dir).args(["simulate", "case"]).args(args);
    let out = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let end =
        if out.status.success() { String::new() } else { format!("exit {}", out.status.code().unwrap()) };
    format!("{}{}{end}", text(out.stdout), text(out.stderr))
}

fn run(args: &[&str]) -> String {
    run_in(&std::env::temp_dir(), args)
}

/// A figure with at most five of its rows.
fn short(name: &str) -> String {
    let text = run(&["--figure", name]);
    let (title, rest) = text.split_once("\n\n").unwrap();
    let (rows, rest) = rest.split_once("\n\n").unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    let (shown, more) = if rows.len() > 7 { (6, "\n…") } else { (rows.len(), "") };
    format!("{title}\n\n{}{more}\n\n{rest}", rows[..shown].join("\n"))
}

#[test]
fn case_figure_5_prints_the_same_values() {
    assert_snapshot!(short("fig5"), @r"
    fig5: throughput of Algorithm 3 over Algorithm 2, 4 V100

          PAPER  OURS  ERROR
    W1        -  1.12         [1]
    W2        -  1.33         [1]
    W3        -  1.13         [1]
    W4        -  1.22         [1]
    W5        -  1.45         [1]
    …

    GOAL  FROM    TO  OURS
    mean  1.10  1.35  1.23

    [1] the paper prints the mean only
    ");
}

#[test]
fn case_figure_6_prints_the_same_values() {
    assert_snapshot!(short("fig6"), @r"
    fig6: throughput over single assignment

                  PAPER  OURS   ERROR
    W1 case p100   1.81  2.29  +26.1%
    W1 cg p100     1.44  1.00  -30.8%  [1]
    W2 case p100   2.01  2.05   +2.2%
    W2 cg p100     1.29  1.00  -22.5%  [1]
    W3 case p100   2.15  2.01   -6.5%
    …

    GOAL                                      FROM    TO   OURS
    error of CASE on P100 over a constant's      0  1.00  0.962
    error of CASE on V100 over a constant's      0  1.00  0.475
    error of CG on V100 over a constant's        0  1.00  0.475
    mean of CASE on P100                     0.930  1.07  0.996
    mean of CASE on V100                     0.930  1.07  0.995

    [1] the artefact chose CG's workers after the fact: those are used on V100, and the most without a crash on P100; which jobs meet hangs on run times that nobody published
    ");
}

#[test]
fn case_figure_7_prints_the_same_values() {
    assert_snapshot!(short("fig7"), @r"
    fig7: mean utilisation in percent, W7 on 4 V100

          PAPER   OURS        ERROR
    sa     9.50   7.01  -2.5 points
    case  23.90  15.16  -8.7 points
    cg     9.30   8.92  -0.4 points  [1]

    GOAL                          FROM    TO   OURS
    points from the paper, SA    -5.00  5.00  -2.49
    points from the paper, CASE  -5.00  5.00  -8.74  missed [2]

    [1] the artefact chose CG's workers after the fact: those are used on V100, and the most without a crash on P100; which jobs meet hangs on run times that nobody published
    [2] the demand is that of the artefact's slowdowns; by it kernels hold the devices less than the paper saw
    ");
}

#[test]
fn case_figure_8_prints_the_same_values() {
    assert_snapshot!(short("fig8"), @r"
    fig8: throughput over SchedGPU, 8 Darknet jobs on 4 V100

                      PAPER  OURS  ERROR
    predict            1.40  1.40  +0.0%  [1]
    detect             1.00  1.00  +0.0%  [1]
    generate           3.10  3.10  +0.0%  [1]
    train              2.20  2.20  +0.0%  [1]
    128 jobs over sa   2.70  2.48  -8.1%

    GOAL                                         FROM     TO   OURS
    largest error of the fit, Table 8 included      0  0.010      0
    128 jobs over the paper's                   0.850   1.15  0.919

    [1] fitted: a network's time and demand are solved from this number and Table 8
    ");
}

#[test]
fn case_figure_9_prints_the_same_values() {
    assert_snapshot!(short("fig9"), @r"
    fig9: mean utilisation in percent, 8 Darknet jobs on 4 V100

                       PAPER   OURS         ERROR
    case, mean         80.00  41.07  -38.9 points  [1]
    case predict           -  14.29
    case detect            -      0
    case generate          -    100
    case train             -  50.00
    …

    GOAL                              FROM    TO    OURS
    points from the paper, CASE      -5.00  5.00  -38.93  missed [1]
    points from the paper, SchedGPU  -5.00  5.00   -6.93  missed [1]

    [1] the paper does not name the workload; ours is the mean of all four
    ");
}

#[test]
fn case_table_3_prints_the_same_values() {
    assert_snapshot!(short("table3"), @r"
    table3: crashed jobs of CG in percent

                         PAPER   OURS         ERROR
    3 workers 1:1 p100       0  12.50  +12.5 points  [1]
    6 workers 1:1 v100       0  12.50  +12.5 points  [1]
    3 workers 2:1 p100    3.00  20.31  +17.3 points  [1]
    6 workers 2:1 v100   17.00  14.06   -2.9 points  [1]
    3 workers 3:1 p100    8.00  12.50   +4.5 points  [1]
    …

    GOAL                             FROM    TO   OURS
    error on P100 over a constant's     0  1.00   1.95  missed [2]
    error on V100 over a constant's     0  1.00  0.563

    [1] which jobs meet on a GPU hangs on run times that nobody published; the paper itself calls the pattern erratic
    [2] all 16 cells are too high: jobs of ours meet on the P100 more often than the paper's
    ");
}

#[test]
fn case_table_4_prints_the_same_values() {
    assert_snapshot!(short("table4"), @r"
    table4: turnaround of single assignment over CASE's, mean over jobs

             PAPER  OURS   ERROR
    W1 p100   4.90  4.63   -5.5%
    W2 p100   2.30  3.81  +65.7%
    W3 p100   4.90  3.91  -20.2%
    W4 p100   4.30  5.93  +37.9%
    W5 p100   4.60  3.92  -14.7%
    …

    GOAL           FROM    TO   OURS
    mean on P100  0.800  1.20   1.07
    mean on V100  0.800  1.20  0.915
    ");
}

#[test]
fn case_table_6_prints_the_same_values() {
    assert_snapshot!(short("table6"), @r"
    table6: slowdown in percent, 4 V100

              PAPER   OURS        ERROR
    W1 alg2  -0.300      0  +0.3 points  [1]
    W1 alg3  -0.700   6.44  +7.1 points  [1]
    W2 alg2    1.00      0  -1.0 points  [1]
    W2 alg3   0.800   5.66  +4.9 points  [1]
    W3 alg2   0.300      0  -0.3 points  [1]
    …

    GOAL                                 FROM    TO   OURS
    Algorithm 2, points from the paper  -2.50  2.50  -1.74
    Algorithm 3, points from the paper  -2.50  2.50   4.87  missed [1]

    [1] the paper measures kernels, the simulator whole tasks with their copies
    ");
}

#[test]
fn case_table_7_prints_the_same_values() {
    assert_snapshot!(short("table7"), @r"
    table7: jobs per second

                  PAPER   OURS   ERROR
    W1 sa p100    0.073  0.074   +1.6%
    W2 sa p100    0.068  0.067   -1.3%
    W3 sa p100    0.083  0.084   +0.8%
    W4 sa p100    0.108  0.108   +0.1%
    W5 sa p100    0.088  0.088   -0.0%
    …

    GOAL                  FROM     TO   OURS
    largest error of SA      0  0.030  0.017
    mean of Algorithm 2  0.900   1.10   1.04

    [1] the row does not follow from the other tables: on W4 it is above what Fig. 6 gives Algorithm 3, which is said to be 1.21 times as fast
    ");
}

#[test]
fn case_mig_figure_1_prints_the_same_values() {
    assert_snapshot!(short("mig:fig1"), @r"
    mig:fig1: over Slurm, A30, jobs of 1 to 6 GB

                      PAPER  OURS  ERROR
    mean throughput    1.45  1.49  +2.7%
    mean turnaround    1.39  1.47  +5.7%
    A 1:0 throughput      -  1.00         [1]
    A 1:0 turnaround      -  1.00         [1]
    A 4:1 throughput      -  1.11         [1]
    …

    GOAL                                   FROM    TO  OURS
    mean throughput over the paper's      0.850  1.15  1.03
    mean turnaround over the paper's      0.850  1.15  1.06
    isolated jobs alone, distance from 1      0     0     0

    [1] the paper shows a bar without a number
    ");
}

#[test]
fn case_mig_figure_2_prints_the_same_values() {
    assert_snapshot!(short("mig:fig2"), @r"
    mig:fig2: over Slurm, A30, jobs of 0.3 to 6 GB

                      PAPER  OURS  ERROR
    mean throughput    1.53  1.50  -1.7%
    mean turnaround    1.48  1.52  +2.9%
    A 1:0 throughput      -  1.00         [1]
    A 1:0 turnaround      -  1.00         [1]
    A 4:1 throughput      -  1.13         [1]
    …

    GOAL                                   FROM    TO   OURS
    mean throughput over the paper's      0.850  1.15  0.983
    mean turnaround over the paper's      0.850  1.15   1.03
    isolated jobs alone, distance from 1      0     0      0

    [1] the paper shows a bar without a number
    ");
}

#[test]
fn case_mig_figure_3_prints_the_same_values() {
    assert_snapshot!(short("mig:fig3"), @r"
    mig:fig3: over Slurm, A100

                      PAPER  OURS   ERROR
    mean throughput    1.15  1.21   +5.5%
    mean turnaround    2.31  1.26  -45.4%  [1]
    D 1:0 throughput      -  1.00          [2]
    D 1:0 turnaround      -  1.00          [2]
    D 4:1 throughput      -  1.06          [2]
    …

    GOAL                                   FROM    TO   OURS
    mean throughput over the paper's      0.850  1.15   1.06
    mean turnaround over the paper's      0.850  1.15  0.546  missed [1]
    isolated jobs alone, distance from 1      0     0      0

    [1] it needs a Slurm that starts no job before one that waits for another size, and then a batch of isolated jobs alone gains as much; the paper observes that Slurm and CASE are then identical
    [2] the paper shows a bar without a number
    ");
}

#[test]
fn case_mig_figure_4_prints_the_same_values() {
    assert_snapshot!(short("mig:fig4"), @r"
    mig:fig4: memory utilisation over Slurm's, A30

                       PAPER  OURS   ERROR
    mean utilisation    2.93  1.50  -48.7%  [1]
    A 4:1 utilisation      -  1.11          [2]
    A 2:1 utilisation      -  1.26          [2]
    A 1:1 utilisation      -  1.40          [2]
    A 1:2 utilisation      -  1.69          [2]
    …

    GOAL                    FROM    TO   OURS
    mean over the paper's  0.850  1.15  0.513  missed [1]

    [1] a task holds the same memory under both, so the ratio is throughput times slowdown, 1.45 times 1.02 by the paper's own numbers; the paper does not say what its samples count
    [2] the paper shows a bar without a number
    ");
}

#[test]
fn case_mig_table_2_prints_the_same_values() {
    assert_snapshot!(short("mig:table2"), @r"
    mig:table2: slowdown in percent, A30

           PAPER  OURS        ERROR
    1:4-A  -1.70  2.27  +4.0 points  [1]
    0:1-A   7.50  2.02  -5.5 points  [1]
    1:4-B   5.70  2.48  -3.2 points  [1]
    0:1-B  0.700  2.08  +1.4 points  [1]
    1:4-C  0.400  2.56  +2.2 points  [1]
    0:1-C  0.700  2.01  +1.3 points  [1]

    [1] the paper measures kernels, the simulator whole tasks with their copies
    ");
}

#[test]
fn json_has_the_values_and_the_goals() {
    let value: Value = serde_json::from_str(&run(&["--figure", "fig7", "--json"])).unwrap();
    assert_eq!(value["figure"], "fig7");
    let rows = value["rows"].as_array().unwrap();
    let labels: Vec<&str> = rows.iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["sa", "case", "cg"]);
    assert_eq!(rows[1]["paper"], 23.9);
    assert!(rows[1]["ours"].as_f64().unwrap() > 14.0);
    assert!(rows[1].get("why").is_none() && rows[2]["why"].is_string());
    assert_eq!(value["goals"][0]["reached"], true);
    let value: Value = serde_json::from_str(&run(&["--figure", "fig5", "--json"])).unwrap();
    assert!(value["rows"][0]["paper"].is_null(), "a bar without a number");
}

#[test]
fn a_picture_has_two_bars_for_a_printed_value() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), &["--figure", "mig:table2", "--svg", "out.svg"]);
    let svg = std::fs::read_to_string(dir.path().join("out.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<rect class=\"paper\"").count(), 1 + 6);
    assert_eq!(svg.matches("<rect class=\"ours\"").count(), 1 + 6);
    assert!(!svg.contains("NaN") && !svg.contains("width=\"-"), "{svg}");
}

#[test]
fn what_a_figure_refuses() {
    assert_snapshot!(run(&["--figure", "fig4"]), @r"
    tessera: --figure fig4: unknown figure
    hint: fig5, fig6, fig7, fig8, fig9, table3, table4, table6, table7, mig:fig1, mig:fig2, mig:fig3, mig:fig4, mig:table2
    exit 1
    ");
    let both = run(&["--figure", "fig5", "--mix", "rodinia:W1"]);
    assert!(both.contains("cannot be used with") && both.ends_with("exit 2"), "{both}");
}
