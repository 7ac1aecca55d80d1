//! The sums for people, and as JSON.

use serde_json::{Value, json};

use super::sum::{Sum, Sums};
use crate::render::table;

/// A table with a line for each job, array or user, and the total.
pub(super) fn of(sums: &Sums, whose: &str, days: u32) -> String {
    if sums.rows.is_empty() {
        return format!("{whose} had no GPUs in the last {days} days\n");
    }
    let first = if sums.by_user { "USER" } else { "JOB" };
    let heads = [first, "JOBS", "GPU HOURS", "SLICE HOURS", "USED", "WASTED"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(sums.rows.iter().map(|(name, sum)| row(name, sum)));
    rows.push(row("total", &sums.total));
    let mut text = table::render(&rows, &[1, 2, 3, 4, 5]);
    if sums.total.recorded < sums.total.jobs {
        text.push_str(&format!(
            "Utilisation is recorded for {} of {} jobs: USED and WASTED are theirs.\n",
            sums.total.recorded, sums.total.jobs
        ));
    }
    text
}

fn row(name: &str, sum: &Sum) -> Vec<String> {
    let known = |seconds: u64| if sum.recorded > 0 { hours(seconds) } else { "-".to_owned() };
    let slices = if sum.slice_s > 0 { hours(sum.slice_s) } else { "-".to_owned() };
    vec![
        name.to_owned(),
        sum.jobs.to_string(),
        hours(sum.gpu_s),
        slices,
        known(sum.used_s),
        known(sum.wasted_s),
    ]
}

/// Hours with one decimal.
fn hours(seconds: u64) -> String {
    let tenths = (u128::from(seconds) * 10 + 1800) / 3600;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// `{"of", "days", "rows": [{"job" or "user", "jobs", …}], "total"}`, times in seconds.
pub(super) fn json(sums: &Sums, whose: &str, days: u32) -> Value {
    let first = if sums.by_user { "user" } else { "job" };
    let one = |sum: &Sum| {
        json!({
            "jobs": sum.jobs, "recorded": sum.recorded, "gpu_s": sum.gpu_s, "slice_s": sum.slice_s, "used_slice_s": sum.used_s,
            "wasted_slice_s": sum.wasted_s,
        })
    };
    let rows = sums.rows.iter().map(|(name, sum)| {
        let mut value = one(sum);
        value[first] = name.as_str().into();
        value
    });
    json!({ "of": whose, "days": days, "rows": rows.collect::<Vec<_>>(), "total": one(&sums.total) })
}
