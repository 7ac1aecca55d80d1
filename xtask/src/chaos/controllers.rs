//! slurmctld and the second one: their ends, takeovers, and what they do when they do not answer.

use std::fs;
use std::time::{Duration, Instant};

use lab::command::{PATIENCE, run, wait_for};
use lab::process::Started;
use lab::{Cluster, HarnessError, User};

/// How long slurmctld may take to answer, a takeover included.
const ANSWER: Duration = Duration::from_secs(120);

/// How long a second slurmctld may take to give up control: 24.11's takes 29 s (docs/slurm-quirks.md, "A second slurmctld").
const GIVE_UP: Duration = Duration::from_secs(75);

/// Ends a daemon as systemd does: one that SIGTERM does not end is killed. What it was doing is written down first.
pub(super) fn stop(cluster: &mut Cluster, daemon: &lab::Daemon) -> Result<&'static str, HarnessError> {
    if cluster.stop(daemon).is_ok() {
        return Ok("");
    }
    stack(cluster, daemon);
    cluster.kill9(daemon)?;
    Ok("SIGTERM did not end it: killed, see its stacks beside the logs")
}

/// Starts the first slurmctld, which asks the second one to give up control. If that one hangs (docs/slurm-quirks.md, "A second
/// slurmctld"), what it is doing is written down, and it is started again.
pub(super) fn give_back_control(cluster: &mut Cluster) -> Result<Option<&'static str>, HarnessError> {
    let log = cluster.layout().log("slurmctld-backup");
    let before = fs::read(&log).unwrap_or_default().len();
    cluster.start(&lab::Daemon::Slurmctld)?;
    let given = wait_for("the second slurmctld to give up control", GIVE_UP, || {
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(text.get(before..).unwrap_or_default()).into_owned();
        if text.contains("slurmctld running in background mode") { Ok(()) } else { Err(text) }
    });
    let mut note = None;
    if given.is_err() && cluster.process(&lab::Daemon::Backup).is_some() {
        stack(cluster, &lab::Daemon::Backup);
        cluster.kill9(&lab::Daemon::Backup)?;
        cluster.start(&lab::Daemon::Backup)?;
        note = Some("a second slurmctld did not give up control: killed, see its stacks beside the logs");
    }
    Ok(note)
}

/// Waits until the second slurmctld is in charge.
pub(super) fn take_over(cluster: &mut Cluster, killed: bool) -> Result<String, HarnessError> {
    let begin = Instant::now();
    if killed {
        cluster.kill9(&lab::Daemon::Slurmctld)?;
    } else {
        let first = cluster.process(&lab::Daemon::Slurmctld);
        cluster.run(User::Root, "scontrol", &["takeover"])?;
        wait_for("the first slurmctld to be gone", PATIENCE, || {
            cluster.reap();
            if first.as_ref().is_some_and(Started::is_alive) { Err("alive".to_owned()) } else { Ok(()) }
        })?;
    }
    answers(cluster)?;
    Ok(format!("after {} s", begin.elapsed().as_secs()))
}

/// Waits until slurmctld answers.
pub(super) fn answers(cluster: &Cluster) -> Result<(), HarnessError> {
    let first = cluster.process(&lab::Daemon::Slurmctld);
    let waited = wait_for("slurmctld to answer", ANSWER, || {
        // It has ended by itself meanwhile.
        if first.as_ref().is_some_and(|process| !process.is_alive()) {
            return Ok(());
        }
        let done = cluster.run(User::Root, "sinfo", &["-h"]).map_err(|error| format!("{error:?}"))?;
        if done.code == Some(0) { Ok(()) } else { Err(done.stderr) }
    });
    waited.inspect_err(|_| stacks(cluster))
}

/// Writes down what every slurmctld is doing, if the machine has gdb.
fn stacks(cluster: &Cluster) {
    [lab::Daemon::Slurmctld, lab::Daemon::Backup].iter().for_each(|daemon| stack(cluster, daemon));
}

fn stack(cluster: &Cluster, daemon: &lab::Daemon) {
    let Some(process) = cluster.process(daemon) else { return };
    let mut gdb = std::process::Command::new("gdb");
    gdb.args(["-batch", "-ex", "thread apply all bt", "-p", &process.pid.to_string()]);
    let text = run(&mut gdb).map(|done| done.stdout).unwrap_or_default();
    // Evidence that cannot be written is no reason to stop.
    let _ = fs::write(cluster.layout().log(&format!("{}-stacks", daemon.name())), text);
}
