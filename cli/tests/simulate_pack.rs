//! `tessera lab simulate pack` with jobs that come and go, as people and scripts read it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

const SITE: &str = r#"
[[nodes]]
names = "n[1-2]"
gpu = "a100-40gb"
count = 4
mig = "dynamic"
"#;

const JOBS: &str = r#"{"id":"a","submit":0,"run":60,"cpus":4,"ask":"--gpu-mem=10G"}
{"id":"b","submit":1,"run":90,"cpus":4,"ask":"--gpu-isolation=mig:1g.5gb"}
{"id":3,"submit":2,"run":60,"cpus":8,"ask":"--gpus=4"}
{"id":"d","submit":3,"run":60,"nodes":2,"ask":"--gpu-isolation=whole --gpus=3"}
{"id":"e","submit":4,"run":60,"cpus":4,"mem_mib":1024,"ask":"--gres=gpu:1"}
"#;

/// Runs it on these jobs; what it prints, what it writes to `events`, and its exit status.
fn run(jobs: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobs"), jobs).unwrap();
    fs::write(dir.path().join("site"), SITE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.env_clear().current_dir(dir.path()).args(["lab", "simulate", "pack"]);
    let out = command.args(args).output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    let events = fs::read_to_string(dir.path().join("events")).unwrap_or_default();
    format!("{}{events}exit {}", String::from_utf8(text).unwrap(), out.status.code().unwrap())
}

const STREAM: [&str; 4] = ["--site", "site", "--jobs", "jobs"];

fn stream(jobs: &str, args: &[&str]) -> String {
    run(jobs, &[&STREAM[..], args].concat())
}

#[test]
fn rules_side_by_side() {
    assert_snapshot!(stream(JOBS, &[]), @r"
    5 jobs
    policy    accepted  wait s  90 % s  whole nodes s  whole nodes  GPUs in use  created  destroyed  set GB/s
    tessera          5      23      59              0            1          3.0        2          0      10.0
    slurm            5      23      59              0            1          3.0        2          0      10.0
    best-fit         5      23      59              0            1          3.0        2          0      10.0
    mfi              5      23      59              0            1          3.0        2          0      10.0
    exit 0
    ");
    assert_snapshot!(stream(JOBS, &["--lose", "--policy", "tessera,first-fit,grmu,quota:1"]), @r"
    5 jobs
    policy     accepted  whole nodes  GPUs in use  created  destroyed  set GB/s
    tessera           4            1          3.0        2          0      10.0
    first-fit         4            1          3.0        2          0      10.0
    grmu              3            0          2.5        2          0      10.0
    quota:1           4            1          3.0        2          0      10.0
    exit 0
    ");
}

#[test]
fn a_line_for_each_event() {
    assert_snapshot!(stream(JOBS, &["--policy", "tessera", "--events", "events"]), @r#"
    5 jobs
    policy   accepted  wait s  90 % s  whole nodes s  whole nodes  GPUs in use  created  destroyed  set GB/s
    tessera         5      23      59              0            1          3.0        2          0      10.0
    {"ev":"start","gpus":[0],"grant":"v1 job=1;n1=mig:0/1g.10gb@6","i":0,"node":"n1","t":0.0,"task":"a","wait":0.0}
    {"ev":"start","gpus":[0],"grant":"v1 job=2;n1=mig:0/1g.5gb@4","i":1,"node":"n1","t":1.0,"task":"b","wait":0.0}
    {"ev":"start","gpus":[0,1,2,3],"grant":"v1 job=3;n2=whole:0,1,2,3","i":2,"node":"n2","t":2.0,"task":"3","wait":0.0}
    {"ev":"end","id":"a","t":60.0}
    {"ev":"end","id":"3","t":62.0}
    {"ev":"start","gpus":[1,2,3],"grant":"v1 job=4;n1=whole:1,2,3;n2=whole:0,1,2","i":3,"node":"n1,n2","t":62.0,"task":"d","wait":59.0}
    {"ev":"start","gpus":[3],"grant":"v1 job=5;n2=whole:3","i":4,"node":"n2","t":62.0,"task":"e","wait":58.0}
    {"ev":"end","id":"b","t":91.0}
    {"ev":"end","id":"d","t":122.0}
    {"ev":"end","id":"e","t":122.0}
    exit 0
    "#);
    assert_snapshot!(stream(JOBS, &["--policy", "mfi", "--lose", "--events", "events"]), @r#"
    5 jobs
    policy  accepted  whole nodes  GPUs in use  created  destroyed  set GB/s
    mfi            4            1          3.0        2          0      10.0
    {"ev":"place","gpus":[0],"grant":"v1 job=1;n1=mig:0/1g.10gb@6","i":0,"node":"n1","t":0.0,"task":"a"}
    {"ev":"place","gpus":[0],"grant":"v1 job=2;n1=mig:0/1g.5gb@4","i":1,"node":"n1","t":1.0,"task":"b"}
    {"ev":"place","gpus":[0,1,2,3],"grant":"v1 job=3;n2=whole:0,1,2,3","i":2,"node":"n2","t":2.0,"task":"3"}
    {"ev":"drop","i":3,"t":3.0,"task":"d"}
    {"ev":"place","gpus":[1],"grant":"v1 job=5;n1=whole:1","i":4,"node":"n1","t":4.0,"task":"e"}
    {"ev":"end","id":"a","t":60.0}
    {"ev":"end","id":"3","t":62.0}
    {"ev":"end","id":"e","t":64.0}
    {"ev":"end","id":"b","t":91.0}
    exit 0
    "#);
}

#[test]
fn pack_json_keeps_its_keys() {
    assert_snapshot!(stream(JOBS, &["--policy", "tessera", "--json"]), @r#"
    {
      "accepted": 5,
      "bandwidth_mean": 10.0,
      "created": 2,
      "destroyed": 0,
      "moved": 0,
      "opened_mean": 3.0,
      "policy": "tessera",
      "reusable": 0,
      "reused": 0,
      "submitted": 5,
      "wait_mean": 23.4,
      "wait_p90": 59.0,
      "whole_node_accepted": 1,
      "whole_node_submitted": 1,
      "whole_node_wait_mean": 0.0
    }
    exit 0
    "#);
}

#[test]
fn help_has_a_line_of_jobs_that_can_be_run() {
    let help = run("", &["--help"]);
    let line = help.lines().find(|line| line.trim().starts_with("{\"id\"")).unwrap();
    let said = stream(line.trim(), &["--policy", "tessera"]);
    assert!(said.starts_with("1 jobs\n") && said.ends_with("exit 0"), "{said}");
}

#[test]
fn a_mistake_in_a_job_names_its_line() {
    let bad = [
        r#"{"id":"a","submit":0,"run":60}"#,
        r#"{"id":"a","submit":-1,"run":60,"ask":"--gpus=1"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--gpu-mem=lots"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--gpu-isolation=mig --gpu-mem=90G"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--cpus=3"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":""}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--gpu-isolation=slurm"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--gpus=1 --exclusive"}"#,
        r#"{"id":"a","submit":0,"run":60,"ask":"--gpus=1 --exclude=n1"}"#,
    ];
    let said: Vec<String> = bad.iter().map(|line| stream(&format!("\n{line}\n"), &[])).collect();
    assert_snapshot!(said.join("\n"), @r#"
    tessera: jobs:2: missing field `ask` at column 30
    exit 1
    tessera: jobs:2: "submit": expected seconds from 0 to 1000000000
    exit 1
    tessera: jobs:2: --gpu-mem=lots: is not a number with a suffix K, M, G or T: such as 10G or 500M (10^9 and 10^6 bytes), or 10Gi (2^30)
    exit 1
    tessera: jobs:2: "ask": --gpu-isolation=mig --gpu-mem=90.0GB: no node could ever satisfy this: largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-mem=42G or less
    exit 1
    tessera: jobs:2: "ask": unexpected argument '--cpus' found
    exit 1
    tessera: jobs:2: "ask": it asks for no GPU
    exit 1
    tessera: jobs:2: "ask": it asks for no GPU
    exit 1
    tessera: jobs:2: "ask": streams do not know --exclusive: any node may run any job, next to others
    exit 1
    tessera: jobs:2: "ask": streams do not know --exclude: any node may run any job, next to others
    exit 1
    "#);
}

#[test]
fn a_mistake_on_the_command_line_says_what_would_work() {
    assert_snapshot!(stream(JOBS, &["--policy", "worst-fit"]), @r"
    tessera: --policy worst-fit: expected tessera, slurm, first-fit, best-fit, most-placements, mfi, grmu, quota:N, learnt, or several of them
    exit 1
    ");
    assert_snapshot!(stream(JOBS, &["--events", "events"]), @r"
    tessera: --events writes what happens under one policy: name one with --policy
    exit 1
    ");
    assert_snapshot!(stream(JOBS, &["--seed", "3"]), @r"
    error: the argument '--site <FILE>' cannot be used with '--seed <N>'

    Usage: tessera lab simulate pack --site <FILE> --jobs <FILE>

    For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("", &["--site", "site"]), @r"
    error: the following required arguments were not provided:
      --jobs <FILE>

    Usage: tessera lab simulate pack --site <FILE> --jobs <FILE>

    For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("", &[]), @r"
    error: the following required arguments were not provided:
      --node-table <FILE>

    Usage: tessera lab simulate pack --node-table <FILE>

    For more information, try '--help'.
    exit 2
    ");
}
