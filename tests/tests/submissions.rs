//! A short run of `cargo xtask fuzz-submissions`: what it checks, it checks by itself.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use lab::command::run;

mod common;

#[test]
fn whatever_a_user_submits_placement_stays_on_and_nothing_drains() {
    let series = lab::Slurm::by_default().unwrap().release.series;
    let args = ["fuzz-submissions", "--seed", "1", "--count", "1500", "--slurm", series];
    let done = run(Command::new(common::xtask()).args(args)).unwrap();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let last = done.stdout.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("fuzz-submissions: seed 1, {series}: 1500 submissions, ")),
        "{}",
        done.stdout
    );
    // A run in which nearly everything is refused shows little of what runs.
    let accepted: u32 = last.split(", ").nth(2).unwrap().trim_end_matches(" accepted").parse().unwrap();
    assert!(accepted > 300, "{last}");
}

/// Among these is a job of 0 tasks per socket, with which slurmctld ends.
#[test]
fn no_job_of_0_tasks_per_socket_ends_slurmctld_24_11() {
    let args = ["fuzz-submissions", "--seed", "1", "--first", "76500", "--count", "100", "--slurm", "24.11"];
    let done = run(Command::new(common::xtask()).args(args)).unwrap();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}
