//! Order in which tasks arrive: by seed, trace and share alone.

use crate::draw::Draw;
use crate::trace::Trace;

/// Most arrivals of a run.
pub const MOST_ARRIVALS: usize = 10_000_000;

/// Draws the arrivals, as positions in the trace: every task once in random order, then again with replacement, until the
/// GPUs asked for are `share` of the cluster's. A smaller share gives the first arrivals of a larger one.
///
/// # Errors
/// There are no GPUs in the cluster or the tasks, `share` is not positive, or [`MOST_ARRIVALS`] do not suffice.
pub fn arrivals(trace: &Trace, seed: u64, share: f64) -> Result<Vec<usize>, String> {
    if !(share > 0.0 && share.is_finite()) {
        return Err("expected a share of the cluster's GPUs above 0, such as 1.3".to_owned());
    }
    let gpus = trace.gpus();
    if gpus == 0 {
        return Err("the nodes have no GPU".to_owned());
    }
    if trace.tasks.iter().all(|task| task.shape.gpus == 0) {
        return Err("no task asks for a GPU".to_owned());
    }
    #[expect(clippy::cast_precision_loss, reason = "a cluster has far below 2^52 GPUs")]
    let wanted = share * 1000.0 * gpus as f64;
    let mut draw = Draw::new(seed);
    let mut first = draw.order::<usize>(trace.tasks.len()).into_iter();
    let mut all = Vec::new();
    let mut asked = 0.0;
    while asked < wanted {
        if all.len() == MOST_ARRIVALS {
            return Err(format!("{MOST_ARRIVALS} tasks ask for fewer GPUs"));
        }
        let task = first.next().unwrap_or_else(|| draw.below(trace.tasks.len()));
        asked += f64::from(trace.tasks[task].shape.total_milli());
        all.push(task);
    }
    Ok(all)
}
