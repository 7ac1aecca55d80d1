//! Carries out faults, and sets right what they broke, as an administrator would.

use std::fs;
use std::path::PathBuf;

use lab::command::run;
use lab::{Cluster, HarnessError, User};

use super::cancel::cancel;
use super::controllers::{answers, give_back_control, stop, take_over};
use super::drains::OUR_REASON;
use super::idle::Idle;
use super::kill::{kill_broker, kill_mps, kill_step, kill_work, one_of};
use super::plan::{Daemon, Driver, Fault, FileChange, JobState, Node, Pick};
use super::shifted::{bring_back, take};
use super::sick::{cure, sicken};
use super::users::{empty, end_storm, fat_environments, fill_run_dir, fork_storm, user_of};
use super::wound::{Hostile, Wound};

fn daemon(daemon: Daemon) -> lab::Daemon {
    match daemon {
        Daemon::Slurmctld => lab::Daemon::Slurmctld,
        Daemon::Slurmd(node) => lab::Daemon::Slurmd(node.name().to_owned()),
    }
}

/// Carries out a fault. What it needs and does not find is said, and nothing else happens.
pub(super) fn strike(cluster: &mut Cluster, fault: &Fault) -> Result<Wound, HarnessError> {
    let scontrol = |args: &[&str]| cluster.run(User::Root, "scontrol", args).map(drop);
    let on_job = |pick: Pick, state: &str, command: &[&str]| -> Result<(String, Option<u32>), HarnessError> {
        let Some(job) = chosen(cluster, pick, state)? else { return Ok(("no such job".to_owned(), None)) };
        let id = job.to_string();
        let words: Vec<&str> =
            command.iter().map(|word| if *word == "JOB" { id.as_str() } else { word }).collect();
        let done = cluster.run(User::Root, words[0], &words[1..])?;
        Ok((format!("job {job} {}", done.stderr.trim()), Some(job)))
    };
    Ok(match fault {
        Fault::Cancel(state, pick) => {
            let state = match state {
                JobState::Pending => "pending",
                JobState::Running => "running",
                JobState::Completing => "completing",
            };
            Wound::met(match chosen(cluster, *pick, state)? {
                Some(job) => format!("job {job} {}", cancel(cluster, job)?.stderr.trim()),
                None => "no such job".to_owned(),
            })
        }
        Fault::CancelYoung(_) => Wound::default(),
        Fault::CancelAll(user) => {
            cluster.run(User::Root, "scancel", &["-u", user_of(*user).name()])?;
            Wound::default()
        }
        Fault::Requeue(pick) => Wound::met(on_job(*pick, "running", &["scontrol", "requeue", "JOB"])?.0),
        Fault::Hold(pick) => {
            let (met, job) = on_job(*pick, "pending", &["scontrol", "hold", "JOB"])?;
            Wound { met, release: job.into_iter().collect(), ..Wound::default() }
        }
        Fault::Limit(pick) => {
            let Some(job) = chosen(cluster, *pick, "running")? else { return Ok(Wound::met("no such job")) };
            scontrol(&["update", &format!("jobid={job}"), "timelimit=1"])?;
            Wound::met(format!("job {job}"))
        }
        Fault::Drain(node) | Fault::Down(node) => {
            let state = if matches!(fault, Fault::Drain(_)) { "state=drain" } else { "state=down" };
            let (node, reason) = (format!("nodename={}", node.name()), format!("reason={OUR_REASON}"));
            scontrol(&["update", &node, state, &reason])?;
            Wound::default()
        }
        Fault::Kill(what) => {
            cluster.kill9(&daemon(*what))?;
            Wound::default()
        }
        Fault::Restart(what) => Wound::met(stop(cluster, &daemon(*what))?),
        Fault::Takeover { killed } => Wound::met(take_over(cluster, *killed)?),
        Fault::KillStep(node, pick) => kill_step(cluster, node.name(), *pick),
        Fault::KillWork(node, work) => Wound::met(kill_work(cluster, node.name(), *work)?),
        Fault::KillMps(node, pick) => kill_mps(cluster, node.name(), *pick),
        Fault::KillBroker(node, which) => kill_broker(cluster, node.name(), *which),
        Fault::Reconfigure(file) => {
            change_file(cluster, *file)?;
            let done = cluster.run(User::Root, "scontrol", &["reconfigure"])?;
            Wound::met(done.stderr.trim())
        }
        Fault::Driver(node, gpu, what) => {
            let gpu = gpu.map(|gpu| gpu.to_string());
            let mut args = vec!["add", "--kind", what.name()];
            args.extend(gpu.iter().flat_map(|gpu| ["--gpu", gpu]));
            if *what == Driver::Slow {
                args.extend(["--factor", "10"]);
            }
            cluster.fault(node.name(), &args)?;
            Wound::default()
        }
        Fault::DiskFull(node) => {
            let full = fill_disk(cluster, node.name());
            Wound::met(full)
        }
        Fault::Clock(node, seconds) => {
            set_clock(cluster, *node, *seconds)?;
            Wound::default()
        }
        Fault::FatEnvironments(user, seed) => fat_environments(cluster, *user, *seed)?,
        Fault::FullRunDir(node, room) => fill_run_dir(cluster, node.name(), *room)?,
        Fault::ForkStorm(node, user) => fork_storm(cluster, node.name(), *user)?,
        Fault::IdleConnections => {
            let idle = Idle::begin(cluster)?;
            let met = format!("{} connections", idle.count());
            Wound { idle: Some(idle), ..Wound::met(met) }
        }
        Fault::GpuShifted(node, gpu) => Wound::met(take(cluster, node.name(), *gpu)?),
        Fault::GpuSick(node, gpu, ailment) => Wound::met(sicken(cluster, node.name(), *gpu, *ailment)?),
    })
}

/// Sets right what a fault broke. Jobs that lost something they need are cancelled. The answer is what Slurm did by itself
/// meanwhile, if it is worth a note.
pub(super) fn mend(
    cluster: &mut Cluster,
    fault: &Fault,
    wound: &mut Wound,
) -> Result<Option<&'static str>, HarnessError> {
    let mut note = None;
    match fault {
        Fault::Kill(what) | Fault::Restart(what) => cluster.start(&daemon(*what))?,
        Fault::Takeover { .. } => note = give_back_control(cluster)?,
        Fault::Drain(node) | Fault::Down(node) => resume(cluster, node.name())?,
        Fault::Driver(node, _, what) => {
            cluster.fault(node.name(), &["clear", "--kind", what.name()])?;
            if *what == Driver::ListTimeout {
                // A prolog could not take back the instance that it had begun: doctor tells, and the administrator reconciles.
                reconcile(cluster, node.name())?;
            }
        }
        Fault::DiskFull(node) => {
            drop(fs::remove_file(filler(cluster, node.name())));
            // The health check would let jobs with GPUs onto the node again within a minute.
            reconcile(cluster, node.name())?;
        }
        Fault::Reconfigure(FileChange::Changed | FileChange::Broken | FileChange::Shrunken) => {
            change_file(cluster, FileChange::Same)?;
            cluster.run(User::Root, "scontrol", &["reconfigure"])?;
        }
        // Its jobs are cancelled when it has submitted all.
        Fault::FatEnvironments(..) => wound.hostile.iter_mut().for_each(Hostile::wait),
        Fault::FullRunDir(node, _) => {
            wound.filled.iter().for_each(|dir| empty(dir));
            reconcile(cluster, node.name())?;
        }
        Fault::ForkStorm(node, _) => {
            wound.hostile.iter_mut().for_each(Hostile::end);
            end_storm(cluster, node.name())?;
        }
        Fault::GpuShifted(node, gpu) => {
            bring_back(cluster, node.name(), *gpu)?;
            reconcile(cluster, node.name())?;
        }
        Fault::GpuSick(node, gpu, ailment) => drop(cure(cluster, node.name(), *gpu, *ailment)?),
        Fault::IdleConnections => wound.idle = None,
        // What a killed prolog left, doctor tells, and the administrator reconciles.
        Fault::KillWork(node, _) => reconcile(cluster, node.name())?,
        Fault::Clock(node, seconds) => {
            set_clock(cluster, *node, 0)?;
            if node.is_none() && *seconds > 0 {
                // docs/slurm-quirks.md, "A clock that is set back".
                for controller in [lab::Daemon::Backup, lab::Daemon::Slurmctld] {
                    stop(cluster, &controller)?;
                    cluster.start(&controller)?;
                }
            }
        }
        _ => {}
    }
    // A slurmctld that has ended by itself is told of at the next look, and started again.
    cluster.reap();
    if cluster.process(&lab::Daemon::Slurmctld).is_some() {
        answers(cluster)?;
    }
    for job in &wound.cancel {
        cancel(cluster, *job)?;
    }
    for job in &wound.release {
        cluster.run(User::Root, "scontrol", &["release", &job.to_string()])?;
    }
    Ok(note)
}

/// Sets the clock of one node, or of all and of the controllers.
fn set_clock(cluster: &Cluster, node: Option<Node>, seconds_ahead: i64) -> Result<(), HarnessError> {
    if let Some(node) = node {
        return cluster.set_clock(Some(node.name()), seconds_ahead);
    }
    let nodes = cluster.nodes().iter().map(|name| Some(name.as_str()));
    nodes.chain([None]).try_for_each(|host| cluster.set_clock(host, seconds_ahead))
}

pub(super) fn resume(cluster: &Cluster, node: &str) -> Result<(), HarnessError> {
    let node = format!("nodename={node}");
    cluster.run(User::Root, "scontrol", &["update", &node, "state=resume"]).map(drop)
}

/// Does what docs/operations.md tells an administrator to do.
pub(super) fn reconcile(cluster: &Cluster, node: &str) -> Result<(), HarnessError> {
    let mut command = cluster.command_on(node, User::Root, "tessera")?;
    let config = cluster.layout().etc("tessera.toml");
    run(command.arg("--config").arg(config).args(["node", "reconcile"])).map(drop)
}

fn chosen(cluster: &Cluster, pick: Pick, state: &str) -> Result<Option<u32>, HarnessError> {
    let list = cluster.run(User::Root, "squeue", &["-h", "-r", "-t", state, "-O", "jobid:16"])?.stdout;
    let mut jobs: Vec<u32> = list.lines().filter_map(|line| line.trim().parse().ok()).collect();
    jobs.sort_unstable();
    Ok(one_of(&jobs, pick).copied())
}

/// Puts a version of tessera.toml in place. The right one is kept beside it.
fn change_file(cluster: &Cluster, file: FileChange) -> Result<(), HarnessError> {
    let (path, right) = (cluster.layout().etc("tessera.toml"), cluster.layout().etc("tessera.toml.right"));
    let failed = |source| HarnessError::File { path: path.display().to_string(), source };
    if !right.exists() {
        fs::copy(&path, &right).map_err(failed)?;
    }
    let text = fs::read_to_string(&right).map_err(failed)?;
    let text = match file {
        FileChange::Same => text,
        FileChange::Changed => text
            .replace("gpu_set_policy = \"preserve\"", "gpu_set_policy = \"greedy\"")
            .replace("gpu_mem = \"5G\"", "gpu_mem = \"6G\""),
        FileChange::Broken => text.replace("[node]", "[node]\nmisspelt = true"),
        // The last node is missing.
        FileChange::Shrunken => {
            text.rsplit_once("[[nodes]]").map_or(text.clone(), |(head, _)| head.to_owned())
        }
    };
    fs::write(&path, text).map_err(failed)
}

fn filler(cluster: &Cluster, node: &str) -> PathBuf {
    cluster.layout().node(node).join("state/filler")
}

/// Writes until nothing more fits. The node's state has a small file system of its own.
fn fill_disk(cluster: &Cluster, node: &str) -> String {
    let block = vec![0_u8; 4096];
    let Ok(mut file) = fs::File::create(filler(cluster, node)) else {
        return "not to be filled".to_owned();
    };
    let limit = 4096;
    let written = (0..limit).take_while(|_| std::io::Write::write_all(&mut file, &block).is_ok()).count();
    if written == limit { "no limit met".to_owned() } else { format!("{} KiB", written * 4) }
}
