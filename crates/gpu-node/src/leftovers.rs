//! Processes that are still on a GPU or instance that is about to change hands.
//!
//! Who is on a device the driver tells: processes with a context, MPS clients included. A process that merely has the
//! device node open can make a context at any time, and the kernel tells those. Root's processes are never in the way; nor
//! do node files count that a system's own users hold open, which are monitoring, or processes of jobs that run here. Where
//! everybody may open device nodes at any time, who has them open says nothing.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::gpu_ids::NvmlIndex;
use crate::journal::Entry;
use crate::living;
use crate::nvml::{Code, Nvml, NvmlError};
use crate::process;
use crate::settings::Settings;

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
pub(crate) struct Found {
    /// Who is on it.
    pub(crate) leftovers: Vec<Leftover>,
    /// Processes of running jobs that merely have the device node open.
    pub(crate) bystanders: Vec<Leftover>,
}

/// Whoever is on a GPU, or on one instance of it. `node` is the device node that a process must have open for it; `open`
/// says who has which open now; `entries` are the jobs that run here.
pub(crate) fn on(
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
    let mut found = Found { leftovers, bystanders: Vec::new() };
    for pid in open.by(node) {
        // A process can have it open more than once.
        if found.leftovers.iter().chain(&found.bystanders).any(|l| l.pid == pid) {
            continue;
        }
        let holder = leftover((pid, gi));
        let runs = holder.uid.is_some_and(|uid| living::is_of_a_running_job(pid, uid, entries));
        if runs { found.bystanders.push(holder) } else { found.leftovers.push(holder) }
    }
    Ok(found)
}

/// Which processes of people have which of the driver's device nodes open.
pub(crate) struct OpenNodes(Vec<(u32, PathBuf)>);

impl OpenNodes {
    /// Looks through all processes once: thousands of files on a busy node.
    pub(crate) fn look(settings: &Settings) -> Self {
        if settings.manage_device_nodes { Self::below(&settings.dev_root) } else { Self(Vec::new()) }
    }

    fn below(dev_root: &Path) -> Self {
        let is_node = |path: &PathBuf| {
            path.strip_prefix(dev_root)
                .is_ok_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"nvidia"))
        };
        let of = |pid: u32| {
            let files = process::open_files(pid).into_iter();
            files.filter(is_node).map(|path| (pid, path)).collect::<Vec<_>>()
        };
        let of_people = |pid: &u32| process::owner(*pid).is_some_and(|uid| uid >= FIRST_USER);
        Self(process::all().filter(of_people).flat_map(of).collect())
    }

    fn by(&self, node: &Path) -> impl Iterator<Item = u32> {
        self.0.iter().filter(move |(_, path)| path == node).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

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
        let open = OpenNodes::below(dir.path());
        let found: Vec<u32> = open.by(&node).collect();
        all.iter_mut().for_each(|child| {
            child.kill().unwrap();
            child.wait().unwrap();
        });
        if rustix::process::geteuid().is_root() {
            assert_eq!(found, [all[0].id()]);
        }
    }
}
