//! Finds jobs that still have a process on this node although their step daemons are gone.
//!
//! A process is a job's if its control group says so. One that is in no job's group is a job's if its user is the job's and
//! it was started with the job's number in its environment. A user can leave a job's environment, or forge it, only among their own jobs.

use std::collections::HashSet;
use std::time::Duration;

use geometry::JobId;

use job_usage::slurm_process;
use node_driver::deadline::Deadline;
use node_driver::process;
use node_driver::process_environ::Unread;
use node_journal::Entry;

/// Longest time for reading environments. Only a reconciliation waits for it.
const TIME: Duration = Duration::from_secs(30);

/// Finds the jobs of these entries that have a process on `node`. `env` is slurmd's environment: `SLURM_CONF`.
///
/// Reads all of `/proc` once. Where it cannot be read, every job counts as having one. So does each job of a user who has
/// a process outside Slurm's groups that cannot be read in time, or more of them than can be read in 30 s.
#[must_use]
pub fn jobs_with_processes(
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
    jobs: &[&Entry],
) -> HashSet<JobId> {
    let mut processes = process::all().peekable();
    if processes.peek().is_none() {
        return jobs.iter().map(|entry| entry.job()).collect();
    }
    let conf = env("SLURM_CONF");
    let deadline = Deadline::after(TIME);
    let mut found = HashSet::new();
    for pid in processes {
        let Some(uid) = process::owner(pid) else { continue };
        let of_user = |entry: &&&Entry| entry.uid == uid && !found.contains(&entry.job());
        let asked: Vec<&Entry> = jobs.iter().filter(of_user).copied().collect();
        if asked.is_empty() || process::start_time_of(pid).is_none() {
            continue;
        }
        let groups = slurm_process::groups_of_jobs(pid);
        if !groups.is_empty() {
            let is_in = |entry: &&Entry| groups.iter().any(|group| entry.is_group(group));
            found.extend(asked.into_iter().filter(is_in).map(Entry::job));
            continue;
        }
        let environ = if deadline.passed() { Err(Unread::Late) } else { process::environ(pid) };
        let may_be = |job: &JobId| may_be_of(*job, &environ, node, conf.as_deref());
        found.extend(asked.into_iter().map(Entry::job).filter(may_be));
    }
    found
}

/// Tells whether a process may be the job's, by the environment that it was started with.
fn may_be_of(job: JobId, environ: &Result<Vec<u8>, Unread>, node: &str, conf: Option<&str>) -> bool {
    match environ {
        Ok(environ) => begun_in(&|name| process::variable_in(environ, name), node, conf) == Some(job),
        // What nobody could read may be the job's last process.
        Err(Unread::Late) => true,
        Err(Unread::Gone) => false,
    }
}

/// The job that a process was started in, by its environment: on this node and in this cluster as far as that says.
fn begun_in(variable: &dyn Fn(&str) -> Option<String>, node: &str, conf: Option<&str>) -> Option<JobId> {
    let job = variable("SLURM_JOB_ID")?.parse().ok()?;
    let same =
        |name: &str, ours: Option<&str>| variable(name).zip(ours).is_none_or(|(theirs, ours)| theirs == ours);
    (same("SLURMD_NODENAME", Some(node)) && same("SLURM_CONF", conf)).then_some(JobId(job))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lab::threads::Running;

    use super::*;

    #[test]
    fn an_environment_names_job_node_and_cluster() {
        let of = |environ: &[(&str, &str)]| {
            let variable =
                |name: &str| environ.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            begun_in(&variable, "n1", Some("/etc/slurm.conf")).map(|job| job.0)
        };
        let job = ("SLURM_JOB_ID", "12");
        assert_eq!(of(&[job, ("SLURMD_NODENAME", "n1"), ("SLURM_CONF", "/etc/slurm.conf")]), Some(12));
        assert_eq!(of(&[job]), Some(12));
        assert_eq!(of(&[("SLURM_JOB_ID", "12 "), ("A", "1")]), None);
        assert_eq!(of(&[job, ("SLURMD_NODENAME", "n2")]), None);
        assert_eq!(of(&[job, ("SLURM_CONF", "/tmp/slurm.conf")]), None);
    }

    #[test]
    fn a_process_that_cannot_be_read_in_time_may_be_any_jobs() {
        let may_be = |environ: Result<&str, Unread>| {
            may_be_of(JobId(12), &environ.map(|text| text.as_bytes().to_vec()), "n1", None)
        };
        assert!(may_be(Ok("A=1\0SLURM_JOB_ID=12\0")) && may_be(Err(Unread::Late)));
        assert!(!may_be(Ok("SLURM_JOB_ID=13\0")) && !may_be(Err(Unread::Gone)));
    }

    fn entry(job: JobId, uid: u32) -> Entry {
        serde_json::from_value(serde_json::json!({
            "version": 2, "boot": "b", "job": job.0, "uid": uid, "gid": uid, "restart": 0, "decision": "",
            "phase": "ready", "kind": "whole", "gpus": [], "instances": [], "share": null, "device_nodes": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_process_counts_without_its_first_thread() {
        let dir = tempfile::tempdir().unwrap();
        let (job, me) = (JobId(4_000_000_125), rustix::process::geteuid().as_raw());
        let mut program = Command::new(lab::threads::build(dir.path()).unwrap());
        program.arg("linger").env("SLURM_JOB_ID", job.to_string());
        let _running = Running::start(&mut program).unwrap().without_first_thread().unwrap();
        assert!(jobs_with_processes("n1", &|_| None, &[&entry(job, me)]).contains(&job));
    }

    #[test]
    fn a_process_counts_while_it_lives_and_for_its_own_user_alone() {
        let (job, other) = (JobId(4_000_000_123), JobId(4_000_000_124));
        let me = rustix::process::geteuid().as_raw();
        let found = |jobs: &[(JobId, u32)]| {
            let entries: Vec<Entry> = jobs.iter().map(|(job, uid)| entry(*job, *uid)).collect();
            jobs_with_processes("n1", &|_| None, &entries.iter().collect::<Vec<_>>())
        };
        let mut child =
            Command::new("sleep").arg("600").env("SLURM_JOB_ID", job.to_string()).spawn().unwrap();
        // Its environment is there a moment after the process.
        let seen = (0..30_000).any(|_| !found(&[(job, me)]).is_empty());
        let others = found(&[(job, me + 1), (other, me)]);
        child.kill().unwrap();
        let zombie = (0..30_000).any(|_| found(&[(job, me)]).is_empty());
        child.wait().unwrap();
        assert!(seen && zombie);
        assert_eq!(others, HashSet::new());
    }
}
