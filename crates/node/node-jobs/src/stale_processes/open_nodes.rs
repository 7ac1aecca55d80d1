//! Finds the device nodes that people's processes have open, in a time that no user can make long.
//!
//! A user can have more files open than can be looked at in any time. So each user has a share of files that are looked at
//! whatever others have open. Of the rest, only processes outside running jobs are looked at, until a limit of time: a process
//! of a running job is left alone even if it holds a node. A process that is still unread then keeps no device back. It is ended
//! or left alone, as decision 0039 says.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use job_usage::slurm_process;
use node_driver::deadline::Deadline;
use node_driver::process::{self, HeldProcess};
use node_journal::Entry;
use rustix::process::Signal;

use crate::open_files::{FileId, open_files};
use crate::settings::Settings;

/// The first user id that people have (`UID_MIN` of login.defs).
const FIRST_USER: u32 = 1000;
/// Number of each user's files that are looked at whatever others have open: about a quarter of a second's work.
const SHARE: usize = 64 << 10;
/// A process without open files takes as long to look at as this number of files.
const PROCESS: usize = 16;
/// Longest time for all the shares together: hundreds of users would have to use theirs up.
const SHARES_LIMIT: Duration = Duration::from_secs(10);
/// Longest time to learn which of the other processes are of running jobs, and then to look at those that are not.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// A process whose files are not all looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    pid: u32,
    uid: u32,
    /// The most files that it can have open.
    table: u32,
    /// Clock ticks since boot; 0 until it has to be known that it is still the same process.
    start_time: u64,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = process::name(self.pid).unwrap_or_default();
        write!(f, "process {} ({name}) of uid {}", self.pid, self.uid)
    }
}

/// The device nodes of the driver that processes of people have open.
#[derive(Default)]
pub struct OpenNodes {
    found: Vec<(u32, FileId)>,
    /// Processes of no running job that have more files open than could be looked at in time.
    pub outside: Vec<Unread>,
    /// Processes of running jobs that have more open than that, and processes that could not be told from them in time.
    pub of_jobs: Vec<Unread>,
}

impl OpenNodes {
    /// Looks through all processes once. `entries` are the jobs that run here.
    pub fn look(settings: &Settings, entries: &[Entry]) -> Self {
        if !settings.node.manage_device_nodes {
            return Self::default();
        }
        let is_of_a_job =
            |process: &Unread| slurm_process::is_of_a_running_job(process.pid, process.uid, entries);
        Self::below(&settings.node.dev_root, SHARE, REST_LIMIT, &is_of_a_job)
    }

    fn below(dev_root: &Path, share: usize, rest: Duration, is_of_a_job: &dyn Fn(&Unread) -> bool) -> Self {
        let nodes = nodes(dev_root);
        let mut open = Self::default();
        let all = in_order(process::all().filter_map(of_people).collect());
        let over = open.read(all, &nodes, share, &Deadline::after(SHARES_LIMIT));
        let deadline = Deadline::after(rest);
        let mut outside = Vec::new();
        for mut process in over {
            process.start_time = process::start_time_of(process.pid).unwrap_or(0);
            let is_left_alone = deadline.passed() || is_of_a_job(&process);
            if is_left_alone { open.of_jobs.push(process) } else { outside.push(process) }
        }
        open.outside = open.read(outside, &nodes, usize::MAX, &Deadline::after(rest));
        open
    }

    /// Looks at the files of these processes, `share` of each user, and returns the processes that have more.
    fn read(
        &mut self,
        processes: Vec<Unread>,
        nodes: &[FileId],
        share: usize,
        deadline: &Deadline,
    ) -> Vec<Unread> {
        let mut left_of: HashMap<u32, usize> = HashMap::new();
        let mut over = Vec::new();
        for process in processes {
            let left = left_of.entry(process.uid).or_insert(share);
            *left = left.saturating_sub(PROCESS);
            let (files, all) = open_files(process.pid, nodes, left, deadline);
            self.found.extend(files.into_iter().map(|file| (process.pid, file)));
            if !all {
                over.push(process);
            }
        }
        over
    }

    pub(super) fn by(&self, node: &Path) -> impl Iterator<Item = u32> {
        let node = FileId::of(node);
        self.found.iter().filter(move |(_, file)| Some(*file) == node).map(|(pid, _)| *pid)
    }
}

/// The driver's device nodes, those of instances included.
fn nodes(dev_root: &Path) -> Vec<FileId> {
    let names = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_drivers =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"nvidia"));
    let all = names(dev_root).chain(names(&dev_root.join("nvidia-caps")));
    all.filter(|path| is_drivers(path)).filter_map(|path| FileId::of(&path)).collect()
}

/// Ends those of the processes that are still what they were.
pub fn end(processes: &[Unread]) {
    for process in processes {
        let held = HeldProcess::open(process.pid).filter(|held| held.start_time == process.start_time);
        if let Some(held) = held.filter(|_| process::owner(process.pid) == Some(process.uid)) {
            held.signal(Signal::KILL);
        }
    }
}

/// Tells a person's user id from root's and the system's own.
pub(crate) fn is_of_people(uid: u32) -> bool {
    uid >= FIRST_USER
}

fn of_people(pid: u32) -> Option<Unread> {
    let (uid, table) = process::owner_and_table(pid)?;
    is_of_people(uid).then_some(Unread { pid, uid, table, start_time: 0 })
}

/// Users with few files come first, and of each user the processes with few: a user with many does not keep others from being seen.
fn in_order(mut processes: Vec<Unread>) -> Vec<Unread> {
    let mut files_of: HashMap<u32, u64> = HashMap::new();
    for process in &processes {
        *files_of.entry(process.uid).or_default() += u64::from(process.table);
    }
    processes.sort_by_key(|process| (files_of[&process.uid], process.uid, process.table, process.pid));
    processes
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use lab::command::PATIENCE;

    use super::*;

    /// Processes that have a file open as their input; killed when dropped.
    struct Openers(Vec<Child>);

    impl Openers {
        fn start(users: &[u32], file: &Path) -> Self {
            let opener = |uid: &u32| {
                let mut sleep = Command::new("sleep");
                sleep.arg("600").stdin(std::fs::File::open(file).unwrap()).stdout(Stdio::null());
                sleep.uid(*uid).gid(*uid).spawn().unwrap()
            };
            Self(users.iter().map(opener).collect())
        }
    }

    impl Drop for Openers {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    fn unread(pid: u32, uid: u32, table: u32) -> Unread {
        Unread { pid, uid, table, start_time: 0 }
    }

    #[test]
    fn whoever_has_a_device_node_open_is_found_but_for_root() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("nvidia0");
        std::fs::write(&node, "").unwrap();
        let all = Openers::start(&[51_001, 0, 999], &node);
        let open = OpenNodes::below(dir.path(), SHARE, PATIENCE, &|_| false);
        let found: Vec<u32> = open.by(&node).collect();
        assert_eq!(found, [all.0[0].id()]);
    }

    /// 20,000 files in each of 20 processes took a prolog 1.7 s, and nothing bounded it.
    #[test]
    fn who_has_too_many_files_open_is_told_from_who_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("nvidia0");
        std::fs::write(&node, "").unwrap();
        let all = Openers::start(&[51_002, 51_003], &node);
        let [outside, of_a_job] = [0, 1].map(|k| all.0[k].id());
        let is_of_a_job = |process: &Unread| process.pid == of_a_job;
        // With a share of no files, all are left for the time that there is.
        let late = OpenNodes::below(dir.path(), 0, Duration::ZERO, &is_of_a_job);
        let in_time = OpenNodes::below(dir.path(), 0, PATIENCE, &is_of_a_job);
        let enough = OpenNodes::below(dir.path(), SHARE, Duration::ZERO, &is_of_a_job);
        let has = |list: &[Unread], pid| list.iter().any(|process| process.pid == pid);
        assert!(
            has(&late.of_jobs, outside) && has(&late.of_jobs, of_a_job),
            "nobody has looked whose they are"
        );
        assert!(has(&in_time.of_jobs, of_a_job) && in_time.by(&node).any(|pid| pid == outside));
        assert!(!has(&in_time.outside, outside));
        assert_eq!(enough.by(&node).filter(|pid| [outside, of_a_job].contains(pid)).count(), 2);
    }

    #[test]
    fn only_the_process_that_was_met_is_ended() {
        let mut all = Openers::start(&[51_004], Path::new("/dev/null"));
        let pid = all.0[0].id();
        let met = Unread { start_time: process::start_time_of(pid).unwrap(), ..unread(pid, 51_004, 64) };
        end(&[Unread { uid: 51_005, ..met }, Unread { start_time: met.start_time + 1, ..met }]);
        assert!(process::start_time_of(pid).is_some());
        end(&[met]);
        assert!(!all.0[0].wait().unwrap().success());
    }

    #[test]
    fn users_with_few_files_come_first() {
        let all = vec![unread(1, 2000, 500), unread(2, 1000, 300), unread(3, 1000, 60), unread(4, 2000, 64)];
        let order: Vec<u32> = in_order(all).iter().map(|process| process.pid).collect();
        assert_eq!(order, [3, 2, 4, 1]);
    }
}
