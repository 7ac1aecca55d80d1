//! The node's task broker: told of each job of GPU tasks, started by the first and ended after the last.
//!
//! The journal's entries say which jobs the broker has to know, so it needs no record of its own. It tells by its socket
//! whether it runs, and keeps leases in files: started again, it knows all that it knew. Every call here may be repeated.

use std::path::{Path, PathBuf};
use std::time::Duration;

use geometry::JobId;
use site_config::{Overuse, Tasks};
use task_control::{Broker, ControlError, Device, Job};

use crate::command::{CommandError, ToolRun};
use crate::preloaded::LibraryError;
use crate::settings::Settings;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_journal::own_dirs::StateError;
use node_journal::{Entry, Journal};

/// A broker that does not serve a job.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The site has no pool any more.
    #[error("tessera.toml on this node has no [tasks], which slurmctld placed this job by")]
    NoPool,
    /// A device's seats are not known.
    #[error("GPU {0}: tessera.toml does not describe it, so its seats are not known")]
    NotDescribed(NvmlIndex),
    /// Cannot be started.
    #[error("the task broker cannot be started")]
    Start(#[source] CommandError),
    /// Runs, and does not do what it is asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The library that would be preloaded to the job's programs is unusable.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The journal cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Longest wait for an answer of the broker.
pub const ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for the broker's start. A thousand leases are read in 50 ms.
const START: Duration = Duration::from_secs(10);

/// Path of the socket on which the broker listens for a job's processes.
#[must_use]
pub(crate) fn socket(settings: &Settings, job: JobId) -> PathBuf {
    task_control::socket(&settings.node.run_dir, job.0)
}

/// Makes sure that the broker runs and knows this job, and all others of the journal if it had to be started.
///
/// # Errors
///
/// It cannot be started, or does not take the job.
pub fn serve(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<(), BrokerError> {
    let Some(job) = told(entry) else { return Ok(()) };
    let broker = Broker::at(&settings.node.run_dir, ANSWER);
    match broker.add(&job) {
        Err(ControlError::NotRunning { .. }) => {}
        other => return Ok(other?),
    }
    node_journal::crash::point("before task broker");
    start(settings)?;
    node_journal::crash::point("task broker started");
    broker.add(&job)?;
    let (entries, _damaged) = journal.jobs()?.into_parts();
    let live = entries.iter().filter(|e| is_served(e, journal.boot()) && e.job != entry.job);
    // It knows them from its files. Where it does not, the job's next step says so.
    live.filter_map(told).for_each(|job| drop(broker.add(&job)));
    forget_ended(&broker, || {
        let (entries, damaged) = journal.jobs().ok()?.into_parts();
        damaged.is_empty().then_some(entries)
    });
    Ok(())
}

/// Ends jobs that a broker knows from its files although they ended while it did not run: it would never be without jobs.
/// What fails here, a reconciliation does again. A job is journalled before the broker hears of it: so the broker is asked
/// first and the journal, of which `journalled` tells, after it.
fn forget_ended(broker: &Broker, journalled: impl FnOnce() -> Option<Vec<Entry>>) {
    let Ok(status) = broker.status() else { return };
    let Some(entries) = journalled() else { return };
    let ended = status.jobs.iter().filter(|job| !entries.iter().any(|e| e.job == job.job));
    ended.for_each(|job| drop(broker.end(job.job)));
}

/// Ends a job at the broker, and the broker after its last. The answer is what could not be done.
pub(crate) fn end(settings: &Settings, entry: &Entry) -> Option<String> {
    entry.tasks.as_ref()?;
    let broker = Broker::at(&settings.node.run_dir, ANSWER);
    let ended = match broker.end(entry.job) {
        Ok(ended) => ended,
        Err(ControlError::NotRunning { .. }) => return None,
        Err(e) => return Some(error_chain::Chain(&e).to_string()),
    };
    let stopped = if ended.jobs == 0 { broker.stop() } else { Ok(()) };
    match stopped {
        // A job has come in the meantime, or another epilog was quicker.
        Ok(()) | Err(ControlError::Refused(_) | ControlError::NotRunning { .. }) => None,
        Err(e) => Some(error_chain::Chain(&e).to_string()),
    }
}

/// Tells whether the broker has to know the job of this entry, in the boot of this name.
#[must_use]
pub fn is_served(entry: &Entry, boot: &str) -> bool {
    entry.tasks.is_some() && entry.holds() && entry.boot == boot
}

fn start(settings: &Settings) -> Result<(), BrokerError> {
    let tasks = settings.tasks.as_ref().ok_or(BrokerError::NoPool)?;
    let run = ToolRun {
        program: settings.node.task_broker.clone(),
        args: options(tasks, &settings.node.run_dir, &settings.node.nvml_library),
        env: Vec::new(),
        input: "",
        user: None,
    };
    run.output(&Deadline::after(START)).map(drop).map_err(BrokerError::Start)
}

fn options(tasks: &Tasks, run_dir: &Path, nvml: &Path) -> Vec<String> {
    let overuse = match tasks.overuse {
        Overuse::Charge => "charge",
        Overuse::End => "end",
    };
    let mut args = vec!["--run-dir".to_owned(), run_dir.display().to_string()];
    args.extend(["--nvml".to_owned(), nvml.display().to_string()]);
    args.extend(["--policy".to_owned(), tasks.policy.name().to_owned()]);
    args.extend(["--context-mib".to_owned(), tasks.pool.context_mib.to_string()]);
    args.extend(["--overuse".to_owned(), overuse.to_owned()]);
    args.extend(tasks.log.iter().flat_map(|path| ["--log".to_owned(), path.display().to_string()]));
    args.push("--daemon".to_owned());
    args
}

/// Describes a job to the broker; `None` for a job of another kind, or one whose devices do not exist yet.
fn told(entry: &Entry) -> Option<Job> {
    let tasks = entry.tasks.as_ref()?;
    let device = |(i, record): (usize, &node_journal::TaskDevice)| {
        Some(Device {
            uuid: entry.task_device_uuid(i)?.to_owned(),
            group: record.daemon.clone(),
            mps_pipe: Some(record.pipe_dir.clone()),
            memory_mib: record.memory_mib,
            sms: record.sms,
            workers: record.workers,
        })
    };
    Some(Job {
        job: entry.job,
        uid: entry.uid,
        seats: tasks.seats,
        gpu_mem_mib: tasks.mem_mib,
        devices: tasks.devices.iter().enumerate().map(device).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use task_control::message::{Answer, Ended, Line, Request};
    use task_control::status::JobStatus;
    use task_control::{Status, control_socket, folder};

    use super::*;

    /// Answers as a broker that knows these jobs, and notes when somebody asks for them. The jobs that it was to end, once
    /// it is to stop.
    fn serves(listener: &UnixListener, known: &[u32], asked: &AtomicBool) -> Vec<u32> {
        let mut ended = Vec::new();
        loop {
            let (mut peer, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(peer.try_clone().unwrap()).read_line(&mut line).unwrap();
            let request = serde_json::from_str::<Line>(&line).unwrap().request;
            let stops = request == Request::Stop;
            let answer = match request {
                Request::Status => {
                    asked.store(true, Ordering::SeqCst);
                    let seen = |job: &u32| JobStatus { job: *job, uid: 0, seats: 1, tasks: Vec::new() };
                    let (policy, jobs) = (String::new(), known.iter().map(seen).collect());
                    Answer::Status(Status { parent: 1, child: 1, policy, devices: Vec::new(), jobs })
                }
                Request::End { job } => {
                    ended.push(job);
                    Answer::Ended(Ended { left: 0, jobs: 1 })
                }
                _ => Answer::Done,
            };
            writeln!(peer, "{}", serde_json::to_string(&answer).unwrap()).unwrap();
            if stops {
                return ended;
            }
        }
    }

    /// Job 1 has ended. Job 2 is journalled, and the broker hears of it, at the last moment before the broker is asked.
    #[test]
    fn a_job_that_begins_meanwhile_is_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder(dir.path())).unwrap();
        let listener = UnixListener::bind(control_socket(dir.path())).unwrap();
        let broker = Broker::at(dir.path(), Duration::from_secs(60));
        let asked = AtomicBool::new(false);
        let second: Entry = serde_json::from_value(serde_json::json!({
            "version": 2, "boot": "b", "job": 2, "uid": 0, "gid": 0, "restart": 0, "decision": "", "phase": "ready",
            "kind": "tasks", "gpus": [], "instances": [], "share": null, "device_nodes": [],
        }))
        .unwrap();
        let journalled = || Some(if asked.load(Ordering::SeqCst) { vec![second] } else { Vec::new() });
        let ended = std::thread::scope(|scope| {
            let serving = scope.spawn(|| serves(&listener, &[1, 2], &asked));
            forget_ended(&broker, journalled);
            broker.stop().unwrap();
            serving.join().unwrap()
        });
        assert_eq!(ended, [1]);
    }
}
