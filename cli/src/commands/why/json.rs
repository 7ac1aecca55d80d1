//! The answer as JSON.

use serde_json::{Value, json};

use super::{PendingJob, nodes};
use crate::allowance;
use crate::node_answer;
use crate::slurm_nodes::away;

pub(super) fn answer(answer: &PendingJob<'_>) -> Value {
    let (not_taking, reserved) = away::json(&answer.not_taking);
    let mut value = json!({
        "job": answer.job.id,
        "user": answer.job.user,
        "needs_nodes": nodes::fewest(answer.job),
        "reason": answer.job.reason,
        "ahead": answer.ahead,
        "slurm_start": answer.job.start,
        "nodes": answer.verdicts.iter().map(|(names, v)| node_answer::json(names, v)).collect::<Vec<_>>(),
        "order": answer.order.json(),
        "not_taking_jobs": not_taking,
        "reserved": reserved,
        "instead": answer.instead.iter().map(|free| json!({
            "options": free.shape.options,
            "nodes": free.nodes.iter().flatten().map(|(name, _)| name).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    if !answer.left_out.is_empty() {
        value["not_looked_at"] = answer.left_out.clone().into();
    }
    if let Some(allowance) = &answer.allowance {
        value["limits"] = allowance::json(allowance);
        value["kept_by_limit"] = answer.need.and_then(|need| allowance.keeps(&need)).into();
    }
    match &answer.asks {
        Ok(subject) => value["asks"] = subject.request.in_words().into(),
        Err(why) => value["unknown"] = why.as_str().into(),
    }
    value
}
