//! The environment from which a task sees its job's GPUs.

use geometry::GpuIndex;
use geometry::size::display_gb;
use protocol::set_summary::SetSummary;

use crate::memory_level::MemoryLevel;
use crate::task_variables::Variable;
use node_driver::NvmlIndex;
use node_journal::{Entry, GpuRecord, GrantKind, InstanceRecord};

/// The environment of one task: `local_task` of `n_tasks` tasks on this node, both from 0 and 1.
///
/// Where the instances can be dealt out evenly, each task gets its own ([`instances_per_task`]); otherwise each gets all
/// of them. `TESSERA_*` variables are for people and scripts; the others are NVIDIA's.
#[must_use]
pub fn task_environment(entry: &Entry, local_task: u32, n_tasks: u32) -> Vec<(String, String)> {
    if entry.kind == GrantKind::Shards {
        // Slurm has named the GPUs.
        return Vec::new();
    }
    let mut env = Env::default();
    env.set(Variable::DeviceOrder, "PCI_BUS_ID");
    match entry.kind {
        GrantKind::Mig => mig(entry, local_task, n_tasks, &mut env),
        GrantKind::Whole | GrantKind::Shards => whole(entry, &mut env),
        GrantKind::Mps => share(entry, &mut env),
        GrantKind::Tasks => tasks(entry, &mut env),
    }
    env.set(Variable::Why, &entry.decision);
    env.vars
}

/// Number of instances that each of `n_tasks` tasks has to itself; `None` if they cannot be dealt out evenly.
#[must_use]
pub fn instances_per_task(entry: &Entry, n_tasks: u32) -> Option<usize> {
    let (instances, tasks) = (entry.instances.len(), usize::try_from(n_tasks).ok()?);
    (tasks > 0 && instances > 0 && instances % tasks == 0).then(|| instances / tasks)
}

#[derive(Default)]
struct Env {
    vars: Vec<(String, String)>,
}

impl Env {
    fn set(&mut self, variable: Variable, value: &str) {
        self.vars.push((variable.name().to_owned(), value.to_owned()));
    }

    fn devices(&mut self, kind: &str, cuda: &str, container: &str) {
        self.set(Variable::CudaDevices, cuda);
        self.set(Variable::ContainerDevices, container);
        self.set(Variable::Isolation, kind);
    }
}

fn mig(entry: &Entry, local_task: u32, n_tasks: u32, env: &mut Env) {
    let mine: Vec<_> = match (instances_per_task(entry, n_tasks), usize::try_from(local_task)) {
        (Some(each), Ok(task)) => entry.instances.iter().skip(task * each).take(each).collect(),
        _ => entry.instances.iter().collect(),
    };
    let join = |f: &dyn Fn(&&InstanceRecord) -> String| mine.iter().map(f).collect::<Vec<_>>().join(",");
    let uuids = join(&|i| i.live.as_ref().map(|l| l.uuid.clone()).unwrap_or_default());
    env.devices("mig", &uuids, &uuids);
    env.set(Variable::Instances, &join(&|i| format!("{}@{}:{}", i.name, i.gpu, i.start)));
    env.set(Variable::MemoryMib, &join(&|i| i.memory_mib.to_string()));
}

fn whole(entry: &Entry, env: &mut Env) {
    let uuids = entry.gpus.iter().map(|g| g.uuid.as_str()).collect::<Vec<_>>().join(",");
    env.devices("whole", &uuids, &uuids);
    env.set(Variable::Gpus, &uuids);
    let set = entry.gpus.iter().map(|g| g.index.to_string()).collect::<Vec<_>>().join(",");
    env.set(Variable::GpuSet, &set);
    if let Some(matched) = entry.matched.as_deref().and_then(SetSummary::parse) {
        env.set(Variable::Match, &matched.words());
        if let Some(gbps) = matched.gbps() {
            env.set(Variable::BandwidthGbps, gbps);
        }
    }
}

/// UUIDs for GPUs that Slurm names by index, in its order: what a step or task with a part of the job's whole GPUs
/// should see. CUDA counts only the GPUs whose device nodes it may open, so Slurm's indices would miss.
///
/// `None` unless every index is one of the job's GPUs.
#[must_use]
pub fn uuids_of_part(entry: &Entry, indices: &str) -> Option<String> {
    let uuid = |index: &str| {
        let number = GpuIndex(index.trim().parse().ok()?);
        entry.gpus.iter().find(|g| g.number == number).map(|g| g.uuid.as_str())
    };
    indices.split(',').map(uuid).collect::<Option<Vec<_>>>().map(|uuids| uuids.join(","))
}

/// The whole GPUs of one of a step's tasks, `task` of `n_tasks` on this node, which Slurm names by index, in the order of
/// the job's ranks.
///
/// Slurm deals a job's GPUs out by ascending number. Where each task has its share of all of them, each gets the same
/// number in the order of ranks instead, so that neighbours in the pattern are linked.
///
/// `fence` says what the task may open, where Slurm's device cgroup holds it to its own GPUs. What it may open is then the
/// truth: in a task that is bound to some of its step's GPUs, Slurm's list names the first ones of the step, whichever
/// the task has (22.05.8 and 24.11.5, `--gpus-per-task` with `ConstrainDevices`).
///
/// `None` unless every index is one of the job's GPUs.
#[must_use]
pub fn gpus_of_task<'e>(
    entry: &'e Entry,
    indices: &str,
    (task, n_tasks): (u32, u32),
    fence: Option<&dyn Fn(&GpuRecord) -> bool>,
) -> Option<Vec<&'e GpuRecord>> {
    let known = |number: &GpuIndex| entry.gpus.iter().any(|g| g.number == *number);
    let index = |text: &str| text.trim().parse().ok().map(GpuIndex).filter(known);
    let mut given = indices.split(',').map(index).collect::<Option<Vec<GpuIndex>>>()?;
    if let Some(may_open) = fence {
        let own: Vec<&GpuRecord> = entry.gpus.iter().filter(|g| may_open(g)).collect();
        if !own.is_empty() && own.len() < entry.gpus.len() {
            return Some(own);
        }
    }
    given.sort_unstable();
    let mut all: Vec<GpuIndex> = entry.gpus.iter().map(|g| g.number).collect();
    all.sort_unstable();
    let from = given.len() * task as usize;
    let dealt =
        given.len() * n_tasks as usize == all.len() && all.get(from..from + given.len()) == Some(&given);
    let ranked = entry.gpus.get(from..from + given.len()).filter(|_| dealt);
    Some(match ranked {
        Some(own) => own.iter().collect(),
        None => entry.gpus.iter().filter(|g| given.contains(&g.number)).collect(),
    })
}

/// GPUs by UUID, as CUDA and containers take them.
#[must_use]
pub fn uuids(gpus: &[&GpuRecord]) -> String {
    gpus.iter().map(|g| g.uuid.as_str()).collect::<Vec<_>>().join(",")
}

/// GPUs by number, as CUDA counts them under `CUDA_DEVICE_ORDER=PCI_BUS_ID`: each by its place among the GPUs `in_sight`,
/// in the driver's order. `in_sight` are NVML's numbers of all GPUs that the task may open.
///
/// `None` where one of the GPUs is not in sight.
#[must_use]
pub fn numbers(gpus: &[&GpuRecord], in_sight: &[NvmlIndex]) -> Option<String> {
    let mut order = in_sight.to_vec();
    order.sort_unstable();
    let place = |gpu: &&GpuRecord| order.iter().position(|i| *i == gpu.index).map(|place| place.to_string());
    gpus.iter().map(place).collect::<Option<Vec<_>>>().map(|places| places.join(","))
}

fn share(entry: &Entry, env: &mut Env) {
    let Some(share) = &entry.share else { return };
    let instance = entry.instances.first().and_then(|i| i.live.as_ref()).map(|l| l.uuid.clone());
    let device = instance.or_else(|| entry.gpus.first().map(|g| g.uuid.clone())).unwrap_or_default();
    // The daemon sees this device alone: for its clients it is number 0 under whatever name.
    env.devices("mps", &device, &device);
    env.set(Variable::MpsPipe, &share.pipe_dir.display().to_string());
    env.set(Variable::MpsLog, &share.log_dir.display().to_string());
    env.set(Variable::MpsThreads, &share.threads.to_string());
    if share.memory_enforced {
        env.set(Variable::MpsMemory, &format!("0={}M", share.mem_mib));
    }
    env.set(Variable::MemoryMib, &share.mem_mib.to_string());
    // Its steps, also on other nodes, know the limit by it.
    env.set(Variable::JobId, &entry.job.to_string());
    let level = MemoryLevel::of_share(share.memory_enforced).fenced(entry.is_fenced());
    env.set(Variable::Share, &format!("{} ({level}), {}% of SMs", display_gb(share.mem_mib), share.threads));
}

/// A device, or all of the job's own GPUs: the library moves a process elsewhere before it opens any.
fn tasks(entry: &Entry, env: &mut Env) {
    let Some(record) = &entry.tasks else { return };
    let uuids: Vec<&str> = (0..record.devices.len()).filter_map(|i| entry.task_device_uuid(i)).collect();
    let all = uuids.join(",");
    // Of several GPUs, the one with the job's seats.
    let seated = record.devices.iter().position(|device| device.seats > 0);
    let at = seated.filter(|_| entry.instances.is_empty()).unwrap_or(0);
    let first =
        if record.own { all.clone() } else { uuids.get(at).map_or(String::new(), |u| (*u).to_owned()) };
    env.devices("gpu-tasks", &first, &all);
    if let Some(device) = record.devices.get(at) {
        env.set(Variable::MpsPipe, &device.pipe_dir.display().to_string());
        env.set(Variable::MpsLog, &device.log_dir.display().to_string());
    }
    env.set(Variable::TaskSocket, &record.socket.display().to_string());
    if let Some(mem) = record.mem_mib {
        env.set(Variable::MemoryMib, &mem.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_variables::stale_variables;

    /// A job with these GPUs in the order of its ranks; GPU 3's UUID is `GPU-3`.
    fn whole(order: &[u16]) -> Entry {
        let gpu =
            |i: &u16| serde_json::json!({ "index": i, "minor": i, "uuid": format!("GPU-{i}"), "number": i });
        let gpus: Vec<_> = order.iter().map(gpu).collect();
        serde_json::from_value(serde_json::json!({
            "version": 2, "boot": "b", "job": 12, "uid": 1000, "gid": 1000, "restart": 0, "decision": "",
            "phase": "ready", "kind": "whole", "gpus": gpus, "instances": [], "share": null, "device_nodes": [],
        }))
        .unwrap()
    }

    /// An entry of each kind, with everything that one of the kind may have.
    fn of_each_kind() -> [Entry; 4] {
        let mut whole = whole(&[0, 1]);
        whole.matched = Some("ring/sensitive/preserve/linear/43.5".to_owned());
        let instance = serde_json::json!({
            "gpu": 0, "profile": 19, "name": "1g.5gb", "start": 0, "size": 1, "memory_mib": 4864,
            "live": { "gi": 1, "ci": 0, "uuid": "MIG-1" },
        });
        let mig = Entry {
            kind: GrantKind::Mig,
            instances: vec![serde_json::from_value(instance).unwrap()],
            matched: None,
            ..whole.clone()
        };
        let share = serde_json::json!({
            "daemon": "gpu0", "mem_mib": 1000, "threads": 25, "memory_enforced": true,
            "pipe_dir": "/p", "log_dir": "/l",
        });
        let mps = Entry {
            kind: GrantKind::Mps,
            share: serde_json::from_value(share).unwrap(),
            instances: Vec::new(),
            ..mig.clone()
        };
        let device = serde_json::json!({
            "daemon": "gpu0-19-0", "seats": 1, "memory_mib": 4864, "sms": 14, "workers": 4, "pipe_dir": "/p",
            "log_dir": "/l",
        });
        let seats = serde_json::json!({
            "seats": 1, "mem_mib": 1000, "probes": false, "own": false, "devices": [device], "socket": "/s",
            "library": "/t.so",
        });
        let tasks =
            Entry { kind: GrantKind::Tasks, tasks: serde_json::from_value(seats).unwrap(), ..mig.clone() };
        [whole, mig, mps, tasks]
    }

    #[test]
    fn whatever_one_job_sets_another_does_not_inherit() {
        let environments = of_each_kind().map(|entry| task_environment(&entry, 0, 1));
        for outer in &environments {
            for inner in &environments {
                let stale = stale_variables(inner, Some(var(outer, "TESSERA_ISOLATION")));
                for (name, _) in outer {
                    let set = inner.iter().any(|(own, _)| own == name);
                    assert!(set != stale.contains(&name.as_str()), "{name}: {inner:?}");
                }
            }
        }
        let [whole, mig, mps, tasks] = &environments;
        assert!(stale_variables(whole, Some("mps")).contains(&"TESSERA_GPU_SHARE"));
        // The user's own MPS daemon stays reachable.
        for isolation in [None, Some("whole"), Some("mig")] {
            let stale = stale_variables(whole, isolation);
            assert!(stale.iter().all(|name| name.starts_with("TESSERA_")), "{stale:?}");
        }
        // All together set every variable that there is.
        let all = [whole.clone(), mig.clone(), mps.clone(), tasks.clone()].concat();
        assert_eq!(stale_variables(&all, Some("mps")), Vec::<&str>::new());
    }

    fn var<'a>(env: &'a [(String, String)], name: &str) -> &'a str {
        env.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    #[test]
    fn tasks_have_their_gpus_in_the_order_of_ranks() {
        let entry = whole(&[0, 3, 7, 4]);
        let of = |indices: &str, task| uuids(&gpus_of_task(&entry, indices, task, None).unwrap_or_default());
        assert_eq!(["0", "3", "4", "7"].map(|g| of(g, (0, 1))), ["GPU-0", "GPU-3", "GPU-4", "GPU-7"]);
        assert_eq!(of("0", (0, 4)), "GPU-0");
        assert_eq!(of("4", (2, 4)), "GPU-7");
        assert_eq!(of("7", (3, 4)), "GPU-4");
        assert_eq!(of("4,7", (1, 2)), "GPU-7,GPU-4");
        // A part of the job's, or dealt out otherwise: only the order changes.
        assert_eq!(of("3,4,7", (0, 1)), "GPU-3,GPU-7,GPU-4");
        assert_eq!(of("7", (2, 4)), "GPU-7");
        assert_eq!(of("4,7", (0, 2)), "GPU-7,GPU-4");
        assert_eq!(gpus_of_task(&entry, "1", (0, 1), None), None);
    }

    #[test]
    fn a_task_that_a_cgroup_holds_to_some_of_the_gpus_has_those() {
        let entry = whole(&[0, 3, 7, 4]);
        let of = |indices, task, open: &[u16]| {
            let may_open = |g: &GpuRecord| open.contains(&g.index.0);
            uuids(&gpus_of_task(&entry, indices, task, Some(&may_open)).unwrap_or_default())
        };
        assert_eq!(of("4", (2, 4), &[4]), "GPU-4");
        // Slurm names the step's first GPUs in every task that is bound to some of them.
        assert_eq!(of("0", (3, 4), &[7]), "GPU-7");
        assert_eq!(of("0,3", (1, 2), &[4, 7]), "GPU-7,GPU-4");
        // A fence round all of the job's GPUs says nothing about the task.
        assert_eq!(of("4", (2, 4), &[0, 3, 4, 7]), "GPU-7");
        assert_eq!(of("4", (2, 4), &[]), "GPU-7");
    }

    #[test]
    fn numbers_count_the_gpus_in_sight() {
        let entry = whole(&[3, 0, 5]);
        let gpus: Vec<&GpuRecord> = entry.gpus.iter().collect();
        let of =
            |in_sight: &[u16]| numbers(&gpus, &in_sight.iter().map(|i| NvmlIndex(*i)).collect::<Vec<_>>());
        assert_eq!(of(&[5, 3, 0]).as_deref(), Some("1,0,2"), "in a device cgroup");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7]).as_deref(), Some("3,0,5"), "where every node is open");
        assert_eq!(of(&[0, 3]), None);
    }
}
