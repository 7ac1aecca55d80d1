//! Laps of applications, and which of them were wholly beside the others.

/// So many laps of each application are measured.
pub const LAPS: usize = 3;

/// The longest pause between two laps that still counts as running, ms: the shell starts the next one at once, on a busy
/// node not quite.
pub const MAX_PAUSE_MS: u64 = 2000;

/// One run of an application, by the clock of its node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lap {
    /// Its begin, ms since the epoch.
    pub begin_ms: u64,
    /// Its end, ms since the epoch.
    pub end_ms: u64,
    /// What the application itself says it took, seconds, without its start.
    pub said: Option<f64>,
}

impl Lap {
    /// How long it took, seconds: as the application says, else by the clock.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a lap is far shorter than 2^53 ms")]
        let clock = self.end_ms.saturating_sub(self.begin_ms) as f64 / 1000.0;
        self.said.unwrap_or(clock)
    }
}

/// What a job has written of its laps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// In the order of time.
    pub laps: Vec<Lap>,
    /// How a run failed, in words; the job ends after a status other than 0.
    pub failed: Option<String>,
}

impl Log {
    /// Reads lines of begin, end, exit status and, where the application says them, seconds. A line without its end is still
    /// being written. Lines that are no such are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        for line in whole {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(begin_ms), Some(end_ms), Some(status)) =
                (number(&words, 0), number(&words, 1), words.get(2).and_then(|w| w.parse::<i32>().ok()))
            else {
                continue;
            };
            if status != 0 {
                log.failed = Some(format!("exit status {status}"));
                continue;
            }
            let seconds = |word: &&str| word.parse::<f64>().ok().filter(|s| *s > 0.0 && s.is_finite());
            let said = words.get(3).map(|word| (word, seconds(word)));
            if let Some((word, None)) = said {
                log.failed = Some(format!("TESSERA_SECONDS has `{word}`, no number of seconds above 0"));
            } else if end_ms > begin_ms {
                log.laps.push(Lap { begin_ms, end_ms, said: said.and_then(|(_, seconds)| seconds) });
            }
        }
        log
    }
}

fn number(words: &[&str], at: usize) -> Option<u64> {
    words.get(at)?.parse().ok()
}

/// The laps of `own` from whose begin to whose end `other` ran, but for pauses of up to [`MAX_PAUSE_MS`] between its laps.
///
/// Both are in the order of time. A lap that the other's last one does not outlast is not beside it yet: what it did after
/// its last line is unknown.
#[must_use]
pub fn beside(own: &[Lap], other: &[Lap]) -> Vec<Lap> {
    let spans = spans(other);
    let is_inside = |lap: &&Lap| {
        spans.iter().any(|(begin_ms, end_ms)| *begin_ms <= lap.begin_ms && lap.end_ms <= *end_ms)
    };
    own.iter().filter(is_inside).copied().collect()
}

/// From when to when an application ran without a longer pause, ms.
fn spans(laps: &[Lap]) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for lap in laps {
        match spans.last_mut() {
            Some((_, end_ms)) if lap.begin_ms <= end_ms.saturating_add(MAX_PAUSE_MS) => {
                *end_ms = lap.end_ms.max(*end_ms);
            }
            _ => spans.push((lap.begin_ms, lap.end_ms)),
        }
    }
    spans
}

/// How far a setting is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// So many laps of the application that has fewest count.
    Laps(usize),
    /// The median time of each application, seconds.
    Measured(Vec<f64>),
}

/// How far a setting is whose applications have these laps, in the order of its parts.
#[must_use]
pub fn progress(laps: &[Vec<Lap>]) -> Progress {
    let counted: Vec<Vec<Lap>> = (0..laps.len()).map(|at| counted(laps, at)).collect();
    let fewest = counted.iter().map(Vec::len).min().unwrap_or(0);
    if fewest < LAPS {
        return Progress::Laps(fewest);
    }
    Progress::Measured(counted.iter().map(|laps| median(laps)).collect())
}

/// The laps of one application that are beside all others.
fn counted(laps: &[Vec<Lap>], at: usize) -> Vec<Lap> {
    let others = laps.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, laps)| laps);
    others.fold(laps[at].clone(), |own, other| beside(&own, other))
}

/// Of an even number, the mean of the two in the middle.
fn median(laps: &[Lap]) -> f64 {
    let mut seconds: Vec<f64> = laps.iter().map(Lap::seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    if seconds.len() % 2 == 1 { seconds[middle] } else { f64::midpoint(seconds[middle - 1], seconds[middle]) }
}
