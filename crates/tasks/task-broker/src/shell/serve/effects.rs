//! Carries out the core's decisions.

use std::io::Write;
use std::time::Instant;

use super::{Broker, IN_USE, message};
use crate::core::{Effect, Of};
use crate::shell::table::Stored;

impl Broker {
    /// Carries out what the core decided, in order: a lease is in the table before anybody is told.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut lines = String::new();
        for effect in effects {
            match effect {
                Effect::Log(line) => lines.push_str(&format!("{line}\n")),
                Effect::Save(record) => {
                    let device = match record.of {
                        Of::Context(device, _) => Some(device),
                        Of::Task(task) => task.stage.device(),
                    };
                    let uuid = device.and_then(|id| self.core.uuid(id)).unwrap_or_default().to_owned();
                    if let Err(e) = self.table.save(&Stored { record, uuid }) {
                        message(&format!("the table of leases: {e}: a lease would not outlive the broker"));
                    }
                }
                Effect::Erase(key) => self.table.erase(key),
                Effect::Reply(process, reply) => self.reply(process, &reply),
                Effect::Overuse { process, uuid, excess, lasts } => {
                    self.overused(process, &uuid, excess, lasts)
                }
            }
        }
        let log = self.log.as_mut().filter(|_| !lines.is_empty());
        if let Some(e) = log.and_then(|log| log.write_all(lines.as_bytes()).err()) {
            message(&format!("the event log cannot be written: {e}"));
            self.log = None;
            self.core.stop_log();
        }
        // Somebody may have come.
        if self.core.is_in_use() {
            let at = Instant::now() + IN_USE;
            self.next_look = Some(self.next_look.map_or(at, |next| next.min(at)));
        }
    }
}
