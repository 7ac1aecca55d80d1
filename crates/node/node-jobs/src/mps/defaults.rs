//! The limits of a daemon itself, as tight as the shares on it allow.
//!
//! A client's limits are in its environment, and nothing keeps it from taking them out: they are cooperative. It then gets
//! the daemon's: those of the largest share there, not the whole device. The daemon's user can change these as well.

use std::time::Duration;

use geometry::JobId;

use super::{MpsError, control};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::{DaemonRecord, Entry, Journal, ShareRecord};

/// Upper limits that a daemon sets for each of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Defaults {
    /// Percent of the SMs.
    threads: u8,
    /// Memory, GiB; `None` where MPS does not hold every share to its memory.
    mem_gib: Option<u64>,
}

/// Longest wait for an answer of the daemon.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Defaults {
    /// Computes the limits of the live jobs that share a daemon, without `but`, a job that comes or goes. `None`: there are none.
    pub(super) fn of_shares(
        journal: &Journal,
        key: &str,
        but: Option<JobId>,
    ) -> Result<Option<Self>, MpsError> {
        let (entries, _damaged) = journal.jobs()?.into_parts();
        let live = |e: &&Entry| e.holds() && e.boot == journal.boot() && Some(e.job()) != but;
        let shares = entries.iter().filter(live).filter_map(|e| e.share.as_ref());
        let shares: Vec<&ShareRecord> = shares.filter(|s| s.daemon == key).collect();
        // The daemon takes whole GiB only.
        let mem_gib = shares.iter().map(|s| s.mem_mib.div_ceil(1024)).max();
        let mem_gib = mem_gib.filter(|_| shares.iter().all(|s| s.memory_enforced));
        Ok(shares.iter().map(|s| s.threads).max().map(|threads| Self { threads, mem_gib }))
    }

    /// Gives them to a daemon that runs, and to the servers that it has started.
    pub(super) fn set(self, settings: &Settings, record: &DaemonRecord) -> Result<(), MpsError> {
        let deadline = Deadline::after(TIMEOUT);
        let ask = |words: &str| {
            let answer = control(settings, record, &[], words).output(&deadline);
            answer.map_err(|e| MpsError::Limits { key: record.key.clone(), source: e.into() })
        };
        let servers = ask("get_server_list\n")?;
        let servers: Vec<u32> = servers.lines().filter_map(|line| line.trim().parse().ok()).collect();
        ask(&self.commands(&servers)).map(drop)
    }

    fn commands(self, servers: &[u32]) -> String {
        let mut text = format!("set_default_active_thread_percentage {}\n", self.threads);
        servers
            .iter()
            .for_each(|pid| text += &format!("set_active_thread_percentage {pid} {}\n", self.threads));
        if let Some(gib) = self.mem_gib {
            text += &format!("set_default_device_pinned_mem_limit 0 {gib}G\n");
            servers.iter().for_each(|pid| text += &format!("set_device_pinned_mem_limit {pid} 0 {gib}G\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_told_for_its_servers_too() {
        let text = Defaults { threads: 50, mem_gib: Some(3) }.commands(&[17]);
        assert_eq!(
            text,
            "set_default_active_thread_percentage 50\nset_active_thread_percentage 17 50\n\
             set_default_device_pinned_mem_limit 0 3G\nset_device_pinned_mem_limit 17 0 3G\n"
        );
        let text = Defaults { threads: 50, mem_gib: None }.commands(&[]);
        assert_eq!(text, "set_default_active_thread_percentage 50\n", "the site only advises");
    }
}
