//! CASE-MIG's batch on system A: 32 jobs, every other one isolated, on one A30, against MIG as an administrator sets it up
//! under Slurm alone, and beside what `tessera simulate case` predicts for the same jobs.
//!
//! All jobs are queued before the first may start. They are real jobs of `sbatch`, whose programs hold memory and use their
//! device as long as the simulator says; the simulated GPU does not slow tasks that share it. Nothing is scaled.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lab::command::{run, wait_for};
use lab::config::Templates;
use lab::{Cluster, HarnessError, JobId, User, paths};
use serde_json::Value;
use slurm_releases::Release;

use super::Bench;
use super::stats::Spread;
use super::table::{self, Reference, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};
use crate::setup;

/// The node, one GPU with MIG switched on.
const NODE: &str = "[[nodes]]\nnames = \"g1\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"on\"\n";
/// Options by which the simulator has the same node and layout.
const SIMULATED: [&str; 4] = ["--node", "a30-24gb,1/1g.6gb*4", "--mix", "mig:A:1-1"];
const INSTANCES: usize = 4;
/// How long a batch may take.
const LIMIT: Duration = Duration::from_secs(600);

/// How the batch is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Slurm alone with four instances as four GPUs.
    Static,
    /// Tessera with one queue.
    OneQueue,
    /// Tessera with a partition for each of CASE-MIG's two queues, isolated jobs first.
    TwoQueues,
    /// As above, with the memory of an MPS client's context on the simulated GPU as `context_mib`.
    SmallContexts,
}

impl Way {
    const TESSERA: [Way; 3] = [Way::OneQueue, Way::TwoQueues, Way::SmallContexts];

    fn name(self) -> &'static str {
        match self {
            Way::Static => "static MIG",
            Way::OneQueue => "one queue",
            Way::TwoQueues => "two queues",
            Way::SmallContexts => "two queues, context_mib 64",
        }
    }

    fn templates(self) -> Result<Templates, HarnessError> {
        let mut templates = Templates::for_nodes(NODE)?;
        match self {
            Way::Static => {
                let with = |text: &str| text.replace("gpu:a30:1,shard:24", "gpu:1g.6gb:4");
                templates.slurm = with(&templates.slurm).replace("GresTypes=gpu,shard", "GresTypes=gpu");
                templates.gres = "NodeName=g1 Name=gpu Type=1g.6gb File=/dev/nvidia[0-3]\n".to_owned();
            }
            Way::OneQueue => {}
            Way::TwoQueues | Way::SmallContexts => {
                templates.slurm += "PartitionName=isolated Nodes=ALL PriorityTier=2 State=UP\n\
                                    PartitionName=shared Nodes=ALL PriorityTier=1 State=UP\n";
            }
        }
        let context = if self == Way::SmallContexts { "context_mib = 64\n" } else { "" };
        templates.tessera = templates.tessera.replace("\n[mps]\n", &format!("\n[tasks]\n{context}\n[mps]\n"));
        Ok(templates)
    }

    fn partitions(self) -> &'static [&'static str] {
        match self {
            Way::Static | Way::OneQueue => &["gpu"],
            Way::TwoQueues | Way::SmallContexts => &["isolated", "shared"],
        }
    }

    fn options(self, is_isolated: bool) -> Vec<&'static str> {
        let kind =
            if is_isolated { "--gpu-isolation=mig:1g.6gb" } else { "--gpu-isolation=gpu-tasks:probes" };
        let mut options = vec!["-t2", if self == Way::Static { "--gres=gpu:1" } else { kind }];
        if self.partitions().len() > 1 {
            options.push(if is_isolated { "--partition=isolated" } else { "--partition=shared" });
        }
        options
    }

    fn cluster(self, bench: &Bench, release: Release) -> Result<Cluster, TaskError> {
        let builder = Cluster::builder().slurm(release).templates(self.templates()?);
        let builder = builder.slurm_conf("MinJobAge=86400").guardian(guardian()?);
        let builder = if self == Way::Static { builder.stock(true).simulated() } else { builder };
        let cluster = if bench.debug { builder } else { builder.release() }.start()?;
        compile(&cluster, self != Way::Static)?;
        if self == Way::Static {
            cut(&cluster)?;
        }
        Ok(cluster)
    }
}

/// Compiles the jobs' program into the cluster.
fn compile(cluster: &Cluster, with_tasks: bool) -> Result<(), TaskError> {
    let at = |name: &str| cluster.layout().at(name);
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(paths::workspace().join("crates/sim/cuda-sim/include"));
    cc.arg("-I").arg(paths::workspace().join("contrib/case-pass/include"));
    cc.arg(paths::workspace().join("xtask/src/bench/case_mig.c")).arg(at("lib/libcuda.so.1"));
    if with_tasks {
        cc.arg("-DTASKS").arg(at("lib/libtessera_task.so"));
    }
    cc.arg("-o").arg(at("bin/case-mig"));
    run(&mut cc)?.ok()?;
    Ok(())
}

/// Cuts the GPU as an administrator does, and writes the instances' UUIDs where jobs find them: Slurm only counts them.
fn cut(cluster: &Cluster) -> Result<(), TaskError> {
    let smi = |args: &[&str]| -> Result<String, HarnessError> {
        run(cluster.command_on("g1", User::Root, "nvidia-smi")?.args(args))?.ok()
    };
    smi(&["mig", "-cgi", &["1g.6gb"; INSTANCES].join(","), "-C"])?;
    let listed = smi(&["-L"])?;
    let uuids: Vec<&str> =
        listed.lines().filter_map(|l| Some(&l[l.find("MIG-")?..]).map(|u| u.trim_end_matches(')'))).collect();
    if uuids.len() != INSTANCES {
        return Err(TaskError::Other(format!("nvidia-smi -L: {listed}")));
    }
    let path = cluster.layout().jobs().join("uuids");
    at(&path, fs::write(&path, uuids.join("\n") + "\n"))
}

/// A batch as it went: seconds from the first possible start to the end of each job.
struct Ran {
    ends: Vec<f64>,
}

impl Ran {
    fn makespan(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// Throughput over `base`'s, and the mean over the jobs of `base`'s turnaround over ours: the simulator's measures.
    fn over(&self, base: &Ran) -> (f64, f64) {
        let ratios = base.ends.iter().zip(&self.ends).map(|(base, own)| base / own);
        (base.makespan() / self.makespan(), ratios.sum::<f64>() / self.ends.len() as f64)
    }
}

/// Reads a line of `tessera simulate case --print-jobs`: whether it is isolated, and the program's arguments.
fn job_of(line: &str) -> Option<(bool, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let phases = value["phases"].as_array()?;
    let (host, gpu) = (phases.first()?["host"].as_f64()?, phases.get(1)?);
    let (mem, threads, blocks) = (gpu["mem"].as_u64()?, gpu["threads"].as_u64()?, gpu["blocks"].as_u64()?);
    let (host, gpu) = (host * 1e3, gpu["gpu"].as_f64()? * 1e3);
    let words = format!("{host:.0} {mem} {threads} {blocks} {gpu:.0}");
    Some((value["isolated"].as_bool()?, words))
}

fn batch(cluster: &Cluster, way: Way, jobs: &str) -> Result<Ran, TaskError> {
    let set = |state: &str| -> Result<(), HarnessError> {
        for name in way.partitions() {
            let partition = format!("partitionname={name}");
            cluster.run(User::Root, "scontrol", &["update", &partition, state])?.ok()?;
        }
        Ok(())
    };
    set("state=down")?;
    let mut ids: Vec<JobId> = Vec::new();
    for (is_isolated, words) in jobs.lines().filter_map(job_of) {
        // As Slurm's own plugin for NVML would, which reads the instances of a real driver.
        let own = "export CUDA_VISIBLE_DEVICES=$(sed -n \"$((CUDA_VISIBLE_DEVICES + 1))p\" uuids)\n";
        let own = if way == Way::Static { own } else { "" };
        let script = format!("{own}exec case-mig {words}");
        ids.push(cluster.sbatch(User::Alice, &way.options(is_isolated), &script)?);
    }
    let begin = seconds();
    set("state=up")?;
    let list = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let look = || -> Result<String, HarnessError> {
        let mut squeue = cluster.command(User::Root, "squeue")?;
        squeue.args(["-h", "-t", "all", "-S", "i", "-O", "JobID:12,State:20,EndTime:22"]);
        run(squeue.arg(format!("--jobs={list}")).env("SLURM_TIME_FORMAT", "%s"))?.ok()
    };
    const RUNS: [&str; 4] = ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"];
    let text = wait_for("the batch to be over", LIMIT, || {
        let text = look().map_err(|e| e.to_string())?;
        let is_over = text.lines().count() == ids.len() && !RUNS.iter().any(|state| text.contains(state));
        if is_over { Ok(text) } else { Err(text) }
    })?;
    let mut ends = Vec::new();
    for (line, id) in text.lines().zip(&ids) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [job, "COMPLETED", end] if job == id.to_string() => {
                ends.push(end.parse::<f64>().unwrap_or(f64::NAN) - begin);
            }
            _ => return Err(TaskError::Other(format!("{way:?}: {line}: {}", cluster.output(*id)))),
        }
    }
    cluster.wait_idle()?;
    Ok(Ran { ends })
}

fn seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64())
}

/// Predictions of the simulator.
struct Predicted {
    makespans: [f64; 2],
    throughput: f64,
    turnaround: f64,
}

fn simulate(cluster: &Cluster, args: &[&str]) -> Result<String, TaskError> {
    Ok(run(cluster.command(User::Alice, "tessera")?.args(["simulate", "case"]).args(args))?.ok()?)
}

fn predict(cluster: &Cluster, seed: &str) -> Result<Predicted, TaskError> {
    let mut args = SIMULATED.to_vec();
    args.extend(["--seed", seed, "--policy", "slurm,case-mig", "--json"]);
    let text = simulate(cluster, &args)?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let get = |at: usize, key: &str| {
        value[at][key].as_f64().ok_or_else(|| TaskError::Other(format!("no {key}: {text}")))
    };
    let makespans = [get(0, "makespan")?, get(1, "makespan")?];
    let (throughput, turnaround) = (get(1, "throughput_vs_slurm")?, get(1, "turnaround_vs_slurm")?);
    Ok(Predicted { makespans, throughput, turnaround })
}

/// Runs `repeat` batches from `seed` on in every way, on both Slurms.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let mut rows = Vec::new();
    for release in [Release::V22_05, Release::V24_11] {
        setup::run(Some(release), setup::Purpose::Tests)?;
        let clusters: Vec<(Way, Cluster)> = std::iter::once(Way::Static)
            .chain(Way::TESSERA)
            .map(|way| Ok((way, way.cluster(bench, release)?)))
            .collect::<Result<_, TaskError>>()?;
        for seed in (bench.seed..).take(bench.repeat) {
            eprintln!("bench: case-mig: Slurm {release}, seed {seed}");
            let new = of_seed(&clusters, release, &seed.to_string())?;
            // A run takes long: nothing is lost if a later one fails.
            eprint!("{}", table::text(&new, &table::load()));
            rows.extend(new);
        }
    }
    Ok(rows)
}

/// Runs a batch on all clusters side by side: its jobs mostly sleep.
fn of_seed(clusters: &[(Way, Cluster)], release: Release, seed: &str) -> Result<Vec<Row>, TaskError> {
    let any = &clusters[0].1;
    let mut args = SIMULATED.to_vec();
    args.extend(["--seed", seed, "--print-jobs"]);
    let jobs = simulate(any, &args)?;
    let predicted = predict(any, seed)?;
    let ran = thread::scope(|scope| -> Result<Vec<(Way, Ran)>, TaskError> {
        let running: Vec<_> = clusters
            .iter()
            .map(|(way, cluster)| (*way, scope.spawn(|| batch(cluster, *way, &jobs))))
            .collect();
        let failed = || TaskError::Other("a batch's thread panicked".to_owned());
        running.into_iter().map(|(way, thread)| Ok((way, thread.join().map_err(|_| failed())??))).collect()
    })?;
    let Some((_, base)) = ran.first() else { return Ok(Vec::new()) };
    let row = |way: Way, what: &str, unit: &'static str, ours: f64, reference: f64| {
        let case = format!("{release}, seed {seed}, {}: {what}", way.name());
        let spread = |value: f64| Spread::of(&[value]);
        let reference = Reference::Measured("simulated".to_owned(), spread(reference)?);
        Some(Row { bench: "case-mig", case, unit, ours: spread(ours)?, reference })
    };
    let mut rows = Vec::new();
    rows.extend(row(Way::Static, "makespan", "s", base.makespan(), predicted.makespans[0]));
    for (way, own) in &ran[1..] {
        let (throughput, turnaround) = own.over(base);
        rows.extend(row(*way, "makespan", "s", own.makespan(), predicted.makespans[1]));
        rows.extend(row(*way, "throughput over static MIG", "x", throughput, predicted.throughput));
        rows.extend(row(*way, "turnaround over static MIG", "x", turnaround, predicted.turnaround));
    }
    Ok(rows)
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
    fn a_batch_is_measured_as_the_simulator_measures() {
        let (base, own) = (Ran { ends: vec![10.0, 40.0] }, Ran { ends: vec![10.0, 20.0] });
        assert_eq!(own.over(&base), (2.0, 1.5));
    }

    #[test]
    fn the_static_node_counts_instances() {
        let templates = Way::Static.templates().unwrap();
        assert!(templates.slurm.contains("Gres=gpu:1g.6gb:4\n"), "{}", templates.slurm);
        assert!(Way::TwoQueues.templates().unwrap().tessera.contains("\n[tasks]\n\n[mps]"));
    }
}
