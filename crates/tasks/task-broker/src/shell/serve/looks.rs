//! Samples NVML, and decides how soon to ask again.

use std::time::{Duration, Instant};

use node_driver::process::owner;
use rustix::process::{Signal, pidfd_send_signal};

use super::{Broker, IDLE, IN_USE, SOON, message, now};
use crate::core::Process;
use crate::shell::connection::{hold, users};
use crate::shell::mps::Found;
use crate::shell::options::Overuse;

/// The longest time between two looks while somebody's end is awaited.
const LATER: Duration = Duration::from_millis(500);

impl Broker {
    pub(super) fn look_soon(&mut self) {
        self.look_after = SOON;
        self.next_look = Some(Instant::now());
    }

    /// Looks at every MPS daemon.
    fn look_at_daemons(&mut self) {
        let pipes = self.core.pipes();
        self.daemons.keep(&pipes);
        for pipe in pipes {
            let effects = match self.daemons.look(&pipe) {
                Found::Nobody => self.core.mps_ended(&pipe, now()),
                found => self.core.mps_runs(&pipe, found == Found::Another, now()),
            };
            self.carry_out(effects);
        }
    }

    /// Asks NVML about every device.
    pub(super) fn look(&mut self) {
        self.look_at_daemons();
        let devices: Vec<_> = self.core.uuids().map(|(id, uuid)| (id, uuid.to_owned())).collect();
        for (id, uuid) in devices {
            match self.looker.look(&uuid, &mut self.daemons) {
                Ok(sample) => {
                    let effects = self.core.sampled(id, &sample, now());
                    self.carry_out(effects);
                }
                Err(why) => self.core.lost(id, &why),
            }
        }
        let effects = self.core.looked(now());
        self.carry_out(effects);
        let wait = if self.core.awaits_ends() {
            self.look_after = (self.look_after * 2).min(LATER);
            Some(self.look_after)
        } else if self.core.is_in_use() {
            Some(IN_USE)
        } else {
            self.core.uuids().next().map(|_| IDLE)
        };
        self.let_go();
        self.next_look = wait.map(|wait| Instant::now() + wait);
    }

    /// Lets go of the GPUs on which no job shares a device any more.
    pub(super) fn let_go(&mut self) {
        self.looker.keep(self.core.uuids().map(|(_, uuid)| uuid));
    }

    /// Tells whether the site wants such processes ended and this one may be. An MPS server's memory is its clients'.
    fn may_end(&self, process: Process) -> bool {
        self.overuse == Overuse::End && !self.daemons.is_mps(process)
    }

    /// A process uses more of a device than it was promised: named in the jobs' logs when that is first seen, and ended, where
    /// the site wants that, when it lasts.
    pub(super) fn overused(&mut self, process: Process, uuid: &str, excess: u64, lasts: bool) {
        let pid = process.pid;
        let mib = excess.div_ceil(1 << 20);
        // Of a process that has been ended, and that its parent has waited for, nothing is left to ask.
        let owner = owner(process.pid);
        let text = if !lasts {
            format!(
                "process {pid} uses {mib} MiB of {uuid} that it was not promised; other tasks get that much less"
            )
        } else if self.may_end(process) && end(process) {
            format!("process {pid} was ended: it used {mib} MiB of {uuid} that it was not promised")
        } else {
            return;
        };
        message(&text);
        for job in self.core.jobs_of(process, uuid, owner) {
            if let Err(e) = self.folder.note_for_log(job, &text) {
                message(&format!("job {job} cannot be told: {e}"));
            }
        }
    }
}

/// Ends a process. Root's processes stay. The caller keeps the MPS programs out: a process's name says nothing, because its user can
/// change it.
fn end(process: Process) -> bool {
    let Some(handle) = hold(process) else { return false };
    let users = users(process.pid);
    !users.is_empty() && !users.contains(&0) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}
