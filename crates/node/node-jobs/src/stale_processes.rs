//! Processes that are still on a GPU or instance that is about to change hands.
//!
//! Who is on a device the driver tells: processes with a context, MPS clients included. A process that merely has the
//! device node open can make a context at any time, and the kernel tells those. Root's processes are never in the way; nor
//! do node files count that a system's own users hold open, which are monitoring, or processes of jobs that run here. Where
//! everybody may open device nodes at any time, who has them open says nothing.
//!
//! Anybody may have had a node open since it was everybody's, before the first reconciliation: so all processes of people are
//! looked at, those with few files first, until a limit of time. After that, a process of a running job is left alone, as it is
//! when it holds the node; because of any other, the device is not handed over.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::settings::Settings;
use job_usage::slurm_process;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::{Code, Nvml, NvmlError};
use node_driver::process;
use node_journal::Entry;

/// A process on a GPU or instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The GPU that it is on.
    pub gpu: NvmlIndex,
    /// The GPU instance, if it is in one.
    pub gi: Option<u32>,
    /// Its id.
    pub pid: u32,
    /// Its user; `None` where `/proc` does not have the process.
    pub uid: Option<u32>,
    /// Its program's name, as it calls itself.
    pub name: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid {
            Some(uid) => write!(f, "process {} ({}) of uid {uid}", self.pid, self.name),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// The first user id that people have (`UID_MIN` of login.defs).
const FIRST_USER: u32 = 1000;

/// Whom a look at a GPU or instance finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Processes that are on it.
    pub leftovers: Vec<Leftover>,
    /// Processes of running jobs that merely have the device node open.
    pub bystanders: Vec<Leftover>,
    /// Processes of running jobs whose open files could not all be looked at.
    pub unread_of_jobs: Vec<Leftover>,
    /// Other processes of that kind: each may have the device node open.
    pub unread: Vec<Leftover>,
}

/// Whoever is on a GPU, or on one instance of it. `node` is the device node that a process must have open for it; `open`
/// says who has which open now; `entries` are the jobs that run here.
pub fn on(
    nvml: &Nvml,
    (gpu, gi): (NvmlIndex, Option<u32>),
    node: &Path,
    open: &OpenNodes,
    entries: &[Entry],
) -> Result<Found, NvmlError> {
    let named = match nvml.processes(gpu) {
        // Some virtual GPUs do not tell.
        Err(e) if matches!(e.code(), Some(Code::NOT_SUPPORTED | Code::FUNCTION_NOT_FOUND)) => Vec::new(),
        other => other?,
    };
    let inside = named.into_iter().filter(|(_, of)| gi.is_none() || *of == gi);
    let leftover = |(pid, gi)| Leftover {
        gpu,
        gi,
        pid,
        uid: process::owner(pid),
        name: process::name(pid).unwrap_or_default(),
    };
    let leftovers: Vec<Leftover> = inside.map(leftover).filter(|l| l.uid != Some(0)).collect();
    let mut found = Found { leftovers, ..Found::default() };
    let is_of_a_running_job =
        |l: &Leftover| l.uid.is_some_and(|uid| slurm_process::is_of_a_running_job(l.pid, uid, entries));
    for pid in open.by(node) {
        // A process can have it open more than once.
        if found.leftovers.iter().chain(&found.bystanders).any(|l| l.pid == pid) {
            continue;
        }
        let holder = leftover((pid, gi));
        if is_of_a_running_job(&holder) {
            found.bystanders.push(holder)
        } else {
            found.leftovers.push(holder)
        }
    }
    for pid in &open.unread {
        // One that the driver names is met already, and one that has ended is gone.
        let known = found.leftovers.iter().chain(&found.bystanders).any(|l| l.pid == *pid);
        let holder = leftover((*pid, gi));
        match holder.uid {
            Some(_) if !known && is_of_a_running_job(&holder) => found.unread_of_jobs.push(holder),
            Some(_) if !known => found.unread.push(holder),
            _ => {}
        }
    }
    Ok(found)
}

/// Longest time for one look at all open files: enough for some hundred thousand files even on a busy machine. A user can
/// have more open than can be looked at in any time.
pub const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// Number of files of each process that each round looks at: a process with very many must not keep others from being seen.
const ROUNDS: [usize; 3] = [256, 16 << 10, usize::MAX];

/// The device nodes of the driver that processes of people have open.
#[derive(Default)]
pub struct OpenNodes {
    found: Vec<(u32, PathBuf)>,
    /// Processes that have more files open than could be looked at in time.
    unread: Vec<u32>,
}

impl OpenNodes {
    /// Looks through all processes once, for [`LOOK_LIMIT`] at most.
    pub fn look(settings: &Settings) -> Self {
        if !settings.manage_device_nodes {
            return Self::default();
        }
        Self::below(&settings.dev_root, &Deadline::after(LOOK_LIMIT))
    }

    fn below(dev_root: &Path, deadline: &Deadline) -> Self {
        let begin = dev_root.join("nvidia").into_os_string().into_encoded_bytes();
        let is_node = |path: &[u8]| path.starts_with(&begin);
        let of_people = |pid: &u32| process::owner(*pid).is_some_and(|uid| uid >= FIRST_USER);
        let mut open = Self { found: Vec::new(), unread: process::all().filter(of_people).collect() };
        for most in ROUNDS {
            open.unread.retain(|pid| match process::open_files(*pid, &is_node, most, deadline) {
                Some(files) => {
                    open.found.extend(files.into_iter().map(|path| (*pid, path)));
                    false
                }
                None => true,
            });
        }
        open
    }

    fn by(&self, node: &Path) -> impl Iterator<Item = u32> {
        self.found.iter().filter(move |(_, path)| path == node).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use lab::command::PATIENCE;

    use super::*;

    #[test]
    fn whoever_has_a_device_node_open_is_found_but_for_root() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("nvidia0");
        std::fs::write(&node, "").unwrap();
        let opener = |uid: u32| {
            let file = std::fs::File::open(&node).unwrap();
            let mut sleep = Command::new("sleep");
            sleep.arg("600").stdin(file);
            if rustix::process::geteuid().is_root() {
                sleep.uid(uid).gid(uid);
            }
            sleep.spawn().unwrap()
        };
        let mut all = [51_001, 0, 999].map(opener);
        let open = OpenNodes::below(dir.path(), &Deadline::after(PATIENCE));
        let found: Vec<u32> = open.by(&node).collect();
        all.iter_mut().for_each(|child| {
            child.kill().unwrap();
            child.wait().unwrap();
        });
        if rustix::process::geteuid().is_root() {
            assert_eq!(found, [all[0].id()]);
        }
    }

    /// 20,000 files in each of 20 processes took a prolog 1.7 s, and nothing bounded it.
    #[test]
    fn who_has_too_many_files_open_is_told_from_who_has_none() {
        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg("600").uid(51_001).gid(51_001).spawn().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let late = OpenNodes::below(dir.path(), &Deadline::after(Duration::ZERO));
        let in_time = OpenNodes::below(dir.path(), &Deadline::after(PATIENCE));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(late.unread.contains(&child.id()) && !in_time.unread.contains(&child.id()));
    }
}
