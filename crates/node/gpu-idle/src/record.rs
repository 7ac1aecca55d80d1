//! A node's memory of its jobs' devices, from one sample to the next.

use geometry::JobId;
use protocol::idle::MAX_JOBS;
use protocol::{IdleJob, IdleWord};
use serde::{Deserialize, Serialize};

/// A device that is idle as long is spoken of, seconds.
pub const LEAST_S: u64 = 600;
/// Samples that have to agree on it.
const LEAST_LOOKS: u32 = 5;
/// Longest time between two samples, seconds. What happened in a longer one is not known, and the device counts as used.
const GAP_S: u64 = 900;
/// The node writes its word again after as long while it names jobs, seconds.
const AGAIN_S: u64 = 300;
/// And after as long while it names none.
const AGAIN_NONE_S: u64 = 3600;
/// Age up to which a word counts, seconds.
pub const FRESH_S: u64 = 2 * AGAIN_S;
/// Most jobs that are remembered.
const MOST_JOBS: usize = 1024;
/// Most devices of a job.
const MOST_DEVICES: usize = 64;

/// A device of a job at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSample {
    /// UUID of the GPU or instance.
    pub uuid: String,
    /// Utilisation, percent, rounded up; `None`: the driver does not tell that of the job.
    pub busy_percent: Option<u32>,
    /// Memory of the job's processes, MiB.
    pub memory_mib: u64,
    /// The job's processes there.
    pub processes: usize,
}

impl DeviceSample {
    /// Without a utilisation, only a device without processes is idle.
    fn is_idle(&self, busy_percent: u32) -> bool {
        self.busy_percent.map_or(self.processes == 0, |busy| busy < busy_percent)
    }
}

/// A job of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSample {
    /// Job number.
    pub job: JobId,
    /// Number of requeues.
    pub restart: u32,
    /// Devices; `None`: the driver did not answer.
    pub devices: Option<Vec<DeviceSample>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KnownDevice {
    uuid: String,
    /// First of the samples in a row in which it was idle, seconds since 1970.
    since: Option<u64>,
    /// How many these are.
    looks: u32,
    /// Last sample.
    seen: u64,
    most_mib: u64,
}

impl KnownDevice {
    fn look(&mut self, sample: &DeviceSample, busy_percent: u32, now: u64) {
        let is_gap = now < self.seen || now - self.seen > GAP_S;
        if is_gap || !sample.is_idle(busy_percent) {
            (self.since, self.looks) = (None, 0);
        }
        if sample.is_idle(busy_percent) {
            self.since.get_or_insert(now);
            self.looks = self.looks.saturating_add(1);
        }
        self.seen = now;
        self.most_mib = self.most_mib.max(sample.memory_mib);
    }

    /// Since when it is idle, if that is long and sure enough.
    fn idle_since(&self, now: u64) -> Option<u64> {
        let is_sure = self.looks >= LEAST_LOOKS && now.saturating_sub(self.seen) <= GAP_S;
        self.since.filter(|since| is_sure && now.saturating_sub(*since) >= LEAST_S)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownJob {
    job: u32,
    restart: u32,
    devices: Vec<KnownDevice>,
}

impl KnownJob {
    fn look(&mut self, samples: &[DeviceSample], busy_percent: u32, now: u64) {
        self.devices.retain(|known| samples.iter().any(|sample| sample.uuid == known.uuid));
        for sample in samples.iter().take(MOST_DEVICES) {
            let at = self.devices.iter().position(|known| known.uuid == sample.uuid).unwrap_or_else(|| {
                let uuid = sample.uuid.clone();
                self.devices.push(KnownDevice { uuid, seen: now, ..KnownDevice::default() });
                self.devices.len() - 1
            });
            self.devices[at].look(sample, busy_percent, now);
        }
    }

    fn idle(&self, now: u64) -> Option<IdleJob> {
        let idle: Vec<u64> = self.devices.iter().filter_map(|device| device.idle_since(now)).collect();
        Some(IdleJob {
            job: JobId(self.job),
            since: idle.iter().max().copied()?,
            idle: u16::try_from(idle.len()).ok()?,
            of: u16::try_from(self.devices.len()).ok()?,
            most_mib: self.devices.iter().map(|device| device.most_mib).max()?,
        })
    }
}

/// Memory of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleRecord {
    jobs: Vec<KnownJob>,
    /// Word that slurmctld was told last.
    told: Option<String>,
}

impl IdleRecord {
    /// Adds a sample of all the node's jobs. Jobs that are not in it are forgotten.
    pub fn look(&mut self, samples: &[JobSample], busy_percent: u32, now: u64) {
        let mut before = std::mem::take(&mut self.jobs);
        for sample in samples.iter().take(MOST_JOBS) {
            let (job, restart) = (sample.job.0, sample.restart);
            let at = before.iter().position(|known| (known.job, known.restart) == (job, restart));
            let mut known = at
                .map_or_else(|| KnownJob { job, restart, devices: Vec::new() }, |at| before.swap_remove(at));
            if let Some(devices) = &sample.devices {
                known.look(devices, busy_percent, now);
            }
            self.jobs.push(known);
        }
    }

    /// Time at which a job was last checked, seconds since 1970; 0: never.
    #[must_use]
    pub fn last_look(&self, job: JobId) -> u64 {
        let of_job = self.jobs.iter().filter(|known| known.job == job.0);
        of_job.flat_map(|known| &known.devices).map(|device| device.seen).max().unwrap_or(0)
    }

    /// The node's word now: jobs with idle devices, those that are idle longest first.
    #[must_use]
    pub fn word(&self, now: u64) -> IdleWord {
        let mut jobs: Vec<IdleJob> = self.jobs.iter().filter_map(|known| known.idle(now)).collect();
        jobs.sort_by_key(|job| (job.since, job.job));
        jobs.truncate(MAX_JOBS);
        IdleWord { at: now, jobs }
    }

    /// Tells whether slurmctld is to be told this word: something new, or again a while later.
    #[must_use]
    pub fn is_due(&self, word: &IdleWord) -> bool {
        let Some(told) = self.told.as_deref().and_then(IdleWord::parse) else { return true };
        let facts = |word: &IdleWord| -> Vec<_> {
            word.jobs.iter().map(|job| (job.job, job.since, job.idle, job.of)).collect()
        };
        let again = if word.jobs.is_empty() { AGAIN_NONE_S } else { AGAIN_S };
        // Also after a clock was set back.
        facts(&told) != facts(word) || told.at > word.at || word.at - told.at >= again
    }

    /// Notes that slurmctld was told.
    pub fn told(&mut self, word: &IdleWord) {
        self.told = Some(word.encode());
    }
}

/// Use of a job's GPUs on all its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// Uses at least one of them.
    InUse,
    /// A node does not say it.
    Unknown,
    /// Uses none since then, seconds since 1970.
    Since(u64),
}

/// Adds up what a job's nodes say: their last words, `None` for a node without one.
#[must_use]
pub fn stretch<'a>(job: JobId, words: impl IntoIterator<Item = Option<&'a IdleWord>>, now: u64) -> Stretch {
    let mut all = Stretch::Unknown;
    for (i, word) in words.into_iter().enumerate() {
        all = match (on_node(job, word, now), all) {
            (Stretch::InUse, _) | (_, Stretch::InUse) => Stretch::InUse,
            (here, _) if i == 0 => here,
            (Stretch::Since(here), Stretch::Since(others)) => Stretch::Since(here.max(others)),
            _ => Stretch::Unknown,
        };
    }
    all
}

fn on_node(job: JobId, word: Option<&IdleWord>, now: u64) -> Stretch {
    let Some(word) = word.filter(|word| now.saturating_sub(word.at) <= FRESH_S) else {
        return Stretch::Unknown;
    };
    match word.jobs.iter().find(|idle| idle.job == job) {
        Some(idle) if idle.idle == idle.of => Stretch::Since(idle.since),
        Some(_) => Stretch::InUse,
        // The word may have had no room for it.
        None if word.jobs.len() >= MAX_JOBS => Stretch::Unknown,
        None => Stretch::InUse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(uuid: &str, busy_percent: Option<u32>, processes: usize) -> DeviceSample {
        DeviceSample { uuid: uuid.to_owned(), busy_percent, memory_mib: 100, processes }
    }

    fn job(id: u32, devices: Vec<DeviceSample>) -> JobSample {
        JobSample { job: JobId(id), restart: 0, devices: Some(devices) }
    }

    /// Looks each minute from `from` on.
    fn looks(record: &mut IdleRecord, from: u64, minutes: u64, sample: &JobSample) -> u64 {
        let end = from + minutes * 60;
        (from..end).step_by(60).for_each(|at| record.look(std::slice::from_ref(sample), 1, at));
        end - 60
    }

    #[test]
    fn a_device_is_idle_after_ten_minutes_of_samples_and_not_after_one_that_is_busy() {
        let mut record = IdleRecord::default();
        let idle = job(7, vec![device("a", Some(0), 1), device("b", Some(0), 1)]);
        let now = looks(&mut record, 1000, 10, &idle);
        assert_eq!(record.word(now).jobs, []);
        let now = looks(&mut record, now + 60, 1, &idle);
        let found = IdleJob { job: JobId(7), since: 1000, idle: 2, of: 2, most_mib: 100 };
        assert_eq!(record.word(now).jobs, [found]);
        record.look(&[job(7, vec![device("a", Some(1), 1), device("b", Some(0), 1)])], 1, now + 60);
        assert_eq!(record.word(now + 60).jobs, [IdleJob { idle: 1, ..found }]);
        record.look(&[JobSample { restart: 1, ..idle }], 1, now + 120);
        assert_eq!(record.word(now + 120).jobs, [], "it was requeued");
    }

    #[test]
    fn a_device_without_a_utilisation_is_idle_only_without_processes() {
        for (sample, is_idle) in [
            (device("a", None, 1), false),
            (device("a", None, 0), true),
            (device("a", Some(0), 3), true),
            (device("a", Some(1), 0), false),
        ] {
            let mut record = IdleRecord::default();
            let now = looks(&mut record, 1000, 15, &job(7, vec![sample.clone()]));
            assert_eq!(record.word(now).jobs.len(), usize::from(is_idle), "{sample:?}");
        }
    }

    #[test]
    fn what_was_not_looked_at_is_not_idle() {
        let idle = job(7, vec![device("a", Some(0), 1)]);
        let mut record = IdleRecord::default();
        let now = looks(&mut record, 1000, 60, &idle);
        // A while without samples: what is known begins again.
        let later = looks(&mut record, now + GAP_S + 1, 1, &idle);
        assert_eq!(record.word(later).jobs, []);
        let mut record = IdleRecord::default();
        let now = looks(&mut record, 1000, 60, &idle);
        assert_eq!((record.last_look(JobId(7)), record.last_look(JobId(8))), (now, 0));
        let silent = JobSample { devices: None, ..idle.clone() };
        let now = looks(&mut record, now + 60, 5, &silent);
        assert_eq!(record.word(now).jobs[0].since, 1000, "the driver did not answer for a moment");
        let now = looks(&mut record, now + 60, 15, &silent);
        assert_eq!(record.word(now).jobs, []);
        record.look(&[], 1, now);
        assert_eq!(record, IdleRecord::default());
        // Two samples far from each other are too few.
        record.look(std::slice::from_ref(&idle), 1, 1000);
        record.look(&[idle], 1, 1000 + GAP_S);
        assert_eq!(record.word(1000 + GAP_S).jobs, []);
    }

    #[test]
    fn slurmctld_is_told_what_is_new_and_again_a_while_later() {
        let mut record = IdleRecord::default();
        let now = looks(&mut record, 1000, 20, &job(7, vec![device("a", Some(0), 1)]));
        let word = record.word(now);
        assert!(record.is_due(&word));
        record.told(&word);
        assert!(!record.is_due(&word) && !record.is_due(&record.word(now + AGAIN_S - 1)));
        assert!(record.is_due(&record.word(now + AGAIN_S)) && record.is_due(&record.word(now - 1)));
        record.look(&[], 1, now + 60);
        assert!(record.is_due(&record.word(now + 60)));
        record.told(&record.word(now + 60));
        assert!(!record.is_due(&record.word(now + 60 + AGAIN_S)));
        let kept = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<IdleRecord>(&kept).unwrap(), record);
    }

    #[test]
    fn the_record_and_the_word_are_bounded() {
        let mut record = IdleRecord::default();
        let devices: Vec<DeviceSample> = (0..100).map(|i| device(&i.to_string(), Some(0), 0)).collect();
        let jobs: Vec<JobSample> = (0..2000).map(|id| job(id, devices.clone())).collect();
        (0..12).for_each(|minute| record.look(&jobs, 1, minute * 60));
        assert_eq!((record.jobs.len(), record.jobs[0].devices.len()), (MOST_JOBS, MOST_DEVICES));
        assert_eq!(record.word(660).jobs.len(), MAX_JOBS);
    }

    #[test]
    fn a_job_is_idle_if_all_its_nodes_say_so() {
        let of = |entries: &[(u64, u16)]| {
            let job = |(since, idle): &(u64, u16)| IdleJob {
                job: JobId(7),
                since: *since,
                idle: *idle,
                of: 2,
                most_mib: 0,
            };
            IdleWord { at: 1000, jobs: entries.iter().map(job).collect() }
        };
        let all = |words: &[Option<&IdleWord>], now| stretch(JobId(7), words.iter().copied(), now);
        let (early, late, partly, busy) = (of(&[(100, 2)]), of(&[(300, 2)]), of(&[(100, 1)]), of(&[]));
        assert_eq!(all(&[Some(&early)], 1000), Stretch::Since(100));
        assert_eq!(all(&[Some(&early), Some(&late)], 1000), Stretch::Since(300));
        assert_eq!(all(&[Some(&late), Some(&early)], 1000 + FRESH_S), Stretch::Since(300));
        assert_eq!(all(&[Some(&early), Some(&late)], 1001 + FRESH_S), Stretch::Unknown);
        for other in [Some(&partly), Some(&busy)] {
            assert_eq!(all(&[Some(&early), other], 1000), Stretch::InUse);
            assert_eq!(all(&[other, None], 1000), Stretch::InUse);
        }
        assert_eq!(all(&[Some(&early), None], 1000), Stretch::Unknown);
        assert_eq!(all(&[None, Some(&early)], 1000), Stretch::Unknown);
        assert_eq!(all(&[], 1000), Stretch::Unknown);
        let others = 100..100 + u32::try_from(MAX_JOBS).unwrap();
        let full = others.map(|id| IdleJob { job: JobId(id), ..early.jobs[0] }).collect();
        assert_eq!(all(&[Some(&IdleWord { at: 1000, jobs: full })], 1000), Stretch::Unknown);
    }
}
