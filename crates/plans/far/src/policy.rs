//! All strategies by name.

use std::fmt;
use std::str::FromStr;

use super::area_bound::by_area;
use super::default_policy::best;
use super::fixed_partitions::{Fixed, fix_part, fix_part_best, miso};
use super::paper::far;
use super::problem::{Micros, Problem, ProblemError};
use super::schedule::Schedule;
use super::table::SearchTable;

/// The strategy that plans a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default: [`best()`](crate::best()).
    Tessera,
    /// The paper's three phases: [`far()`](crate::far()).
    Far,
    /// MISO-opt: [`miso`](crate::miso()).
    Miso,
    /// FixPart(P) with the sizes of the partition's instances in the order of their first slice.
    FixPart(Vec<u8>),
    /// The best of FixPart(P) over all partitions P.
    FixPartBest,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy {0:?}: tessera, far, miso, fixpart-best or fixpart:SIZES such as fixpart:4,2,1")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "tessera" => Ok(Self::Tessera),
            "far" => Ok(Self::Far),
            "miso" => Ok(Self::Miso),
            "fixpart-best" => Ok(Self::FixPartBest),
            _ => {
                let sizes = name.strip_prefix("fixpart:").map(|s| s.split(',').map(str::parse).collect());
                match sizes {
                    Some(Ok(sizes)) => Ok(Self::FixPart(sizes)),
                    _ => Err(UnknownPolicy(name.to_owned())),
                }
            }
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tessera => f.write_str("tessera"),
            Self::Far => f.write_str("far"),
            Self::Miso => f.write_str("miso"),
            Self::FixPartBest => f.write_str("fixpart-best"),
            Self::FixPart(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u8::to_string).collect();
                write!(f, "fixpart:{}", sizes.join(","))
            }
        }
    }
}

/// A plan, the problem it solves and what is known about it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The given problem; for a fixed partition, with its instances in place from the beginning of the plan.
    pub problem: Problem,
    /// Runs and reconfigurations.
    pub schedule: Schedule,
    /// A bound: no schedule for the given problem ends earlier, µs. Policies other than the default bound by areas alone.
    pub lower_bound: Micros,
    /// Whether the makespan is the lower bound.
    pub proven_optimal: bool,
}

/// Why a policy has no plan for a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The GPU has no such partition.
    #[error("the GPU has no partition {0}; its partitions are {1}")]
    NoPartition(String, String),
    /// Some task runs at no size that the policy's partitions have.
    #[error("{0}: some job runs at no size that this policy offers it")]
    NoSize(Policy),
    /// A policy that starts from empty GPUs was asked to plan on others.
    #[error("{0} plans on empty GPUs only")]
    NotEmpty(Policy),
    /// The problem fails its own checks.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

/// Plans `problem` with `policy`. `budget` is in steps ([`super::STEPS_PER_MS`]); only the default policy uses it.
///
/// # Errors
///
/// [`PolicyError`] if the policy cannot plan this problem; the default and `far` plan every problem that
/// [`Problem::check`] passes.
pub fn plan(problem: &Problem, policy: &Policy, budget: u64) -> Result<Answer, PolicyError> {
    problem.check()?;
    let any_state = matches!(policy, Policy::Tessera | Policy::Far);
    if !any_state && !problem.starts_empty() {
        return Err(PolicyError::NotEmpty(policy.clone()));
    }
    let none = || PolicyError::NoSize(policy.clone());
    let (solved, schedule) = match policy {
        Policy::Tessera => {
            let plan = best(problem, budget);
            return Ok(Answer {
                problem: problem.clone(),
                schedule: plan.schedule,
                lower_bound: plan.lower_bound,
                proven_optimal: plan.proven_optimal,
            });
        }
        Policy::Far => (problem.clone(), far(problem).schedule),
        Policy::Miso => (problem.clone(), miso(problem).ok_or_else(none)?),
        Policy::FixPartBest => fixed(fix_part_best(problem).ok_or_else(none)?),
        Policy::FixPart(sizes) => {
            let partition = find(problem, sizes)?;
            fixed(fix_part(problem, &partition).map_err(|_| none())?)
        }
    };
    // A partition that is there from the beginning saves the creations that the bound counts.
    let bound = by_area(&SearchTable::new(&solved));
    let proven_optimal = schedule.makespan() <= bound;
    Ok(Answer { problem: solved, schedule, lower_bound: bound, proven_optimal })
}

fn fixed(fixed: Fixed) -> (Problem, Schedule) {
    (fixed.problem, fixed.schedule)
}

fn find(problem: &Problem, sizes: &[u8]) -> Result<Vec<usize>, PolicyError> {
    let of =
        |partition: &[usize]| -> Vec<u8> { partition.iter().map(|&p| problem.tree.nodes[p].size).collect() };
    let partitions = problem.tree.partitions();
    let name = |sizes: &[u8]| sizes.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    let found = partitions.iter().find(|p| of(p) == sizes);
    found.cloned().ok_or_else(|| {
        let all: Vec<String> = partitions.iter().map(|p| name(&of(p))).collect();
        PolicyError::NoPartition(name(sizes), all.join(" "))
    })
}
