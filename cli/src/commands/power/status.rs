//! `tessera power status`.

use std::collections::HashMap;

use geometry::JobId;
use gpu_node::{GpuPowerView, power_status};
use job_usage::Used;
use serde_json::{Value, json};

use super::args::StatusArgs;
use super::budgets;
use crate::globals::Globals;
use crate::local_node::{Local, require_root};
use crate::outcome::{Failure, Outcome};
use crate::render::table;
use crate::site;
use crate::slurm::scontrol;
use crate::slurm::squeue::JobNames;
use crate::this_machine::this_node;

pub(super) fn run(args: &StatusArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let name = args.node.clone().or_else(this_node);
    let config = site::in_force(globals.config.as_deref(), name.as_deref(), false)?.config;
    let no_node = args.node.is_none() && name.is_some_and(|name| config.node(&name).is_none());
    let limits = &config.power_budgets;
    // Without Slurm the limits of this node's GPUs are shown all the same.
    let layouts = if limits.is_empty() { HashMap::new() } else { scontrol::layouts().unwrap_or_default() };
    if no_node && !limits.is_empty() {
        return Ok(if args.json {
            Outcome::json(&json!({ "budgets": budgets::as_json(limits, &layouts) }), 0)
        } else {
            Outcome::ok(budgets::text(limits, &layouts))
        });
    }
    require_root("tessera power status")?;
    let local = Local::new(&config, args.node.as_deref())?;
    let gpus = power_status(&local.settings).map_err(|e| Failure::of(&e))?;
    if args.json {
        let gpus: Vec<Value> = gpus.iter().map(as_json).collect();
        let budgets = budgets::as_json(limits, &layouts);
        return Ok(Outcome::json(&json!({ "node": local.name, "gpus": gpus, "budgets": budgets }), 0));
    }
    let budgets = budgets::text(limits, &layouts);
    let between = if budgets.is_empty() { "" } else { "\n" };
    let names = JobNames::of(gpus.iter().flat_map(|view| view.jobs.iter().map(|(job, _)| *job)));
    Ok(Outcome::ok(format!("{}{between}{budgets}", text(&gpus, &names))))
}

fn as_json(view: &GpuPowerView) -> Value {
    let of = |(job, cap): &(JobId, Option<u16>)| {
        let mut value = json!({ "job": job.0, "cap_w": cap });
        if let Some(used) = used(view, *job) {
            value["used_j"] = json!(used.joules());
            value["is_estimate"] = json!(used.estimated_mj > 0);
        }
        value
    };
    let jobs: Vec<Value> = view.jobs.iter().map(of).collect();
    let mut value = json!({ "gpu": view.gpu.0, "jobs": jobs });
    match &view.power {
        Ok(power) => {
            let all = [
                ("found_w", power.found_mw),
                ("set_w", power.set_mw),
                ("enforced_w", power.enforced_mw),
                ("draw_w", power.draw_mw),
            ];
            all.into_iter().for_each(|(key, mw)| value[key] = json!(watts(mw)));
            value["counted_j"] = json!(power.counted_mj.map(|mj| mj / 1000));
        }
        Err(why) => value["problem"] = json!(why),
    }
    value
}

fn text(gpus: &[GpuPowerView], names: &JobNames) -> String {
    let mut rows = vec![["GPU", "FOUND", "SET", "ENFORCED", "DRAW", "JOBS"].map(str::to_owned).to_vec()];
    for view in gpus {
        let jobs: Vec<String> =
            view.jobs.iter().map(|(job, cap)| in_words(&names.name(*job), *cap, used(view, *job))).collect();
        let jobs = jobs.join(", ");
        let mut row = vec![view.gpu.to_string()];
        match &view.power {
            Ok(p) => {
                let all = [p.found_mw, p.set_mw, p.enforced_mw, p.draw_mw];
                row.extend(all.map(|mw| format!("{:.0} W", watts(mw))));
                row.push(if jobs.is_empty() { "-".to_owned() } else { jobs });
            }
            Err(why) => {
                row.extend(["-"; 4].map(str::to_owned));
                row.push(if jobs.is_empty() { why.clone() } else { format!("{jobs}; {why}") });
            }
        }
        rows.push(row);
    }
    table::render(&rows, &[0, 1, 2, 3, 4])
}

fn used(view: &GpuPowerView, job: JobId) -> Option<Used> {
    view.used.iter().find(|(other, _)| *other == job).map(|(_, used)| *used)
}

/// A job with its cap and the energy that it has used; a tilde marks an estimate.
fn in_words(job: &str, cap_w: Option<u16>, used: Option<Used>) -> String {
    let tilde = |used: Used| if used.estimated_mj > 0 { "~" } else { "" };
    let energy = used.map(|used| format!("{}{} J", tilde(used), used.joules()));
    let said: Vec<String> = cap_w.map(|watts| format!("{watts} W")).into_iter().chain(energy).collect();
    if said.is_empty() { job.to_owned() } else { format!("{job} ({})", said.join(", ")) }
}

fn watts(mw: u32) -> f64 {
    f64::from(mw) / 1000.0
}

#[cfg(test)]
mod tests {
    use gpu_node::GpuPower;
    use insta::assert_snapshot;
    use node_driver::NvmlIndex;

    use super::*;

    #[test]
    fn a_line_for_each_gpu() {
        let power = |found_mw, set_mw, enforced_mw, draw_mw| {
            Ok(GpuPower {
                found_mw,
                set_mw,
                enforced_mw,
                draw_mw,
                range_mw: Some((100_000, 400_000)),
                counted_mj: None,
                is_persistent: None,
            })
        };
        let used = [
            (JobId(12), Used { exact_mj: 3_500_000, estimated_mj: 0 }),
            (JobId(14), Used { exact_mj: 0, estimated_mj: 900_900 }),
        ];
        let view = |gpu, power, jobs: &[(u32, Option<u16>)]| GpuPowerView {
            gpu: NvmlIndex(gpu),
            power,
            jobs: jobs.iter().map(|(job, cap)| (JobId(*job), *cap)).collect(),
            used: if gpu == 0 { used.to_vec() } else { Vec::new() },
        };
        let gpus = [
            view(0, power(400_000, 190_000, 160_000, 158_400), &[(12, Some(190)), (14, Some(150))]),
            view(1, power(400_000, 400_000, 400_000, 36_000), &[(13, None)]),
            view(2, Err("GPU 2: cannot open it: the GPU is lost".to_owned()), &[]),
        ];
        assert_snapshot!(text(&gpus, &JobNames::default()), @r"
        GPU  FOUND    SET  ENFORCED   DRAW  JOBS
          0  400 W  190 W     160 W  158 W  12 (190 W, 3500 J), 14 (150 W, ~900 J)
          1  400 W  400 W     400 W   36 W  13
          2      -      -         -      -  GPU 2: cannot open it: the GPU is lost
        ");
        assert_eq!(as_json(&gpus[0])["enforced_w"], json!(160.0));
        assert_eq!(as_json(&gpus[2])["problem"], json!("GPU 2: cannot open it: the GPU is lost"));
    }
}
