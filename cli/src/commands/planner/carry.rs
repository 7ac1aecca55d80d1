//! Telling slurmctld: `scontrol update`, one job at a time.

use placement::planned::{Plan, encode_plan_asks};

use super::decide::Assignment;

/// The AdminComment for a assignment, with the request behind it.
pub(super) fn comment(assignment: &Assignment, asks: &str, now: u64, until: u64) -> String {
    let at = |micros: u64| Some(now + micros / 1_000_000);
    let plan = Plan {
        size: assignment.size.clone(),
        place: Some(assignment.place.clone()),
        begin: at(assignment.begin),
        end: at(assignment.end),
        until,
    };
    encode_plan_asks(&plan, asks)
}
