//! A job that holds GPUs, as the verdict sees it.

use site_config::IdleKind;

use crate::record::Stretch;

/// A job that holds GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldJob {
    /// Job number.
    pub job: u32,
    /// Partition.
    pub partition: String,
    /// Account.
    pub account: String,
    /// The command that submitted it.
    pub kind: IdleKind,
    /// Slurm would requeue it: a batch job without `--no-requeue`.
    pub can_requeue: bool,
    /// Slurm shows it as running: neither suspended nor ending.
    pub runs: bool,
    /// A component of a heterogeneous job: another one may compute.
    pub in_het: bool,
    /// Time for which it has been suspended in all, seconds.
    pub suspended_s: u64,
    /// Use of its GPUs.
    pub stretch: Stretch,
}

impl HeldJob {
    /// How long it is idle while it may run, seconds; `None`: it is not, or that is not known.
    #[must_use]
    pub fn idle_s(&self, now: u64) -> Option<u64> {
        // When it was suspended is not known: all of that counts against this stretch.
        let Stretch::Since(since) = self.stretch else { return None };
        Some(now.saturating_sub(since).saturating_sub(self.suspended_s))
    }
}
