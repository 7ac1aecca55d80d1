//! A short run of `cargo xtask chaos`: what it checks, it checks by itself.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use lab::command::run;

mod common;

const SEED: &str = "507";

/// The seed's first faults, as the run tells them.
const FAULTS: [&str; 4] = ["gpu-sick", "kill-slurmctld", "xid-storm", "gpu-shifted"];

#[test]
fn a_short_run_of_chaos_breaks_no_rule() {
    let series = lab::Slurm::by_default().unwrap().release.series;
    let args = ["chaos", "--seed", SEED, "--jobs", "50", "--slurm", series];
    let done = run(Command::new(common::xtask()).args(args)).unwrap();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let last = done.stdout.lines().last().unwrap();
    // The run ends with the fault that is in force at the fiftieth job; a GPU that is healthy again gets one more job each time.
    let jobs =
        last.strip_prefix(&format!("chaos: seed {SEED}, {series}: ")).and_then(|rest| rest.split(' ').next());
    let jobs: Option<u32> = jobs.and_then(|jobs| jobs.parse().ok());
    assert!(jobs.is_some_and(|jobs| (50..=54).contains(&jobs)), "{}", done.stdout);
    for (at, fault) in FAULTS.iter().enumerate() {
        assert!(done.stdout.contains(&format!(" fault {}: {fault}", at + 1)), "{fault}: {}", done.stdout);
    }
}

#[test]
fn a_run_that_meets_a_violation_says_so_and_fails() {
    let series = lab::Slurm::by_default().unwrap().release.series;
    let args = ["chaos", "--minutes", "0", "--forge", "--slurm", series];
    let done = run(Command::new(common::xtask()).args(args)).unwrap();
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    let found = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("chaos: violation: two owners: jobs 9001 and 9002"));
    assert_eq!(found.count(), 1, "{}", done.stdout);
    let last = done.stdout.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("chaos: seed 1, {series}: 0 jobs, 0 faults, 1 violations, ")),
        "{last}"
    );
    // A run that is not clean leaves its files.
    let dir = done
        .stdout
        .lines()
        .find_map(|line| line.split_once("cluster of Slurm ")?.1.split_once(" in "))
        .unwrap()
        .1;
    std::fs::remove_dir_all(dir).unwrap();
}
