//! What a choice is worth where the truth is known: the paper's evaluation (section 5.2).

use crate::choose::choose;
use crate::model::Model;
use crate::question::{ChooseError, Problem, Question, least};
use crate::state::State;
use power::Cap;

/// Two applications of Table 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// `TI-MI2`.
    pub name: &'static str,
    /// App1 and App2.
    pub apps: [&'static str; 2],
}

const TABLE_8: &str = include_str!("../data/table8.csv");

/// The 18 workloads of Table 8, in its order.
#[must_use]
pub fn workloads() -> Vec<Workload> {
    let rows = TABLE_8.lines().filter(|line| !line.starts_with('#')).skip(1);
    let workload = |line: &'static str| match line.split(',').collect::<Vec<_>>()[..] {
        [name, a, b] => Some(Workload { name, apps: [a, b] }),
        _ => None,
    };
    rows.filter_map(workload).collect()
}

/// What applications really do in one state under one cap.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The parts, in the order of the applications.
    pub state: State,
    /// The cap.
    pub cap: Cap,
    /// RPerf of each application.
    pub rperf: Vec<f64>,
}

/// One candidate, judged by the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Throughput for Problem 1, throughput per watt for Problem 2.
    pub value: f64,
    /// What the worst-off application keeps.
    pub fairness: f64,
    /// The parts.
    pub state: State,
    /// The cap.
    pub cap: Cap,
}

/// A choice beside the best and the worst that were allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The lowest value that keeps every application above α. `None` if none does.
    pub worst: Option<Judged>,
    /// What the model chose. `None` if it allowed nothing.
    pub proposal: Option<Judged>,
    /// The highest value that keeps every application above α. `None` if none does.
    pub best: Option<Judged>,
}

impl Verdict {
    /// By how much the choice stays below α: above 0 or exactly at α is a violation. `None` if it keeps what was promised.
    #[must_use]
    pub fn violation(&self, alpha: f64) -> Option<f64> {
        self.proposal.as_ref().map(|p| alpha - p.fairness).filter(|depth| *depth >= 0.0)
    }
}

/// Chooses, and judges the choice by the truth about every candidate.
///
/// # Errors
///
/// [`ChooseError`] as [`choose`].
pub fn evaluate(model: &Model, question: &Question<'_>, truths: &[Truth]) -> Result<Verdict, ChooseError> {
    let judged = |truth: &Truth| {
        let throughput: f64 = truth.rperf.iter().sum();
        let value = match question.problem {
            Problem::Throughput(_) => throughput,
            Problem::Efficiency => throughput / f64::from(truth.cap.watts()),
        };
        Judged { value, fairness: least(&truth.rperf), state: truth.state.clone(), cap: truth.cap }
    };
    let in_question = |truth: &&Truth| match question.problem {
        Problem::Throughput(cap) => truth.cap == cap,
        Problem::Efficiency => true,
    };
    let all: Vec<Judged> = truths.iter().filter(in_question).map(judged).collect();
    let fair = || all.iter().filter(|j| j.fairness > question.alpha);
    let chosen = choose(model, question)?.chosen;
    let same = |j: &&Judged| chosen.as_ref().is_some_and(|c| c.state == j.state && c.cap == j.cap);
    Ok(Verdict {
        worst: fair().min_by(|a, b| a.value.total_cmp(&b.value)).cloned(),
        proposal: all.iter().find(same).cloned(),
        best: fair().max_by(|a, b| a.value.total_cmp(&b.value)).cloned(),
    })
}
