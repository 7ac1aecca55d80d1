//! `tessera simulate mapa`, as people and scripts read it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

const JOBS: &str = "\
4,ring,0,20,1,resnet
3,ring,0,10,1,vgg
9,ring,2,5,1,too-large
2,tree,3,7,0,cusimann
2,ring,4,9,1,alexnet
";

/// Runs it on these jobs; what it prints, and its exit status.
fn run(jobs: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobs"), jobs).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    // Colours are not to be forced from outside.
    command.env_clear().current_dir(dir.path());
    command.args(["simulate", "mapa", "--jobs", "jobs", "--topology", "dgx-v"]);
    let out = command.args(args).output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    format!("{}exit {}", String::from_utf8(text).unwrap(), out.status.code().unwrap())
}

#[test]
fn the_sample_file_of_the_documents_can_be_run() {
    let said = run(include_str!("../../contrib/example/jobs.csv"), &[]);
    assert!(said.contains("\npreserve ") && said.ends_with("exit 0"), "{said}");
}

#[test]
fn policies_side_by_side() {
    assert_snapshot!(run(JOBS, &[]), @r"
    EffBW of sensitive jobs in GB/s; speed-ups of their run times and of throughput over the first row

    POLICY        MIN    25%    50%    75%    MAX  MAKESPAN  RUN 25%     50%     75%     MAX  THROUGHPUT
    baseline    44.13  51.53  58.93  63.82  68.71        20   1.000x  1.000x  1.000x  1.000x      1.000x
    topo-aware  44.13  51.53  58.93  63.82  68.71        20   1.000x  1.000x  1.000x  1.000x      1.000x
    greedy      57.86  58.39  58.93  63.82  68.71        20   1.000x  1.000x  1.000x  1.000x      1.000x
    preserve    57.86  58.39  58.93  63.82  68.71        20   1.000x  1.000x  1.000x  1.000x      1.000x

    not run, because even the idle node has no set for them: job 3 (9 GPUs)
    exit 0
    ");
}

#[test]
fn one_line_per_job() {
    assert_snapshot!(run(JOBS, &["--policy", "preserve", "--csv", "-"]), @r#"
    policy,job,name,gpus,sensitive,arrival,start,end,set,agg_bw,eff_bw,preserved_bw
    preserve,1,resnet,4,1,0,0,20,0 3 2 1,175,68.70692109774998,225
    preserve,2,vgg,3,1,0,0,10,4 7 6,125,57.857863510333324,0
    preserve,3,too-large,9,1,2,,,,,,
    preserve,4,cusimann,2,0,3,10,17,4 7,50,39.079190347,50
    preserve,5,alexnet,2,1,4,10,19,5 6,100,58.925035865333335,0
    exit 0
    "#);
}

#[test]
fn simulate_json_keeps_its_keys() {
    assert_snapshot!(run(JOBS, &["--policy", "preserve", "--at-once", "--wait-below", "40", "--json"]), @r#"
    {
      "eff_bw": {
        "max": 68.70692109774998,
        "min": 57.857863510333324,
        "p25": 58.39144968783333,
        "p50": 58.925035865333335,
        "p75": 63.81597848154166
      },
      "eff_bw_2_or_more": {
        "max": 68.70692109774998,
        "min": 57.857863510333324,
        "p25": 58.39144968783333,
        "p50": 58.925035865333335,
        "p75": 63.81597848154166
      },
      "jobs": 5,
      "makespan_cycles": 20,
      "never_started": 1,
      "policy": "preserve",
      "run_cycles": {
        "max": 20.0,
        "min": 9.0,
        "p25": 9.5,
        "p50": 10.0,
        "p75": 15.0
      }
    }
    exit 0
    "#);
}

#[test]
fn a_bad_file_names_line_and_field() {
    assert_snapshot!(run("4,ring,0,20,1,a\n4,maze,0,20,1,b\n", &[]), @r#"
    tessera: jobs:2: PATTERN: expected ring, tree, chain, star, all, none or ring+tree
    hint: 4,ring,0,20,1,resnet
    exit 1
    "#);
    assert_snapshot!(run("4,ring,0,20,1\n", &[]), @r#"
    tessera: jobs:1: expected six fields: GPUS,PATTERN,ARRIVAL,RUN,SENSITIVE,NAME
    hint: 4,ring,0,20,1,resnet
    exit 1
    "#);
    assert_snapshot!(run("", &["--refuse", "12", "--wait-below", "40"]), @r#"
    error: the argument '--refuse <GBPS>' cannot be used with '--wait-below <GBPS>'

    Usage: tessera simulate mapa --jobs <FILE> --topology <NAME|FILE|NODE> --refuse <GBPS>

    For more information, try '--help'.
    exit 2
    "#);
}
