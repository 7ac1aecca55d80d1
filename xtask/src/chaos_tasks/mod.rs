//! `cargo xtask chaos-tasks`: jobs of GPU tasks on one node, whose processes and broker are killed at random.
//!
//! The node has the real broker, the real library and simulated GPUs, but no Slurm: what prolog, step start and epilog say to
//! the broker is said here. [`node`] is that node, [`job`] one job, [`books`] what the driver, the broker and the programs
//! themselves wrote about it.

mod books;
mod job;
mod node;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde_json::json;

use crate::command::{TaskError, at};
use job::JobCounts;
use node::TaskNode;

/// Options of `cargo xtask chaos-tasks`.
#[derive(Args)]
pub(crate) struct ChaosTasks {
    /// Seed of the jobs, kills and tasks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many jobs
    #[arg(long, default_value_t = 200)]
    jobs: u64,
    /// In how many of them a process is killed
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// How often the broker, its parent or both are killed
    #[arg(long, default_value_t = 0)]
    broker_kills: u64,
    /// How many jobs run at a time
    #[arg(long, default_value_t = 24)]
    beside: u64,
    /// How many GPUs a job may use; a quarter of the jobs has a group of two
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: u16,
    /// Without a broker: programs take what they need at once, and memory must run out
    #[arg(long, conflicts_with = "broker_kills")]
    no_broker: bool,
    /// Use debug builds, which check more and are slower
    #[arg(long)]
    debug: bool,
    /// Directory for the node's files, which stay there; without it, they stay only if something is wrong
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// splitmix64: the `i`th draw of a seed.
fn draw(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `count` of the numbers below `all`, spread at random.
fn some(seed: u64, all: u64, count: u64) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::new();
    let mut i = 0;
    while (chosen.len() as u64) < count.min(all) {
        chosen.insert(draw(seed, i) % all);
        i += 1;
    }
    chosen
}

/// Runs it. False if a rule was broken.
pub(crate) fn run(options: &ChaosTasks) -> Result<bool, TaskError> {
    let kept = options.dir.is_some();
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("tessera-chaos-tasks-{}", std::process::id())),
    };
    let node = TaskNode::make(&dir, options)?;
    let killed = some(options.seed ^ 1, options.jobs, options.kills);
    let broker_killed = some(options.seed ^ 2, options.jobs, options.broker_kills);
    let next = AtomicU64::new(0);
    let turn = || {
        let mut outcome = JobCounts::default();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= options.jobs {
                return outcome;
            }
            if broker_killed.contains(&job) {
                node.kill_broker(draw(options.seed ^ 3, job));
            }
            let plan = job::JobPlan::of(options.seed, job, killed.contains(&job));
            outcome.add(&job::run(&node, &plan));
            if job % 500 == 499 {
                eprintln!("chaos-tasks: {} of {} jobs", job + 1, options.jobs);
            }
        }
    };
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.beside.max(1)).map(|_| scope.spawn(turn)).collect();
        let mut all = JobCounts::default();
        for thread in threads {
            all.add(&thread.join().unwrap_or_default());
        }
        all
    });
    let left = node.end();
    let books = books::read(&node)?;
    for what in left.iter().chain(&books.wrong).chain(&outcome.wrong).take(50) {
        eprintln!("chaos-tasks: {what}");
    }
    let leaked = left.len() as u64;
    let unaccounted = options.jobs != outcome.completed + outcome.killed + outcome.starved;
    let is_bad = [leaked, books.over_capacity, books.isolated_disturbed, outcome.starved, books.other]
        .iter()
        .any(|n| *n > 0);
    let oom_is_right = (books.oom_driver > 0) == options.no_broker;
    let is_sound = !is_bad && oom_is_right && !unaccounted && outcome.wrong.is_empty();
    if is_sound && !kept {
        at(&dir, std::fs::remove_dir_all(&dir))?;
    } else {
        eprintln!("chaos-tasks: files are in {}", dir.display());
    }
    let counts = json!({
        "jobs": options.jobs, "completed": outcome.completed, "killed": outcome.killed,
        "oom_driver": books.oom_driver, "refused_growth": books.refused_growth, "leaked": leaked,
        "over_capacity": books.over_capacity, "isolated_disturbed": books.isolated_disturbed,
        "starved": outcome.starved, "broker_restarts": node.restarts(),
    });
    at(&PathBuf::from("stdout"), writeln!(std::io::stdout(), "{counts}"))?;
    Ok(is_sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_chooses_the_same_jobs_again() {
        let chosen = some(7, 1000, 50);
        assert_eq!((chosen.len(), chosen.last().is_some_and(|last| *last < 1000)), (50, true));
        assert_eq!(chosen, some(7, 1000, 50));
        assert_ne!(chosen, some(8, 1000, 50));
        assert_eq!(some(7, 3, 50).len(), 3);
    }
}
