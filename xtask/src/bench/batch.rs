//! Batches of the CASE papers as real jobs: all are queued before the first may start. Their programs hold memory and use their
//! device as long as the simulator says; the simulated GPU does not slow tasks that share it. Nothing is scaled.

use std::process::Command;
use std::time::Duration;

use lab::command::{run, wait_for};
use lab::{Cluster, HarnessError, JobId, User, paths};
use serde_json::Value;

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::TaskError;

/// How long a batch may take.
const LIMIT: Duration = Duration::from_secs(900);

/// Compiles the jobs' program into the cluster.
pub(super) fn compile(cluster: &Cluster, with_tasks: bool) -> Result<(), TaskError> {
    let at = |name: &str| cluster.layout().at(name);
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(paths::workspace().join("crates/sim/cuda-sim/include"));
    cc.arg("-I").arg(paths::workspace().join("contrib/case-pass/include"));
    cc.arg(paths::workspace().join("xtask/src/bench/case_job.c")).arg(at("lib/libcuda.so.1"));
    if with_tasks {
        cc.arg("-DTASKS").arg(at("lib/libtessera_task.so"));
    }
    cc.arg("-o").arg(at("bin/case-job"));
    run(&mut cc)?.ok()?;
    Ok(())
}

/// A batch as it went: seconds from the first possible start to the end of each job's program.
pub(super) struct Ran {
    pub(super) ends: Vec<f64>,
}

impl Ran {
    pub(super) fn makespan(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// Throughput over `base`'s, and the mean over the jobs of `base`'s turnaround over ours: the simulator's measures.
    pub(super) fn over(&self, base: &Ran) -> (f64, f64) {
        let ratios = base.ends.iter().zip(&self.ends).map(|(base, own)| base / own);
        (base.makespan() / self.makespan(), ratios.sum::<f64>() / self.ends.len() as f64)
    }
}

/// Reads a line of `tessera lab simulate case --print-jobs`: whether it is isolated, and the program's arguments.
fn job_of(line: &str) -> Option<(bool, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let phases = value["phases"].as_array()?;
    let (host, gpu) = (phases.first()?["host"].as_f64()?, phases.get(1)?);
    let (mem, threads, blocks) = (gpu["mem"].as_u64()?, gpu["threads"].as_u64()?, gpu["blocks"].as_u64()?);
    let (host, gpu) = (host * 1e3, gpu["gpu"].as_f64()? * 1e3);
    let words = format!("{host:.0} {mem} {threads} {blocks} {gpu:.0}");
    Some((value["isolated"].as_bool()?, words))
}

/// How a batch's jobs are submitted.
pub(super) struct Submission<'a> {
    pub(super) partitions: &'a [&'a str],
    /// Options of a job, which is isolated or not.
    pub(super) options: &'a dyn Fn(bool) -> Vec<&'static str>,
    /// Lines of each script before the program.
    pub(super) prelude: &'a str,
}

/// Runs the jobs that the simulator printed, and waits for the last.
pub(super) fn play(cluster: &Cluster, how: &Submission, jobs: &str) -> Result<Ran, TaskError> {
    let submit = |(is_isolated, words): (bool, String)| {
        let script = format!("{}exec case-job {words}", how.prelude);
        cluster.sbatch(User::Alice, &(how.options)(is_isolated), &script)
    };
    let (ids, begin) =
        queued(cluster, how.partitions, || jobs.lines().filter_map(job_of).map(submit).collect())?;
    let mut ends = Vec::new();
    for id in &ids {
        let said = cluster.output(*id);
        // A job of GPU tasks says first what it got.
        let end = said.lines().find_map(|line| line.strip_prefix("ended with 0 at ")?.parse::<f64>().ok());
        let failed = || TaskError::Other(format!("job {id}: {said}"));
        ends.push(end.ok_or_else(failed)? - begin);
    }
    cluster.wait_idle()?;
    Ok(Ran { ends })
}

/// Submits jobs while no partition lets one start, then lets them start, and waits for the last. Returns their ids, and when the first
/// could start, in seconds since 1970.
pub(super) fn queued(
    cluster: &Cluster,
    partitions: &[&str],
    submit: impl FnOnce() -> Result<Vec<JobId>, HarnessError>,
) -> Result<(Vec<JobId>, f64), TaskError> {
    let set = |state: &str| -> Result<(), HarnessError> {
        for name in partitions {
            let partition = format!("partitionname={name}");
            cluster.run(User::Root, "scontrol", &["update", &partition, state])?.ok()?;
        }
        Ok(())
    };
    set("state=down")?;
    let ids = submit()?;
    let begin = seconds();
    set("state=up")?;
    over(cluster, &ids)?;
    Ok((ids, begin))
}

/// Waits until no job of the batch is pending or running.
fn over(cluster: &Cluster, ids: &[JobId]) -> Result<(), TaskError> {
    const RUNS: [&str; 4] = ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"];
    let list = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    wait_for("the batch to be over", LIMIT, || {
        let jobs = format!("--jobs={list}");
        let listed =
            cluster.run(User::Root, "squeue", &["-h", "-t", "all", "-O", "JobID:12,State:20", &jobs]);
        let text = listed.and_then(lab::command::Done::ok).map_err(|e| e.to_string())?;
        let is_over = text.lines().count() == ids.len() && !RUNS.iter().any(|state| text.contains(state));
        if is_over { Ok(()) } else { Err(text) }
    })?;
    Ok(())
}

fn seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64())
}

/// Memory of the simulator's V100, as the artefact of CASE has it, and of the one on a node; and that of a process's context there, MiB.
const MEMORY: (u64, u64) = (14_000, 16_130);
const CONTEXT: u64 = 512;

/// Changes the jobs that the simulator printed to those of a V100 as it is on a node: with its memory and a context for each process, and no job slows
/// another down.
pub(super) fn as_on_a_node(jobs: &str) -> String {
    let on_node = |bytes: u64| (bytes + (CONTEXT << 20)) / MEMORY.1 * MEMORY.0;
    let changed = jobs.lines().filter_map(|line| {
        let mut job: Value = serde_json::from_str(line).ok()?;
        job["mem"] = on_node(job["mem"].as_u64()?).into();
        for phase in job["phases"].as_array_mut()?.iter_mut().filter(|phase| phase.get("demand").is_some()) {
            phase["demand"] = 0.into();
            phase["mem"] = on_node(phase["mem"].as_u64()?).into();
        }
        Some(format!("{job}\n"))
    });
    changed.collect()
}

/// Predictions of the simulator for a batch under single assignment and under a policy.
pub(super) struct Predicted {
    pub(super) makespans: [f64; 2],
    pub(super) throughput: f64,
    pub(super) turnaround: f64,
}

/// Runs `tessera lab simulate case`.
pub(super) fn simulate(cluster: &Cluster, args: &[&str]) -> Result<String, TaskError> {
    Ok(run(cluster.command(User::Alice, "tessera")?.args(["lab", "simulate", "case"]).args(args))?.ok()?)
}

/// Asks the simulator for the first policy of `policies` and the second, which it compares with `base`.
pub(super) fn predict(
    cluster: &Cluster,
    args: &[&str],
    policies: &str,
    base: &str,
) -> Result<Predicted, TaskError> {
    let text = simulate(cluster, &[args, &["--policy", policies, "--json"]].concat())?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let get = |at: usize, key: &str| {
        value[at][key].as_f64().ok_or_else(|| TaskError::Other(format!("no {key}: {text}")))
    };
    let makespans = [get(0, "makespan")?, get(1, "makespan")?];
    let ratio = |what: &str| get(1, &format!("{what}_vs_{base}"));
    Ok(Predicted { makespans, throughput: ratio("throughput")?, turnaround: ratio("turnaround")? })
}

/// Labels of a batch's rows.
pub(super) struct Batch {
    pub(super) bench: &'static str,
    /// Slurm, mix and way.
    pub(super) case: String,
    /// Name of the way that it is compared with.
    pub(super) over: &'static str,
}

impl Batch {
    /// Returns the rows of a batch as it went, with the simulator's values.
    pub(super) fn rows(&self, own: &Ran, base: &Ran, said: &Predicted) -> Vec<Row> {
        let (throughput, turnaround) = own.over(base);
        let row = |what: &str, unit, ours, simulated| {
            row(self.bench, format!("{}: {what}", self.case), unit, ours, simulated)
        };
        let rows = [
            row("makespan", "s", own.makespan(), said.makespans[1]),
            row(&format!("throughput over {}", self.over), "x", throughput, said.throughput),
            row(&format!("turnaround over {}", self.over), "x", turnaround, said.turnaround),
        ];
        rows.into_iter().flatten().collect()
    }
}

/// Pairs a measured value with the simulator's.
pub(super) fn row(
    bench: &'static str,
    case: String,
    unit: &'static str,
    ours: f64,
    simulated: f64,
) -> Option<Row> {
    let spread = |value: f64| Spread::of(&[value]);
    let reference = Reference::Measured("simulated".to_owned(), spread(simulated)?);
    Some(Row { bench, case, unit, ours: spread(ours)?, reference })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_job_becomes_a_program_s_arguments() {
        let line = r#"{"arrival":0.0,"id":1,"isolated":false,"mem":2350907668,"phases":[{"host":5.1842},
            {"blocks":1048576,"demand":0.2,"gpu":6.0858,"mem":2350907668,"threads":256}]}"#;
        assert_eq!(job_of(line), Some((false, "5184 2350907668 256 1048576 6086".to_owned())));
        assert_eq!(job_of("{}"), None);
    }

    #[test]
    fn a_job_on_a_node_has_a_context_and_slows_nobody() {
        let line = r#"{"mem":1073741824,"phases":[{"host":5.5},{"demand":0.2,"gpu":6.5,"mem":1073741824}]}"#;
        let mem = (1536_u64 << 20) / 16_130 * 14_000;
        let changed =
            format!(r#"{{"mem":{mem},"phases":[{{"host":5.5}},{{"demand":0,"gpu":6.5,"mem":{mem}}}]}}"#);
        assert_eq!(as_on_a_node(line), changed + "\n");
    }

    #[test]
    fn a_batch_is_measured_as_the_simulator_measures() {
        let (base, own) = (Ran { ends: vec![10.0, 40.0] }, Ran { ends: vec![10.0, 20.0] });
        assert_eq!(own.over(&base), (2.0, 1.5));
    }
}
