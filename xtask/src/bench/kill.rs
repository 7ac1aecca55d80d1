//! Kills slurmctld in the middle of a stream of jobs, with Tessera and with plain Slurm, and says what became of each job.
//!
//! What also happens on plain Slurm is Slurm's own behaviour: slurmctld saves its jobs every few seconds, and when killed
//! it forgets the starts, ends and submissions since then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use error_chain::with_causes;
use lab::command::wait_for;
use lab::{Cluster, Daemon, HarnessError, JobId, User};

use super::clusters::{self, Driver};
use super::kinds::MIX;
use super::stream::{Arrival, Share, plan};
use super::{Bench, table};
use crate::command::{TaskError, at};

/// How long a stream may take after the kill: Slurm holds what it requeues for two minutes, and notices batch jobs that
/// have ended meanwhile only when their node registers again.
const LIMIT: Duration = Duration::from_secs(600);

/// How often the benchmark acts as an administrator: it releases held jobs and has nodes register.
const HELP_EVERY: Duration = Duration::from_secs(45);

/// Reasons under which a job waits for an administrator, as `squeue` ends its line.
const HELD: [&str; 3] = ["held", "JobHeldAdmin", "BadConstraints"];

/// One job as it was submitted.
struct Submitted {
    job: JobId,
    kind: &'static str,
    user: User,
}

/// What became of the jobs of one stream. Every list has one line per case.
#[derive(Default)]
struct Outcome {
    submitted: usize,
    completed: usize,
    /// The controller does not know them, or gave their numbers to later ones.
    forgotten: usize,
    /// By Slurm, with its count of restarts.
    requeued: usize,
    /// Begun more often than Slurm counts.
    begun_again: usize,
    /// Begun at least once without Slurm having run the site's prolog for it.
    without_prolog: usize,
    /// Held by Slurm, and released as an administrator would.
    released: BTreeSet<String>,
    /// Ended in another way.
    failed: Vec<String>,
    /// Neither ended nor forgotten when the time was over.
    unended: Vec<String>,
    /// Nodes that were drained at any time, with the reason.
    drained: BTreeSet<String>,
    /// What is in logs, journals and drivers that should not be.
    findings: Vec<String>,
    left_at_kill: usize,
    seconds: u64,
}

/// Runs the stream on both clusters, one after the other, and prints both outcomes side by side.
///
/// # Errors
///
/// Something is wrong under Tessera. All files of both clusters are then kept.
pub(super) fn measure(bench: &Bench) -> Result<(), TaskError> {
    let base = match &bench.keep {
        Some(dir) => crate::cluster::absolute(dir)?,
        None => std::env::temp_dir().join(format!("tessera-kill-{}", std::process::id())),
    };
    let plan = plan(bench.seed, bench.jobs);
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

impl Outcome {
    /// What must not be. A node that Slurm drains because it started a job twice is Slurm's, see `docs/slurm-quirks.md`.
    fn wrong(&self) -> Vec<String> {
        let ours = self.drained.iter().filter(|line| !line.contains("Duplicate jobid"));
        let drained = ours.map(|line| format!("drained: {line}"));
        self.failed.iter().chain(&self.unended).chain(&self.findings).cloned().chain(drained).collect()
    }
}

fn once(bench: &Bench, cluster: &mut Cluster, plan: &[Share], stock: bool) -> Result<Outcome, TaskError> {
    // A second handle: the cluster itself is changed while others submit to it.
    let submitters = Cluster::open(cluster.layout().dir())?;
    let partition =
        |state: &str| submitters.run(User::Root, "scontrol", &["update", "partitionname=gpu", state])?.ok();
    let queued = bench.arrival == Arrival::Queued;
    if queued {
        partition("state=down")?;
    }
    let mut outcome = Outcome::default();
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

/// The site's prolog and epilog: each leaves a trace that it ran. On plain Slurm they take about as long as Tessera's work
/// does, so that the kill hits them as often.
fn scripts(cluster: &Cluster, stock: bool) -> Result<(), TaskError> {
    for name in ["prolog", "epilog"] {
        let trace = cluster.layout().jobs().join(format!("{name}.$SLURM_JOB_ID"));
        let text = format!(
            "#!/bin/sh\necho done >> {}\nsleep {}\n",
            trace.display(),
            if stock { "0.2" } else { "0" }
        );
        let path = cluster.layout().etc(name);
        at(&path, std::fs::write(&path, text))?;
        at(&path, std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))?;
    }
    Ok(())
}

/// One user's jobs, one after the other. While slurmctld is away, `sbatch` fails and is tried again.
fn submit(
    cluster: &Cluster,
    share: &Share,
    stock: bool,
    sent: &AtomicUsize,
) -> Result<Vec<Submitted>, HarnessError> {
    let one = |&(kind, script): &(usize, &'static str)| {
        let kind = &MIX[kind];
        let options = if stock { kind.stock } else { kind.ours };
        // How often a script is begun is only known by what it leaves.
        let script = format!("echo begun >> ran.$SLURM_JOB_ID; {script}");
        let job = wait_for("a submission", Duration::from_secs(120), || {
            cluster.sbatch(share.user, options, &script).map_err(|error| with_causes(&error))
        })?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(Submitted { job, kind: kind.name, user: share.user })
    };
    share.jobs.iter().map(one).collect()
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

/// Nodes that Slurm has drained, with its reason. They are resumed so that the stream can end.
fn resume_drained(cluster: &Cluster) -> Result<Vec<String>, HarnessError> {
    let nodes = cluster.run(User::Root, "sinfo", &["-h", "-N", "-t", "drain", "-o", "%N %E"])?.ok()?;
    for line in nodes.lines() {
        eprintln!("bench: stream: resuming {line}");
        let node = format!("nodename={}", line.split(' ').next().unwrap_or_default());
        cluster.run(User::Root, "scontrol", &["update", &node, "state=resume"])?.ok()?;
    }
    Ok(nodes.lines().map(str::to_owned).collect())
}

/// Slurm holds jobs whose start it has forgotten, and believes that others run until their nodes register again.
/// Returns the jobs that were held.
fn as_an_admin_would(cluster: &Cluster) -> Result<Vec<String>, HarnessError> {
    let queue = cluster.run(User::Root, "squeue", &["-h", "-t", "pending", "-o", "%i %r"])?.ok()?;
    let held: Vec<String> = queue
        .lines()
        .filter(|line| HELD.iter().any(|reason| line.ends_with(reason)))
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect();
    for job in &held {
        cluster.run(User::Root, "scontrol", &["release", job])?.ok()?;
    }
    cluster.run(User::Root, "scontrol", &["reconfigure"])?.ok()?;
    Ok(held)
}

/// What the controller and the scripts' traces say of each job.
fn tell(cluster: &Cluster, jobs: &[Submitted], outcome: &mut Outcome) -> Result<(), HarnessError> {
    let out = cluster.run(User::Root, "scontrol", &["-o", "show", "job"])?.ok()?;
    let word = |line: &str, key: &str| -> String {
        line.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default().to_owned()
    };
    let known: BTreeMap<String, &str> = out.lines().map(|line| (word(line, "JobId="), line)).collect();
    // A number that was given out twice is its last owner's.
    let last: BTreeMap<JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (job.job, at)).collect();
    outcome.submitted = jobs.len();
    for (at, Submitted { job, kind, user }) in jobs.iter().enumerate() {
        let line = known.get(&job.to_string()).copied().unwrap_or_default();
        if line.is_empty() || last.get(job) != Some(&at) {
            outcome.forgotten += 1;
            continue;
        }
        let restarts: usize = word(line, "Restarts=").parse().unwrap_or(0);
        outcome.requeued += usize::from(restarts > 0);
        let count = |name: &str| {
            let trace = std::fs::read_to_string(cluster.layout().jobs().join(format!("{name}.{job}")));
            trace.map_or(0, |text| text.lines().count())
        };
        let begun = count("ran");
        outcome.without_prolog += usize::from(begun > count("prolog"));
        outcome.begun_again += usize::from(begun > restarts + 1);
        let (state, reason) = (word(line, "JobState="), word(line, "Reason="));
        let said = cluster.output(*job);
        let text = format!(
            "job {job} ({kind}, {}) is {state} {reason}, restarts {restarts}, begun {begun} times: {}",
            user.name(),
            said.trim()
        );
        match state.as_str() {
            "COMPLETED" => outcome.completed += 1,
            "PENDING" | "RUNNING" | "COMPLETING" | "REQUEUED" => outcome.unended.push(text),
            _ => outcome.failed.push(text),
        }
    }
    Ok(())
}

/// Writes what the files of a cluster do not hold.
fn evidence(cluster: &Cluster, dir: &Path, outcome: &Outcome) -> Result<(), TaskError> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        at(&path, std::fs::write(&path, text))
    };
    for what in ["job", "node"] {
        let done = cluster.run(User::Root, "scontrol", &["-d", "show", what])?;
        write(&format!("show-{what}.txt"), done.stdout)?;
    }
    write("outcome.txt", lines(outcome))
}

fn lines(outcome: &Outcome) -> String {
    let lists = [("failed", &outcome.failed), ("not ended", &outcome.unended), ("found", &outcome.findings)];
    let mut text = String::new();
    for (name, list) in lists {
        for line in list {
            // Written to a String: cannot fail.
            let _ = writeln!(text, "{name}: {line}");
        }
    }
    for line in &outcome.drained {
        let _ = writeln!(text, "drained: {line}");
    }
    text
}

/// Both outcomes side by side, then every case.
fn text(bench: &Bench, lanes: &[(&str, Outcome)]) -> String {
    let mut out = format!(
        "{} jobs, {}, seed {}, {} build\n{:34}",
        bench.jobs,
        if bench.arrival == Arrival::Queued { "from a full queue" } else { "as they are submitted" },
        bench.seed,
        if bench.debug { "debug" } else { "release" },
        ""
    );
    for (name, _) in lanes {
        let _ = write!(out, "{name:>14}");
    }
    out.push('\n');
    type Count = fn(&Outcome) -> usize;
    let rows: [(&str, Count); 13] = [
        ("left at the kill", |o| o.left_at_kill),
        ("submitted", |o| o.submitted),
        ("completed", |o| o.completed),
        ("forgotten with the last seconds", |o| o.forgotten),
        ("requeued", |o| o.requeued),
        ("held by Slurm, released by us", |o| o.released.len()),
        ("begun more often than Slurm knows", |o| o.begun_again),
        ("begun without a prolog", |o| o.without_prolog),
        ("failed", |o| o.failed.len()),
        ("not ended in time", |o| o.unended.len()),
        ("nodes drained", |o| o.drained.len()),
        ("left in logs, journals, drivers", |o| o.findings.len()),
        ("seconds from kill to end", |o| usize::try_from(o.seconds).unwrap_or_default()),
    ];
    for (name, count) in rows {
        let _ = write!(out, "{name:34}");
        for (_, outcome) in lanes {
            let _ = write!(out, "{:>14}", count(outcome));
        }
        out.push('\n');
    }
    for (name, outcome) in lanes {
        for line in lines(outcome).lines() {
            let _ = writeln!(out, "{name}: {line}");
        }
    }
    out
}
