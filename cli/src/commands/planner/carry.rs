//! Telling slurmctld: `scontrol update`, one job at a time.

use placement::planned::{Plan, encode_plan_asks};

use super::decide::Choice;

/// The AdminComment for a choice, with the request behind it.
pub(super) fn comment(choice: &Choice, asks: &str, now: u64, until: u64) -> String {
    let at = |micros: u64| Some(now + micros / 1_000_000);
    let plan = Plan {
        size: choice.size.clone(),
        place: Some(choice.place.clone()),
        begin: at(choice.begin),
        end: at(choice.end),
        until,
    };
    encode_plan_asks(&plan, asks)
}
