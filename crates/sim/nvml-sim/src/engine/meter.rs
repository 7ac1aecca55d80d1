//! Energy, throttled time, busy time and NVLink traffic of each GPU, integrated over what the GPU did.
//!
//! Problem: no process runs all the time that could integrate, and a counter must never run backwards, whoever reads it and
//! whatever process was killed when.
//!
//! Approach: `STATE.meter` holds a line for each GPU: until when it was integrated, and the sums. Whoever reads a counter, changes
//! the state, or computes adds the time since then at the draw of this moment, under a lock. Programs do so every few
//! hundredths of a second, and both before they begin and after they end. So only the last such moment of a killed one is lost.
//!
//! Time is the machine's monotonic clock, which no administrator sets back.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};

use super::activity::{Activity, MILLION, SLOTS};
use super::load::Load;

/// The sums of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Until when, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Energy since the node was made, nanojoules.
    pub energy_nj: u64,
    /// Time at a clock that the power limit lowered, nanoseconds.
    pub capped_ns: u64,
    /// Bytes over NVLink since the node was made: sent, received.
    pub nvlink: [u64; 2],
    /// Busy time of each GPU instance, by its id, and of the whole GPU.
    pub busy: [Busy; SLOTS],
}

/// Busy time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// In which a program ran.
    pub graphics_ns: u64,
    /// The mean over the SMs of the time in which each was busy.
    pub sm_ns: u64,
}

impl Busy {
    fn until(self, passed_ns: u64, activity: Activity) -> Self {
        let part = |ppm: u32| {
            u64::try_from(u128::from(passed_ns) * u128::from(ppm) / u128::from(MILLION)).unwrap_or(u64::MAX)
        };
        Self {
            graphics_ns: self.graphics_ns.saturating_add(part(activity.graphics)),
            sm_ns: self.sm_ns.saturating_add(part(activity.sm)),
        }
    }
}

/// 5 numbers and 2 for each instance, each of 20 digits and a blank; filled up to a part of a page, so that no line lies in two.
const LINE: usize = 1024;

/// The file of a node's sums.
#[derive(Clone, Debug)]
pub(super) struct Meter(PathBuf);

impl Meter {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn create(&self, gpus: usize) -> io::Result<()> {
        let start = Reading { at_ns: now_ns(), ..Reading::default() };
        fs::write(&self.0, start.line().repeat(gpus))?;
        // Programs of every user integrate.
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o666))
    }

    /// Adds what each of these GPUs did since it was integrated last.
    pub(super) fn advance(&self, loads: impl Iterator<Item = (u32, Load)>) -> io::Result<Vec<Reading>> {
        let file = OpenOptions::new().read(true).write(true).open(&self.0)?;
        file.lock()?;
        loads.map(|(gpu, load)| advance_one(&file, gpu, &load)).collect()
    }
}

fn advance_one(file: &File, gpu: u32, load: &Load) -> io::Result<Reading> {
    let place = u64::from(gpu) * LINE as u64;
    let mut line = [0; LINE];
    file.read_exact_at(&mut line, place)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a line of the meter is damaged");
    let last = Reading::parse(&line).ok_or_else(damaged)?;
    let next = last.until(now_ns(), load);
    // Within a page: a kill leaves the old line or the new one.
    file.write_all_at(next.line().as_bytes(), place)?;
    Ok(next)
}

impl Reading {
    /// The sums at a later moment. A clock that is behind, after a reboot, adds nothing.
    fn until(self, now_ns: u64, load: &Load) -> Self {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        // Milliwatts times nanoseconds are picojoules.
        let energy_nj = u128::from(load.power_mw) * u128::from(passed_ns) / 1000;
        let rates = load.traffic.nvlink;
        Self {
            at_ns: now_ns,
            energy_nj: self.energy_nj.saturating_add(u64::try_from(energy_nj).unwrap_or(u64::MAX)),
            capped_ns: self.capped_ns.saturating_add(if load.is_capped { passed_ns } else { 0 }),
            nvlink: [(self.nvlink[0], rates.sent), (self.nvlink[1], rates.received)].map(|(sum, rate)| {
                let bytes = u128::from(rate) * u128::from(passed_ns) / 1_000_000_000;
                sum.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
            }),
            busy: std::array::from_fn(|slot| self.busy[slot].until(passed_ns, load.activity[slot])),
        }
    }

    fn line(self) -> String {
        let busy = self.busy.iter().flat_map(|busy| [busy.graphics_ns, busy.sm_ns]);
        let [sent, received] = self.nvlink;
        let all = [self.at_ns, self.energy_nj, self.capped_ns, sent, received].into_iter().chain(busy);
        let mut text: String = all.map(|number| format!("{number:020} ")).collect();
        text.extend(std::iter::repeat_n(' ', LINE.saturating_sub(text.len() + 1)));
        text + "\n"
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let text = str::from_utf8(line).ok()?;
        let numbers: Vec<u64> = text.split_whitespace().map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let [at_ns, energy_nj, capped_ns, sent, received, ref busy @ ..] = numbers[..] else { return None };
        let pair = |pair: &[u64]| match *pair {
            [graphics_ns, sm_ns] => Some(Busy { graphics_ns, sm_ns }),
            _ => None,
        };
        let busy: Vec<Busy> = busy.chunks(2).map(pair).collect::<Option<_>>()?;
        Some(Self { at_ns, energy_nj, capped_ns, nvlink: [sent, received], busy: busy.try_into().ok()? })
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::traffic::{Rates, Traffic};

    #[test]
    fn sums_only_grow_and_a_line_keeps_its_length() {
        let load = |power_mw, is_capped| {
            let mut activity = [Activity::default(); SLOTS];
            activity[2] = Activity { graphics: MILLION, sm: MILLION / 4 };
            let nvlink = Rates { sent: 2_000_000_000, received: 500 };
            let traffic = Traffic { nvlink, ..Traffic::default() };
            Load { clock_mhz: 1, power_mw, is_capped, speeds: Vec::new(), activity, traffic }
        };
        let start = Reading { at_ns: 5_000_000_000, energy_nj: 7, capped_ns: 1, ..Reading::default() };
        // 100 W for 2 s are 200 J.
        let later = start.until(7_000_000_000, &load(100_000, true));
        assert_eq!(
            (later.at_ns, later.energy_nj, later.capped_ns),
            (7_000_000_000, 200_000_000_007, 2_000_000_001)
        );
        assert_eq!(later.nvlink, [4_000_000_000, 1000]);
        assert_eq!(later.busy[2], Busy { graphics_ns: 2_000_000_000, sm_ns: 500_000_000 });
        assert_eq!(later.busy[1], Busy::default());
        assert_eq!(later.until(8_000_000_000, &load(0, false)).energy_nj, later.energy_nj);
        let rebooted = later.until(3, &load(400_000, true));
        assert_eq!((rebooted.at_ns, rebooted.energy_nj), (3, later.energy_nj));
        let most = Reading {
            at_ns: u64::MAX,
            energy_nj: u64::MAX,
            capped_ns: u64::MAX,
            nvlink: [u64::MAX; 2],
            busy: [Busy { graphics_ns: u64::MAX, sm_ns: u64::MAX }; SLOTS],
        };
        for reading in [start, later, most] {
            assert_eq!(reading.line().len(), LINE);
            assert_eq!(Reading::parse(reading.line().as_bytes()), Some(reading));
        }
    }
}
