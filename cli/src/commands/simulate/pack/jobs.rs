//! A stream of jobs on a site, under several rules.

use std::path::Path;

use geometry::JobId;
use pack_study::stream::{
    RULES, Rule, StreamEvent, StreamJob, StreamNode, StreamSite, StreamSummary, simulate,
};
use protocol::wire::{JobPlacement, encode_placement};
use serde_json::{Value, json};

use crate::files::{read_text, write_text};
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::render::table;
use crate::site;

use super::{PackArgs, one_or_list, policies, read_jobs};

/// Outcome of the jobs under one rule.
struct Ran {
    policy: String,
    summary: StreamSummary,
}

pub(super) fn run(args: &PackArgs, site_path: &Path, jobs_path: &Path) -> Result<Outcome, Failure> {
    let policies = policies(args, &["tessera", "slurm", "best-fit", "mfi"]);
    let rules = policies.iter().map(|name| {
        Rule::named(name).ok_or_else(|| {
            let known = RULES.join(", ");
            Failure::new(format!("--policy {name}: expected {known}, or several of them"))
        })
    });
    let rules = rules.collect::<Result<Vec<Rule>, Failure>>()?;
    let config = site::load(Some(site_path))?;
    let nodes = site::nodes(&config).map(|(name, node)| StreamNode {
        name: name.to_owned(),
        node,
        cpus: args.cpus,
        mem_mib: args.mem_mib,
    });
    let site = StreamSite { nodes: nodes.collect(), policy: site_limits::policy_for(&config, None, &[]) };
    let jobs = read_jobs::read(&jobs_path.display().to_string(), &read_text(jobs_path)?, &config)?;
    let bar = Progress::new(rules.len());
    let (mut all, mut events) = (Vec::new(), String::new());
    for (done, (rule, policy)) in rules.iter().zip(policies).enumerate() {
        bar.at(done);
        let summary = simulate(&site, &jobs, (*rule, !args.lose, 0), &mut |event| {
            if args.events.is_some() {
                events.push_str(&line(event, &site, &jobs, args.lose).to_string());
                events.push('\n');
            }
        });
        all.push(Ran { policy, summary });
    }
    drop(bar);
    if let Some(path) = &args.events {
        write_text(path, &events)?;
    }
    if args.json {
        return Ok(Outcome::json(&one_or_list(all.iter().map(Ran::json).collect()), 0));
    }
    Ok(Outcome::ok(text(&all, args.lose)))
}

/// An event as a checker reads it. `i` counts jobs in the order of submission, from 0.
fn line(event: &StreamEvent<'_>, site: &StreamSite, jobs: &[StreamJob], lose: bool) -> Value {
    match event {
        StreamEvent::Drop { job, at_ms } => {
            json!({"ev": "drop", "i": job, "task": jobs[*job].id, "t": seconds(*at_ms)})
        }
        StreamEvent::End { job, at_ms } => json!({"ev": "end", "id": jobs[*job].id, "t": seconds(*at_ms)}),
        StreamEvent::Start { job, at_ms, parts } => {
            let name = |node: &usize| site.nodes[*node].name.clone();
            let nodes = parts.iter().map(|(node, grant)| (name(node), grant.clone().into())).collect();
            let id = JobId(u32::try_from(job + 1).unwrap_or(u32::MAX));
            let placement = JobPlacement { job: id, nodes };
            let model = |node: &str, gpu: geometry::GpuIndex| {
                let spec = site.nodes.iter().find(|spec| spec.name == node)?;
                spec.node.gpus.get(usize::from(gpu.0)).map(|gpu| gpu.model)
            };
            let gpus: Vec<u16> = parts
                .first()
                .map_or(Vec::new(), |(_, grant)| grant.gpus().into_iter().map(|gpu| gpu.0).collect());
            let names: Vec<String> = parts.iter().map(|(node, _)| name(node)).collect();
            let mut value = json!({
                "ev": if lose { "place" } else { "start" },
                "i": job,
                "task": jobs[*job].id,
                "t": seconds(*at_ms),
                "node": names.join(","),
                "gpus": gpus,
                "grant": encode_placement(&placement, &model),
            });
            if !lose {
                value["wait"] = json!(seconds(at_ms - jobs[*job].submit_ms));
            }
            value
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

impl Ran {
    fn json(&self) -> Value {
        let StreamSummary { instances, .. } = self.summary;
        json!({
            "policy": self.policy,
            "submitted": self.summary.submitted,
            "accepted": self.summary.accepted,
            "wait_mean": self.summary.wait_mean,
            "wait_p90": self.summary.wait_p90,
            "opened_mean": self.summary.opened_mean,
            "created": instances.created,
            "destroyed": instances.destroyed,
            "reused": self.summary.reused,
            "reusable": self.summary.reusable,
            "bandwidth_mean": self.summary.bandwidth_mean,
            "whole_node_submitted": self.summary.whole_node_submitted,
            "whole_node_accepted": self.summary.whole_node_accepted,
            "whole_node_wait_mean": self.summary.whole_node_wait_mean,
            "moved": self.summary.moved,
        })
    }
}

fn text(all: &[Ran], lose: bool) -> String {
    let row = |one: &Ran| {
        let summary = &one.summary;
        let waits = [summary.wait_mean, summary.wait_p90, summary.whole_node_wait_mean];
        let mut cells = vec![one.policy.clone(), summary.accepted.to_string()];
        cells.extend(waits.iter().filter(|_| !lose).map(|wait| format!("{wait:.0}")));
        cells.push(summary.whole_node_accepted.to_string());
        cells.push(format!("{:.1}", summary.opened_mean));
        cells.extend([summary.instances.created, summary.instances.destroyed].map(|n| n.to_string()));
        cells.push(summary.bandwidth_mean.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}")));
        cells
    };
    let waits = ["wait s", "90 % s", "whole nodes s"];
    let mut head = vec!["policy", "accepted"];
    head.extend(waits.iter().filter(|_| !lose));
    head.extend(["whole nodes", "GPUs in use", "created", "destroyed", "set GB/s"]);
    let right: Vec<usize> = (1..head.len()).collect();
    let head = head.into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(all.iter().map(row)).collect();
    let jobs = all.first().map_or(0, |one| one.summary.submitted);
    format!("{jobs} jobs\n{}", table::render(&rows, &right))
}
