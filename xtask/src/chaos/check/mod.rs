//! The rules of a healthy cluster, on what was seen. They share no code with the plugins.
//!
//! Some rules hold at every moment: no device has two owners, a job has what it was promised. The others hold once a change
//! is over: a job that begins or ends is known in one place before it is known in the next. [`Patience`] tells both apart.

mod agreement;
mod owners;
mod patience;
mod promise;
mod rest;
mod sick;
#[cfg(test)]
mod tests;

use std::fmt;

pub(super) use agreement::disagreements;
pub(super) use owners::{Devices, crowded, two_owners};
pub(super) use patience::Patience;
pub(super) use promise::{Reality, broken_promise, failed_work};
pub(super) use rest::{changed_limits, counted_slices, leftovers};
pub(super) use sick::{LeftOut, sick_gpu};

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// The rule, in a word or two.
    pub(super) rule: &'static str,
    /// Subject of the finding: the same finding in two looks has the same subject.
    pub(super) subject: String,
    /// Description of what was seen.
    pub(super) seen: String,
}

impl Finding {
    pub(super) fn new(rule: &'static str, subject: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { rule, subject: subject.into(), seen: seen.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.subject, self.seen)
    }
}
