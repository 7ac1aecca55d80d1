//! Messages of a calibration: first how long it takes, then how far it is.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::campaign::Campaign;
use super::flight::Flight;
use super::store::Store;
use crate::progress::Progress;

/// Describes the measurements and how long they take. `measured` is by setting; empty: nothing yet.
pub(super) fn plan(campaign: &Campaign, measured: &[bool]) -> String {
    let is_left = |at: usize| !measured.get(at).copied().unwrap_or(false);
    let left: Vec<_> =
        campaign.settings.iter().enumerate().filter(|(at, _)| is_left(*at)).map(|(_, s)| s).collect();
    let count = |apps: usize, is_full: bool| {
        campaign.settings.iter().filter(|s| s.apps.len() == apps && s.state.is_full() == is_full).count()
    };
    let watts: Vec<String> = campaign.caps.iter().map(|cap| cap.watts().to_string()).collect();
    let gpus: Vec<String> = campaign.gpus.iter().map(u16::to_string).collect();
    let seconds: f64 = left.iter().map(|s| s.estimate(&campaign.apps, campaign.gpu)).sum();
    let n_gpus = f64::from(u32::try_from(gpus.len()).unwrap_or(u32::MAX)).max(1.0);
    let mut text = format!(
        "{} applications on {}, {} under {} W, on GPU {}\n\
         {} alone on a whole GPU, {} alone on a part, {} next to another\n",
        campaign.apps.len(),
        campaign.node,
        campaign.gpu.key,
        watts.join(", "),
        gpus.join(", "),
        count(1, true),
        count(1, false),
        count(2, false),
    );
    let done = campaign.settings.len() - left.len();
    if done > 0 {
        let _ = writeln!(text, "{done} of {} are measured already", campaign.settings.len());
    }
    let _ = writeln!(text, "about {} from when the node is free", duration(seconds / n_gpus));
    text
}

/// `3 h 20 min`, `5 min`, `40 s`.
fn duration(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |d| d.as_secs());
    match (whole / 3600, whole % 3600 / 60) {
        (0, 0) => format!("{whole} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Says where to put the result.
pub(super) fn use_it(campaign: &Campaign, model: &Path, counters: &str) -> String {
    format!(
        "\nIn tessera.toml:\n\n[power]\ncounters = {counters:?}\n\n[[nodes]]    # {}, and others with such GPUs\n\
         power_model = {:?}\n",
        campaign.node,
        model.display().to_string(),
    )
}

/// A bar on a terminal; in a pipe, nothing.
pub(super) struct Shown(Progress);

impl Shown {
    pub(super) fn new(campaign: &Campaign, store: &Store) -> Self {
        let bar = Progress::with_line(campaign.settings.len());
        bar.begins_at(done(store));
        Self(bar)
    }

    /// How far it is, and what is measured now.
    pub(super) fn at(&self, campaign: &Campaign, store: &Store, flights: &[Flight]) {
        self.0.at(done(store));
        let now: Vec<String> = flights
            .iter()
            .filter(|flight| !flight.kept)
            .map(|flight| campaign.described(&campaign.settings[flight.at]))
            .collect();
        self.0.line(now.join("; "));
    }
}

fn done(store: &Store) -> usize {
    store.measured.iter().filter(|measured| **measured).count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_duration_has_one_unit() {
        let said = [0.4, 59.0, 60.0, 3599.0, 3600.0, 90_000.0].map(super::duration);
        assert_eq!(said, ["0 s", "59 s", "1 min", "59 min", "1 h", "25 h"]);
    }
}
