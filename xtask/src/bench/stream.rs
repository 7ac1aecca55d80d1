//! Runs many short mixed jobs of two users: none may be lost, nothing may be left behind. Compares jobs per second with
//! plain Slurm.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use error_chain::with_causes;
use lab::command::wait_for;
use lab::{Cluster, Daemon, HarnessError, JobId, User};

use super::Bench;
use super::clusters::{self, Driver};
use super::kinds::{JobKind, MIX, PLAIN};
use super::scheduler::{Spent, processor_us};
use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::TaskError;

/// Scripts of the jobs: they take between nothing and 0.2 s.
const SCRIPTS: [&str; 3] = ["true", "sleep 0.1", "sleep 0.2"];
/// How long a stream may take once all is submitted.
const LIMIT: Duration = Duration::from_secs(300);

/// A job of a stream: index of its kind and its script.
pub(super) type Planned = (usize, &'static str);

/// The stream of one user.
pub(super) struct Share {
    pub(super) user: User,
    pub(super) jobs: Vec<Planned>,
}

/// Times of a stream, and its faults.
struct StreamTimes {
    jobs: f64,
    seconds: f64,
    schedulers: Spent,
    /// slurmctld's processor time, microseconds.
    processor_us: f64,
    wrong: Vec<String>,
}

/// A figure of a stream, and its unit.
type Figure = (&'static str, &'static str, fn(&StreamTimes) -> f64);

/// Figures of a stream in the table besides its rate.
const FIGURES: [Figure; 3] = [
    ("schedulers' time", "us/job", |stream| stream.schedulers.us / stream.jobs),
    ("schedulers' time", "us/cycle", |stream| stream.schedulers.us / stream.schedulers.cycles.max(1.0)),
    ("slurmctld's processor time", "us/job", |stream| stream.processor_us / stream.jobs),
];

/// How jobs come.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Arrival {
    /// They start while others are still submitted: `sbatch` takes much of the machine's time.
    Live,
    /// All wait before the first may start: what is timed is Slurm's and our work alone.
    Queued,
}

/// Runs the stream on both clusters in turn, in both ways; anything lost or left behind is an error.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let stock = clusters::stock_with_scripts(bench)?;
    let kinds: &[JobKind] = if bench.plain { &PLAIN } else { &MIX };
    let mut ours = clusters::tessera(bench, Driver::Instant)?;
    let mut rows = Vec::new();
    for (arrival, how) in [(Arrival::Live, "as they are submitted"), (Arrival::Queued, "from a full queue")] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..bench.repeat {
            let plan = plan(bench.seed + round as u64, bench.jobs, kinds.len());
            without.push(once(&stock, kinds, &plan, true, arrival)?);
            let outcome = once(&ours, kinds, &plan, false, arrival)?;
            with.push(clean(&mut ours, outcome)?);
            eprintln!("bench: stream {how}, {} of {}: none lost, all clean", round + 1, bench.repeat);
        }
        let spread = |streams: &[StreamTimes], figure: fn(&StreamTimes) -> f64| {
            let figures: Vec<f64> = streams.iter().map(figure).collect();
            Spread::of(&figures).ok_or_else(|| TaskError::Other("no rounds".to_owned()))
        };
        let what = if bench.plain { "plain" } else { "mixed" };
        let rate: Figure = ("", "jobs/s", |stream| stream.jobs / stream.seconds);
        for (name, unit, figure) in [rate].into_iter().chain(FIGURES) {
            let case = match name {
                "" => format!("{} {what} jobs {how}", bench.jobs),
                name => format!("{name}, jobs {how}"),
            };
            let reference = Reference::Measured("plain Slurm".to_owned(), spread(&without, figure)?);
            rows.push(Row { bench: "stream", case, unit, ours: spread(&with, figure)?, reference });
        }
    }
    Ok(rows)
}

/// The stream, if nothing was wrong; else the logs stay.
fn clean(cluster: &mut Cluster, outcome: StreamTimes) -> Result<StreamTimes, TaskError> {
    if outcome.wrong.is_empty() {
        return Ok(outcome);
    }
    cluster.keep_files();
    let logs = cluster.layout().at("log");
    let list = outcome.wrong.join("\n  ");
    Err(TaskError::Other(format!("stream (logs: {}):\n  {list}", logs.display())))
}

/// Draws so many jobs of these kinds, the same for the same seed (xorshift, Marsaglia 2003).
pub(super) fn plan(seed: u64, count: usize, kinds: usize) -> Vec<Share> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or_default() % limit
    };
    let mut shares = [User::Alice, User::Bob].map(|user| Share { user, jobs: Vec::new() });
    for _ in 0..count {
        let job = (below(kinds), SCRIPTS[below(SCRIPTS.len())]);
        shares[below(2)].jobs.push(job);
    }
    Vec::from(shares)
}

fn once(
    cluster: &Cluster,
    kinds: &[JobKind],
    plan: &[Share],
    stock: bool,
    arrival: Arrival,
) -> Result<StreamTimes, TaskError> {
    eprintln!("bench: stream: {}", if stock { "plain Slurm" } else { "Tessera" });
    let partition =
        |state: &str| cluster.run(User::Root, "scontrol", &["update", "partitionname=gpu", state])?.ok();
    if arrival == Arrival::Queued {
        partition("state=down")?;
    }
    cluster.run(User::Root, "sdiag", &["--reset"])?.ok()?;
    let processor = || {
        let slurmctld = cluster.process(&Daemon::Slurmctld);
        let spent = slurmctld.and_then(|process| processor_us(process.pid));
        spent.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))
    };
    let before = processor()?;
    let mut begin = Instant::now();
    let jobs = submit(cluster, kinds, plan, stock)?;
    if arrival == Arrival::Queued {
        begin = Instant::now();
        partition("state=up")?;
    }
    let mut wrong = Vec::new();
    let waited = wait_for("the stream's end", LIMIT, || {
        let left =
            cluster.run(User::Root, "squeue", &["-h", "-o", "%i %T %r %b"]).map_err(|e| with_causes(&e))?;
        if left.code == Some(0) && left.stdout.trim().is_empty() { Ok(()) } else { Err(left.stdout) }
    });
    let seconds = begin.elapsed().as_secs_f64();
    wrong.extend(waited.err().map(|error| with_causes(&error)));
    let counters = cluster.run(User::Root, "sdiag", &[])?.ok()?;
    let schedulers = Spent::read(&counters)
        .ok_or_else(|| TaskError::Other(format!("sdiag tells nothing of the schedulers: {}", counters)))?;
    let processor_us = processor()? - before;
    if !stock {
        wrong.extend(not_completed(cluster, &jobs)?);
        wrong.extend(cluster.wait_idle().err().map(|error| with_causes(&error)));
        wrong.extend(clusters::findings(cluster)?);
    }
    Ok(StreamTimes { jobs: jobs.len() as f64, seconds, schedulers, processor_us, wrong })
}

/// Both users submit at the same time, each one job after the other. Returns every job with the name of its kind.
fn submit(
    cluster: &Cluster,
    kinds: &[JobKind],
    plan: &[Share],
    stock: bool,
) -> Result<BTreeMap<JobId, &'static str>, HarnessError> {
    let one = |share: &Share| -> Result<Vec<(JobId, &'static str)>, HarnessError> {
        let submit = |&(kind, script): &Planned| {
            let kind = &kinds[kind];
            let options = if stock { kind.stock } else { kind.ours };
            Ok((cluster.sbatch(share.user, options, script)?, kind.name))
        };
        share.jobs.iter().map(submit).collect()
    };
    thread::scope(|scope| {
        let running: Vec<_> = plan.iter().map(|share| scope.spawn(move || one(share))).collect();
        let mut all = BTreeMap::new();
        for thread in running {
            let failed = || HarnessError::Unexpected("a submitting thread panicked".to_owned());
            all.extend(thread.join().map_err(|_| failed())??);
        }
        Ok(all)
    })
}

/// Jobs that Slurm does not know as completed, with what it says of them.
fn not_completed(
    cluster: &Cluster,
    jobs: &BTreeMap<JobId, &'static str>,
) -> Result<Vec<String>, HarnessError> {
    let out = cluster.run(User::Root, "scontrol", &["-o", "show", "job"])?.ok()?;
    let word = |line: &'_ str, key: &str| -> String {
        line.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default().to_owned()
    };
    let known: BTreeMap<String, String> = out
        .lines()
        .map(|line| (word(line, "JobId="), format!("{} {}", word(line, "JobState="), word(line, "Reason="))))
        .collect();
    let mut wrong = Vec::new();
    for (job, kind) in jobs {
        let state = known.get(&job.to_string()).map_or("unknown", String::as_str);
        if !state.starts_with("COMPLETED ") {
            wrong.push(format!("job {job} ({kind}) is {state}: {}", cluster.output(*job).trim()));
        }
    }
    Ok(wrong)
}
