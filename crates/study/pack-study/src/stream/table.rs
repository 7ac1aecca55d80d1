//! Rows of the tables in `docs/figures/pack-streams.md`.

use super::summary::StreamSummary;

/// Returns the head of a table, and the line below it.
#[must_use]
pub fn title(queue: bool) -> &'static str {
    if queue {
        "| site | mix | load | rule | wait, mean | wait, 90 % | wait for a whole node | GPUs in use | created | reused of reusable | set GB/s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    } else {
        "| site | mix | load | rule | accepted | whole nodes | GPUs in use | created | reused of reusable | set GB/s | moved |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    }
}

/// Returns the cells of several runs' means, behind the rule's name. Times are minutes, shares per cent.
#[must_use]
pub fn row(runs: &[StreamSummary], queue: bool) -> String {
    let mean = |of: &dyn Fn(&StreamSummary) -> Option<f64>| {
        let (sum, n) = runs.iter().filter_map(of).fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
        sum / f64::max(n, 1.0)
    };
    let accepted = mean(&|run| share(run.accepted, run.submitted));
    let whole = mean(&|run| share(run.whole_node_accepted, run.whole_node_submitted));
    let created = mean(&|run| Some(as_f64(run.instances.created)));
    let reused = mean(&|run| share(run.reused, run.reusable));
    let opened = mean(&|run| Some(run.opened_mean));
    let gbps = mean(&|run| run.bandwidth_mean);
    if queue {
        let minutes = |of: fn(&StreamSummary) -> f64| mean(&|run| Some(of(run) / 60.0));
        let (waited, p90) = (minutes(|run| run.wait_mean), minutes(|run| run.wait_p90));
        let node = minutes(|run| run.whole_node_wait_mean);
        format!(
            "| {waited:.1} | {p90:.1} | {node:.1} | {opened:.1} | {created:.0} | {reused:.0} % | {gbps:.1} |"
        )
    } else {
        let moved = mean(&|run| as_f64(run.moved as u64).into());
        format!(
            "| {accepted:.2} % | {whole:.1} % | {opened:.1} | {created:.0} | {reused:.0} % | {gbps:.1} | {moved:.0} |"
        )
    }
}

/// Per cent; `None` of nothing.
fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| 100.0 * as_f64(part as u64) / as_f64(of as u64))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn as_f64(n: u64) -> f64 {
    n as f64
}
