//! An explanation as JSON.

use decision_report::report::{Candidate, Fate};
use protocol::wire::encode_request;
use protocol::{Grant, MigSpec, PoolSeats, ShareOn, Size, TaskDevices};
use serde_json::{Value, json};
use site_config::hostlist;
use site_limits::counted::Counted;

use super::explained::Explained;
use super::nodes::{AskedNodes, NodesKnown};
use super::{Question, rivals};
use crate::node_answer::{self, NodeOrder, Verdict};
use crate::slurm_nodes::away;

/// The whole answer.
pub(super) fn answer(
    asked: &AskedNodes,
    question: &Question,
    verdicts: &[(Vec<String>, Verdict)],
    (explained, order): (&[Explained], &NodeOrder),
) -> Value {
    let counted = question.counts.as_ref().ok();
    let of = |explained: &Explained| {
        let mut value = node(explained, counted);
        let first = explained.names.first();
        let said = verdicts.iter().find(|(names, _)| first.is_some_and(|first| names.contains(first)));
        let Some((_, verdict)) = said else { return value };
        let Value::Object(said) = node_answer::json(&explained.names, verdict) else { return value };
        for (key, said) in said {
            // The engine's own reason stands there already.
            if key != "why" {
                value[key] = said;
            }
        }
        value
    };
    let seen = match &asked.seen {
        NodesKnown::Now => "now",
        NodesKnown::Unanswered(_) => "no Slurm answers: taken as empty",
        NodesKnown::Said => "as the options say",
    };
    let left: Vec<&str> = asked.live.left_to_slurm().map(|aside| aside.name.as_str()).collect();
    let (not_taking, reserved) = away::json(&asked.live.not_taking);
    let mut value = json!({
        "request": encode_request(&question.request), "nodes": explained.iter().map(of).collect::<Vec<_>>(),
        "order": order.json(), "state": seen, "not_taking_jobs": not_taking, "reserved": reserved, "left_to_slurm": left,
    });
    if let Some(note) = &question.note {
        value["note"] = note.as_str().into();
    }
    if let Err(why) = &question.counts {
        value["refused"] = why.as_str().into();
    }
    value
}

/// Writes the answer on a node; `counted` is Slurm's count for the job, `None` if sbatch refuses it.
fn node(explained: &Explained, counted: Option<&Counted>) -> Value {
    let Explained { names, decision, ever, memory, waits, rivals, sizes } = explained;
    let report = &decision.report;
    let kinds = report.kinds.iter().map(|k| {
        json!({ "kind": k.kind.name(), "fits": k.outcome.is_ok(), "chosen": k.chosen, "outcome": decision_text::outcome(k) })
    });
    let admission = match (ever, counted) {
        (Err(never), _) => json!({ "never": never.to_string() }),
        (Ok(_), Some(Counted::Shards(n))) => json!({ "shard": n }),
        (Ok(_), Some(Counted::Gpus(n))) => json!({ "gpu": n }),
        (Ok(_), None) => Value::Null,
    };
    let mut value = json!({
        "name": hostlist::compress(names), "chosen": decision.chosen.as_ref().map(grant_json), "why": decision.why(), "gres": admission,
        "kinds": kinds.collect::<Vec<_>>(),
        "candidates": report.weighed.iter().map(candidate_json).collect::<Vec<_>>(), "omitted": report.omitted,
        "rivals": rivals.iter().map(rivals::Rival::json).collect::<Vec<_>>(),
    });
    if let Some(memory) = memory {
        value["memory_level"] = memory.level.to_string().into();
    }
    if let Some(wait) = waits {
        value["waits"] = json!({ "above_gbps": wait.above_gbps(), "seconds": wait.seconds });
    }
    if !sizes.is_empty() {
        let size = |s: &Size| json!({ "profile": s.profile.name, "milliseconds": s.millis });
        value["sizes"] = sizes.iter().map(size).collect();
    }
    value
}

fn grant_json(grant: &Grant) -> Value {
    let spec = |s: &MigSpec| json!({ "gpu": s.gpu.0, "profile_id": s.profile.0, "start": s.start.0 });
    match grant {
        Grant::Mig(specs) => {
            json!({ "kind": "mig", "instances": specs.iter().map(spec).collect::<Vec<_>>() })
        }
        Grant::Compute { within, part, mem_mib } => json!({
            "kind": "mig", "instances": [spec(within)], "mem_mib": mem_mib,
            "compute": { "slices": part.slices, "start": part.start.0 },
        }),
        Grant::Mps { on, mem_mib, threads } => {
            let instance = match on {
                ShareOn::Gpu(_) => Value::Null,
                ShareOn::Instance(s) => spec(s),
            };
            json!({ "kind": "mps", "gpu": on.gpu().0, "instance": instance, "mem_mib": mem_mib, "threads": threads })
        }
        Grant::Tasks(tasks) => {
            let place = |s: &PoolSeats| {
                let instance = match &s.on {
                    ShareOn::Gpu(_) => Value::Null,
                    ShareOn::Instance(s) => spec(s),
                };
                json!({ "gpu": s.on.gpu().0, "instance": instance, "seats": s.seats })
            };
            let mut value = json!({ "kind": "gpu-tasks", "seats": tasks.seats(), "mem_mib": tasks.mem_mib, "probes": tasks.probes });
            match &tasks.on {
                TaskDevices::Pool(pool) => value["devices"] = pool.iter().map(place).collect(),
                TaskDevices::Own { gpus, .. } => value["gpus"] = gpus.iter().map(|g| g.0).collect(),
            }
            value
        }
        Grant::Whole(gpus) => {
            json!({ "kind": "whole", "gpus": gpus.iter().map(|g| g.0).collect::<Vec<_>>() })
        }
    }
}

fn candidate_json(candidate: &Candidate) -> Value {
    let starts = candidate.instances.map(|(_, s)| (0..16).filter(|i| s.0 >> i & 1 == 1).collect::<Vec<u8>>());
    json!({
        "kind": candidate.kind.name(), "gpu": candidate.gpu.0, "profile": candidate.instances.map(|(p, _)| &p.name),
        "starts": starts, "possible": !matches!(candidate.fate, Fate::Ruled(_)),
        "verdict": decision_text::fate(&candidate.fate),
    })
}
