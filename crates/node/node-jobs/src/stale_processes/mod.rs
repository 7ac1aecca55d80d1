//! Processes that are still on a GPU or instance that is about to change hands.
//!
//! Who is on a device the driver tells: processes with a context, MPS clients included. A process that merely has the
//! device node open can make a context at any time, and the kernel tells those. Root's processes are never in the way; nor
//! do node files count that a system's own users hold open, which are monitoring, or processes of jobs that run here. Where
//! everybody may open device nodes at any time, who has them open says nothing.
//!
//! Anybody may have had a node open since it was everybody's, before the first reconciliation: so all processes of people are
//! looked at ([`OpenNodes`]). One that has more files open than can be looked at keeps no device back.

mod open_nodes;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub(crate) use open_nodes::is_of_people;
pub use open_nodes::{OpenNodes, Unread, end};

use job_usage::slurm_process;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::{Code, Nvml, NvmlError};
use node_driver::process;
use node_journal::Entry;

/// Longest time to learn to which jobs those belong that have one device open.
const ENVIRONMENTS: Duration = Duration::from_secs(5);

/// A process on a GPU or instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The GPU that it is on.
    pub gpu: NvmlIndex,
    /// The GPU instance, if it is in one.
    pub gi: Option<u32>,
    /// Process id.
    pub pid: u32,
    /// User; `None` where `/proc` does not have the process.
    pub uid: Option<u32>,
    /// Name of the program, as it calls itself.
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

/// Whom a look at a GPU or instance finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Processes that are on it.
    pub leftovers: Vec<Leftover>,
    /// Processes of running jobs that merely have the device node open.
    pub bystanders: Vec<Leftover>,
}

/// Finds the processes on a GPU, or on one instance of it. `node` is the device node that a process must have open for it; `open`
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
    // A user can have very many of them, and make the kernel take its time with each: what was not looked at is left alone.
    let deadline = Deadline::after(ENVIRONMENTS);
    for pid in open.by(node) {
        // A process can have it open more than once.
        if found.leftovers.iter().chain(&found.bystanders).any(|l| l.pid == pid) {
            continue;
        }
        let holder = leftover((pid, gi));
        if deadline.passed() || is_of_a_running_job(&holder) {
            found.bystanders.push(holder)
        } else {
            found.leftovers.push(holder)
        }
    }
    Ok(found)
}
