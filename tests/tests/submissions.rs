//! A short run of `cargo xtask fuzz-submissions`: what it checks, it checks by itself.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use lab::User;
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
    let accepted = last.split(", ").nth(2).unwrap();
    let number = |word: usize| accepted.split([' ', '(']).nth(word).unwrap().parse::<u32>().unwrap();
    assert!(number(0) > 300, "{last}");
    let heterogeneous = number(3);
    assert!(heterogeneous > 0, "{last}");
}

fn fuzzed_24_11(first: &str) {
    let args = ["fuzz-submissions", "--seed", "1", "--first", first, "--count", "60", "--slurm", "24.11"];
    let done = run(Command::new(common::xtask()).args(args)).unwrap();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}

/// Submissions 76,560 and 83,296 each ended slurmctld.
#[test]
fn neither_0_tasks_per_socket_nor_spread_gpus_end_slurmctld_24_11() {
    fuzzed_24_11("76530");
    fuzzed_24_11("83250");
}

/// Each of these ended slurmctld.
#[test]
fn options_that_end_slurmctld_are_refused_24_11() {
    common::with(|cluster| {
        for (options, why) in [
            (&["--spread-job", "--gpus=1"][..], "use --gpus-per-node or --gres, or leave out --spread-job"),
            (&["--spread-job", "--gpus-per-task=1", "-n2"], "use --gpus-per-node or --gres"),
            (&["--spread-job", "--ntasks-per-gpu=1", "-n2", "--gres=gpu:0"], "use --gpus-per-node or --gres"),
            (
                &["--gpus-per-socket=65536", "--sockets-per-node=1", "--gpus-per-task=1", "-n4"],
                "leave out --ntasks-per-socket or --gpus-per-socket",
            ),
        ] {
            let all = [options, &["--wrap=true"]].concat();
            let said = cluster.run(User::Alice, "sbatch", &all).unwrap();
            assert!(said.code != Some(0) && said.stderr.contains(why), "{said:?}");
        }
        cluster.complete(User::Alice, &["--spread-job", "--gres=gpu:1"], "true").unwrap();
    });
}
