//! A node's record of its GPUs' health, for people and programs.

use gpu_health::{Change, Finding, HealthRecord, KnownGpu, Rule, Rules};
use serde_json::{Value, json};
use site_config::{HealthAction, HealthEvent, HealthReturn};

use crate::clock::span;
use crate::render::{printable, table};

/// The changes, one a line.
pub(super) fn changes(node: &str, record: &HealthRecord, rules: &Rules<'_>, all: &[Change]) -> String {
    let name = |uuid: &str| {
        let known = record.gpus.iter().find(|gpu| gpu.uuid == uuid);
        known.and_then(|gpu| gpu.number).map_or_else(|| uuid.to_owned(), |number| format!("GPU {number}"))
    };
    let told = |uuid: &str| {
        let findings = record.gpus.iter().filter(|gpu| gpu.uuid == uuid).flat_map(|gpu| &gpu.findings);
        findings
            .filter(|finding| !finding.why.is_empty())
            .map(|finding| format!(": {}", short(&finding.why)))
            .next()
    };
    let line = |change: &Change| match change {
        Change::New(uuid, event @ HealthEvent::Told, action) => {
            let (why, advice) = (told(uuid).unwrap_or_default(), rules.of(*event).advice);
            format!("{node}: {}: {}{why}; {advice}\n", name(uuid), does(*action))
        }
        Change::New(uuid, event, action) => {
            format!("{node}: {}: {event}: {}; {}\n", name(uuid), does(*action), rules.of(*event).advice)
        }
        Change::Over(uuid, event) => format!("{node}: {}: {event} is over\n", name(uuid)),
    };
    all.iter().map(line).collect()
}

/// The beginning of an administrator's words.
fn short(why: &str) -> String {
    printable(&why.chars().take(80).collect::<String>())
}

fn does(action: HealthAction) -> &'static str {
    match action {
        HealthAction::Ignore => "noted",
        HealthAction::LeaveOut => "gets no new jobs",
        HealthAction::Requeue => "gets no new jobs, and its jobs are requeued",
    }
}

fn back(rule: Rule<'_>) -> &'static str {
    match (rule.action, rule.returns) {
        (HealthAction::Ignore, _) => "-",
        (_, HealthReturn::Itself) => "by itself",
        (_, HealthReturn::Reset) => "after a reset, a reboot or tessera node accept",
        (_, HealthReturn::Accept) => "after tessera node accept",
    }
}

/// All findings; a line that says so if there are none.
pub(super) fn table(node: &str, record: &HealthRecord, rules: &Rules<'_>, now: u64) -> String {
    let mut rows = Vec::new();
    for gpu in &record.gpus {
        rows.extend(gpu.findings.iter().map(|finding| row(gpu, finding, finding.rule(rules), now)));
    }
    if rows.is_empty() {
        return format!("{node}: all GPUs are healthy\n");
    }
    let head = ["GPU", "UUID", "EVENT", "TIMES", "FIRST", "LAST", "NOW", "BACK", "WHAT TO DO"];
    rows.insert(0, head.map(str::to_owned).to_vec());
    table::render(&rows, &[0, 3])
}

fn row(gpu: &KnownGpu, finding: &Finding, rule: Rule<'_>, now: u64) -> Vec<String> {
    let ago = |at: u64| format!("{} ago", span(now.saturating_sub(at)));
    let event = if finding.why.is_empty() {
        finding.event.clone()
    } else {
        format!("{}: {}", finding.event, short(&finding.why))
    };
    vec![
        gpu.number.map_or_else(|| "-".to_owned(), |number| number.to_string()),
        gpu.uuid.clone(),
        event,
        finding.count.to_string(),
        ago(finding.first),
        ago(finding.last),
        if rule.action == HealthAction::Ignore { "in use" } else { "left out" }.to_owned(),
        back(rule).to_owned(),
        rule.advice.to_owned(),
    ]
}

/// The record for programs.
pub(super) fn json(node: &str, record: &HealthRecord, rules: &Rules<'_>) -> Value {
    let finding = |f: &Finding| {
        let rule = f.rule(rules);
        let action = HealthAction::NAMED.iter().find(|(_, action)| *action == rule.action);
        json!({
            "event": f.event,
            "why": f.why,
            "first": f.first,
            "last": f.last,
            "count": f.count,
            "action": action.map(|(name, _)| name),
            "advice": rule.advice,
        })
    };
    let gpu = |gpu: &KnownGpu| {
        let findings: Vec<Value> = gpu.findings.iter().map(finding).collect();
        let left_out = gpu.against(rules).next().is_some();
        json!({ "number": gpu.number, "uuid": gpu.uuid, "left_out": left_out, "findings": findings })
    };
    json!({ "node": node, "gpus": record.gpus.iter().map(gpu).collect::<Vec<Value>>() })
}
