//! Tells whether a process belongs to a job that runs here.
//!
//! CUDA and NVML open every device node that they may. So a job's process can hold the node of a GPU that was its user's
//! other job's, or everybody's, when it began: it has done nothing wrong and must not be ended.

use std::collections::HashSet;

use node_driver::process;
use node_journal::{Entry, is_sluid};

/// Most ancestors that are looked at.
const MOST_ANCESTORS: usize = 100;

/// True for a process that Slurm's step daemon started and that has not left it, for one in the control group of a job in
/// `entries` (a job may have ended and left it there), and for one that its environment says to be of a job of its user
/// there. Users can forge the last alone, and only for jobs of their own that still run.
pub fn is_of_a_running_job(pid: u32, uid: u32, entries: &[Entry]) -> bool {
    let own = |entry: &&Entry| entry.holds() && entry.uid == uid;
    let named = || process::variable(pid, "SLURM_JOB_ID").and_then(|id| id.parse().ok());
    is_in_a_group_of(&groups_of(pid), entries)
        || is_below_a_step(pid)
        || named().is_some_and(|id: u32| entries.iter().filter(own).any(|entry| entry.job().0 == id))
}

/// Tells whether a process is of the job: by its control group, or where Slurm made none for it by the environment that it was
/// started with, which its user may have changed. `None`: neither names a job.
pub fn is_of_job(pid: u32, entry: &Entry) -> Option<bool> {
    let by_group = jobs_of_groups(&groups_of(pid)).next().map(|group| entry.is_group(group));
    let named = || process::variable(pid, "SLURM_JOB_ID")?.parse().ok().map(|id: u32| id == entry.job);
    by_group.or_else(named)
}

/// Names of the jobs' control groups that a process is in: see [`Entry::is_group`].
pub fn groups_of_jobs(pid: u32) -> HashSet<String> {
    jobs_of_groups(&groups_of(pid)).map(str::to_owned).collect()
}

/// Reads its `/proc/PID/cgroup`; nothing for one that has ended.
fn groups_of(pid: u32) -> String {
    process::text(pid, "cgroup").unwrap_or_default()
}

fn is_below_a_step(pid: u32) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| process::parent(*pid));
    let mut above = parents.skip(1).take(MOST_ANCESTORS).take_while(|pid| *pid > 1);
    // By its real user: a program that is setuid root can have any name.
    above.any(|pid| process::owner(pid) == Some(0) && process::name(pid).as_deref() == Some("slurmstepd"))
}

/// Tells whether `text`, a process's `/proc/PID/cgroup`, names the group of a job that holds something.
fn is_in_a_group_of(text: &str, entries: &[Entry]) -> bool {
    jobs_of_groups(text).any(|group| entries.iter().any(|entry| entry.holds() && entry.is_group(group)))
}

/// The jobs' groups that a `/proc/PID/cgroup` names: one, in as many hierarchies as Slurm uses.
fn jobs_of_groups(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2).and_then(group_of_job))
}

/// The name of a job's group, by Slurm's own groups [22.05 and 24.11: `cgroup/v1`, `cgroup/v2`; 26.05: `cgroup_p_step_create` of
/// `cgroup/v2`]; below a user's group, a user chooses the names.
fn group_of_job(path: &str) -> Option<&str> {
    let mut parts = path.trim_start_matches('/').split('/');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match parts.next() {
        // Administrators can choose another slice from Slurm 25.11 on: `CgroupSlice`.
        Some(slice) if slice.ends_with(".slice") && !["user.slice", "machine.slice"].contains(&slice) => {
            if !parts.next().is_some_and(|scope| scope.ends_with("slurmstepd.scope")) {
                return None;
            }
        }
        Some(slurm) if slurm.starts_with("slurm") => {
            if !parts.next().and_then(|part| part.strip_prefix("uid_")).is_some_and(is_number) {
                return None;
            }
        }
        _ => return None,
    }
    let name = parts.next()?;
    (name.strip_prefix("job_").is_some_and(is_number) || is_sluid(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_job_that_has_ended_says_nothing() {
        let entry = |phase: &str| -> Entry {
            let phase: serde_json::Value = serde_json::from_str(phase).unwrap();
            serde_json::from_value(serde_json::json!({
                "version": 2, "boot": "b", "job": 12, "uid": 1000, "gid": 1000, "restart": 0, "decision": "",
                "phase": phase, "kind": "whole", "gpus": [], "instances": [], "share": null, "device_nodes": [],
            }))
            .unwrap()
        };
        let of = |job: u32| {
            format!(
                "4:memory:/\n2:freezer:/slurm/uid_1000/job_{job}/step_0\n0::/system.slice/slurmd.service\n"
            )
        };
        let runs = [entry(r#""ready""#)];
        assert!(is_in_a_group_of(&of(12), &runs));
        assert!(is_in_a_group_of("0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n", &runs));
        assert!(!is_in_a_group_of(&of(13), &runs) && !is_in_a_group_of(&of(12), &[]));
        assert!(!is_in_a_group_of(&of(12), &[entry(r#"{"failed":"x"}"#)]));
        // Slurm 26.05 names it by the job's SLUID, and in a tree of version 1 by its number.
        let named = [Entry { group: Some("s0AVJ3WCXM2T00".to_owned()), ..entry(r#""ready""#) }];
        let in_group = |name: &str| {
            is_in_a_group_of(
                &format!("0::/system.slice/slurmstepd.scope/{name}/step_0/user/task_0\n"),
                &named,
            )
        };
        assert!(in_group("s0AVJ3WCXM2T00") && !in_group("s0AVJ3WCXM2T01"));
        assert!(is_in_a_group_of(&of(12), &named) && !is_in_a_group_of(&of(13), &named));
    }

    #[test]
    fn slurms_groups_are_told_from_users() {
        for path in [
            "/slurm/uid_1000/job_12/step_0/task_1",
            "/slurm_n1/uid_1000/job_12/step_batch",
            "/system.slice/slurmstepd.scope/job_12/step_0/user/task_0",
            "/system.slice/n1_slurmstepd.scope/job_12/step_extern",
            "/slurm.slice/slurmstepd.scope/job_12/step_0/user/task_0",
        ] {
            assert_eq!(group_of_job(path), Some("job_12"), "{path}");
        }
        let path = "/system.slice/n1_slurmstepd.scope/s0AVJ3WCXM2T00/step_0/user/task_0";
        assert_eq!(group_of_job(path), Some("s0AVJ3WCXM2T00"), "26.05");
        for path in [
            "/",
            "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_12",
            "/user.slice/slurm/uid_1000/job_12",
            "/system.slice/slurmd.service",
            "/slurm.slice/other.scope/job_12",
            "/machine.slice/slurmstepd.scope/job_12",
            "/slurm/system/job_12",
            "/slurm/uid_1000/job_x",
            "/system.slice/n1_slurmstepd.scope/system",
            "/system.slice/n1_slurmstepd.scope/s0AVJ3WCXM2T0",
            "/system.slice/n1_slurmstepd.scope/s0AVJ3WCXM2TO0",
            "/user.slice/n1_slurmstepd.scope/s0AVJ3WCXM2T00",
        ] {
            assert_eq!(group_of_job(path), None, "{path}");
        }
    }
}
