//! `tessera usage` as a person reads it. sacct is a stand-in.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

use std::fs;

use insta::assert_snapshot;

/// The widths that sacct is asked for.
const WIDTHS: [usize; 8] = [24, 64, 64, 40, 12, 256, 12, 512];

fn usage(lines: &[[&str; 8]], args: &[&str]) -> String {
    let line = |cells: &[&str; 8]| {
        let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$} "));
        cells.collect::<String>() + "\n"
    };
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("records"), lines.iter().map(line).collect::<String>()).unwrap();
    slurm::program(dir.path(), "sacct", "echo \"$*\" > asked\ncat records");
    slurm::program(dir.path(), "id", "case \"$*\" in *nobody2*) exit 1 ;; esac\necho bob");
    let known = "case \"$*\" in *account*) echo bio; echo chem ;; *) echo alice; echo nobody ;; esac";
    slurm::program(dir.path(), "sacctmgr", known);
    let said = slurm::tessera(dir.path(), &[&["usage"], args].concat());
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap_or_default();
    let whose = asked.split(',').next_back().unwrap_or_default();
    format!("{said}\n{}", whose.trim().trim_start_matches("TRESUsageOutTot%512 "))
}

const JOBS: [[&str; 8]; 5] = [
    ["9", "9", "bob", "COMPLETED", "1800", "gres/gpu=8,license/slice=56", "1", ""],
    ["15", "14_1", "bob", "COMPLETED", "3600", "gres/shard=5,license/slice=2", "1", ""],
    ["15.batch", "14_1.batch", "", "COMPLETED", "3600", "", "1", "gres/gpuutil=25"],
    ["14", "14_2", "bob", "RUNNING", "3600", "license/slice=2", "1", ""],
    ["16", "16", "bob", "COMPLETED", "3600", "cpu=2", "1", ""],
];

#[test]
fn jobs_and_arrays_have_a_line_each() {
    assert_snapshot!(usage(&JOBS, &[]), @r"
    JOB    JOBS  GPU HOURS  SLICE HOURS  USED  WASTED
    9         1        4.0         28.0     -       -
    14        2        0.0          4.0  0.50     1.5
    total     3        4.0         32.0  0.50     1.5
    Utilisation is recorded for 1 of 3 jobs: USED and WASTED are theirs.
    exit 0
    -u bob
    ");
    assert_snapshot!(usage(&JOBS[..1], &["--account", "bio", "--since", "7d"]), @r"
    USER   JOBS  GPU HOURS  SLICE HOURS  USED  WASTED
    bob       1        4.0         28.0     -       -
    total     1        4.0         28.0     -       -
    Utilisation is recorded for 0 of 1 jobs: USED and WASTED are theirs.
    exit 0
    -a -A bio
    ");
    assert_snapshot!(usage(&[], &["--user", "alice"]), @r"
    alice had no GPUs in the last 30 days
    exit 0
    -u alice
    ");
}

#[test]
fn without_slices_nobody_knows_what_a_busy_job_used() {
    let busy = [
        ["9", "9", "bob", "COMPLETED", "3600", "gres/gpu=2", "1", ""],
        ["9.extern", "9.extern", "", "COMPLETED", "3600", "", "1", "gres/gpuutil=97"],
    ];
    assert_snapshot!(usage(&busy, &[]), @r"
    JOB    JOBS  GPU HOURS  SLICE HOURS  USED  WASTED
    9         1        2.0            -     -       -
    total     1        2.0            -     -       -
    Slices are counted for 0 of 1 jobs; USED and WASTED are in slice hours.
    To count them, add Licenses=slice:N to slurm.conf and license/slice to AccountingStorageTRES.
    exit 0
    -u bob
    ");
    let json = usage(&busy, &["--json"]);
    let value: serde_json::Value = serde_json::from_str(json.split_once("exit").unwrap().0).unwrap();
    let total = &value["total"];
    assert!(total["used_slice_s"].is_null() && total["wasted_slice_s"].is_null(), "{json}");
    assert_snapshot!(usage(&[&busy[..], &JOBS[1..3]].concat(), &[]), @r"
    JOB    JOBS  GPU HOURS  SLICE HOURS  USED  WASTED
    9         1        2.0            -     -       -
    14        1        0.0          2.0  0.50     1.5
    total     2        2.0          2.0  0.50     1.5
    Slices are counted for 1 of 2 jobs; USED and WASTED are in slice hours.
    To count them, add Licenses=slice:N to slurm.conf and license/slice to AccountingStorageTRES.
    exit 0
    -u bob
    ");
}

#[test]
fn an_unknown_name_is_an_error_and_not_nothing() {
    assert_snapshot!(usage(&[], &["--account", "bios"]), @r"
    stderr: tessera: Slurm's accounting shows you no account bios
    stderr: hint: did you mean bio? there are bio, chem
    exit 1
    -a -A bios
    ");
    assert_snapshot!(usage(&JOBS, &["--user", "nobody2"]), @r"
    stderr: tessera: this machine knows no user nobody2
    stderr: hint: did you mean nobody? there are alice, nobody
    exit 1
    ");
    assert!(
        usage(&[], &["--account", "Bio", "--since", "12h"])
            .starts_with("account Bio had no GPUs in the last 12 h\n")
    );
    assert!(usage(&[], &["--user", "60001"]).starts_with("60001 had no GPUs"));
}

#[test]
fn usage_refuses_lists_of_names_and_wrong_times() {
    for name in ["--user=a,b", "--account=", "--user=a b", "--since=0", "--since=4000d"] {
        assert!(usage(&JOBS, &[name]).contains("exit 2"), "{name}");
    }
}

#[test]
fn usage_json_has_rows_and_a_total() {
    let json = usage(&JOBS[1..3], &["--json"]);
    let (json, _) = json.split_once("exit").unwrap();
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["rows"][0]["job"], "14");
    assert_eq!(value["total"]["used_slice_s"], 1800);
}
