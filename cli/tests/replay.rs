//! What a person reads from `tessera simulate replay`.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

#[path = "../src/slurm/sacct/columns.rs"]
mod columns;

use std::fs;

use columns::line;
use insta::assert_snapshot;

const SITE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";
/// One GPU in three instances, the other whole.
const FIXED: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n\
    static = { 0 = [\"3g.20gb@0\", \"2g.10gb@4\", \"1g.5gb@6\"] }\n";

/// A job: its number, when it was submitted and started, how long it ran, what it asked Slurm for, and its AdminComment.
fn job(id: &str, [submit, start, ran]: [&str; 3], asked: &str, comment: &str) -> String {
    line([id, "bob", "COMPLETED", submit, submit, start, ran, "60", "1", asked, "", comment])
}

fn part(id: &str, times: [&str; 3], gb: u32) -> String {
    let comment = format!("tessera: n1=mig:0/2g.10gb@0: why; asks v1 iso=mig mem={}", gb * 954);
    job(id, times, "cpu=1,gres/shard=10", &comment)
}

fn october() -> String {
    let state = |id, state, start, asked| {
        line([id, "eve", state, "1000", "1000", start, "0", "60", "1", asked, "", ""])
    };
    [
        job("1", ["0", "5", "1800"], "cpu=1,gres/gpu=1", ""),
        part("2", ["100", "130", "3600"], 10),
        part("3", ["110", "130", "3600"], 10),
        part("4", ["120", "3800", "3600"], 5),
        job("5", ["600", "7400", "600"], "gres/gpu=2,gres/gpu:a100=2", ""),
        job("6", ["700", "7400", "600"], "gres/gpu=3", ""),
        part("7", ["4000", "8000", "600"], 39),
        state("8", "CANCELLED b+", "Unknown", "gres/gpu=1"),
        state("9", "RUNNING", "1100", "gres/gpu=1"),
        state("10", "FAILED", "1100", "cpu=1"),
    ]
    .concat()
}

fn replay(file: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("tessera.toml", SITE), ("fixed.toml", FIXED), ("october", file)] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    slurm::tessera(dir.path(), &[&["simulate", "replay", "--sacct", "october"], args].concat())
}

#[test]
fn waits_side_by_side() {
    assert_snapshot!(replay(&october(), &["--stock", "fixed.toml"]), @r"
    7 jobs of 1970-01-01T00:00:00Z to 1970-01-01T01:06:40Z, on 1 node in 1 set; left out: 1 asked for no GPU that the accounting knows of, 1 never started, 1 not over yet

                            started  refused  at once  mean wait  median  9 in 10  longest  GPUs in jobs
    as it was                     7        0        3     51 min  62 min  114 min  114 min             -
    stock, whole GPUs             6        1        2     45 min  29 min  112 min  112 min          98 %
    stock, fixed instances        5        2        3     24 min     0 s   60 min   60 min          36 %
    Tessera                       6        1        4     10 min     0 s   52 min   52 min          48 %

    mean wait of jobs for   part of a GPU  one GPU  several GPUs
    as it was                      33 min      5 s       113 min
    stock, whole GPUs              39 min      0 s       112 min
    stock, fixed instances         30 min      0 s             -
    Tessera                          80 s      0 s        52 min

    Tessera makes 4 instances, uses idle ones again 0 times, and destroys 3.
    Waits are of the jobs that started. Every job runs as long as it did, and only GPUs are counted: see --help.
    exit 0
    ");
}

#[test]
fn a_line_per_job() {
    let file = october();
    let first_two = &file[..2 * file.len() / 10];
    assert_snapshot!(replay(first_two, &["--csv", "-"]), @r#"
    rules,job,eligible,start,end,slices
    "as it was",1,0,5,1805,
    "as it was",2,100,130,3730,
    "stock, whole GPUs",1,0,0,1800,7
    "stock, whole GPUs",2,100,100,3700,7
    "Tessera",1,0,0,1800,7
    "Tessera",2,100,100,3700,1
    exit 0
    "#);
}

#[test]
fn replay_json_keeps_its_keys() {
    assert_snapshot!(replay(&october(), &["--json"]), @r#"
    {
      "from": 0,
      "jobs": 7,
      "left_out": {
        "asked for no GPU that the accounting knows of": 1,
        "never started": 1,
        "not over yet": 1
      },
      "rules": [
        {
          "at_once": 3,
          "in_jobs_percent": null,
          "instances_created": 0,
          "instances_destroyed": 0,
          "instances_reused": 0,
          "longest_wait_s": 6800,
          "mean_wait_by_kind_s": {
            "one_gpu": 5,
            "part": 1932,
            "several_gpus": 6750
          },
          "mean_wait_s": 3033,
          "median_wait_s": 3680,
          "p90_wait_s": 6800,
          "refused": 0,
          "rules": "as it was",
          "started": 7
        },
        {
          "at_once": 2,
          "in_jobs_percent": 98,
          "instances_created": 0,
          "instances_destroyed": 0,
          "instances_reused": 0,
          "longest_wait_s": 6700,
          "mean_wait_by_kind_s": {
            "one_gpu": 0,
            "part": 2292,
            "several_gpus": 6700
          },
          "mean_wait_s": 2645,
          "median_wait_s": 1690,
          "p90_wait_s": 6700,
          "refused": 1,
          "rules": "stock, whole GPUs",
          "started": 6
        },
        {
          "at_once": 4,
          "in_jobs_percent": 48,
          "instances_created": 4,
          "instances_destroyed": 3,
          "instances_reused": 0,
          "longest_wait_s": 3120,
          "mean_wait_by_kind_s": {
            "one_gpu": 0,
            "part": 80,
            "several_gpus": 3120
          },
          "mean_wait_s": 573,
          "median_wait_s": 0,
          "p90_wait_s": 3120,
          "refused": 1,
          "rules": "Tessera",
          "started": 6
        }
      ],
      "to": 4000
    }
    exit 0
    "#);
}

#[test]
fn jobs_may_ask_for_what_they_used() {
    let plain = |id: &str| job(id, ["0", "5", "1800"], "gres/gpu=1", "");
    let step = |id: &str| {
        let used = "cpu=00:30:00,gres/gpumem=4000M,gres/gpuutil=80";
        line([id, "", "COMPLETED", "5", "5", "5", "1800", "", "1", "", used, ""])
    };
    let all =
        [plain("1"), step("1.batch"), plain("2"), step("2.batch"), plain("3"), step("3.batch")].concat();
    assert_snapshot!(replay(&all, &["--as-used"]), @r"
    3 jobs of 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z, on 1 node in 1 set

                       started  refused  at once  mean wait  median  9 in 10  longest  GPUs in jobs
    as it was                3        0        3        5 s     5 s      5 s      5 s             -
    stock, whole GPUs        3        0        2     10 min     0 s   30 min   30 min             -
    Tessera                  3        0        3        0 s     0 s      0 s      0 s             -

    mean wait of jobs for  part of a GPU  one GPU  several GPUs
    as it was                        5 s        -             -
    stock, whole GPUs             10 min        -             -
    Tessera                          0 s        -             -

    Tessera makes 3 instances, uses idle ones again 0 times, and destroys 0.
    Waits are of the jobs that started. Every job runs as long as it did, and only GPUs are counted: see --help.
    exit 0
    ");
    let as_asked = replay(&all, &[]);
    assert!(as_asked.contains("Tessera makes 0 instances"), "{as_asked}");
}

#[test]
fn what_cannot_be_replayed_is_one_line() {
    let none = line(["1", "eve", "FAILED", "1000", "1000", "1100", "5", "60", "1", "cpu=1", "", ""]);
    assert_snapshot!(replay(&none, &[]), @r"
    stderr: tessera: october has no job with GPUs to replay; left out: 1 asked for no GPU that the accounting knows of
    stderr: hint: `tessera simulate replay --help` has the command of sacct that makes the file
    exit 1
    ");
    let dates = line(["1", "eve", "FAILED", "2026-10-01+", "", "", "5", "60", "1", "gres/gpu=1", "", ""]);
    assert_snapshot!(replay(&dates, &[]), @r#"
    stderr: tessera: october: line 1: job 1: Submit is "2026-10-01+", not seconds since 1970
    stderr: hint: run sacct with SLURM_TIME_FORMAT=%s in its environment
    exit 1
    "#);
    assert_snapshot!(replay("1|eve|FAILED\n", &[]), @r"
    stderr: tessera: october: line 1: sacct's table is not understood: a record has another length
    stderr: hint: the file must be what sacct -n -o JobIDRaw%24,User%32,State%12,Submit%11,Eligible%11,Start%11,ElapsedRaw%10,TimelimitRaw%16,NNodes%7,ReqTRES%160,TRESUsageInTot%256,AdminComment%512 prints, or sacct -P with these columns
    exit 1
    ");
}

#[test]
fn cpus_and_memory_limit_what_starts() {
    let dir = tempfile::tempdir().unwrap();
    let asks = "cpu=6,mem=4G,gres/gpu=1";
    let jobs = ["1", "2"].map(|id| job(id, ["0", "0", "3600"], asks, "")).concat();
    for (name, text) in [
        ("tessera.toml", SITE),
        ("october", &jobs),
        ("nodes", "NodeName=n1 CPUTot=8 RealMemory=16000\n"),
        ("others", "NodeName=n2 CPUTot=8 RealMemory=16000\n"),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let replay = |args: &[&str]| {
        slurm::tessera(dir.path(), &[&["simulate", "replay", "--sacct", "october"], args].concat())
    };
    let limited = replay(&["--hosts", "nodes"]);
    assert!(limited.contains("only GPUs, CPUs and memory are counted"), "{limited}");
    let tessera = limited.lines().find(|line| line.trim_start().starts_with("Tessera")).unwrap();
    assert!(tessera.contains("60 min"), "one waits for the other: {limited}");
    let missing = replay(&["--hosts", "others"]);
    assert!(
        missing.contains("others does not say how many CPUs and how much memory node n1 has"),
        "{missing}"
    );
}
