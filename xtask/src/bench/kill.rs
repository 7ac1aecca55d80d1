//! Kills slurmctld in the middle of a stream of jobs, with Tessera and with plain Slurm, and says what became of each job.
//!
//! What also happens on plain Slurm is Slurm's own behaviour: slurmctld saves its jobs every few seconds, and when killed
//! it forgets the starts, ends and submissions since then.

mod administrator;
mod evidence;
mod outcome;
mod submit;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use error_chain::with_causes;
use lab::command::wait_for;
use lab::{Cluster, Daemon, HarnessError, User};

use super::clusters::{self, Driver};
use super::kinds::MIX;
use super::stream::{Arrival, Share, plan};
use super::{Bench, table};
use crate::command::{TaskError, at};
use administrator::{as_an_admin_would, resume_drained};
use evidence::{evidence, tell};
use outcome::{StreamOutcome, text};
use submit::{Submitted, scripts, submit};

/// How long a stream may take after the kill: Slurm holds what it requeues for two minutes, and notices batch jobs that
/// have ended meanwhile only when their node registers again.
const LIMIT: Duration = Duration::from_secs(600);

/// How often the benchmark acts as an administrator: it releases held jobs and has nodes register.
const HELP_EVERY: Duration = Duration::from_secs(45);

/// Runs the stream on both clusters, one after the other, and prints both outcomes side by side.
///
/// # Errors
///
/// Something is wrong under Tessera. All files of both clusters are then kept.
pub(super) fn measure(bench: &Bench) -> Result<(), TaskError> {
    let base = match &bench.keep {
        Some(dir) => crate::command::absolute(dir)?,
        None => std::env::temp_dir().join(format!("tessera-kill-{}", std::process::id())),
    };
    let plan = plan(bench.seed, bench.jobs, MIX.len());
    let (mut lanes, mut wrong) = (Vec::new(), Vec::new());
    for (name, stock) in [("Tessera", false), ("plain Slurm", true)] {
        if stock && bench.no_stock {
            continue;
        }
        let dir = base.join(if stock { "stock" } else { "tessera" });
        at(&dir, std::fs::create_dir_all(&dir))?;
        let mut cluster = clusters::start_in(bench, Driver::Instant, stock, Some(&dir))?;
        scripts(&cluster, stock)?;
        eprintln!("bench: stream: {name}, files in {}", dir.display());
        let outcome = once(bench, &mut cluster, &plan, stock)?;
        evidence(&cluster, &dir, &outcome)?;
        if !stock {
            wrong = outcome.wrong();
        }
        lanes.push((name, outcome));
        eprint!("{}", text(bench, &lanes));
    }
    table::print(&text(bench, &lanes))?;
    if wrong.is_empty() && bench.keep.is_none() {
        at(&base, std::fs::remove_dir_all(&base))?;
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(TaskError::Other(format!("stream (files: {}):\n  {}", base.display(), wrong.join("\n  "))))
}

fn once(
    bench: &Bench,
    cluster: &mut Cluster,
    plan: &[Share],
    stock: bool,
) -> Result<StreamOutcome, TaskError> {
    // A second handle: the cluster itself is changed while others submit to it.
    let submitters = Cluster::open(cluster.layout().dir())?;
    let partition =
        |state: &str| submitters.run(User::Root, "scontrol", &["update", "partitionname=gpu", state])?.ok();
    let queued = bench.arrival == Arrival::Queued;
    if queued {
        partition("state=down")?;
    }
    let mut outcome = StreamOutcome::default();
    let sent = AtomicUsize::new(0);
    let jobs = thread::scope(|scope| -> Result<Vec<Submitted>, TaskError> {
        let running: Vec<_> =
            plan.iter().map(|share| scope.spawn(|| submit(&submitters, share, stock, &sent))).collect();
        let wait = || -> Result<Vec<Submitted>, HarnessError> {
            let mut all = Vec::new();
            for thread in running {
                let failed = || HarnessError::Unexpected("a submitting thread panicked".to_owned());
                all.extend(thread.join().map_err(|_| failed())??);
            }
            Ok(all)
        };
        if !queued {
            outcome.left_at_kill = strike(bench, cluster, &sent)?;
            return Ok(wait()?);
        }
        let all = wait()?;
        saved(cluster)?;
        partition("state=up")?;
        outcome.left_at_kill = strike(bench, cluster, &sent)?;
        Ok(all)
    })?;
    let begin = Instant::now();
    let mut helped = begin;
    while begin.elapsed() < bench.wait_s.map_or(LIMIT, Duration::from_secs) {
        outcome.drained.extend(resume_drained(cluster)?);
        if helped.elapsed() > HELP_EVERY {
            outcome.released.extend(as_an_admin_would(cluster)?);
            helped = Instant::now();
        }
        let left = cluster.run(User::Root, "squeue", &["-h", "-o", "%i"])?;
        if left.code == Some(0) && left.stdout.trim().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(500));
    }
    outcome.seconds = begin.elapsed().as_secs();
    tell(cluster, &jobs, &mut outcome)?;
    if !stock {
        outcome.findings.extend(cluster.wait_idle().err().map(|error| with_causes(&error)));
        outcome.findings.extend(clusters::findings(cluster)?);
    }
    Ok(outcome)
}

/// Waits until slurmctld has written down all it knows now.
fn saved(cluster: &Cluster) -> Result<(), HarnessError> {
    let (state, now) = (cluster.layout().at("state").join("job_state"), SystemTime::now());
    wait_for("slurmctld to save its jobs", Duration::from_secs(30), || {
        let saved = std::fs::metadata(&state).and_then(|meta| meta.modified());
        if saved.is_ok_and(|saved| saved > now) { Ok(()) } else { Err("older".to_owned()) }
    })
}

/// Kills slurmctld with SIGKILL once no more jobs are left than wanted, and starts it again at once. Returns how many
/// were left.
fn strike(bench: &Bench, cluster: &mut Cluster, sent: &AtomicUsize) -> Result<usize, HarnessError> {
    let wanted = bench.kill_at.unwrap_or(bench.jobs / 2);
    let left = wait_for("the moment to kill", Duration::from_secs(300), || {
        let known = sent.load(Ordering::Relaxed);
        let queue = cluster.run(User::Root, "squeue", &["-h", "-o", "%i"]).map_err(|e| with_causes(&e))?;
        if queue.code != Some(0) {
            return Err(queue.stderr);
        }
        let left = bench.jobs.saturating_sub(known) + queue.stdout.lines().count();
        if left <= wanted { Ok(left) } else { Err(format!("{left} left")) }
    })?;
    eprintln!("bench: stream: killing slurmctld with {left} of {} jobs left", bench.jobs);
    cluster.kill9(&Daemon::Slurmctld)?;
    cluster.start(&Daemon::Slurmctld)?;
    wait_for("slurmctld to answer", Duration::from_secs(60), || {
        let done = cluster.run(User::Root, "sinfo", &["-h"]).map_err(|error| with_causes(&error))?;
        if done.code == Some(0) { Ok(()) } else { Err(done.stderr) }
    })?;
    Ok(left)
}
