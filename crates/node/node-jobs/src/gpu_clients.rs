//! Programs that have a GPU open while its MIG mode has to change: monitoring, DCGM's host engine, the persistence daemon.
//!
//! The driver lists processes with a context only. A program that merely reads counters is not among them, but the driver changes no MIG
//! mode, and resets no GPU, while such a program has the GPU open. So the kernel is asked who has the device node open.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use node_driver::deadline::Deadline;
use node_driver::{GpuMinor, process};

use crate::access::gpu_node;
use crate::command::{CommandError, ToolRun};
use crate::open_files::{FileId, open_files};
use crate::settings::Settings;
use crate::stale_processes::is_of_people;

/// Longest time to look at all processes' files.
const LOOK: Duration = Duration::from_secs(1);
/// Number of files of one process that are looked at.
const MOST_FILES: usize = 64 << 10;
/// Most programs that are named in a message.
const MOST_NAMED: usize = 5;

/// A program that has a GPU open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuClient {
    /// Process id.
    pub pid: u32,
    /// Name of the program, as it calls itself.
    pub name: String,
}

impl fmt::Display for GpuClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Finds the programs that have a GPU open, but for this one. Those that cannot be looked at within a second are left out.
#[must_use]
pub fn holding(dev_root: &Path, gpu: GpuMinor) -> Vec<GpuClient> {
    look(dev_root, gpu).0
}

/// As [`holding`]; true with it if one of them is a process of people, or one of theirs was left out, or nobody was seen: a file
/// that a user sends to himself over a socket is open in no process meanwhile.
fn look(dev_root: &Path, gpu: GpuMinor) -> (Vec<GpuClient>, bool) {
    let node = FileId::of(&dev_root.join(gpu_node(gpu)));
    let deadline = Deadline::after(LOOK);
    let mut may_be_people = false;
    let mut holds = |pid: &u32| {
        let (found, all) = open_files(*pid, node.as_slice(), &mut { MOST_FILES }, &deadline);
        may_be_people |= (!found.is_empty() || !all) && process::owner(*pid).is_some_and(is_of_people);
        !found.is_empty()
    };
    let others: Vec<u32> = process::all().filter(|pid| *pid != std::process::id() && holds(pid)).collect();
    may_be_people |= others.is_empty();
    let client = |pid| GpuClient { pid, name: process::name(pid).unwrap_or_default() };
    (others.into_iter().map(client).collect(), may_be_people)
}

/// Says who has a GPU open and what an administrator can do about it, as the end of a message; empty if nobody has. True with it if
/// it may be a process of people, which no administrator could have stopped before.
pub(crate) fn in_the_way(settings: &Settings, gpu: GpuMinor) -> (String, bool) {
    let (clients, may_be_people) = look(&settings.node.dev_root, gpu);
    if clients.is_empty() {
        return (String::new(), may_be_people);
    }
    let named: Vec<String> = clients.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = clients.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    let advice = if settings.node.gpu_clients_command.is_empty() {
        "stop such programs, or let gpu_clients_command in tessera.toml do it"
    } else {
        "gpu_clients_command of tessera.toml has not stopped them"
    };
    (format!(" (it is open in {}{more}: {advice})", named.join(", ")), may_be_people)
}

/// Has the site's command stop or start the programs that have a GPU open: `%a` in it is `stop` or `start`.
pub(crate) fn tell(
    settings: &Settings,
    verb: &str,
    gpu: &str,
    uuid: &str,
    deadline: &Deadline,
) -> Result<(), CommandError> {
    let fill = |word: &String| word.replace("%a", verb).replace("%i", gpu).replace("%u", uuid);
    let mut words = settings.node.gpu_clients_command.iter().map(fill);
    let program = words.next().unwrap_or_default().into();
    let run = ToolRun { program, args: words.collect(), env: Vec::new(), input: "", user: None };
    run.output(deadline).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_has_the_device_open_is_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("nvidia3");
        File::create(&node).unwrap();
        assert_eq!(holding(dir.path(), GpuMinor(3)), []);
        let open = Stdio::from(File::open(&node).unwrap());
        let mut child = Command::new("sleep").arg("600").stdin(open).spawn().unwrap();
        let found = holding(dir.path(), GpuMinor(3));
        let other = holding(dir.path(), GpuMinor(30));
        child.kill().unwrap();
        child.wait().unwrap();
        // Another test may have forked just now: its child has our open files until it becomes its own program.
        assert!(found.contains(&GpuClient { pid: child.id(), name: "sleep".to_owned() }), "{found:?}");
        assert_eq!(other, []);
    }
}
