//! Energy in `sacct` beside the draw of the GPU, integrated outside of Slurm and of Tessera's accounting.
//!
//! While jobs run, `nvidia-smi` is asked for the draw several times a second. A job notes when its first line and its last one
//! run; between the two its GPU's draw is integrated by trapezoids. `sacct` also has what the GPU used in the rest of prolog and
//! epilog, which a job of half a minute hardly shows.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User};

use super::Bench;
use super::stats::Spread;
use super::table::{Reference, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};

const SLURM: &str = "MinJobAge=86400\n\
                     AcctGatherEnergyType=acct_gather_energy/tessera\n\
                     JobAcctGatherFrequency=task=1";

/// Asks for every GPU's draw until it is ended: a line of nanoseconds and watts, those of GPU 0 first.
const SAMPLER: &str = "while :; do\n\
                       draws=$(nvidia-smi --query-gpu=power.draw --format=csv,noheader,nounits | tr '\\n' ' ')\n\
                       echo \"$(date +%s%N) $draws\"\n\
                       sleep 0.1\n\
                       done";

/// Cases, and the options of each of their jobs, which share GPU 0.
const CASES: [(&str, &str, &[&str]); 3] = [
    ("hgemm on a whole GPU", "hgemm", &["--gpu-isolation=whole --gpus-per-node=1"]),
    (
        "stream on a whole GPU at 200 W",
        "stream",
        &["--gpu-isolation=whole --gpus-per-node=1 --gpu-power=200"],
    ),
    ("hgemm on two instances of a GPU, both jobs", "hgemm", &["--gpu-isolation=mig:3g.20gb"; 2]),
];

/// How long a job works.
const WORKS: &str = "30s";

/// Runs each case `repeat` times.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: power-energy: starting a cluster");
    let cluster = cluster(bench)?;
    let samples = cluster.layout().jobs().join("draws");
    let file = at(&samples, fs::File::create(&samples))?;
    let mut sampler = cluster.command_on("n1", User::Root, "sh")?;
    sampler.args(["-c", SAMPLER]).stdout(file).stdin(Stdio::null());
    let mut sampler =
        sampler.spawn().map_err(|source| TaskError::Start { program: "sh".to_owned(), source })?;
    let rows = all(bench, &cluster, &samples);
    // Nothing else can be done about a process that does not end.
    let _ = sampler.kill();
    let _ = sampler.wait();
    rows
}

fn cluster(bench: &Bench) -> Result<Cluster, TaskError> {
    let mut templates = Templates::for_nodes(
        "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n\n",
    )?;
    templates.tessera.push_str("\n[power]\nenergy = true\n");
    templates.slurm = templates
        .slurm
        .replace("PrologFlags=Alloc", "PrologFlags=Alloc,Contain")
        .replace("JobAcctGatherType=jobacct_gather/none", "JobAcctGatherType=jobacct_gather/linux");
    let builder =
        Cluster::builder().templates(templates).slurm_conf(SLURM).accounting().guardian(guardian()?);
    Ok(if bench.debug { builder } else { builder.release() }.start()?)
}

fn all(bench: &Bench, cluster: &Cluster, samples: &Path) -> Result<Vec<Row>, TaskError> {
    let mut rows = Vec::new();
    for (name, app, options) in CASES {
        let (mut accounted, mut outside) = (Vec::new(), Vec::new());
        for round in 1..=bench.repeat {
            eprintln!("bench: power-energy: {name}, round {round} of {}", bench.repeat);
            let (sacct, integral) = once(cluster, samples, app, options)?;
            accounted.push(sacct);
            outside.push(integral);
        }
        let spread = |values: &[f64]| {
            Spread::of(values).ok_or_else(|| TaskError::Other("no rounds, no joules".to_owned()))
        };
        let reference = Reference::Measured("draw integrated".to_owned(), spread(&outside)?);
        rows.push(Row {
            bench: "power-energy",
            case: name.to_owned(),
            unit: "J",
            ours: spread(&accounted)?,
            reference,
        });
    }
    Ok(rows)
}

/// Joules by `sacct` and by integration.
fn once(cluster: &Cluster, samples: &Path, app: &str, options: &[&str]) -> Result<(f64, f64), TaskError> {
    let script = format!(
        "from=$(date +%s%N)\nnvml-sim work --app {app} --for {WORKS}\necho \"had $from $(date +%s%N)\""
    );
    let submit =
        |options: &&str| cluster.sbatch(User::Alice, &options.split(' ').collect::<Vec<_>>(), &script);
    let jobs: Vec<JobId> = options.iter().map(submit).collect::<Result<_, _>>()?;
    let (mut from, mut to, mut joules) = (u64::MAX, 0, 0.0);
    for job in &jobs {
        cluster.wait_end(*job)?;
        let output = cluster.output(*job);
        let words = output.lines().find_map(|line| line.strip_prefix("had ")).unwrap_or_default();
        let times: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [begin, end] = times[..] else {
            return Err(TaskError::Other(format!("job {job} printed: {output}")));
        };
        (from, to) = (from.min(begin), to.max(end));
    }
    cluster.wait_idle()?;
    for job in &jobs {
        joules += accounted(cluster, *job)?;
    }
    let text = at(samples, fs::read_to_string(samples))?;
    Ok((joules, integral(&draws(&text), from, to)))
}

/// The job's own line in `sacct`, J.
fn accounted(cluster: &Cluster, job: JobId) -> Result<f64, TaskError> {
    let id = job.to_string();
    let args = ["-X", "-j", &id, "-n", "-P", "-o", "ConsumedEnergyRaw"];
    let joules = wait_for("sacct to have the job's energy", PATIENCE, || {
        let said = cluster.run(User::Root, "sacct", &args).map_err(|e| error_chain::with_causes(&e))?;
        let joules: Option<f64> = said.stdout.trim().parse().ok();
        joules.filter(|joules| *joules > 0.0).ok_or(said.stdout)
    })?;
    Ok(joules)
}

/// Time, ns, and draw of the first GPU, W.
fn draws(text: &str) -> Vec<(u64, f64)> {
    let one = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// The integral over a time, J. The draw between two samples is on the line between them.
fn integral(draws: &[(u64, f64)], from: u64, to: u64) -> f64 {
    let piece = |two: &[(u64, f64)]| {
        let ((t0, w0), (t1, w1)) = (two[0], two[1]);
        let (begin, end) = (t0.max(from), t1.min(to));
        if end <= begin || t1 <= t0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a year has 2^55 ns")]
        let part = |time: u64| (time - t0) as f64 / (t1 - t0) as f64;
        let at = |time: u64| w0 + (w1 - w0) * part(time);
        #[expect(clippy::cast_precision_loss, reason = "a year has 2^55 ns")]
        let seconds = (end - begin) as f64 / 1e9;
        seconds * (at(begin) + at(end)) / 2.0
    };
    draws.windows(2).map(piece).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_integrated_between_two_times() {
        let text = "0 100.0 50.0\n2000000000 200.0 50.0\nbroken\n4000000000 200.0 50.0\n";
        let draws = draws(text);
        assert_eq!(draws.len(), 3);
        for (from, to, joules) in [(0, 4, 700.0), (1, 2, 175.0), (1, 3, 375.0), (4, 9, 0.0)] {
            let is = integral(&draws, from * 1_000_000_000, to * 1_000_000_000);
            assert!((is - joules).abs() < 1e-6, "{from} to {to}: {is}");
        }
    }
}
