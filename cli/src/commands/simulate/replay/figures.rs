//! Waits and use of GPUs under one set of rules.

use protocol::Isolation;

use super::ask::AskedPerNode;
use super::{Past, Played};
use replay::Instances;

/// A wait of at most so long counts as a start at once, s: Slurm's own cycles take as long.
const AT_ONCE_S: u64 = 60;

/// Kinds of jobs by what they asked, for people.
pub(super) const KINDS: [&str; 3] = ["part of a GPU", "one GPU", "several GPUs"];

/// Returns the job's index in [`KINDS`].
fn kind(asked: &AskedPerNode, nodes: usize) -> usize {
    match (&asked.request.isolation, asked.request.gpus) {
        (Isolation::Whole, gpus) => usize::from(gpus.unwrap_or(1) > 1 || nodes > 1) + 1,
        (_, Some(_)) => 2,
        _ => 0,
    }
}

/// Results of the jobs under one set of rules. Waits are of the jobs that started, s.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) started: usize,
    pub(super) refused: usize,
    pub(super) at_once: usize,
    pub(super) mean_s: u64,
    pub(super) median_s: u64,
    /// Nine of ten jobs waited at most so long.
    pub(super) most_s: u64,
    pub(super) longest_s: u64,
    /// Mean wait of each of [`KINDS`]; `None`: no such job started.
    pub(super) by_kind_s: [Option<u64>; 3],
    /// The part of all slices that was in jobs from the first submission to the last, percent; `None`: not known.
    pub(super) in_jobs_percent: Option<u64>,
    pub(super) instances: Instances,
}

pub(super) fn of(past: &Past, played: &Played) -> Figures {
    let mut waits: Vec<u64> = Vec::new();
    let mut of_kind: [Vec<u64>; 3] = Default::default();
    let mut instances = Instances::default();
    for ((job, asked), ran) in past.jobs.iter().zip(&past.asked).zip(&played.ran) {
        let Some(ran) = ran else { continue };
        let wait = ran.start.saturating_sub(job.eligible);
        waits.push(wait);
        of_kind[kind(asked, job.nodes)].push(wait);
        instances += ran.instances;
    }
    waits.sort_unstable();
    // The smallest wait that so many of a hundred do not exceed.
    let percentile = |percent: usize| {
        waits.get((waits.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
    };
    Figures {
        started: waits.len(),
        refused: past.jobs.len() - waits.len(),
        at_once: waits.iter().filter(|wait| **wait <= AT_ONCE_S).count(),
        mean_s: mean(&waits).unwrap_or(0),
        median_s: percentile(50),
        most_s: percentile(90),
        longest_s: percentile(100),
        by_kind_s: of_kind.map(|waits| mean(&waits)),
        in_jobs_percent: held(past, played),
        instances,
    }
}

fn mean(waits: &[u64]) -> Option<u64> {
    waits.iter().sum::<u64>().checked_div(waits.len() as u64)
}

/// The first submission and the last.
pub(super) fn span(past: &Past) -> (u64, u64) {
    let times = || past.jobs.iter().map(|job| job.eligible);
    (times().min().unwrap_or(0), times().max().unwrap_or(0))
}

fn held(past: &Past, played: &Played) -> Option<u64> {
    let (from, to) = span(past);
    let held = |(job, ran): (&crate::slurm::sacct::jobs::Accounted, &Option<super::Start>)| {
        let ran = ran.as_ref()?;
        let end = ran.start.saturating_add(job.ran_s).min(to);
        Some(u128::from(end.saturating_sub(ran.start)) * u128::from(ran.slices))
    };
    let sum: u128 = past.jobs.iter().zip(&played.ran).filter_map(held).sum();
    let all = u128::from(played.slices) * u128::from(to - from);
    (sum * 100).checked_div(all).and_then(|percent| u64::try_from(percent).ok())
}
