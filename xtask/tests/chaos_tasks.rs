//! `cargo xtask chaos-tasks`, small: with the broker nothing is wrong, and without it memory runs out.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use serde_json::Value;

fn run(options: &[&str]) -> (bool, Value) {
    let dir = tempfile::tempdir().unwrap();
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["chaos-tasks", "--debug", "--dir"]).arg(dir.path()).args(options);
    let done = xtask.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let last = out.lines().last().unwrap_or_else(|| panic!("{err}"));
    let counts = serde_json::from_str(last).unwrap_or_else(|_| panic!("{out}{err}"));
    eprintln!("{err}{counts}");
    (done.status.success(), counts)
}

#[test]
fn with_the_broker_nothing_runs_out_leaks_or_starves() {
    let (is_sound, counts) =
        run(&["--seed", "3", "--jobs", "40", "--kills", "6", "--broker-kills", "3", "--beside", "12"]);
    assert!(is_sound, "{counts}");
    assert_eq!((&counts["jobs"], &counts["killed"]), (&Value::from(40), &Value::from(6)));
    for key in ["oom_driver", "leaked", "over_capacity", "isolated_disturbed", "starved"] {
        assert_eq!(counts[key], 0, "{counts}");
    }
    assert!(counts["broker_restarts"].as_u64().unwrap() >= 1, "{counts}");
}

#[test]
fn without_the_broker_memory_runs_out() {
    let (is_sound, counts) =
        run(&["--seed", "3", "--jobs", "80", "--kills", "6", "--beside", "40", "--no-broker"]);
    assert!(is_sound && counts["oom_driver"].as_u64().unwrap() > 0, "{counts}");
}
