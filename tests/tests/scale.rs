//! A small run of `cargo xtask bench scale`: every phase works on both controllers, and the table has all of them. No time is
//! checked.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use lab::command::run;

mod common;

/// Phases of the table, and how many rows each has: one for each kind of job, of message or of moment, and for the schedulers one more of processor time.
const PHASES: [(&str, usize); 13] = [
    ("memory, ", 6),
    ("fill ", 1),
    ("submissions ", 2),
    ("a submission, ", 5),
    ("a submission under load, ", 10),
    ("query at rest, ", 4),
    ("query under load, ", 4),
    ("sbatch, ", 3),
    ("reconfigure ", 1),
    ("restart ", 1),
    ("backfill, ", 14),
    ("main scheduler's cycle, ", 14),
    ("churn", 3),
];

#[test]
fn a_small_fleet_goes_through_every_phase_on_both_controllers() {
    let series = lab::Slurm::by_default().unwrap().release.series;
    let sizes = ["--nodes", "20", "--pending", "100", "--debug"];
    let done =
        run(Command::new(common::xtask()).args(["bench", "scale", "--slurm", series]).args(sizes)).unwrap();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let head = done.stdout.lines().next().unwrap();
    assert!(head.starts_with(&format!("Slurm {series}.")), "{head}");
    assert!(head.contains(", 20 nodes of 8 GPUs, 100 waiting jobs, "), "{head}");
    for (phase, rows) in PHASES {
        let found = done.stdout.lines().filter(|line| line.starts_with(&format!("| {phase}"))).count();
        assert_eq!(found, rows, "{phase}: {}", done.stdout);
    }
    let said = "scale: 20 nodes and 100 waiting jobs take 2 cores and ";
    assert!(done.stderr.lines().next().unwrap().starts_with(said), "{}", done.stderr);
}
