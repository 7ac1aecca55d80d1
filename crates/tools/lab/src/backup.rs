//! A second slurmctld on the same machine, which takes over when the first is gone.
//!
//! slurmctld knows by its host's name which of the controllers it is. Here each has a host name of its own, in a UTS
//! namespace: its address, which needs no resolver. With `NoCtldInAddrAny` each listens on its own address only, so both
//! can use the one port that slurm.conf gives them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{HarnessError, at};
use crate::layout::Layout;

/// Host name and address of the first controller.
pub(crate) const PRIMARY: &str = "127.0.0.1";
/// Host name and address of the second.
pub(crate) const BACKUP: &str = "127.0.0.2";

/// How long the second controller waits for the first, in seconds. A first one that is started again at once stays first.
const TIMEOUT_S: u32 = 15;

/// slurm.conf of the second controller, if the cluster has one.
pub(crate) fn file(layout: &Layout) -> Option<PathBuf> {
    Some(layout.etc("slurm-backup.conf")).filter(|path| path.exists())
}

/// Adds the second controller to slurm.conf, and writes it a copy with its own log and pid file.
pub(crate) fn lay_out(layout: &Layout) -> Result<(), HarnessError> {
    let path = layout.etc("slurm.conf");
    let text = at(&path, fs::read_to_string(&path))?;
    let line = |line: &str| match line.split_once('=') {
        Some(("SlurmctldHost", _)) => format!(
            "SlurmctldHost={PRIMARY}\nSlurmctldHost={BACKUP}\nCommunicationParameters=NoCtldInAddrAny\n\
             SlurmctldTimeout={TIMEOUT_S}"
        ),
        _ => line.to_owned(),
    };
    let text: String = text.lines().map(|text| line(text) + "\n").collect();
    at(&path, fs::write(&path, &text))?;
    let own = text
        .replace("/slurmctld.pid", "/slurmctld-backup.pid")
        .replace("/slurmctld.log", "/slurmctld-backup.log");
    let path = layout.etc("slurm-backup.conf");
    at(&path, fs::write(&path, own))
}

/// The command under a host name of its own. The helpers exec it, so that the child's process id is the command's.
pub(crate) fn named(host: &str, command: &Command) -> Command {
    let mut own = Command::new("unshare");
    own.args(["--uts", "--", "sh", "-c", "hostname \"$0\" && exec \"$@\"", host]);
    own.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => own.env(name, value),
            None => own.env_remove(name),
        };
    }
    own
}
