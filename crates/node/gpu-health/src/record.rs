//! A node's memory of its GPUs' health, and how it changes by what is seen.

use geometry::GpuIndex;
use protocol::{SickGpu, sick};
use serde::{Deserialize, Serialize};
use site_config::{HealthEvent, HealthReturn};

use crate::kernel_log::{KernelXid, bus_id};
use crate::known_gpu::{Change, KnownGpu, Reading};
use crate::rules::Rules;

/// Health of a node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthRecord {
    /// The kernel's boot id when it was last looked at.
    pub boot: String,
    /// Sequence number of the first record of the kernel's log that was not looked at.
    pub next_record: u64,
    /// The GPUs, at most 64.
    pub gpus: Vec<KnownGpu>,
    /// The word that slurmctld was told last, and when it was last seen to have it, seconds since 1970.
    pub told: Option<(String, u64)>,
}

/// A GPU as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `GPU-…`.
    pub uuid: String,
    /// Place on the bus; empty if the GPU does not answer.
    pub bus_id: String,
    /// Slurm's number of it; `None`: Slurm does not count it.
    pub number: Option<GpuIndex>,
    /// `None`: the driver has lost it.
    pub reading: Option<Reading>,
}

/// A look at a node.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The GPUs that the node has.
    pub gpus: &'a [Seen],
    /// The driver's errors in the kernel's log, those that were looked at already included.
    pub log: &'a [KernelXid],
    /// The kernel's boot id.
    pub boot: &'a str,
    /// Seconds since 1970.
    pub now: u64,
}

/// Most GPUs that are remembered.
const MOST_GPUS: usize = 64;
/// slurmctld is asked again after so long, seconds: one that was killed and replaced has what it saved, which may be older.
const ASKED_AGAIN_S: u64 = 60;

impl HealthRecord {
    /// Takes in what was seen; what changed.
    pub fn look(&mut self, look: &Look<'_>, rules: &Rules<'_>) -> Vec<Change> {
        let mut changes = self.after_boot(look.boot, rules);
        let first = self.next_record;
        let log: Vec<&KernelXid> = look.log.iter().filter(|error| error.sequence >= first).collect();
        self.next_record = log.iter().map(|error| error.sequence.saturating_add(1)).fold(first, u64::max);
        for known in &mut self.gpus {
            known.number = None;
        }
        for gpu in look.gpus {
            let Some(known) = self.known(&gpu.uuid) else { continue };
            known.number = gpu.number.map(|number| number.0);
            if !gpu.bus_id.is_empty() {
                gpu.bus_id.clone_into(&mut known.bus_id);
            }
            changes.extend(known.after_reset(gpu.reading, rules));
            let at = bus_id(&known.bus_id);
            let xids = log.iter().filter(|error| Some(error.at) == at).map(|e| HealthEvent::Xid(e.xid));
            for event in known.events(gpu.reading).into_iter().chain(xids) {
                changes.extend(known.note(event, "", look.now, rules));
            }
            changes.extend(known.after_calm(look.now, rules));
        }
        changes
    }

    /// Forgets what a boot has mended.
    fn after_boot(&mut self, boot: &str, rules: &Rules<'_>) -> Vec<Change> {
        if self.boot == boot {
            return Vec::new();
        }
        boot.clone_into(&mut self.boot);
        self.next_record = 0;
        let mut changes = Vec::new();
        for gpu in &mut self.gpus {
            (gpu.ecc, gpu.nvlink, gpu.recovery) = (0, 0, false);
            changes.extend(gpu.drop_findings(|f| f.rule(rules).returns != HealthReturn::Accept));
        }
        changes
    }

    /// Finds the UUID of a GPU that the node has in this boot, by Slurm's number or by its UUID.
    #[must_use]
    pub fn named(&self, gpu: &str, boot: &str) -> Option<&str> {
        let number = gpu.parse::<u16>().ok();
        let is_it = |known: &&KnownGpu| {
            known.number.is_some() && (known.uuid == gpu || number.is_some() && known.number == number)
        };
        self.gpus.iter().filter(|_| self.boot == boot).find(is_it).map(|known| known.uuid.as_str())
    }

    /// Notes an administrator's word about a GPU; what changed.
    pub fn tell(&mut self, uuid: &str, why: &str, now: u64, rules: &Rules<'_>) -> Option<Change> {
        let known = self.gpus.iter_mut().find(|gpu| gpu.uuid == uuid)?;
        known.note(HealthEvent::Told, why, now, rules)
    }

    /// Takes an administrator's word about a GPU back, and nothing else that was found; what changed.
    pub fn untell(&mut self, uuid: &str) -> Vec<Change> {
        let told = self.gpus.iter_mut().filter(|gpu| gpu.uuid == uuid);
        told.flat_map(|gpu| gpu.drop_findings(|f| f.kind() == Some(HealthEvent::Told))).collect()
    }

    /// Forgets what was found of these GPUs; the changes.
    pub fn accept(&mut self, which: impl Fn(&KnownGpu) -> bool) -> Vec<Change> {
        let accepted = self.gpus.iter_mut().filter(|gpu| which(gpu));
        accepted.flat_map(|gpu| gpu.drop_findings(|_| true)).collect()
    }

    /// The GPUs that get no new jobs, by Slurm's number. One that the node does not have now has none.
    #[must_use]
    pub fn left_out(&self, rules: &Rules<'_>) -> Vec<SickGpu> {
        let one = |known: &KnownGpu| {
            let worst =
                known.against(rules).max_by_key(|f| (f.rule(rules).action, std::cmp::Reverse(f.first)))?;
            let since = known.against(rules).map(|finding| finding.first).min()?;
            Some(SickGpu { gpu: GpuIndex(known.number?), since, why: worst.words().to_owned() })
        };
        let mut all: Vec<SickGpu> = self.gpus.iter().filter_map(one).collect();
        all.sort_by_key(|sick| sick.gpu);
        all.dedup_by_key(|sick| sick.gpu);
        all
    }

    /// Tells whether slurmctld is to be asked for its word, and told this one if it has another: if the word is new, and again a while
    /// later. While a GPU is left out, that is at every look, because a slurmctld without its saved state would give the GPU to jobs.
    #[must_use]
    pub fn is_due(&self, word: &str, now: u64) -> bool {
        let Some((told, at)) = &self.told else { return true };
        told != word || word != sick::NONE || now < *at || now - at >= ASKED_AGAIN_S
    }

    /// Finds a GPU, or makes room for it: one that the node does not have any more and that nothing speaks against goes.
    fn known(&mut self, uuid: &str) -> Option<&mut KnownGpu> {
        if let Some(at) = self.gpus.iter().position(|gpu| gpu.uuid == uuid) {
            return self.gpus.get_mut(at);
        }
        if self.gpus.len() >= MOST_GPUS {
            let gone = self.gpus.iter().position(|gpu| gpu.number.is_none() && gpu.findings.is_empty())?;
            self.gpus.remove(gone);
        }
        self.gpus.push(KnownGpu { uuid: uuid.to_owned(), ..KnownGpu::default() });
        self.gpus.last_mut()
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
