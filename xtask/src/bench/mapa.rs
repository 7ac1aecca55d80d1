//! MAPA's 300 jobs through a live slurmctld (its Fig. 15), on one simulated DGX-1V, first in, first out: the bandwidth of the sets that
//! sensitive jobs get, beside what `tessera lab simulate mapa` says of the same jobs.

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use lab::config::Templates;
use lab::nodes::DGX_1V;
use lab::{Cluster, HarnessError, User, paths};

use super::Bench;
use super::batch::queued;
use super::stats::Spread;
use super::table::{self, Reference, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};
use crate::setup::Purpose;

/// MAPA's jobs: `GPUS,PATTERN,ARRIVAL,RUN,SENSITIVE,NAME`.
const JOBS: &str = "crates/study/mapa-study/tests/data/mapa/jobs300.txt";
const POLICIES: [&str; 4] = ["baseline", "topo-aware", "greedy", "preserve"];
/// Length of a cycle of the simulator, s: a job runs for 5 to 24 cycles, long compared with the time that Slurm takes between two jobs.
const CYCLE: f64 = 0.3;

/// A line of the file.
#[derive(Debug, PartialEq)]
struct Job {
    gpus: u32,
    pattern: String,
    cycles: f64,
    is_sensitive: bool,
}

impl Job {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(',').collect();
        let [gpus, pattern, _, cycles, sensitive, _] = words[..] else { return None };
        let (gpus, cycles) = (gpus.parse().ok()?, cycles.parse().ok()?);
        Some(Self { gpus, pattern: pattern.to_owned(), cycles, is_sensitive: sensitive == "1" })
    }

    fn options(&self, policy: &str) -> Vec<String> {
        let need = if self.is_sensitive { "sensitive" } else { "insensitive" };
        vec![
            "-t1".to_owned(),
            format!("--gpus-per-node={}", self.gpus),
            format!("--gpu-pattern={}", self.pattern),
            format!("--gpu-bandwidth={need}"),
            format!("--gpu-set-policy={policy}"),
        ]
    }
}

/// Bandwidths that sensitive jobs with several GPUs got, in GB/s by Equation 2, by the job's place in the file; and the cycles until all had ended.
struct Got {
    bandwidths: BTreeMap<usize, f64>,
    makespan: f64,
}

/// Runs the jobs under each policy, on a cluster each.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let slurm = bench.which.set_up(Purpose::Tests)?;
    let file = paths::workspace().join(JOBS);
    let text = at(&file, fs::read_to_string(&file))?;
    let jobs: Vec<Job> = text.lines().filter_map(Job::parse).collect();
    thread::scope(|scope| {
        let (slurm, jobs) = (&slurm, &jobs);
        let runs = POLICIES.map(|policy| {
            scope.spawn(move || -> Result<Vec<Row>, TaskError> {
                let builder = Cluster::builder().slurm(slurm.clone()).templates(templates()?);
                let builder = builder.slurm_conf("MinJobAge=86400").guardian(guardian()?);
                let cluster = if bench.debug { builder } else { builder.release() }.start()?;
                let new = rows(policy, &live(&cluster, jobs, policy)?, &simulated(&cluster, policy)?);
                // A run takes long: nothing is lost if another one fails.
                eprint!("{}", table::text(&new, &table::load()));
                Ok(new)
            })
        });
        let mut all = Vec::new();
        for run in runs {
            all.extend(run.join().map_err(|_| TaskError::Other("a policy's thread panicked".to_owned()))??);
        }
        Ok(all)
    })
}

/// A DGX-1V, Slurm's plain queue, and Equation 2.
fn templates() -> Result<Templates, HarnessError> {
    let mut templates = Templates::for_nodes(&format!("{DGX_1V}[bandwidth]\nmodel = \"mapa2021\"\n"))?;
    templates.slurm = templates.slurm.replace("sched/backfill", "sched/builtin");
    Ok(templates)
}

/// Queues all jobs, and then lets them start.
fn live(cluster: &Cluster, jobs: &[Job], policy: &str) -> Result<Got, TaskError> {
    let submit = |job: &Job| {
        let options = job.options(policy);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let script =
            format!("echo got=$TESSERA_GPU_BANDWIDTH_GBPS\nsleep {}\ndate +end=%s.%N", job.cycles * CYCLE);
        cluster.sbatch(User::Alice, &options, &script)
    };
    let (ids, begin) = queued(cluster, &["gpu"], || jobs.iter().map(submit).collect())?;
    let mut got = Got { bandwidths: BTreeMap::new(), makespan: 0.0 };
    for (place, (job, id)) in jobs.iter().zip(&ids).enumerate() {
        let said = cluster.output(*id);
        let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
        let failed = || TaskError::Other(format!("job {id}: {said}"));
        got.makespan = got.makespan.max((value("end=").ok_or_else(failed)? - begin) / CYCLE);
        if job.is_sensitive && job.gpus > 1 {
            got.bandwidths.insert(place, value("got=").ok_or_else(failed)?);
        }
    }
    Ok(got)
}

fn simulated(cluster: &Cluster, policy: &str) -> Result<Got, TaskError> {
    let file = paths::workspace().join(JOBS).display().to_string();
    let args = ["lab", "simulate", "mapa", "--topology", "dgx-v", "--at-once", "--policy", policy];
    let text =
        cluster.run(User::Root, "tessera", &[&args[..], &["--jobs", &file, "--csv", "-"]].concat())?.ok()?;
    of_csv(&text).ok_or_else(|| TaskError::Other(format!("lab simulate mapa: {text}")))
}

/// Reads `policy,job,name,gpus,sensitive,arrival,start,end,set,agg_bw,eff_bw,preserved_bw`.
fn of_csv(text: &str) -> Option<Got> {
    let mut got = Got { bandwidths: BTreeMap::new(), makespan: 0.0 };
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split(',').collect();
        let [_, job, _, gpus, sensitive, _, _, end, _, _, bandwidth, _] = words[..] else { return None };
        got.makespan = got.makespan.max(end.parse().ok()?);
        if sensitive == "1" && gpus != "1" {
            got.bandwidths.insert(job.parse::<usize>().ok()?.checked_sub(1)?, bandwidth.parse().ok()?);
        }
    }
    Some(got)
}

fn rows(policy: &str, live: &Got, simulated: &Got) -> Vec<Row> {
    let spread = |got: &Got| Spread::of(&got.bandwidths.values().copied().collect::<Vec<f64>>());
    let row = |what: &str, unit, ours: Option<Spread>, reference: Option<Spread>| {
        let reference = Reference::Measured("simulated".to_owned(), reference?);
        Some(Row { bench: "mapa", case: format!("{policy}: {what}"), unit, ours: ours?, reference })
    };
    let one = |value: f64| Spread::of(&[value]);
    let rows = [
        row("EffBW of sensitive jobs with several GPUs", "GB/s", spread(live), spread(simulated)),
        row("until all have ended", "cycles", one(live.makespan), one(simulated.makespan)),
        row("correlation of each job's EffBW", "r", one(correlation(live, simulated)), one(1.0)),
    ];
    rows.into_iter().flatten().collect()
}

/// Pearson's coefficient over the jobs that both have.
fn correlation(one: &Got, other: &Got) -> f64 {
    let pairs: Vec<(f64, f64)> =
        one.bandwidths.iter().filter_map(|(job, x)| Some((*x, *other.bandwidths.get(job)?))).collect();
    let n = pairs.len() as f64;
    let (mean_x, mean_y) =
        (pairs.iter().map(|(x, _)| x).sum::<f64>() / n, pairs.iter().map(|(_, y)| y).sum::<f64>() / n);
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mapa_becomes_options() {
        let job = Job::parse("5,ring,28,23,1,resnet-50.sh").unwrap();
        assert_eq!(job, Job { gpus: 5, pattern: "ring".to_owned(), cycles: 23.0, is_sensitive: true });
        assert_eq!(
            job.options("greedy").join(" "),
            "-t1 --gpus-per-node=5 --gpu-pattern=ring --gpu-bandwidth=sensitive --gpu-set-policy=greedy"
        );
        assert_eq!(Job::parse("# GPUS"), None);
    }

    #[test]
    fn sensitive_jobs_with_several_gpus_count() {
        let text = "policy,job,…\np,1,a,2,0,0,0,24,0 3,1,58.9,3\np,2,b,5,1,0,0,23,1 2,9,53.6,0\np,3,c,1,1,0,0,7,2,0,12.3,0\n";
        let got = of_csv(text).unwrap();
        assert_eq!((got.makespan, got.bandwidths), (24.0, BTreeMap::from([(1, 53.6)])));
    }

    #[test]
    fn values_that_move_together_correlate() {
        let got =
            |values: [f64; 3]| Got { bandwidths: values.into_iter().enumerate().collect(), makespan: 0.0 };
        assert!((correlation(&got([1.0, 2.0, 4.0]), &got([2.0, 4.0, 8.0])) - 1.0).abs() < 1e-9);
        assert!((correlation(&got([1.0, 2.0, 3.0]), &got([3.0, 2.0, 1.0])) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_queue_is_plain_and_the_model_is_equation_2() {
        let templates = templates().unwrap();
        assert!(templates.slurm.contains("SchedulerType=sched/builtin"), "{}", templates.slurm);
        assert!(templates.tessera.contains("model = \"mapa2021\""), "{}", templates.tessera);
    }
}
