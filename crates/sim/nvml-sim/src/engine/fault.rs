//! Faults that a test asks of the simulated driver. Each stays until its time or its count is over, or until it is cleared.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Destroying an instance answers `IN_USE`.
    BusyDestroy,
    /// Creating an instance answers `INSUFFICIENT_RESOURCES`.
    OutOfResources,
    /// Every change answers `NO_PERMISSION`, also for root.
    NoPermission,
    /// Listing compute instances or their profiles answers `TIMEOUT`.
    ListTimeout,
    /// Every call on the GPU answers `GPU_IS_LOST`.
    GpuLost,
    /// The driver does not list the GPU: it was not there when the driver was loaded.
    Hidden,
    /// Creation and destruction take this many times as long.
    Slow(f64),
    /// Setting the power limit answers `NOT_SUPPORTED`.
    LimitRefused,
    /// Setting the power limit answers success and does nothing.
    LimitIgnored,
    /// Somebody else sets the power limit to so many W as soon as it has been set.
    LimitChanged(u32),
    /// A limit of so many W is enforced out of band, beside the one that was set.
    LimitEnforcedLower(u32),
    /// The driver reports an error with this Xid number: an event, and a line in the kernel's log.
    Xid(u32),
    /// So many uncorrectable memory errors since the driver was loaded.
    EccUncorrected(u64),
    /// A row of memory is remapped at the next reset.
    RemapPending,
    /// No row is left to remap to.
    RemapFailed,
    /// The clock is lowered because the GPU is too hot.
    Hot,
    /// The driver asks for a reset of the GPU.
    NeedsReset,
    /// So many times the first NVLink had to be started again.
    LinkRecoveries(u64),
}

/// One fault on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// Over at this time, milliseconds since the epoch.
    pub until_ms: Option<u64>,
    /// Over after this many calls met it.
    pub remaining: Option<u32>,
}

/// Milliseconds since the epoch: the one clock that every process of a node shares across restarts.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Fault {
    /// True while it is in force.
    #[must_use]
    pub fn is_active(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| now_ms < until) && self.remaining != Some(0)
    }
}

/// The first fault in force that `matches`.
pub fn find(faults: &[Fault], now_ms: u64, matches: impl Fn(&Kind) -> bool) -> Option<usize> {
    faults.iter().position(|f| f.is_active(now_ms) && matches(&f.kind))
}

/// Gives the first value that `pick` makes of a fault in force.
pub fn value<T>(faults: &[Fault], pick: impl Fn(&Kind) -> Option<T>) -> Option<T> {
    let now = now_ms();
    faults.iter().filter(|fault| fault.is_active(now)).find_map(|fault| pick(&fault.kind))
}

/// Counts one call against a fault and drops those that are over.
pub fn count_down(faults: &mut Vec<Fault>, index: usize, now_ms: u64) {
    if let Some(left) = faults.get_mut(index).and_then(|f| f.remaining.as_mut()) {
        *left = left.saturating_sub(1);
    }
    faults.retain(|f| f.is_active(now_ms));
}

/// The power limit after somebody sets `wanted`, mW, where `before` was in force: faults may ignore or overwrite it.
pub fn take_limit(faults: &mut Vec<Fault>, wanted: u32, before: u32) -> u32 {
    let now = now_ms();
    let is_limit = |kind: &Kind| matches!(kind, Kind::LimitIgnored | Kind::LimitChanged(_));
    let Some(index) = find(faults, now, is_limit) else { return wanted };
    let kind = faults.get(index).map(|fault| fault.kind);
    count_down(faults, index, now);
    match kind {
        Some(Kind::LimitIgnored) => before,
        Some(Kind::LimitChanged(watts)) => watts.saturating_mul(1000),
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_count_limits() {
        let fault = |until_ms, remaining| Fault { kind: Kind::BusyDestroy, until_ms, remaining };
        assert!(fault(None, None).is_active(5));
        assert!(!fault(Some(5), None).is_active(5));
        let mut faults = vec![fault(None, Some(2))];
        count_down(&mut faults, 0, 0);
        assert_eq!(find(&faults, 0, |k| *k == Kind::BusyDestroy), Some(0));
        count_down(&mut faults, 0, 0);
        assert!(faults.is_empty());
    }
}
