//! Runs a batch of moldable tasks as planned, and the same batch without a plan, as users would submit it.
//!
//! The node is one A100 with the real driver's times. A task sleeps for its time on the instance it got: any deviation
//! from the plan comes from Slurm or from Tessera. The actual makespan runs from the first job's start to the last job's
//! end, as Slurm records them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::command::{run, wait_for};
use lab::config::Templates;
use lab::{Cluster, HarnessError, JobId, User};

use super::Bench;
use super::stats::Spread;
use super::table::{Reference, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};

/// The node.
const NODE: &str = "[[nodes]]\nnames = \"g1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
/// Instance sizes, compute slices.
const SIZES: [u32; 5] = [1, 2, 3, 4, 7];
/// Time on one slice (s), and how many times as fast the task is on 2, 3, 4 and 7: six that scale well, five that gain
/// something, five that hardly do, as in the paper's Mixed workloads.
const TASKS: [(u32, [f64; 4]); 16] = [
    (116, [1.98, 2.9, 3.8, 6.2]),
    (104, [1.95, 2.85, 3.7, 6.0]),
    (96, [2.2, 3.1, 3.9, 6.1]),
    (88, [1.9, 2.8, 3.6, 5.8]),
    (70, [1.95, 2.8, 3.6, 5.5]),
    (62, [1.9, 2.7, 3.4, 5.2]),
    (84, [1.8, 2.2, 2.4, 2.6]),
    (66, [1.75, 2.1, 2.3, 2.5]),
    (58, [1.7, 2.0, 2.1, 2.2]),
    (46, [1.8, 2.1, 2.2, 2.3]),
    (38, [1.6, 1.8, 1.9, 2.0]),
    (72, [1.15, 1.2, 1.2, 1.2]),
    (54, [1.1, 1.15, 1.2, 1.2]),
    (44, [1.1, 1.1, 1.1, 1.1]),
    (36, [1.2, 1.25, 1.25, 1.25]),
    (28, [1.1, 1.15, 1.15, 1.15]),
];
/// How long a whole run may take.
const LIMIT: Duration = Duration::from_secs(1200);

/// Seconds of each task on each size.
fn times() -> Vec<[f64; 5]> {
    let time = |(one, speedup): &(u32, [f64; 4])| {
        let one = f64::from(*one);
        let on = |k: usize| (one / speedup[k] * 10.0).round() / 10.0;
        [one, on(0), on(1), on(2), on(3)]
    };
    TASKS.iter().map(time).collect()
}

/// Returns the command of a job: it sleeps by the size it got; a whole GPU counts as the largest.
fn command(times: &[f64; 5]) -> String {
    let case = |(size, time): (&u32, &f64)| format!("{size}g.*) sleep {time};;");
    let cases: Vec<String> = SIZES.iter().zip(times).map(case).collect();
    format!("case $TESSERA_INSTANCES in {} *) sleep {};; esac", cases.join(" "), times[4])
}

/// The batch as `tessera plan` reads it.
fn batch() -> String {
    let mut text = "name,1g,2g,3g,4g,7g,command\n".to_owned();
    for (k, times) in times().iter().enumerate() {
        let fields: Vec<String> = times.iter().map(|time| format!("{time}s")).collect();
        text += &format!("task{},{},{}\n", k + 1, fields.join(","), command(times));
    }
    text
}

/// Runs the batch in every way and gives a row for each.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let mut templates = Templates::for_nodes(NODE)?;
    templates.time_scale = 1.0;
    let builder = Cluster::builder().templates(templates).slurm_conf("MinJobAge=86400").guardian(guardian()?);
    let cluster = if bench.debug { builder } else { builder.release() }.start()?;
    // The first instance switches MIG on, which resets the GPU: nobody's plan has that.
    cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb"], "true")?;
    let file = cluster.layout().jobs().join("batch.csv");
    at(&file, fs::write(&file, batch()))?;
    let mut rows = Vec::new();
    for policy in ["tessera", "far", "fixpart-best"] {
        eprintln!("bench: plan: policy {policy}");
        let (planned, real) = carried_out(&cluster, &file, policy)?;
        rows.push(row(format!("16 tasks, policy {policy}, submitted"), real, "its plan", planned)?);
    }
    let planned = rows[0].ours.median;
    let ways: [(&str, &[&str]); 2] = [
        ("as 7 x 1g", &["--gpu-isolation=mig:1g.5gb"]),
        ("as whole GPUs", &["--gpu-isolation=whole", "--gpus-per-node=1"]),
    ];
    for (name, options) in ways {
        eprintln!("bench: plan: {name}");
        let real = unplanned(&cluster, options)?;
        rows.push(row(format!("16 tasks {name}, no plan"), real, "policy tessera", planned)?);
    }
    Ok(rows)
}

fn row(case: String, ours: f64, name: &str, reference: f64) -> Result<Row, TaskError> {
    let spread = |value: f64| Spread::of(&[value]).ok_or_else(|| TaskError::Other("no time".to_owned()));
    let reference = Reference::Measured(name.to_owned(), spread(reference)?);
    Ok(Row { bench: "plan", case, unit: "s", ours: spread(ours)?, reference })
}

/// Planned and real makespan under a policy.
fn carried_out(cluster: &Cluster, file: &Path, policy: &str) -> Result<(f64, f64), TaskError> {
    let record: PathBuf = cluster.layout().jobs().join(format!("{policy}.json"));
    let mut plan = cluster.command(User::Alice, "tessera")?;
    plan.arg("plan").arg("--tasks").arg(file).args(["--on", "g1", "--submit", "--wait", "--policy", policy]);
    plan.arg("--record").arg(&record).args(["--", "--output=/dev/null"]);
    let said = run(&mut plan)?.ok()?;
    eprintln!("{said}");
    let mut reality = cluster.command(User::Alice, "tessera")?;
    let json = run(reality.args(["plan", "--json", "--reality"]).arg(&record))?.ok()?;
    let value: serde_json::Value = serde_json::from_str(&json)
        .map_err(|e| TaskError::Other(format!("tessera plan --reality --json: {e}")))?;
    let get = |key: &str| value[key].as_f64().ok_or_else(|| TaskError::Other(format!("no {key}: {json}")));
    cluster.wait_idle()?;
    Ok((get("makespan")?, get("real_makespan")?))
}

/// Makespan of the batch when it is submitted in its given order with the same options for every task.
fn unplanned(cluster: &Cluster, options: &[&str]) -> Result<f64, TaskError> {
    let submit = |times: &[f64; 5]| cluster.sbatch(User::Alice, options, &command(times));
    let jobs: Vec<JobId> = times().iter().map(submit).collect::<Result<_, _>>()?;
    let list = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let look = || -> Result<String, HarnessError> {
        let mut squeue = cluster.command(User::Root, "squeue")?;
        squeue.args(["-h", "-t", "all", "-O", "State:20,StartTime:22,EndTime:22", &format!("--jobs={list}")]);
        run(squeue.env("SLURM_TIME_FORMAT", "%s"))?.ok()
    };
    let done = |text: &str| text.lines().filter(|l| l.starts_with("COMPLETED")).count() == jobs.len();
    let text = wait_for("the batch to be over", LIMIT, || {
        let text = look().map_err(|e| e.to_string())?;
        if done(&text) { Ok(text) } else { Err(text) }
    })?;
    let times = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?))
    });
    let (first, last) = times.fold((f64::MAX, f64::MIN), |(a, b), (start, end)| (a.min(start), b.max(end)));
    cluster.wait_idle()?;
    Ok(last - first)
}

#[cfg(test)]
mod tests {
    #[test]
    fn larger_instances_are_never_slower() {
        for times in super::times() {
            assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
        }
        assert!(
            super::batch()
                .lines()
                .nth(1)
                .is_some_and(|l| l.starts_with("task1,116s,58.6s,40s,30.5s,18.7s,case"))
        );
    }
}
