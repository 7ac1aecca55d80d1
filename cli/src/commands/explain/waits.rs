//! Predicts if a job would wait for better GPUs instead of taking those that are free.

use decision_report::Decision;
use decision_report::report::Fate;
use node_state::{Ask, GpuState, Node, Policy};
use placement::decide;
use protocol::{AdminComment, Bandwidth, SetWait, Turn};

/// How long the job would wait: if its set is poor and the empty node has a better one.
pub(super) fn of(node: &Node, ask: &Ask, policy: &Policy, decision: &Decision) -> Option<SetWait> {
    let (request, sets) = (&ask.request, &policy.sets);
    let sensitive = request.bandwidth.unwrap_or(sets.bandwidth) == Bandwidth::Sensitive;
    let several = request.gpus.is_some_and(|n| n > 1);
    let wait = request.wait.or(sets.wait).filter(|_| sensitive && several)?;
    let mut empty = node.clone();
    empty.gpus.iter_mut().for_each(|gpu| gpu.state = GpuState::Free);
    let (now, best) = (predicted(decision)?, predicted(&decide(&empty, ask, policy))?);
    matches!(wait.turn(now, best, &AdminComment::default(), 0), Turn::Wait { .. }).then_some(wait)
}

fn predicted(decision: &Decision) -> Option<f64> {
    match decision.report.best {
        Some(Fate::Set(score)) if decision.chosen.is_some() => score.scores.eff_bw,
        _ => None,
    }
}
