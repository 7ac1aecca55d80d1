//! Says in slurmctld's log, once a minute while it lasts, what keeps the plugin from its work.

use plugin_rt::log;

/// Seconds between two lines.
const EVERY_S: u64 = 60;

/// Remembers when the last line was written.
#[derive(Debug, Default)]
pub(crate) struct Reminder {
    /// Seconds since 1970; 0: never.
    said_at: u64,
}

impl Reminder {
    /// Logs `what` as an error, unless a line was logged within the last minute. `now`: seconds since 1970.
    pub(crate) fn say(&mut self, now: u64, what: &dyn Fn() -> String) {
        if self.is_due(now) {
            log::error(what());
        }
    }

    /// Tells whether a line is due at `now`, and notes that it is then written. A clock that was set back does not silence it.
    fn is_due(&mut self, now: u64) -> bool {
        let due = self.said_at == 0 || now < self.said_at || now - self.said_at >= EVERY_S;
        if due {
            self.said_at = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_once_a_minute() {
        let mut reminder = Reminder::default();
        let due = [1000, 1000, 1059, 1060, 1061, 1120, 500, 501].map(|now| reminder.is_due(now));
        assert_eq!(due, [true, false, false, true, false, true, true, false]);
    }
}
