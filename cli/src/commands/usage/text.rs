//! The sums for people, and as JSON.

use serde_json::{Value, json};

use super::sum::{Sum, Sums};
use crate::clock::span;
use crate::render::table;

/// A table with a line for each job, array or user, and the total.
pub(super) fn of(sums: &Sums, whose: &str, since_s: u64) -> String {
    if sums.rows.is_empty() {
        return format!("{whose} had no GPUs in the last {}\n", span(since_s));
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
    if sums.total.uncounted > 0 {
        text.push_str(&format!(
            "Slices are counted for {} of {} jobs; USED and WASTED are in slice hours.\n\
             To count them, add Licenses=slice:N to slurm.conf and license/slice to AccountingStorageTRES.\n",
            sums.total.jobs - sums.total.uncounted,
            sums.total.jobs
        ));
    }
    text
}

fn row(name: &str, sum: &Sum) -> Vec<String> {
    let known = |seconds: u64| if sum.knows_use() { hours(seconds) } else { "-".to_owned() };
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

/// Hours with one decimal, less than one with two: jobs of a minute are not nothing.
fn hours(seconds: u64) -> String {
    let rounded = |parts: u128| (u128::from(seconds) * parts + 1800) / 3600;
    let (tenths, hundredths) = (rounded(10), rounded(100));
    match seconds {
        0 => "0.0".to_owned(),
        1..3600 if hundredths == 0 => "<0.01".to_owned(),
        1..3600 if hundredths < 100 => format!("0.{hundredths:02}"),
        _ => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

/// `{"of", "since_s", "rows": [{"job" or "user", "jobs", …}], "total"}`, times in seconds; `null` for what is not known.
pub(super) fn json(sums: &Sums, whose: &str, since_s: u64) -> Value {
    let first = if sums.by_user { "user" } else { "job" };
    let one = |sum: &Sum| {
        json!({
            "jobs": sum.jobs, "recorded": sum.recorded, "gpu_s": sum.gpu_s, "slice_s": sum.slice_s,
            "used_slice_s": sum.knows_use().then_some(sum.used_s), "wasted_slice_s": sum.knows_use().then_some(sum.wasted_s),
        })
    };
    let rows = sums.rows.iter().map(|(name, sum)| {
        let mut value = one(sum);
        value[first] = name.as_str().into();
        value
    });
    json!({ "of": whose, "since_s": since_s, "rows": rows.collect::<Vec<_>>(), "total": one(&sums.total) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_jobs_are_not_nothing() {
        let said = [0, 17, 18, 60, 1800, 3581, 3582, 3600, 36_000_000].map(super::hours);
        assert_eq!(said, ["0.0", "<0.01", "0.01", "0.02", "0.50", "0.99", "1.0", "1.0", "10000.0"]);
    }
}
