//! A fault that was carried out: what was met, and what has to be set right.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lab::HarnessError;
use rustix::process::{Pid, Signal, kill_process_group};

use super::idle::Idle;

/// A fault that has to be set right, and its description.
#[derive(Debug, Default)]
pub(super) struct Wound {
    /// Description of what was met, for the line about the fault.
    pub(super) met: String,
    /// Jobs to be cancelled when it is mended.
    pub(super) cancel: Vec<u32>,
    /// Jobs to be released.
    pub(super) release: Vec<u32>,
    /// Processes of a hostile user.
    pub(super) hostile: Vec<Hostile>,
    /// The directory that such a user filled.
    pub(super) filled: Option<PathBuf>,
    /// The exporter that has idle connections.
    pub(super) idle: Option<Idle>,
}

impl Wound {
    pub(super) fn met(met: impl Into<String>) -> Self {
        Self { met: met.into(), ..Self::default() }
    }
}

/// A process that the run started to hurt the cluster. It is a group of its own.
#[derive(Debug)]
pub(super) struct Hostile(pub(super) Child);

impl Hostile {
    pub(super) fn start(command: &mut Command) -> Result<Self, HarnessError> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).map_err(|source| HarnessError::Start { program, source })
    }

    /// Waits until it has ended by itself.
    pub(super) fn wait(&mut self) {
        drop(self.0.wait());
    }

    /// Ends it, and everything that it started.
    pub(super) fn end(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(self.0.wait());
    }
}
