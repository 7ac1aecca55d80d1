//! A node's memory of one GPU.

use serde::{Deserialize, Serialize};
use site_config::{HealthAction, HealthEvent, HealthReturn};

use crate::rules::{Rule, Rules};

/// A change that people should read of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An event that this GPU did not have before, and what becomes of the GPU.
    New(String, HealthEvent, HealthAction),
    /// An event of this GPU is over.
    Over(String, HealthEvent),
}

/// Most different events of a GPU that are remembered.
pub(crate) const MOST_FINDINGS: usize = 16;
/// Longest reason that is remembered, characters.
const MOST_WHY: usize = 200;
/// An event that ends by itself is over when it was not seen for so long, seconds.
const CALM_S: u64 = 60;

/// An event that was seen on a GPU, once or often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The event, as tessera.toml writes it.
    pub event: String,
    /// An administrator's words; empty for what was seen.
    pub why: String,
    /// First and last time, seconds since 1970.
    pub first: u64,
    /// See [`Finding::first`].
    pub last: u64,
    /// Number of times.
    pub count: u64,
    /// The jobs that are on the GPU have yet to be requeued.
    pub requeue: bool,
}

/// A GPU that the node has, or had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGpu {
    /// `GPU-…`: which GPU it is.
    pub uuid: String,
    /// Place on the bus where it last answered.
    pub bus_id: String,
    /// Slurm's number of it, as long as the node has it.
    pub number: Option<u16>,
    /// Uncorrectable memory errors that were counted already.
    pub ecc: u64,
    /// NVLink recoveries that were counted already.
    pub nvlink: u64,
    /// The driver asked for a reset or a reboot when it was last looked at.
    pub recovery: bool,
    /// At most 16, one for each event.
    pub findings: Vec<Finding>,
}

/// Answers of the driver about a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Uncorrectable memory errors since the driver was loaded.
    pub ecc: u64,
    /// See [`HealthEvent::RemapPending`].
    pub remap_pending: bool,
    /// See [`HealthEvent::RemapFailed`].
    pub remap_failed: bool,
    /// See [`HealthEvent::Hot`].
    pub hot: bool,
    /// Number of times that its NVLinks had to be started again.
    pub nvlink: u64,
    /// See [`HealthEvent::Recovery`].
    pub recovery: bool,
}

impl Finding {
    /// The event; `None`: another version of Tessera wrote it.
    #[must_use]
    pub fn kind(&self) -> Option<HealthEvent> {
        HealthEvent::parse(&self.event)
    }

    /// The reason in a few words.
    #[must_use]
    pub fn words(&self) -> &str {
        if self.why.is_empty() { &self.event } else { &self.why }
    }

    /// The rule for it. An unknown event of another version leaves the GPU out: it may not be fit to come back.
    #[must_use]
    pub fn rule<'a>(&self, rules: &Rules<'a>) -> Rule<'a> {
        rules.of(self.kind().unwrap_or(HealthEvent::Told))
    }
}

impl KnownGpu {
    /// The findings that keep new jobs off.
    pub fn against(&self, rules: &Rules<'_>) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.rule(rules).action > HealthAction::Ignore)
    }

    /// Notes an event; what changed, if it is new.
    pub(crate) fn note(
        &mut self,
        event: HealthEvent,
        why: &str,
        now: u64,
        rules: &Rules<'_>,
    ) -> Option<Change> {
        let name = event.to_string();
        let why: String = why.chars().take(MOST_WHY).collect();
        if let Some(known) = self.findings.iter_mut().find(|finding| finding.event == name) {
            known.last = now;
            known.count = known.count.saturating_add(1);
            if !why.is_empty() {
                known.why = why;
            }
            return None;
        }
        if self.findings.len() >= MOST_FINDINGS {
            // Those that change nothing make room.
            let harmless = self.findings.iter().position(|f| f.rule(rules).action == HealthAction::Ignore)?;
            self.findings.remove(harmless);
        }
        let action = rules.of(event).action;
        let requeue = action == HealthAction::Requeue;
        self.findings.push(Finding { event: name, why, first: now, last: now, count: 1, requeue });
        Some(Change::New(self.uuid.clone(), event, action))
    }

    /// The events that a reading shows; counters that have grown are one event.
    pub(crate) fn events(&mut self, reading: Option<Reading>) -> Vec<HealthEvent> {
        let Some(now) = reading else { return vec![HealthEvent::Lost] };
        let (before_ecc, before_nvlink) = (self.ecc, self.nvlink);
        // Smaller numbers: the driver was loaded again, or the GPU reset.
        (self.ecc, self.nvlink) = (now.ecc, now.nvlink);
        let all = [
            (now.ecc > before_ecc, HealthEvent::Ecc),
            (now.remap_pending, HealthEvent::RemapPending),
            (now.remap_failed, HealthEvent::RemapFailed),
            (now.hot, HealthEvent::Hot),
            (now.nvlink > before_nvlink, HealthEvent::Nvlink),
            (now.recovery, HealthEvent::Recovery),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, event)| event).collect()
    }

    /// Forgets what a reset has mended: the driver asked for one, and does not any more.
    pub(crate) fn after_reset(&mut self, reading: Option<Reading>, rules: &Rules<'_>) -> Vec<Change> {
        let Some(now) = reading else { return Vec::new() };
        let was_reset = self.recovery && !now.recovery;
        self.recovery = now.recovery;
        if !was_reset {
            return Vec::new();
        }
        let by_reset = |finding: &Finding| finding.rule(rules).returns == HealthReturn::Reset;
        self.drop_findings(|finding| by_reset(finding) || finding.kind() == Some(HealthEvent::Recovery))
    }

    /// Forgets the events that ended by themselves.
    pub(crate) fn after_calm(&mut self, now: u64, rules: &Rules<'_>) -> Vec<Change> {
        self.drop_findings(|finding| {
            let ends = finding.rule(rules).returns == HealthReturn::Itself;
            ends && finding.last != now && finding.last.saturating_add(CALM_S) <= now
        })
    }

    /// Forgets findings; the changes.
    pub(crate) fn drop_findings(&mut self, over: impl Fn(&Finding) -> bool) -> Vec<Change> {
        let (gone, kept): (Vec<Finding>, _) = std::mem::take(&mut self.findings).into_iter().partition(over);
        self.findings = kept;
        gone.iter().filter_map(|f| Some(Change::Over(self.uuid.clone(), f.kind()?))).collect()
    }
}
