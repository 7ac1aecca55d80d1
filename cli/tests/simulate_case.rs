//! `tessera simulate case`, as people and scripts read it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

const GB: u64 = 1_000_000_000;

/// Runs it with a file `in` of these lines: standard output, standard error, exit status.
fn raw(input: &str, args: &[&str]) -> (String, String, i32) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), input).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.env_clear().current_dir(dir.path()).args(["simulate", "case"]).args(args);
    let out = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out.stdout), text(out.stderr), out.status.code().unwrap())
}

fn run(input: &str, args: &[&str]) -> String {
    let (out, err, status) = raw(input, args);
    format!("{out}{err}exit {status}")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn policies_side_by_side() {
    let policies = "tessera,alg3,alg2,sa,cg,schedgpu";
    assert_snapshot!(run("", &["--node", "v100-16gb,4", "--mix", "rodinia:W7", "--policy", policies]), @r"
    times in seconds

    POLICY    WORKERS  JOBS  CRASHED  MAKESPAN  JOBS/S  JOBS/S/SA  TURNAROUND  TURNAROUND/SA  WAIT  LONGEST  MEMORY  WARPS  SLOWDOWN
    tessera        16    32        0      86.8   0.369      2.02x        35.3          2.69x   5.8     20.4   58.8%  74.8%      8.7%
    alg3           16    32        0      86.8   0.369      2.02x        35.3          2.69x   5.8     20.4   58.8%  74.8%      8.7%
    alg2           16    32        0     102.3   0.313      1.72x        46.3          2.13x  15.0     31.5   47.6%  78.1%      0.0%
    sa              4    32        0     175.6   0.182      1.00x        84.6          1.00x   0.0      0.0   27.8%  45.5%      0.0%
    cg             16    32       12      48.3   0.414      2.27x        23.4          3.24x   0.0      0.0   40.2%  64.7%     11.0%
    schedgpu       16    32        0     271.7   0.118      0.65x        92.2          1.57x  56.8    183.1   19.0%  22.3%     17.7%
    exit 0
    ");
    let mig =
        ["--node", "a100-40gb,1/2g.10gb*2+1g.5gb*3", "--mix", "mig:D:2-1", "--policy", "case-mig,slurm"];
    assert_snapshot!(run("", &mig), @r"
    times in seconds

    POLICY    WORKERS  JOBS  CRASHED  MAKESPAN  JOBS/S  JOBS/S/SLURM  TURNAROUND  TURNAROUND/SLURM  WAIT  LONGEST  MEMORY  WARPS  SLOWDOWN
    case-mig       28    32        0     238.0   0.134         1.09x        94.6             1.05x  38.0    203.7   49.8%  72.2%      0.3%
    slurm           5    32        0     260.4   0.123         1.00x        91.5             1.00x   0.0      0.0   45.5%  66.5%      0.0%
    exit 0
    ");
}

#[test]
fn json_has_every_measure() {
    let (out, _, status) = raw("", &["--node", "p100-16gb,2", "--mix", "rodinia:W1", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_snapshot!(format!("{keys:?} exit {status}"), @r#"["crashed", "jobs", "makespan", "mem_util", "node", "policy", "seed", "slowdown_mean", "throughput", "throughput_vs_sa", "turnaround_mean", "turnaround_vs_sa", "wait_max", "wait_mean", "warp_util", "workers"] exit 0"#);
    let args =
        ["--node", "a30-24gb,1/1g.6gb*4", "--mix", "mig:A:1-1", "--json", "--policy", "case-mig,tessera"];
    let value: Value = serde_json::from_str(&raw("", &args).0).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 2);
    assert!(value[0]["throughput_vs_slurm"].as_f64().unwrap() > 1.0);
    assert!(value[0].get("throughput_vs_sa").is_none());
}

#[test]
fn printed_jobs_run_as_the_mix_does() {
    let node = ["--node", "v100-16gb,4"];
    let (jobs, _, _) = raw("", &[&node[..], &["--mix", "rodinia:W2", "--print-jobs"]].concat());
    assert_eq!(lines(&jobs).len(), 16);
    let (ours, _, _) = raw(&jobs, &[&node[..], &["--jobs", "in", "--json"]].concat());
    let (mix, _, _) = raw("", &[&node[..], &["--mix", "rodinia:W2", "--json"]].concat());
    assert_eq!(ours, mix);
}

#[test]
fn events_in_the_order_in_which_they_took_effect() {
    let job = |id: u64, mem: u64| {
        format!(
            r#"{{"id":{id},"arrival":0,"isolated":false,"mem":{mem},"phases":[{{"host":1}},{{"gpu":2,"mem":{mem},"blocks":10,"threads":64,"demand":0}}]}}"#
        )
    };
    let jobs = [job(1, 9 * GB), job(2, 8 * GB), job(3, 99 * GB)].join("\n");
    assert_snapshot!(run(&jobs, &["--node", "v100-16gb,1", "--jobs", "in", "--events", "-"]), @r#"
    {"devices":[{"blocks_per_sm":32,"dev":0,"max_workers":null,"mem":14680064000,"sms":80,"warps_per_sm":64}],"ev":"node","order":"arrival","policy":"tessera","workers":4}
    {"arrival":0.0,"dev":null,"ev":"job","isolated":false,"job":1,"t":0.0}
    {"arrival":0.0,"dev":null,"ev":"job","isolated":false,"job":2,"t":0.0}
    {"arrival":0.0,"dev":null,"ev":"job","isolated":false,"job":3,"t":0.0}
    {"blocks":10,"ev":"begin","job":1,"mem":9000000000,"t":1.0,"task":0,"threads":64}
    {"dev":0,"ev":"grant","t":1.0,"task":0}
    {"blocks":10,"ev":"begin","job":2,"mem":8000000000,"t":1.0,"task":1,"threads":64}
    {"ev":"wait","t":1.0,"task":1}
    {"blocks":10,"ev":"begin","job":3,"mem":99000000000,"t":1.0,"task":2,"threads":64}
    {"ev":"refuse","t":1.0,"task":2,"why":"the task needs 99000000000 bytes; the largest device has 14680064000 bytes"}
    {"ev":"end","job":3,"t":1.0}
    {"ev":"free","t":3.0,"task":0}
    {"dev":0,"ev":"grant","t":3.0,"task":1}
    {"ev":"end","job":1,"t":3.0}
    {"ev":"free","t":5.0,"task":1}
    {"ev":"end","job":2,"t":5.0}
    exit 0
    "#);
}

#[test]
fn a_replay_answers_begins_and_frees() {
    let begin = |task: u64, mem: u64, blocks: u64, threads: u64| {
        format!(
            r#"{{"ev":"begin","task":{task},"job":{task},"mem":{mem},"blocks":{blocks},"threads":{threads}}}"#
        )
    };
    let free = |task: u64| format!(r#"{{"ev":"free","task":{task}}}"#);
    let log = [
        begin(1, 9 * GB, 10, 64),
        begin(1, GB, 1, 32),
        begin(2, 8 * GB, 1 << 31, 1024),
        begin(3, 1 << 63, 1, 32),
        begin(4, 0, 0, 32),
        begin(5, 0, 1, 1025),
        free(9),
        free(1),
        free(2),
        free(2),
    ];
    let args = ["--node", "v100-16gb,1", "--replay", "in"];
    assert_snapshot!(run(&log.join("\n"), &args), @r#"
    {"devices":[{"blocks_per_sm":32,"dev":0,"max_workers":null,"mem":14680064000,"sms":80,"warps_per_sm":64}],"ev":"node","order":"arrival","policy":"tessera","workers":null}
    {"blocks":10,"ev":"begin","job":1,"mem":9000000000,"t":0.0,"task":1,"threads":64}
    {"dev":0,"ev":"grant","t":0.0,"task":1}
    {"blocks":1,"ev":"begin","job":1,"mem":1000000000,"t":0.0,"task":1,"threads":32}
    {"ev":"refuse","t":0.0,"task":1,"why":"task 1 has already begun and was not freed"}
    {"blocks":2147483648,"ev":"begin","job":2,"mem":8000000000,"t":0.0,"task":2,"threads":1024}
    {"ev":"wait","t":0.0,"task":2}
    {"blocks":1,"ev":"begin","job":3,"mem":9223372036854775808,"t":0.0,"task":3,"threads":32}
    {"ev":"refuse","t":0.0,"task":3,"why":"the task needs 9223372036854775808 bytes; the largest device has 14680064000 bytes"}
    {"blocks":0,"ev":"begin","job":4,"mem":0,"t":0.0,"task":4,"threads":32}
    {"ev":"refuse","t":0.0,"task":4,"why":"blocks is 0; a launch has at least 1"}
    {"blocks":1,"ev":"begin","job":5,"mem":0,"t":0.0,"task":5,"threads":1025}
    {"ev":"refuse","t":0.0,"task":5,"why":"threads is 1025; a block has 1 to 1024"}
    {"ev":"free","t":0.0,"task":9}
    {"ev":"refuse","t":0.0,"task":9,"why":"task 9 neither lives nor waits"}
    {"ev":"free","t":0.0,"task":1}
    {"dev":0,"ev":"grant","t":0.0,"task":2}
    {"ev":"free","t":0.0,"task":2}
    {"ev":"free","t":0.0,"task":2}
    {"ev":"refuse","t":0.0,"task":2,"why":"task 2 neither lives nor waits"}
    exit 0
    "#);
    let (out, _, status) = raw("", &args);
    assert_eq!((lines(&out).len(), status), (1, 0), "an empty file gives the node's line");
}

/// Managed memory may be given, comes back as it was, and is soft for `tessera` alone.
#[test]
fn managed_memory_in_jobs_and_replays() {
    let job = r#"{"arrival":0.0,"id":1,"isolated":false,"mem":5,"phases":[{"blocks":1,"demand":0.0,"gpu":1.0,"managed":40000000000,"mem":5,"threads":32}]}"#;
    let node = ["--node", "v100-16gb,1", "--jobs", "in"];
    assert_eq!(run(job, &[&node[..], &["--print-jobs"]].concat()), format!("{job}\nexit 0"));
    let answers = |policy| {
        let (out, ..) = raw(job, &[&node[..], &["--events", "-", "--policy", policy]].concat());
        lines(&out).iter().map(|line| line["ev"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(answers("tessera"), ["node", "job", "begin", "grant", "free", "end"]);
    assert_eq!(answers("alg3"), ["node", "job", "begin", "refuse", "end"]);
    let begin = r#"{"ev":"begin","task":1,"job":1,"mem":1,"managed":-1,"blocks":1,"threads":32}"#;
    assert_snapshot!(run(begin, &["--node", "v100-16gb,1", "--replay", "in"]), @r"
    tessera: in:1:managed: found -1; expected a whole number from 0 to 18446744073709551615
    exit 1
    ");
}

/// Without a layout, `tessera` makes the instances; the other policies have whole GPUs.
#[test]
fn instances_follow_the_tasks() {
    let begin = |task: u64, gb: u64| {
        let mem = gb * GB;
        format!(r#"{{"ev":"begin","task":{task},"job":{task},"mem":{mem},"blocks":1,"threads":32}}"#)
    };
    let log = [begin(1, 8), begin(2, 30), r#"{"ev":"free","task":1}"#.to_owned()].join("\n");
    let args = ["--node", "a100-40gb,1", "--replay", "in", "--policy", "tessera,alg3"];
    assert_snapshot!(run(&log, &args), @r#"
    {"devices":[],"ev":"node","gpus":1,"model":"a100-40gb","order":"arrival","policy":"tessera","workers":null}
    {"devices":[{"blocks_per_sm":32,"dev":4,"gpu":0,"max_workers":null,"mem":10000000000,"profile":"2g.10gb","sms":28,"start":4,"warps_per_sm":64}],"ev":"layout","t":0.0}
    {"blocks":1,"ev":"begin","job":1,"mem":8000000000,"t":0.0,"task":1,"threads":32}
    {"dev":4,"ev":"grant","t":0.0,"task":1}
    {"blocks":1,"ev":"begin","job":2,"mem":30000000000,"t":0.0,"task":2,"threads":32}
    {"ev":"wait","t":0.0,"task":2}
    {"ev":"free","t":0.0,"task":1}
    {"devices":[{"blocks_per_sm":32,"dev":0,"gpu":0,"max_workers":null,"mem":40000000000,"profile":"7g.40gb","sms":98,"start":0,"warps_per_sm":64}],"ev":"layout","t":0.0}
    {"dev":0,"ev":"grant","t":0.0,"task":2}
    {"devices":[{"blocks_per_sm":32,"dev":0,"max_workers":null,"mem":40000000000,"sms":108,"warps_per_sm":64}],"ev":"node","order":"arrival","policy":"alg3","workers":null}
    {"blocks":1,"ev":"begin","job":1,"mem":8000000000,"t":0.0,"task":1,"threads":32}
    {"dev":0,"ev":"grant","t":0.0,"task":1}
    {"blocks":1,"ev":"begin","job":2,"mem":30000000000,"t":0.0,"task":2,"threads":32}
    {"dev":0,"ev":"grant","t":0.0,"task":2}
    {"ev":"free","t":0.0,"task":1}
    exit 0
    "#);
}

#[test]
fn a_file_that_is_not_text_is_named_by_line_and_byte() {
    for option in ["--jobs", "--replay"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("in"), b"\n\n{\"ev\":\xff}\n").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
        command.current_dir(dir.path()).args(["simulate", "case", "--node", "v100-16gb,1", option, "in"]);
        let out = command.output().unwrap();
        assert_eq!(String::from_utf8(out.stderr).unwrap(), "tessera: in:3:7: not UTF-8 text\n");
        assert_eq!(out.status.code(), Some(1));
    }
}

/// A mean or ratio of nothing is not 0.
#[test]
fn where_no_job_finished_there_is_nothing_to_compare() {
    let job = r#"{"id":1,"arrival":0,"isolated":false,"mem":99000000000,"phases":[{"gpu":1,"mem":99000000000,"blocks":1,"threads":32,"demand":0}]}"#;
    let node = ["--node", "v100-16gb,1", "--jobs", "in"];
    let (out, _, status) = raw(job, &[&node[..], &["--json"]].concat());
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["turnaround_vs_sa"], &value["throughput_vs_sa"]), (&Value::Null, &Value::Null));
    assert_eq!((&value["crashed"], status), (&Value::from(1), 0));
    assert_snapshot!(run(job, &node), @r"
    times in seconds

    POLICY   WORKERS  JOBS  CRASHED  MAKESPAN  JOBS/S  JOBS/S/SA  TURNAROUND  TURNAROUND/SA  WAIT  LONGEST  MEMORY  WARPS  SLOWDOWN
    tessera        4     1        1       0.0   0.000          -         0.0              -   0.0      0.0    0.0%   0.0%      0.0%
    exit 0
    ");
}

#[test]
fn bad_input_is_named_by_file_line_and_field() {
    let jobs = r#"{"id":1,"arrival":-1,"isolated":false,"mem":5,"phases":[{"gpu":1,"mem":9,"blocks":0,"threads":32,"demand":2}]}
nonsense
{"id":2,"arrival":0,"isolated":0,"mem":5,"colour":1}
"#;
    assert_snapshot!(run(jobs, &["--node", "v100-16gb,1", "--jobs", "in"]), @r"
    tessera: in:1:arrival: found -1; expected seconds, 0 or more
    in:1:phases[0].demand: found 2; expected a number from 0 to 1
    in:1:phases[0].mem: 9 bytes, above the 5 bytes of the job
    in:1:phases[0].blocks: blocks is 0; a launch has at least 1
    in:2:2: not JSON: expected ident at line 1 column 2
    in:3:colour: unknown field; expected id, arrival, isolated, mem, phases
    in:3:isolated: found 0; expected true or false
    in:3:phases: missing; expected a list
    exit 1
    ");
    let log = r#"{"ev":"begin","task":-1,"job":1,"mem":1,"blocks":1}
{"ev":"fre","task":1}
"#;
    assert_snapshot!(run(log, &["--node", "v100-16gb,1", "--replay", "in"]), @r#"
    tessera: in:1:task: found -1; expected a whole number from 0 to 18446744073709551615
    in:1:threads: missing; expected a whole number from 0 to 18446744073709551615
    in:2:ev: found "fre"; expected "begin" or "free"
    exit 1
    "#);
    // A field that comes twice, also in a phase.
    let twice =
        r#"{"id":1,"arrival":0,"isolated":false,"id":2,"mem":5,"phases":[{"host":1},{"host":1,"host":2}]}"#;
    assert_snapshot!(run(twice, &["--node", "v100-16gb,1", "--jobs", "in"]), @r"
    tessera: in:1:id: comes twice
    in:1:phases[1].host: comes twice
    exit 1
    ");
    let twice = r#"{"ev":"free","task":1,"task":1}"#;
    assert_snapshot!(run(twice, &["--node", "v100-16gb,1", "--replay", "in"]), @r"
    tessera: in:1:task: comes twice
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "v100-16gb,1", "--replay", "in", "--policy", "sa"]), @r"
    tessera: --policy sa: binds whole jobs to devices, but a replay has tasks only
    hint: tessera, alg3, alg2, case-mig or schedgpu
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "a100-40gb,0", "--mix", "rodinia:W1"]), @r"
    tessera: --node a100-40gb,0: 0 GPUs: a node has 1 to 64
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "v100-16gb,1", "--mix", "rodinia:W9"]), @r"
    tessera: --mix rodinia:W9 is not a mix: rodinia:W1 to W8, rodinia:LARGE-SMALL:JOBS, darknet:predict, detect, generate, train or mix, mig:SYSTEM:ISOLATED-SHARED or mig-small:SYSTEM:ISOLATED-SHARED with a system A to D
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "v100-16gb,1", "--mix", "rodinia:W1", "--policy", "best"]), @r"
    tessera: --policy best: unknown policy
    hint: tessera, alg3, alg2, case-mig, sa, cg, schedgpu, slurm
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "v100-16gb,1"]), @r"
    tessera: nothing to run: give --mix, --jobs or --replay
    exit 1
    ");
    assert_snapshot!(run("", &["--node", "v100-16gb,1", "--mix", "rodinia:W1", "--workers", "0"]), @r"
    tessera: --workers 0: no job could start
    hint: 1 or more
    exit 1
    ");
}
