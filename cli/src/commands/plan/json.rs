//! The answer for programs: one object a line.

use far::OpKind;
use serde_json::{Value, json};

use super::batch::seconds;
use super::planned::{Planned, given};

pub(super) fn line(planned: &Planned<'_>) -> String {
    let nodes = &planned.answer.problem.tree.nodes;
    let schedule = &planned.answer.schedule;
    let tasks: Vec<Value> = schedule
        .runs
        .iter()
        .map(|r| {
            let (start, size) = (nodes[r.node].start, nodes[r.node].size);
            let (begin, end) = (seconds(r.begin), seconds(r.end));
            let mut task = json!({
                "task": r.task, "gpu": r.gpu, "start": start, "size": size, "begin": begin, "end": end,
                "profile": nodes[r.node].profile,
            });
            if let Some(name) = &planned.batch.tasks[r.task].name {
                task["name"] = json!(name);
            }
            task
        })
        .collect();
    let ops: Vec<Value> = schedule
        .ops
        .iter()
        .map(|o| {
            let kind = if o.kind == OpKind::Create { "create" } else { "destroy" };
            let (start, size) = (nodes[o.node].start, nodes[o.node].size);
            let (begin, end) = (seconds(o.begin), seconds(o.end));
            json!({"op": kind, "gpu": o.gpu, "start": start, "size": size, "begin": begin, "end": end})
        })
        .collect();
    let mut line = json!({
        "id": planned.batch.id,
        "policy": planned.policy.to_string(),
        "makespan": seconds(planned.makespan),
        "lower_bound": seconds(planned.answer.lower_bound),
        "proven_optimal": planned.answer.proven_optimal,
        "plan_us": u64::try_from(planned.took.as_micros()).unwrap_or(u64::MAX),
        "tasks": tasks,
        "ops": ops,
    });
    let given: Vec<Value> = given(&planned.answer.problem)
        .map(|(gpu, n)| json!({"gpu": gpu, "start": nodes[n].start, "size": nodes[n].size}))
        .collect();
    if !given.is_empty() {
        line["given"] = json!(given);
    }
    format!("{line}\n")
}
