//! Acts of a hostile user: fat environments, a full run directory, more processes than he may have. All of it is bounded, and
//! ends when the fault is mended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::command::{Done, run};
use lab::{Cluster, Daemon, HarnessError, User};

use super::plan::FullOf;
use super::seen::scan;
use super::wound::{Hostile, Wound};

/// How many jobs with fat environments are submitted.
const FAT_JOBS: &str = "12";

/// How many processes a storm has, and how many the user may have then.
const STORM: u32 = 300;

/// Begins each name of a file that fills a directory.
const FILLER: &str = "filler.";

/// `$1`: the directory. `true` is no special built-in: a file that cannot be made does not end the shell.
const FILL_INODES: &str =
    r#"i=0; while [ $i -lt 5000 ] && true > "$1/filler.$i"; do i=$((i+1)); done; echo "$i files""#;
const FILL_BYTES: &str = r#"head -c 64M /dev/zero > "$1/filler.0"; echo "$(wc -c < "$1/filler.0") bytes""#;

/// `$1`: how many. They end by themselves, too.
const FORK: &str = r#"i=0; while [ $i -lt "$1" ]; do sleep 60 & i=$((i+1)); done; wait"#;

/// The test user of a number.
pub(super) fn user_of(number: u32) -> User {
    if number == 0 { User::Alice } else { User::Bob }
}

/// Submits plain jobs with too many or too long variables, beside everything else.
pub(super) fn fat_environments(cluster: &Cluster, user: u32, seed: u32) -> Result<Wound, HarnessError> {
    let jobs = cluster.layout().jobs();
    let mut command = cluster.command(user_of(user), &jobs.join("submissions").display().to_string())?;
    command.current_dir(jobs).args(["fat", &seed.to_string(), "0", FAT_JOBS]);
    Ok(Wound { hostile: vec![Hostile::start(&mut command)?], ..Wound::default() })
}

/// Fills the directory of a user's MPS daemon as that user.
pub(super) fn fill_run_dir(cluster: &Cluster, node: &str, room: FullOf) -> Result<Wound, HarnessError> {
    for daemon in scan(cluster).mps.into_iter().filter(|daemon| daemon.node.as_deref() == Some(node)) {
        let is_his = |user: &User| user.ids().is_ok_and(|(uid, _)| uid == daemon.uid);
        let Some(user) = [User::Alice, User::Bob].into_iter().find(is_his) else { continue };
        let script = if room == FullOf::Inodes { FILL_INODES } else { FILL_BYTES };
        let mut command = cluster.command_on(node, user, "sh")?;
        let done = run(command.args(["-c", script, "fill", &daemon.pipe_dir]))?;
        let met = format!("{} in {}", done.stdout.trim(), daemon.pipe_dir);
        return Ok(Wound { filled: Some(PathBuf::from(daemon.pipe_dir)), ..Wound::met(met) });
    }
    Ok(Wound::met("no daemon of a user there"))
}

/// Removes what fills a directory. A directory that is gone holds nothing.
pub(super) fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(FILLER) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// A user has as many processes as slurmd's children may have. The limit is soft: jobs may set it as they were submitted.
pub(super) fn fork_storm(cluster: &Cluster, node: &str, user: u32) -> Result<Wound, HarnessError> {
    limit_processes(cluster, node, |_| Some(STORM.to_string()))?;
    let mut command = cluster.command_on(node, user_of(user), "sh")?;
    let hostile = Hostile::start(command.args(["-c", FORK, "storm", &STORM.to_string()]))?;
    Ok(Wound { hostile: vec![hostile], ..Wound::met(format!("{STORM} processes")) })
}

/// Lets slurmd's children have as many processes as before: a daemon's two limits are the same here. A slurmd that was started
/// meanwhile has them already.
pub(super) fn end_storm(cluster: &Cluster, node: &str) -> Result<(), HarnessError> {
    limit_processes(cluster, node, hard_limit)
}

/// Sets the soft limit of a node's slurmd. `limit` is given what `/proc/PID/limits` says.
fn limit_processes(
    cluster: &Cluster,
    node: &str,
    limit: impl Fn(&str) -> Option<String>,
) -> Result<(), HarnessError> {
    let Some(slurmd) = cluster.process(&Daemon::Slurmd(node.to_owned())) else { return Ok(()) };
    let limits = fs::read_to_string(format!("/proc/{}/limits", slurmd.pid)).unwrap_or_default();
    // It has ended meanwhile.
    let Some(limit) = limit(&limits) else { return Ok(()) };
    let mut command = Command::new("prlimit");
    run(command.args(["--pid", &slurmd.pid.to_string(), &format!("--nproc={limit}:")])).and_then(Done::ok)?;
    Ok(())
}

/// The hard limit of processes: a number, or `unlimited`.
fn hard_limit(limits: &str) -> Option<String> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Pid;

    #[test]
    fn only_what_fills_a_directory_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["filler.0", "filler.12", "control"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        empty(dir.path());
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["control"]);
        empty(&dir.path().join("gone"));
    }

    #[test]
    fn the_hard_limit_is_the_second() {
        let text = "Max stack size  8388608  unlimited  bytes\nMax processes  300  31405  processes\n";
        assert_eq!(hard_limit(text).as_deref(), Some("31405"));
        assert_eq!(hard_limit(""), None);
        let own = fs::read_to_string("/proc/self/limits").unwrap();
        assert!(hard_limit(&own).is_some(), "{own}");
    }

    #[test]
    fn the_scripts_say_how_much_they_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let done = run(Command::new("sh").args(["-c", FILL_INODES, "fill"]).arg(dir.path())).unwrap();
        assert_eq!(done.stdout, "5000 files\n");
        empty(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_storm_ends_with_its_group() {
        let mut storm = Hostile::start(Command::new("sh").args(["-c", FORK, "storm", "20"])).unwrap();
        let group = i32::try_from(storm.0.id()).ok().and_then(Pid::from_raw).unwrap();
        storm.end();
        lab::command::wait_for("the storm's processes to end", lab::command::PATIENCE, || {
            match alive(group) {
                0 => Ok(()),
                some => Err(format!("{some} are alive")),
            }
        })
        .unwrap();
    }

    /// Counts a group's processes that have not ended. Process 1 reaps those that have when it likes.
    fn alive(group: Pid) -> usize {
        let of_group = |stat: &str| {
            // State, parent and group follow the name, which ends with the last parenthesis.
            let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
            fields.next() != Some("Z") && fields.nth(1) == Some(&group.to_string())
        };
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| of_group(stat)).count()
    }
}
