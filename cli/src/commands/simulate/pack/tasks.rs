//! Tasks packed onto a cluster until it is full.

use std::path::Path;
use std::time::{Duration, Instant};

use pack_study::{Run, Summary, Trace, arrivals};
use serde_json::{Value, json};

use crate::files::{read_text, write_text};
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::render::table;

use super::{PackArgs, one_or_list, policies};

/// Outcome of one policy's run.
struct Packed {
    policy: String,
    left: Summary,
    us_per_decision: f64,
    events: String,
}

pub(super) fn run(args: &PackArgs, nodes_path: &Path, tasks_path: &Path) -> Result<Outcome, Failure> {
    let policies = policies(args, &["tessera", "slurm", "best-fit", "fgd"]);
    let unknown = policies.iter().find(|name| !pack_study::NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        let known = pack_study::NAMES.join(", ");
        return Err(Failure::new(format!("--policy {name}: expected {known}, or several of them")));
    }
    let (nodes, tasks) = (read_text(nodes_path)?, read_text(tasks_path)?);
    let (nodes_file, tasks_file) = (nodes_path.display().to_string(), tasks_path.display().to_string());
    let trace =
        Trace::read((&nodes_file, &nodes), (&tasks_file, &tasks)).map_err(|e| Failure::new(e.to_string()))?;
    let all = arrivals(&trace, args.seed, args.arrive).map_err(|e| Failure::new(format!("--arrive: {e}")))?;
    let bar = Progress::new(policies.len());
    let mut packed = Vec::new();
    for (done, policy) in policies.iter().enumerate() {
        bar.at(done);
        packed.extend(pack(&trace, policy, args.seed, &all, args.events.is_some()));
    }
    drop(bar);
    if let (Some(path), Some(one)) = (&args.events, packed.first()) {
        write_text(path, &one.events)?;
    }
    if !args.json {
        return Ok(Outcome::ok(text(&packed)));
    }
    let all: Vec<Value> = packed.iter().map(|one| one.json(args.seed)).collect();
    Ok(Outcome::json(&one_or_list(all), 0))
}

/// `None` for a policy that there is not.
fn pack(trace: &Trace, policy: &str, seed: u64, all: &[usize], keep_events: bool) -> Option<Packed> {
    let mut run = Run::new(trace, policy, seed)?;
    let (mut time, mut events) = (Duration::ZERO, String::new());
    for (at, task) in all.iter().enumerate() {
        let begin = Instant::now();
        let event = run.decide(*task);
        time += begin.elapsed();
        if keep_events {
            events.push_str(&event.line(trace, at, *task));
            events.push('\n');
        }
    }
    let decisions = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let us_per_decision = time.as_secs_f64() * 1e6 / f64::from(decisions.max(1));
    Some(Packed { policy: policy.to_owned(), left: run.summary(), us_per_decision, events })
}

impl Packed {
    fn json(&self, seed: u64) -> Value {
        json!({
            "policy": self.policy,
            "seed": seed,
            "gpus": self.left.gpus,
            "unallocated": self.left.unallocated,
            "allocated": self.left.allocated,
            "placed": self.left.placed,
            "dropped": self.left.dropped,
            "us_per_decision": self.us_per_decision,
        })
    }
}

fn text(packed: &[Packed]) -> String {
    let row = |one: &Packed| {
        vec![
            one.policy.clone(),
            format!("{:.1}", one.left.unallocated),
            format!("{:.2}", 100.0 * one.left.allocated),
            one.left.placed.to_string(),
            one.left.dropped.to_string(),
        ]
    };
    let gpus = packed.first().map_or(0, |one| one.left.gpus);
    let head = ["policy", "GPUs left", "allocated %", "placed", "dropped"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(packed.iter().map(row)).collect();
    format!("{gpus} GPUs\n{}", table::render(&rows, &[1, 2, 3, 4]))
}
