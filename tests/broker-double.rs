//! Stands in for the task broker where a test is about Slurm and the prolog alone: it knows its jobs and grants nothing.
//!
//! It is started like the broker, speaks to root's programs as the broker does, and keeps its jobs in a file, so that it
//! knows them again after it was killed.
#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use task_control::message::{Answer, Ended, Line, Request};
use task_control::status::{DeviceStatus, JobStatus};
use task_control::{Job, Status, control_socket, folder};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let Some(run_dir) = args.iter().position(|arg| arg == "--run-dir").and_then(|i| args.get(i + 1)) else {
        return ExitCode::from(2);
    };
    let run_dir = PathBuf::from(run_dir);
    let done =
        if args.iter().any(|arg| arg == "--daemon") { begin(&args, &run_dir) } else { serve(&run_dir) };
    done.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Starts this program again, in the background, and waits until it answers.
fn begin(args: &[String], run_dir: &Path) -> std::io::Result<()> {
    let foreground = args.iter().skip(1).filter(|arg| *arg != "--daemon");
    let mut child = Command::new("setsid");
    child.arg(std::env::current_exe()?).args(foreground).current_dir("/");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    for _ in 0..500 {
        if UnixStream::connect(control_socket(run_dir)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

#[expect(clippy::exit, reason = "the listener never wakes by itself")]
fn serve(run_dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder(run_dir))?;
    let (socket, kept) = (control_socket(run_dir), folder(run_dir).join("jobs"));
    // Left behind by one that was killed.
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)?;
    let mut jobs: Vec<Job> =
        std::fs::read(&kept).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    // A cluster that is taken down at once leaves it behind, and removes its directory.
    let watched = run_dir.to_owned();
    std::thread::spawn(move || {
        while watched.exists() {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        std::process::exit(0);
    });
    for peer in listener.incoming() {
        let mut peer = peer?;
        let mut line = String::new();
        BufReader::new(peer.try_clone()?).read_line(&mut line)?;
        let Ok(Line { request, .. }) = serde_json::from_str(&line) else { continue };
        let stops = request == Request::Stop && jobs.is_empty();
        let answer = answer(&mut jobs, request);
        std::fs::write(&kept, serde_json::to_vec(&jobs)?)?;
        if stops {
            std::fs::remove_file(&kept)?;
            std::fs::remove_file(&socket)?;
        }
        peer.write_all(&serde_json::to_vec(&answer)?)?;
        peer.write_all(b"\n")?;
        if stops {
            break;
        }
    }
    Ok(())
}

fn answer(jobs: &mut Vec<Job>, request: Request) -> Answer {
    match request {
        Request::Add(job) => {
            jobs.retain(|known| known.job != job.job);
            jobs.push(job);
            Answer::Done
        }
        Request::End { job } => {
            jobs.retain(|known| known.job != job);
            Answer::Ended(Ended { left: 0, jobs: u32::try_from(jobs.len()).unwrap_or(u32::MAX) })
        }
        Request::Status => Answer::Status(status(jobs)),
        Request::Stop if !jobs.is_empty() => Answer::Refused { why: format!("{} jobs", jobs.len()) },
        Request::Hold { .. } | Request::Stop => Answer::Done,
    }
}

fn status(jobs: &[Job]) -> Status {
    let mut devices: Vec<DeviceStatus> = Vec::new();
    for device in jobs.iter().flat_map(|job| &job.devices) {
        if devices.iter().all(|known| known.uuid != device.uuid) {
            devices.push(DeviceStatus {
                uuid: device.uuid.clone(),
                group: device.group.clone(),
                mem_mib: device.memory_mib,
                leased_mib: 0,
                overhead_mib: 0,
                quarantined_mib: 0,
                warps: 0,
                workers: 0,
                held: None,
            });
        }
    }
    let job = |j: &Job| JobStatus { job: j.job, uid: j.uid, seats: j.seats, tasks: Vec::new() };
    let child = std::process::id();
    Status { parent: child, child, policy: String::new(), devices, jobs: jobs.iter().map(job).collect() }
}
