//! What a person reads from `tessera report`. sacct is a stand-in.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

use std::fs;

use insta::assert_snapshot;

/// The widths that sacct is asked for.
const WIDTHS: [usize; 13] = [24, 64, 40, 20, 20, 12, 24, 256, 512, 512, 512, 512, 512];

fn line(cells: [&str; 13]) -> String {
    cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$} ")).collect::<String>() + "\n"
}

fn report(lines: &[[&str; 13]], args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("records"), lines.iter().map(|cells| line(*cells)).collect::<String>())
        .unwrap();
    slurm::program(dir.path(), "sacct", "cat records");
    slurm::tessera(dir.path(), &[&["report"], args].concat())
}

const GOT: &str = "tessera: n1=mig:3/3g.20gb@4: smallest profile with 20.0 GB; asks v1 iso=mig mem=19074";
const JOB: [&str; 13] = [
    "20",
    "bob",
    "COMPLETED",
    "1000",
    "1840",
    "7500",
    "427500",
    "billing=3,cpu=1,license/slice=3,node=1",
    "",
    "",
    "",
    "",
    GOT,
];
const BATCH: [&str; 13] = [
    "20.batch",
    "",
    "COMPLETED",
    "1840",
    "1840",
    "7500",
    "427500",
    "cpu=1",
    "cpu=02:00:00,gres/gpumem=5.5G,gres/gpuutil=85",
    "gres/gpumem=5.5G,gres/gpuutil=85",
    "",
    "",
    "",
];
const STEP: [&str; 13] = [
    "20.0",
    "",
    "COMPLETED",
    "1850",
    "1850",
    "70",
    "",
    "cpu=1",
    "gres/gpumem=100M,gres/gpuutil=0",
    "gres/gpuutil=0",
    "",
    "",
    "",
];

#[test]
fn a_job_that_used_little_is_told_what_to_ask() {
    assert_snapshot!(report(&[JOB, BATCH, STEP], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest profile with 20.0 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  at most 5.9 GB of the 20.0 GB asked for
      GPU busy    at most 85 %
      next time   --gpu-mem=8G is enough: smaller requests start sooner and cost less. It waited 14 min.
    exit 0
    ");
    assert_snapshot!(report(&[JOB, BATCH, STEP], &["20", "--json"]), @r#"
    {
      "asked_mib": 19074,
      "billing": 3,
      "busy_mean_percent": null,
      "busy_percent": 85,
      "device_mib": 5632,
      "energy_j": 427500,
      "enough_gb": 8,
      "got": "n1=mig:3/3g.20gb@4",
      "gpus": null,
      "job": "20",
      "memory_mib": 5632,
      "ran_s": 7500,
      "slices": 3,
      "state": "COMPLETED",
      "user": "bob",
      "waited_s": 840,
      "why": "smallest profile with 20.0 GB"
    }
    exit 0
    "#);
}

#[test]
fn what_is_not_recorded_is_said() {
    let plain = [
        "21",
        "bob",
        "CANCELLED by 1000",
        "1000",
        "1000",
        "60",
        "",
        "billing=14,gres/gpu=2,license/slice=14",
        "",
        "",
        "",
        "",
        "",
    ];
    assert_snapshot!(report(&[plain], &["21"]), @r#"
    job 21 of bob: CANCELLED
      got         2 GPUs, by Slurm alone
      waited      0 s
      ran         60 s
      slices      14 (0.2 slice hours), billed as 14
      energy      not accounted; docs/operations.md, "Energy of jobs", says how
      GPU memory  not recorded; `tessera report --help` says what records it
    exit 0
    "#);
    let waiting = ["22", "bob", "PENDING", "1000", "Unknown", "0", "", "", "", "", "", "", ""];
    assert_snapshot!(report(&[waiting], &["22"]), @r"
    stderr: tessera: job 22 has not started: it is PENDING
    stderr: hint: tessera why 22 says what a pending job waits for
    exit 1
    ");
    assert_snapshot!(report(&[], &["23"]), @r"
    stderr: tessera: Slurm's accounting knows no job 23
    stderr: hint: sacct shows other users' jobs only where the site lets it (PrivateData)
    exit 1
    ");
    assert_snapshot!(report(&[JOB, plain], &["20"]), @r"
    stderr: tessera: job 20 has 2 parts in Slurm's accounting
    stderr: hint: give one of them: 20_1 for a task of an array, its own number for a component
    exit 1
    ");
    assert_snapshot!(report(&[], &["20;id"]), @r"
    stderr: error: invalid value '20;id' for '<JOBID>': a job is a number, as in 4711, and a task of an array is two, as in 4711_3
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
}

/// The extern step, as acct_gather_interconnect/tessera fills it.
fn sampled(used: &'static str, most: &'static str, out: &'static str) -> [&'static str; 13] {
    ["20.extern", "", "COMPLETED", "1840", "1840", "7500", "", "cpu=1", used, most, out, out, ""]
}

#[test]
fn what_tessera_sampled_is_told_by_device() {
    let usage = "gres/gpumem=12000M,gres/gpuutil=100";
    let of_two = sampled(usage, usage, "gres/gpumem=6000M,gres/gpuutil=40");
    assert_snapshot!(report(&[JOB, of_two], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest profile with 20.0 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  at most 12.6 GB; on one device 6.3 GB of the 20.0 GB asked for
      GPU busy    at most 100 %, 40 % on average
      next time   --gpu-mem=8G is enough: smaller requests start sooner and cost less. It waited 14 min.
    exit 0
    ");
    let idle = sampled(
        "gres/gpumem=0,gres/gpuutil=0",
        "gres/gpumem=0,gres/gpuutil=0",
        "gres/gpumem=0,gres/gpuutil=0",
    );
    assert_snapshot!(report(&[JOB, idle], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest profile with 20.0 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  none was seen in use
      GPU busy    at most 0 %, 0 % on average
      next time   the job may need no GPU: it was not seen to use one
    exit 0
    ");
}
