//! Computes the limits that the kernel is to enforce on a job. Nothing here reads or writes a file.

use std::path::{Component, Path, PathBuf};

use super::regions::{RegionMax, limit_of, of_gpu, regions};
use node_journal::{Entry, FenceRecord, GrantKind, RegionLimit};

/// Returns the memory that is counted for the job on this node, in bytes, if nothing but the kernel can hold its processes to it.
///
/// An instance or a whole GPU ends by itself. A share under `memory_limit = "advisory"` is to be held by nothing. Programs that
/// ask for their GPU tasks themselves have only what they declare.
pub(super) fn counted_bytes(entry: &Entry) -> Option<u64> {
    let mib = match entry.kind {
        GrantKind::Mps => {
            entry.share.as_ref().filter(|share| share.memory_enforced).map(|share| share.mem_mib)
        }
        GrantKind::Tasks => entry
            .tasks
            .as_ref()
            .filter(|tasks| !tasks.own && !tasks.probes)
            .and_then(|tasks| tasks.mem_mib?.checked_mul(tasks.seats.into())),
        GrantKind::Mig => match &entry.instances[..] {
            [one] if one.part.is_some() => Some(one.memory_mib),
            _ => None,
        },
        GrantKind::Whole | GrantKind::Shards => None,
    };
    mib.filter(|mib| *mib > 0)?.checked_mul(1 << 20)
}

/// Returns the limits of a job that may take `bytes` of its GPUs, which have these PCI bus ids. `capacity` is the kernel's
/// `dmem.capacity`. `None` if the kernel has no region for any of the GPUs.
pub(super) fn limits(capacity: &str, pci_bus_ids: &[String], bytes: u64) -> Option<FenceRecord> {
    let all = regions(capacity);
    let of_each: Vec<Vec<&str>> = pci_bus_ids.iter().map(|id| of_gpu(&all, id)).collect();
    let limit =
        |region: &&str| RegionLimit { region: (*region).to_owned(), max_bytes: bytes, found_bytes: None };
    let limits: Vec<RegionLimit> = of_each.iter().flatten().map(limit).collect();
    let exact = matches!(&of_each[..], [one] if one.len() == 1);
    (!limits.is_empty()).then_some(FenceRecord { dir: None, limits, exact, in_force: false })
}

/// Notes what the epilog is to put back: what `dmem.max` says now, or what an `earlier` attempt of the same job found there.
pub(super) fn note_found(fence: &mut FenceRecord, now: &str, earlier: Option<&FenceRecord>) {
    for limit in &mut fence.limits {
        let found = limit_of(now, &limit.region).unwrap_or(RegionMax::Max);
        let ours = earlier.into_iter().flat_map(|e| &e.limits).find(|e| e.region == limit.region);
        let ours = ours.filter(|e| found == RegionMax::Bytes(e.max_bytes));
        limit.found_bytes = ours.map_or(found.bytes(), |e| e.found_bytes);
    }
}

/// Returns the lines to write, each in a write of its own, where `now` is the text of `dmem.max`. A lower limit stays: it is
/// Slurm's (`ConstrainDeviceMemory` of 26.11), or the administrator's. So none is ever raised.
pub(super) fn lines(fence: &FenceRecord, now: &str) -> Vec<String> {
    let above = fence.limits.iter().filter(|limit| is_above(limit, now));
    above.map(|limit| RegionMax::Bytes(limit.max_bytes).line(&limit.region)).collect()
}

/// Returns the limits that `dmem.max` does not hold the job to: the region, and what the job may take of it instead.
#[must_use]
pub fn missing<'f>(fence: &'f FenceRecord, now: &str) -> Vec<(&'f RegionLimit, Option<u64>)> {
    let above = fence.limits.iter().filter(|limit| is_above(limit, now));
    above.map(|limit| (limit, limit_of(now, &limit.region).and_then(RegionMax::bytes))).collect()
}

fn is_above(limit: &RegionLimit, now: &str) -> bool {
    limit_of(now, &limit.region).unwrap_or(RegionMax::Max) > RegionMax::Bytes(limit.max_bytes)
}

/// Returns the lines that put back what was found, where `now` is the text of `dmem.max`. What somebody else has changed since
/// stays.
pub(super) fn lines_back(fence: &FenceRecord, now: &str) -> Vec<String> {
    let ours = |limit: &&RegionLimit| {
        limit_of(now, &limit.region) == Some(RegionMax::Bytes(limit.max_bytes))
            && limit.found_bytes != Some(limit.max_bytes)
    };
    let back = |limit: &RegionLimit| RegionMax::of(limit.found_bytes).line(&limit.region);
    fence.limits.iter().filter(ours).map(back).collect()
}

/// Returns a job's control group, relative to the tree's root, from `/proc/self/cgroup` of one of its steps. Slurm's layout above
/// it differs by release and site: `system.slice/slurmstepd.scope/job_12/step_0/slurm`. `name` is [`Entry::group_name`].
pub(super) fn job_dir(own: &str, name: &str) -> Option<PathBuf> {
    let path = Path::new(own.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let mut dir = PathBuf::new();
    for part in path.components() {
        // A namespace shows what is outside of it as `..`.
        let Component::Normal(part) = part else { return None };
        dir.push(part);
        if *part == *name {
            return Some(dir);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: &str = "nvidia/0000:07:00/vidmem 85520809984\nnvidia/0000:0b:00/vidmem 85520809984\n";

    fn entry(kind: &str, of: serde_json::Value) -> Entry {
        let mut value = serde_json::json!({
            "version": 2, "boot": "b", "job": 12, "uid": 1000, "gid": 1000, "restart": 0, "decision": "", "matched": null,
            "phase": "ready", "kind": kind, "gpus": [], "instances": [], "share": null, "device_nodes": [],
        });
        for (key, part) in of.as_object().unwrap() {
            value[key] = part.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_counted_in_mib_has_a_limit() {
        let share = |enforced: bool| {
            serde_json::json!({ "share": { "daemon": "gpu0", "mem_mib": 2862, "threads": 25, "memory_enforced": enforced,
                                           "pipe_dir": "/p", "log_dir": "/l" } })
        };
        assert_eq!(counted_bytes(&entry("mps", share(true))), Some(2862 << 20));
        assert_eq!(counted_bytes(&entry("mps", share(false))), None, "the site only advises");
        let tasks = |own: bool, probes: bool, mem: Option<u64>| {
            serde_json::json!({ "tasks": { "seats": 4, "mem_mib": mem, "probes": probes, "own": own, "devices": [],
                                           "socket": "/s", "library": "/t.so" } })
        };
        assert_eq!(counted_bytes(&entry("tasks", tasks(false, false, Some(2862)))), Some((4 * 2862) << 20));
        assert_eq!(counted_bytes(&entry("tasks", tasks(true, false, Some(2862)))), None, "whole GPUs");
        assert_eq!(counted_bytes(&entry("tasks", tasks(false, true, Some(2862)))), None, "what they declare");
        assert_eq!(counted_bytes(&entry("tasks", tasks(false, false, None))), None);
        assert_eq!(counted_bytes(&entry("tasks", tasks(false, false, Some(u64::MAX)))), None, "no overflow");
        let instance = |part: Option<serde_json::Value>| {
            serde_json::json!({ "instances": [{ "gpu": 0, "profile": 0, "name": "4c.7g.40gb", "start": 0, "size": 8,
                                                "memory_mib": 10_000, "part": part }] })
        };
        let part = serde_json::json!({ "slices": 4, "start": 0 });
        assert_eq!(counted_bytes(&entry("mig", instance(Some(part)))), Some(10_000 << 20));
        assert_eq!(counted_bytes(&entry("mig", instance(None))), None, "the instance ends by itself");
        assert_eq!(counted_bytes(&entry("whole", serde_json::json!({}))), None);
    }

    fn planned(ids: &[&str]) -> Option<FenceRecord> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        limits(CAPACITY, &ids, 3000)
    }

    #[test]
    fn a_limit_is_exact_on_one_region_alone() {
        let one = planned(&["00000000:0B:00.0"]).unwrap();
        assert_eq!((&*one.limits[0].region, one.limits[0].max_bytes), ("nvidia/0000:0b:00/vidmem", 3000));
        assert!(one.exact && !one.holds());
        let two = planned(&["00000000:07:00.0", "00000000:0b:00.0"]).unwrap();
        assert_eq!((two.limits.len(), two.exact), (2, false));
        assert!(!planned(&["00000000:07:00.0", "00000000:0c:00.0"]).unwrap().exact, "one GPU has no region");
        assert_eq!(planned(&["00000000:0c:00.0"]), None);
        assert_eq!(planned(&[]), None);
    }

    #[test]
    fn a_limit_is_lowered_never_raised_and_put_back() {
        let mut fence = planned(&["00000000:07:00.0"]).unwrap();
        let text = |limit: &str| format!("nvidia/0000:07:00/vidmem {limit}\nnvidia/0000:0b:00/vidmem max\n");
        for (now, written) in [("max", true), ("3001", true), ("3000", false), ("2999", false), ("0", false)]
        {
            assert_eq!(
                lines(&fence, &text(now)).first().map(String::as_str),
                written.then_some("nvidia/0000:07:00/vidmem 3000\n")
            );
            assert_eq!(missing(&fence, &text(now)).is_empty(), !written, "{now}");
        }
        assert_eq!(missing(&fence, &text("5000"))[0].1, Some(5000));
        // The epilog puts back what was there, unless it is another's by then.
        for (found, back) in [("max", "max"), ("4000", "4000")] {
            note_found(&mut fence, &text(found), None);
            assert_eq!(lines_back(&fence, &text("3000")), [format!("nvidia/0000:07:00/vidmem {back}\n")]);
            assert_eq!(lines_back(&fence, &text("2000")), [""; 0]);
            // A prolog that was killed and runs again finds its own limit.
            let earlier = fence.clone();
            note_found(&mut fence, &text("3000"), Some(&earlier));
            assert_eq!(fence, earlier);
        }
        // Slurm's own lower limit stays.
        note_found(&mut fence, &text("2000"), None);
        assert_eq!(lines(&fence, &text("2000")), [""; 0]);
        assert_eq!(lines_back(&fence, &text("2000")), [""; 0]);
    }

    #[test]
    fn a_step_knows_its_jobs_control_group() {
        let of = |own: &str| job_dir(own, "job_12").map(|dir| dir.display().to_string());
        assert_eq!(
            of("0::/system.slice/slurmstepd.scope/job_12/step_0/slurm\n").as_deref(),
            Some("system.slice/slurmstepd.scope/job_12")
        );
        let of_one_of_several =
            "1:cpu:/x\n0::/a.slice/b.slice/n1_slurmstepd.scope/job_12/step_batch/user/task_0\n";
        assert_eq!(of(of_one_of_several).as_deref(), Some("a.slice/b.slice/n1_slurmstepd.scope/job_12"));
        let sluid = "0::/system.slice/n1_slurmstepd.scope/s0AVJ3WCXM2T00/step_0/user/task_0\n";
        assert_eq!(
            job_dir(sluid, "s0AVJ3WCXM2T00"),
            Some("system.slice/n1_slurmstepd.scope/s0AVJ3WCXM2T00".into()),
            "Slurm 26.05"
        );
        for other in ["0::/\n", "0::/x/job_120/step_0\n", "0::/../job_12\n", "1:cpu:/job_12\n", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
