//! Driver, device nodes, journal, Slurm and layout say the same.

use std::collections::BTreeSet;

use super::Finding;
use super::owners::Devices;
use crate::chaos::seen::{Access, Holder, Instance, Seen, SeenGpu, SeenNode, Task};

const CLOSED: Access = Access { uid: 0, mode: 0o600 };
const OPEN: Access = Access { uid: 0, mode: 0o666 };

/// Lists the disagreements of two sources.
pub(in crate::chaos) fn disagreements(seen: &Seen, devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in &seen.nodes {
        let tasks: Vec<&Task> = seen.tasks.iter().filter(|task| task.node == node.name).collect();
        found.extend(journal(seen, node, &tasks, devices));
        found.extend(layout(seen, node, &tasks, devices));
        found.extend(access(node, &tasks, devices));
        found.extend(daemons(seen, node, &tasks));
        found.extend(broker(node));
        found.extend(strangers(node, &tasks, devices));
    }
    for task in &seen.tasks {
        if !seen.jobs.iter().any(|job| job.id == task.job && job.is_on(&task.node)) {
            let subject = format!("process {} on {}", task.pid, task.node);
            found.push(Finding::new(
                "left process",
                subject,
                format!("of job {}, which Slurm has not there", task.job),
            ));
        }
    }
    found
}

/// Every entry is of a job that Slurm has there, and every task's devices are in an entry of its job.
fn journal(seen: &Seen, node: &SeenNode, tasks: &[&Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for entry in &node.journal {
        if !seen.jobs.iter().any(|job| job.id == entry.job && job.is_on(&node.name)) {
            let subject = format!("{}: job {}", node.name, entry.job);
            found.push(Finding::new("journal without a job", subject, format!("{entry:?}")));
        }
    }
    for task in tasks {
        for name in &task.devices {
            let uuid = devices.uuid(&node.name, name);
            let entry = node.journal.iter().find(|entry| entry.job == task.job);
            let has =
                entry.is_some_and(|entry| entry.gpus.contains(&uuid) || entry.instances.contains(&uuid));
            if !has {
                let subject = format!("{}: job {}", node.name, task.job);
                found.push(Finding::new("device not journalled", subject, format!("{uuid}: {entry:?}")));
            }
        }
    }
    found
}

/// The layout's jobs are there, and every task's devices are its job's in the layout.
fn layout(seen: &Seen, node: &SeenNode, tasks: &[&Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    if node.takes_no_gpu_jobs {
        return found;
    }
    let holders = |holder: &Holder| -> Vec<u32> {
        match holder {
            Holder::Idle => Vec::new(),
            Holder::Job(job) => vec![*job],
            Holder::Shared(jobs) => jobs.clone(),
        }
    };
    for place in &node.layout {
        for job in holders(&place.holder) {
            if !seen.jobs.iter().any(|known| known.id == job && known.is_on(&node.name)) {
                let subject = format!("{}: job {job}", node.name);
                found.push(Finding::new("layout without a job", subject, format!("{place:?}")));
            }
        }
    }
    for task in tasks {
        // A job that is ending is shown until its epilog is over.
        if !seen
            .jobs
            .iter()
            .any(|job| job.id == task.job && ["RUNNING", "COMPLETING"].contains(&job.state.as_str()))
        {
            continue;
        }
        for name in &task.devices {
            let uuid = devices.uuid(&node.name, name);
            let Some((gpu, instance)) = find(node, &uuid) else {
                let subject = format!("{}: job {}", node.name, task.job);
                found.push(Finding::new("device not in the driver", subject, uuid));
                continue;
            };
            let listed = node.layout.iter().any(|place| {
                let same = match (&place.instance, instance) {
                    (None, None) => true,
                    (Some((profile, start)), Some(instance)) => {
                        *profile == instance.profile && *start == instance.start
                    }
                    _ => false,
                };
                place.gpu == gpu.index && same && holders(&place.holder).contains(&task.job)
            });
            if !listed {
                let subject = format!("{}: job {}", node.name, task.job);
                let place = instance.map(|i| format!("{}@{}", i.profile, i.start));
                let what = format!("GPU {} {place:?}; layout {:?}", gpu.index, node.layout);
                found.push(Finding::new("device not in the layout", subject, what));
            }
        }
    }
    found
}

fn find<'a>(node: &'a SeenNode, uuid: &str) -> Option<(&'a SeenGpu, Option<&'a Instance>)> {
    node.gpus.iter().find_map(|gpu| {
        let instance = gpu.instances.iter().find(|instance| instance.has(uuid));
        (gpu.uuid == uuid || instance.is_some()).then_some((gpu, instance))
    })
}

/// Device nodes are open to the users who have something there, and to nobody else (docs/isolation.md, "Who may open
/// what").
fn access(node: &SeenNode, tasks: &[&Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for gpu in &node.gpus {
        let of_tasks = tasks.iter().filter(|task| {
            let uuids = task.devices.iter().map(|name| devices.uuid(&node.name, name));
            uuids.into_iter().any(|uuid| devices.gpu(&uuid) == gpu.uuid)
        });
        let journalled =
            node.journal.iter().filter(|entry| entry.phase == "ready" && entry.gpus.contains(&gpu.uuid));
        let users: BTreeSet<u32> =
            of_tasks.map(|task| task.uid).chain(journalled.map(|entry| entry.uid)).collect();
        let expected = match users.iter().collect::<Vec<_>>().as_slice() {
            [] => CLOSED,
            [uid] => Access { uid: **uid, mode: 0o600 },
            _ => OPEN,
        };
        if gpu.access != expected {
            let seen = format!("{:?}, but users {users:?} have something there", gpu.access);
            found.push(Finding::new("device node", format!("{}: GPU {}", node.name, gpu.index), seen));
        }
        found.extend(gpu.instances.iter().flat_map(|instance| capabilities(node, gpu, instance, tasks)));
    }
    found
}

/// The capability nodes of an instance and of the compute instances in it: their user's, or closed.
fn capabilities(node: &SeenNode, gpu: &SeenGpu, instance: &Instance, tasks: &[&Task]) -> Vec<Finding> {
    let name = format!("{}: GPU {}, instance {} ({})", node.name, gpu.index, instance.id, instance.profile);
    if instance.parts.is_empty() {
        return vec![Finding::new("half-made instance", name, "it has no compute instance")];
    }
    let users = |uuid: &String| -> BTreeSet<u32> {
        let of_tasks = tasks.iter().filter(|task| task.devices.contains(uuid)).map(|task| task.uid);
        let journalled =
            node.journal.iter().filter(|entry| entry.phase == "ready" && entry.instances.contains(uuid));
        of_tasks.chain(journalled.map(|entry| entry.uid)).collect()
    };
    let all: BTreeSet<u32> = instance.parts.iter().flat_map(|part| users(&part.uuid)).collect();
    let parts = instance.parts.iter().map(|part| (part.access, users(&part.uuid), part.id.to_string()));
    parts
        .chain([(instance.access, all, "own".to_owned())])
        .filter_map(|(access, users, which)| {
            let access = access?;
            let uid = users.first().copied().unwrap_or(0);
            let right = users.len() < 2 && access == Access { uid, mode: 0o400 };
            let seen = || format!("{which}: {access:?}, but users {users:?} have it");
            (!right).then(|| Finding::new("capability node", format!("{name}, {which}"), seen()))
        })
        .collect()
}

/// Every MPS daemon has a job, every share a daemon, every step daemon a job.
fn daemons(seen: &Seen, node: &SeenNode, tasks: &[&Task]) -> Vec<Finding> {
    let mut found = Vec::new();
    for daemon in &node.mps {
        let of_task = tasks.iter().any(|task| task.mps.as_deref() == Some(&daemon.pipe_dir));
        let of_job = node.journal.iter().any(|entry| entry.pipe_dirs.contains(&daemon.pipe_dir));
        if !of_task && !of_job {
            found.push(Finding::new(
                "daemon without a job",
                format!("{}: {}", node.name, daemon.pid),
                &daemon.pipe_dir,
            ));
        }
        let twin = node.mps.iter().any(|other| other.pid < daemon.pid && other.pipe_dir == daemon.pipe_dir);
        // The control daemon starts a server as its child, with the same environment.
        if twin && node.mps.iter().filter(|other| other.pipe_dir == daemon.pipe_dir).count() > 2 {
            found.push(Finding::new(
                "daemon twice",
                format!("{}: {}", node.name, daemon.pipe_dir),
                format!("{daemon:?}"),
            ));
        }
    }
    for task in tasks {
        if let Some(dir) = &task.mps
            && !node.mps.iter().any(|daemon| daemon.pipe_dir == *dir)
        {
            found.push(Finding::new(
                "share without a daemon",
                format!("{}: job {}", node.name, task.job),
                dir,
            ));
        }
    }
    for step in &node.steps {
        if !seen.jobs.iter().any(|job| job.id == step.job && job.is_on(&node.name)) {
            let subject = format!("{}: slurmstepd {}", node.name, step.pid);
            found.push(Finding::new("daemon without a job", subject, format!("of job {}", step.job)));
        }
    }
    found
}

/// A broker runs where jobs have seats, and nowhere else. One whose parent was killed serves on.
fn broker(node: &SeenNode) -> Option<Finding> {
    let seats = node.journal.iter().filter(|entry| entry.has_seats && entry.phase == "ready").count();
    let pids: Vec<i32> = node.brokers.iter().map(|broker| broker.pid).collect();
    let wrong = match (seats, pids.len()) {
        (0, 0) | (1.., 1 | 2) => return None,
        (0, _) => "broker without a job",
        (_, 0) => "seats without a broker",
        _ => "broker twice",
    };
    Some(Finding::new(wrong, node.name.clone(), format!("{seats} jobs with seats, processes {pids:?}")))
}

/// Every process on a GPU is of a job that has something there.
fn strangers(node: &SeenNode, tasks: &[&Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for gpu in &node.gpus {
        for pid in &gpu.processes {
            let has = |task: &&Task| {
                let mut uuids = task.devices.iter().map(|name| devices.uuid(&node.name, name));
                u32::try_from(task.pid) == Ok(*pid) && uuids.any(|uuid| devices.gpu(&uuid) == gpu.uuid)
            };
            if !tasks.iter().any(has) {
                let subject = format!("{}: process {pid}", node.name);
                found.push(Finding::new("stranger's process", subject, format!("on GPU {}", gpu.index)));
            }
        }
    }
    found
}
