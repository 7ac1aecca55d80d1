//! Checks that jobs were put together as they should be.

use crate::finding::{Finding, finding};

/// Jobs of a GPU, by their places in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// Who has it already has number `None`; else the job that opened it.
    pub first: Option<usize>,
    /// Jobs that were put beside, in the order taken.
    pub partners: Vec<usize>,
}

/// Checks groups of the jobs `0..queue`, in the order in which they were formed. Empty: no objection.
///
/// `speedup` weighs the jobs of the GPU of group `at`, with those that have it already: `None` if they may not run there together.
/// `least` is what it must exceed there for the first partner. Each group must be opened by the first job that is left; each
/// partner must be the best of the next `next` that are left, and better than without; nobody may be left out who would be.
pub fn audit_groups(
    queue: usize,
    groups: &[Grouped],
    next: usize,
    least: impl Fn(usize) -> f64,
    speedup: impl Fn(usize, &[usize]) -> Option<f64>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut left: Vec<usize> = (0..queue).collect();
    for (at, group) in groups.iter().enumerate() {
        if group.first.is_some() && group.first != left.first().copied() {
            findings
                .push(finding(None, format!("group {at}: not the first of those that are left opens it")));
        }
        left.retain(|job| Some(*job) != group.first);
        let may: Vec<usize> = left.iter().copied().take(next).collect();
        let mut members: Vec<usize> = group.first.into_iter().collect();
        let mut known = least(at);
        for step in 0..=group.partners.len() {
            let free = may.iter().copied().filter(|job| !members.contains(job));
            let with = |job: usize| {
                let all: Vec<usize> = members.iter().copied().chain([job]).collect();
                speedup(at, &all)
            };
            let best = free.filter_map(with).fold(known, f64::max);
            match group.partners.get(step) {
                None if best > known => {
                    findings.push(finding(
                        None,
                        format!("group {at}: one more partner reaches {best}, not {known}"),
                    ));
                }
                None => {}
                Some(partner) if !may.contains(partner) => {
                    findings
                        .push(finding(None, format!("group {at}: {partner} is not among the next {next}")));
                }
                Some(partner) => {
                    let reached = with(*partner);
                    if reached.is_none_or(|reached| reached <= known || reached < best) {
                        let what = format!("group {at}: {partner} reaches {reached:?}, {best} was to be had");
                        findings.push(finding(None, what));
                    }
                    known = reached.unwrap_or(known);
                    members.push(*partner);
                }
            }
        }
        left.retain(|job| !group.partners.contains(job));
    }
    findings
}
