//! A budget of watts over GPUs.
//!
//! # Problem
//!
//! Every GPU has its applications. Give each a cap and a state, so that the caps add up to no more than the budget and
//! the throughput of all is the highest.
//!
//! # Approach
//!
//! For each GPU and calibrated cap, Problem 1 says what throughput is to be had. Which cap for whom is a knapsack with one
//! choice for each GPU: dynamic programming over watts, from the lowest caps upwards, in the largest unit that divides all
//! differences between caps. It is exact.

use std::collections::BTreeMap;

use crate::choose::choose;
use crate::model::Model;
use crate::question::{Candidate, ChooseError, Problem, Question};
use power::Features;

/// One GPU and who runs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name, such as `n1:0`.
    pub gpu: String,
    /// Two applications or more.
    pub apps: Vec<String>,
    /// Their counters.
    pub features: Vec<Features>,
}

/// What the GPUs get.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Division {
    /// The candidate of each group, in their order.
    pub chosen: Vec<Candidate>,
    /// Sum of the caps, W.
    pub used_w: u64,
    /// Sum of the throughputs.
    pub throughput: f64,
    /// Whether no other division is better. False only if the table of watts would be too large: then caps were rounded up
    /// to a coarser unit.
    pub exact: bool,
}

/// Why the budget is not divided.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DivideError {
    /// The model cannot tell about the group with this index.
    #[error("{error}")]
    Group {
        /// The index.
        at: usize,
        /// What is wrong.
        error: ChooseError,
    },
    /// Under no cap does every application of this GPU keep enough.
    #[error("{gpu}: {reason}")]
    NothingAllowed {
        /// The GPU.
        gpu: String,
        /// As [`crate::Choice::reason`].
        reason: String,
    },
    /// Even the lowest caps are too much.
    #[error(
        "the budget of {budget_w} W is too small: the lowest caps that keep every application above alpha add up to {least_w} W"
    )]
    Budget {
        /// The budget.
        budget_w: u64,
        /// What is needed.
        least_w: u64,
    },
}

/// Entries of the table of watts, at most: two bytes each.
const LARGEST_TABLE: u64 = 20_000_000;

/// What a GPU can have: cap and best candidate, caps ascending, throughput rising.
type Options = Vec<Candidate>;

/// Divides `budget_w` watts. Each application keeps more than `alpha`, as in [`choose`].
///
/// Of equally good divisions, the one that uses fewer watts is taken.
///
/// # Errors
///
/// [`DivideError`]; every group gets a cap or none does.
pub fn divide(
    model: &Model,
    groups: &[Group],
    budget_w: u64,
    alpha: f64,
    guard: bool,
) -> Result<Division, DivideError> {
    // Many GPUs run the same.
    let mut known: BTreeMap<&[String], Options> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        if !known.contains_key(group.apps.as_slice()) {
            known.insert(&group.apps, options(model, group, at, alpha, guard)?);
        }
    }
    let options: Vec<&Options> = groups.iter().map(|group| &known[group.apps.as_slice()]).collect();
    let least_w: u64 = options.iter().map(|of| watts(&of[0])).sum();
    let Some(spare_w) = budget_w.checked_sub(least_w) else {
        return Err(DivideError::Budget { budget_w, least_w });
    };
    let (unit, exact) = unit(&options, spare_w);
    let chosen: Vec<Candidate> =
        spread(&options, spare_w, unit).iter().zip(&options).map(|(at, of)| of[*at].clone()).collect();
    let used_w = chosen.iter().map(watts).sum();
    Ok(Division { used_w, throughput: chosen.iter().map(|c| c.throughput).sum(), exact, chosen })
}

fn watts(candidate: &Candidate) -> u64 {
    u64::from(candidate.cap.watts())
}

/// The best candidate under each cap. A cap that is not better than a lower one is left out.
fn options(model: &Model, group: &Group, at: usize, alpha: f64, guard: bool) -> Result<Options, DivideError> {
    let (apps, features) = (group.apps.as_slice(), group.features.as_slice());
    let mut options: Options = Vec::new();
    let mut nothing = None;
    for cap in model.caps() {
        let question = Question { apps, features, problem: Problem::Throughput(*cap), alpha, guard };
        let choice = choose(model, &question).map_err(|error| DivideError::Group { at, error })?;
        nothing = choice.reason(&question).or(nothing);
        let better = |c: &Candidate| options.last().is_none_or(|last| c.throughput > last.throughput);
        options.extend(choice.chosen.filter(better));
    }
    if options.is_empty() {
        let reason = nothing.unwrap_or_default();
        return Err(DivideError::NothingAllowed { gpu: group.gpu.clone(), reason });
    }
    Ok(options)
}

/// The unit of the table, W, and whether it loses nothing.
fn unit(options: &[&Options], spare_w: u64) -> (u64, bool) {
    let above = options.iter().flat_map(|of| of.iter().map(|c| watts(c) - watts(&of[0])));
    let most: u64 = options.iter().map(|of| watts(&of[of.len() - 1]) - watts(&of[0])).sum();
    let exact = above.fold(0, gcd).max(1);
    let groups = u64::try_from(options.len()).unwrap_or(u64::MAX).max(1);
    let coarse = spare_w.min(most).saturating_mul(groups).div_ceil(LARGEST_TABLE);
    if coarse <= exact { (exact, true) } else { (coarse, false) }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The index of each group's option: the highest sum of throughputs for `spare_w` watts above the lowest caps.
fn spread(options: &[&Options], spare_w: u64, unit: u64) -> Vec<usize> {
    let cost = |of: &Options, at: usize| (watts(&of[at]) - watts(&of[0])).div_ceil(unit);
    let most: u64 = options.iter().map(|of| cost(of, of.len() - 1)).sum();
    let width = usize::try_from((spare_w / unit).min(most)).unwrap_or(usize::MAX - 1) + 1;
    // `best[w]`: the highest throughput of the groups so far for at most `w` units.
    let mut best = vec![0.0; width];
    let mut taken: Vec<Vec<u16>> = Vec::with_capacity(options.len());
    for of in options {
        let costs: Vec<usize> =
            (0..of.len()).map(|at| usize::try_from(cost(of, at)).unwrap_or(usize::MAX)).collect();
        let (mut next, mut takes) = (vec![0.0; width], vec![0_u16; width]);
        for w in 0..width {
            let affordable = costs.iter().take_while(|cost| **cost <= w);
            let worth = |(at, cost): (u16, &usize)| (best[w - cost] + of[usize::from(at)].throughput, at);
            let (sum, at) = (0..).zip(affordable).map(worth).fold((f64::NEG_INFINITY, 0), higher);
            (next[w], takes[w]) = (sum, at);
        }
        best = next;
        taken.push(takes);
    }
    // The fewest watts with which the highest sum is to be had.
    let highest = best[width - 1];
    let mut left = best.iter().position(|sum| *sum >= highest).unwrap_or(width - 1);
    let mut picks = vec![0; options.len()];
    for (at, of) in options.iter().enumerate().rev() {
        picks[at] = usize::from(taken[at][left]);
        left -= usize::try_from(cost(of, picks[at])).unwrap_or(0);
    }
    picks
}

/// The higher sum; of equals the first, which is cheaper.
fn higher(a: (f64, u16), b: (f64, u16)) -> (f64, u16) {
    if b.0 > a.0 { b } else { a }
}
