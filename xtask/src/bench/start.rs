//! Measures the time from submission to the task's first line, for each kind of job in turn, on clusters side by side.
//!
//! It uses `srun`, which starts at once. A batch job waits up to three seconds for Slurm's scheduler, with and without
//! Tessera.

use std::time::{Duration, SystemTime};

use lab::command::run;
use lab::{Cluster, HarnessError, JobId, User};

use super::clusters::{self, Driver};
use super::kinds::{JobKind, SINGLE};
use super::stats::Spread;
use super::table::{Reference, Row};
use super::{Bench, prolog};
use crate::command::TaskError;

/// Jobs that stay: they leave one GPU of n1, and on n2 two GPUs, a pool of Alice's and an MPS daemon of hers to join.
const HOLDERS: [JobKind; 3] = [
    JobKind {
        name: "",
        ours: &["-w", "n1", "--gpu-isolation=whole", "--gpus-per-node=7"],
        stock: &["-w", "n1", "--gres=gpu:7"],
    },
    JobKind {
        name: "",
        ours: &["-w", "n2", "--gpu-isolation=gpu-tasks:probes", "--gpu-mem=3G"],
        stock: &["-w", "n2", "--gres=shard:1"],
    },
    JobKind {
        name: "",
        ours: &["-w", "n2", "--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25"],
        stock: &["-w", "n2", "--gres=shard:3"],
    },
];

/// A cluster, and what was measured on it: milliseconds and jobs, by kind.
struct Lane {
    cluster: Cluster,
    stock: bool,
    times: Vec<Vec<f64>>,
    jobs: Vec<Vec<JobId>>,
}

impl Lane {
    fn new(cluster: Cluster, stock: bool) -> Result<Self, HarnessError> {
        for holder in &HOLDERS {
            let options = if stock { holder.stock } else { holder.ours };
            let job = cluster.sbatch(User::Alice, options, "sleep 3600")?;
            cluster.wait_running(job)?;
        }
        Ok(Self {
            cluster,
            stock,
            times: vec![Vec::new(); SINGLE.len()],
            jobs: vec![Vec::new(); SINGLE.len()],
        })
    }

    /// Runs one job of the kind and notes its time, unless it is only to warm up.
    fn round(&mut self, index: usize, note: bool) -> Result<(), HarnessError> {
        let (user, kind) = &SINGLE[index];
        let (job, ms) = once(&self.cluster, *user, if self.stock { kind.stock } else { kind.ours })?;
        if note {
            self.times[index].push(ms);
            self.jobs[index].push(job);
        }
        clusters::settled(&self.cluster)
    }

    fn spread(&self, index: usize) -> Result<Spread, TaskError> {
        Spread::of(&self.times[index]).ok_or_else(|| TaskError::Other("no rounds, no times".to_owned()))
    }
}

/// Job and time from just before `srun` is started until its task runs, in milliseconds.
fn once(cluster: &Cluster, user: User, options: &[&str]) -> Result<(JobId, f64), HarnessError> {
    let mut command = cluster.command(user, "srun")?;
    command.args(options).args(["sh", "-c", "date +%s%N; echo $SLURM_JOB_ID"]);
    let begin = SystemTime::now();
    let out = run(&mut command)?.ok()?;
    let mut numbers = out.lines().filter_map(|line| line.trim().parse::<u64>().ok());
    let unexpected = || HarnessError::Unexpected(format!("a task printed: {out}"));
    let (Some(nanos), Some(job)) = (numbers.next(), numbers.next()) else { return Err(unexpected()) };
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
    let took = started.duration_since(begin).map_err(|_| unexpected())?;
    Ok((JobId(u32::try_from(job).map_err(|_| unexpected())?), took.as_secs_f64() * 1e3))
}

/// Runs all kinds in turn on all clusters in turn, `rounds` times, and gives the rows of the benchmarks that are wanted.
pub(super) fn measure(bench: &Bench, start: bool, prolog: bool) -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: starting clusters");
    let mut lanes = vec![Lane::new(clusters::tessera(bench, Driver::Instant)?, false)?];
    if start {
        lanes.push(Lane::new(clusters::stock(bench)?, true)?);
        lanes.push(Lane::new(clusters::tessera(bench, Driver::Real)?, false)?);
    }
    for round in 0..=bench.rounds {
        eprintln!("bench: start: round {round} of {}", bench.rounds);
        for index in 0..SINGLE.len() {
            for lane in &mut lanes {
                // The first round cuts n1's GPU as every later one finds it.
                lane.round(index, round > 0)?;
            }
        }
    }
    let mut rows = Vec::new();
    if let [ours, stock, real] = lanes.as_slice() {
        for (index, (_, kind)) in SINGLE.iter().enumerate() {
            rows.push(row(kind.name.to_owned(), ours.spread(index)?, stock.spread(index)?));
            if kind.name.starts_with("mig") {
                let case = format!("{}, driver as slow as real", kind.name);
                rows.push(row(case, real.spread(index)?, stock.spread(index)?));
            }
        }
    }
    if prolog {
        let all = SINGLE.iter().zip(&lanes[0].jobs);
        let all = all.map(|((_, kind), jobs)| (kind.name, prolog::read(&lanes[0].cluster, jobs)));
        rows.extend(prolog::rows(&all.collect::<Vec<_>>()));
    }
    for lane in lanes.iter_mut().filter(|lane| !lane.stock) {
        lane.cluster.run(User::Root, "scancel", &["--user", User::Alice.name()])?.ok()?;
        lane.cluster.wait_idle()?;
        let found = clusters::findings(&lane.cluster)?;
        if !found.is_empty() {
            lane.cluster.keep_files();
            return Err(TaskError::Other(format!("after the jobs: {}", found.join("\n"))));
        }
    }
    Ok(rows)
}

fn row(case: String, ours: Spread, stock: Spread) -> Row {
    Row {
        bench: "start",
        case,
        unit: "ms",
        ours,
        reference: Reference::Measured("plain Slurm".to_owned(), stock),
    }
}
