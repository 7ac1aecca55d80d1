//! Which jobs still have a process on this node, where their step daemons are gone.
//!
//! A process is a job's if its control group says so, or if its user is the job's and it was started with the job's
//! number in its environment. A user can leave a job's environment, or forge it, only among their own jobs.

use std::collections::HashSet;
use std::path::Path;

use geometry::JobId;

/// Those of `jobs`, each with its user, that have a process on `node`. `env` is slurmd's environment: `SLURM_CONF`.
///
/// Reads all of `/proc` once. Where it cannot be read, every job counts as having one.
#[must_use]
pub fn jobs_with_processes(
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
    jobs: &[(JobId, u32)],
) -> HashSet<JobId> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return jobs.iter().map(|(job, _)| *job).collect() };
    let conf = env("SLURM_CONF");
    let mut found = HashSet::new();
    for process in processes.flatten() {
        let dir = process.path();
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Some(uid) = user_of(&dir) else { continue };
        if !jobs.iter().any(|(job, user)| *user == uid && !found.contains(job)) {
            continue;
        }
        let groups = std::fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
        let environ = environ_of(&dir);
        let is_of = |job: JobId| in_group_of(&groups, job) || begun_in(&environ, job, node, conf.as_deref());
        found.extend(jobs.iter().filter(|(job, user)| *user == uid && is_of(*job)).map(|(job, _)| *job));
    }
    found
}

/// What a process was started with. Once its first thread has ended, only the others have it.
fn environ_of(dir: &Path) -> Vec<u8> {
    let read = |dir: &Path| std::fs::read(dir.join("environ")).ok().filter(|environ| !environ.is_empty());
    let threads = || std::fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
    read(dir).or_else(|| threads().find_map(|thread| read(&thread.path()))).unwrap_or_default()
}

/// A process's user; `None` for one that has ended, zombies included. It lives as long as one of its threads does.
fn user_of(dir: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(dir.join("status")).ok()?;
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
    let others = || field("Threads:").and_then(|threads| threads.parse().ok()).is_some_and(|n: u32| n > 1);
    if matches!(field("State:")?, "Z" | "X") && !others() {
        return None;
    }
    field("Uid:")?.parse().ok()
}

/// Whether a control group of Slurm's is this job's: `…/job_12/step_0/…`.
fn in_group_of(groups: &str, job: JobId) -> bool {
    let own = format!("job_{job}");
    groups.lines().any(|line| line.contains("slurm") && line.split('/').any(|part| part == own))
}

/// Whether a process was started with this job's number, on this node and in this cluster as far as it says.
fn begun_in(environ: &[u8], job: JobId, node: &str, conf: Option<&str>) -> bool {
    let value = |name: &str| {
        let of =
            |entry: &[u8]| Some(String::from_utf8_lossy(entry.strip_prefix(name.as_bytes())?).into_owned());
        environ.split(|b| *b == 0).find_map(of)
    };
    let same =
        |name: &str, ours: Option<&str>| value(name).zip(ours).is_none_or(|(theirs, ours)| theirs == ours);
    value("SLURM_JOB_ID=").is_some_and(|id| id == job.to_string())
        && same("SLURMD_NODENAME=", Some(node))
        && same("SLURM_CONF=", conf)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lab::threads::Running;

    use super::*;

    #[test]
    fn a_control_group_names_its_job() {
        let v1 = "5:freezer:/slurm_n1/uid_1001/job_12/step_batch\n1:cpu:/\n";
        let v2 = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n";
        for groups in [v1, v2] {
            assert!(in_group_of(groups, JobId(12)) && !in_group_of(groups, JobId(1)), "{groups}");
        }
        assert!(!in_group_of("0::/user.slice/job_12\n", JobId(12)), "it is none of Slurm's");
    }

    #[test]
    fn an_environment_names_job_node_and_cluster() {
        let of = |environ: &str| begun_in(environ.as_bytes(), JobId(12), "n1", Some("/etc/slurm.conf"));
        assert!(of("A=1\0SLURM_JOB_ID=12\0SLURMD_NODENAME=n1\0SLURM_CONF=/etc/slurm.conf\0"));
        assert!(of("SLURM_JOB_ID=12"));
        assert!(!of("SLURM_JOB_ID=123\0") && !of("XSLURM_JOB_ID=12\0") && !of(""));
        assert!(!of("SLURM_JOB_ID=12\0SLURMD_NODENAME=n2\0"));
        assert!(!of("SLURM_JOB_ID=12\0SLURM_CONF=/tmp/slurm.conf\0"));
    }

    #[test]
    fn a_process_counts_without_its_first_thread() {
        let dir = tempfile::tempdir().unwrap();
        let (job, me) = (JobId(4_000_000_125), user_of(Path::new("/proc/self")).unwrap());
        let mut program = Command::new(lab::threads::build(dir.path()).unwrap());
        program.arg("linger").env("SLURM_JOB_ID", job.to_string());
        let _running = Running::start(&mut program).unwrap().without_first_thread().unwrap();
        assert!(jobs_with_processes("n1", &|_| None, &[(job, me)]).contains(&job));
    }

    #[test]
    fn a_process_counts_while_it_lives_and_for_its_own_user_alone() {
        let (job, other) = (JobId(4_000_000_123), JobId(4_000_000_124));
        let me = user_of(Path::new("/proc/self")).unwrap();
        let found = |jobs: &[(JobId, u32)]| jobs_with_processes("n1", &|_| None, jobs);
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
