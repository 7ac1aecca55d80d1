//! Telling slurmctld: `scontrol update`, one job at a time.

use std::process::Command;

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

/// Sets a field of a job; what Slurm says if it refuses.
pub(super) fn update(job: u32, field: &str) -> Result<(), String> {
    let out = Command::new("scontrol").args(["update", &format!("JobId={job}"), field]).output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => {
            let said =
                format!("{}{}", String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
            Err(said.trim().replace('\n', ": "))
        }
        Err(e) => Err(format!("cannot run scontrol: {e}")),
    }
}
