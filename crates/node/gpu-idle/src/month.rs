//! False alarms in the first 1,000 jobs of a made-up month.
//!
//! Run times and kinds of jobs are those of the month of `cargo xtask bench replay`: evenly over orders of magnitude from a minute to three
//! days, a job in a hundred on two nodes. How jobs use their GPUs is an assumption: they stage data for up to half an hour first,
//! then compute, so that two of three samples find a kernel, and pause for up to a quarter of an hour to validate or to write a
//! checkpoint. On instances whose utilisation the driver does not tell, only processes are seen. Among them are sessions
//! that a user has left.

use geometry::JobId;
use site_config::{Idle, IdleEnd, IdleKind, IdleRule};

use crate::{DeviceSample, HeldJob, IdleMemory, IdleRecord, IdleStep, JobSample, Stretch, stretch, verdict};

const JOBS: u32 = 1000;
/// Every so many jobs is a session that was left after its first hour.
const LEFT: u32 = 40;

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Minutes from 1 to three days, evenly over orders of magnitude.
    fn minutes(&mut self) -> u64 {
        let part = f64::from(u32::try_from(self.below(1 << 24)).unwrap()) / f64::from(1 << 24);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 4320")]
        let minutes = 4320_f64.powf(part) as u64;
        minutes.max(1)
    }
}

/// The job's minutes: it computes in each, or it does not.
fn minutes(random: &mut Random, left: bool) -> Vec<bool> {
    let ran = random.minutes();
    let mut all = vec![false; usize::try_from(random.below(30)).unwrap()];
    let ran = if left { 1440 } else { usize::try_from(ran).unwrap() };
    while all.len() < ran {
        let (compute, pause) = (20 + random.below(220), random.below(16));
        all.extend((0..compute).map(|_| true));
        all.extend((0..pause).map(|_| false));
    }
    all.truncate(ran);
    if left {
        all[60..].fill(false);
    }
    all
}

/// Runs a job from its start to its end under the rules; the minutes at which its user was warned.
fn warnings(random: &mut Random, id: u32, rules: &Idle) -> Vec<u64> {
    let left = id.is_multiple_of(LEFT);
    let (nodes, told) = (1 + u64::from(random.below(100) == 0), left || random.below(100) < 70);
    let (mut memory, mut records) = (IdleMemory::default(), vec![IdleRecord::default(); 2]);
    let mut words = [None, None];
    let mut warned = Vec::new();
    for (minute, computes) in minutes(random, left).into_iter().enumerate() {
        let minute = u64::try_from(minute).unwrap();
        let now = 1_790_812_800 + minute * 60;
        for (record, word) in records.iter_mut().zip(&mut words).take(usize::try_from(nodes).unwrap()) {
            let busy = if computes && random.below(3) > 0 { 80 } else { 0 };
            let device = DeviceSample {
                uuid: "a".to_owned(),
                busy_percent: told.then_some(busy),
                memory_mib: 4000,
                processes: 1,
            };
            record.look(&[JobSample { job: JobId(id), restart: 0, devices: Some(vec![device]) }], 1, now);
            let new = record.word(now);
            if record.is_due(&new) {
                record.told(&new);
                *word = Some(new);
            }
        }
        let all = words.iter().take(usize::try_from(nodes).unwrap()).map(Option::as_ref);
        let job = HeldJob {
            job: id,
            partition: "gpu".to_owned(),
            account: "bio".to_owned(),
            kind: IdleKind::Batch,
            can_requeue: true,
            runs: true,
            in_het: false,
            suspended_s: 0,
            stretch: stretch(JobId(id), all, now),
        };
        memory.forget(std::slice::from_ref(&job));
        for step in verdict(std::slice::from_ref(&job), &memory, rules, now) {
            match step {
                IdleStep::Warn { end, .. } => {
                    assert_ne!(job.stretch, Stretch::InUse);
                    memory.warn(&job, end, now);
                    memory.told(id);
                    warned.push(minute);
                }
                IdleStep::End { .. } => return warned,
            }
        }
    }
    warned
}

#[test]
fn no_user_who_computes_is_warned_and_every_user_who_has_left_is() {
    let rule = IdleRule {
        partition: None,
        account: None,
        kind: None,
        warn_after_s: 3600,
        end: Some((IdleEnd::Cancel, 3600)),
    };
    let rules = Idle { rules: vec![rule], ..Idle::default() };
    let mut random = Random(7);
    let all: Vec<(u32, Vec<u64>)> = (1..=JOBS).map(|id| (id, warnings(&mut random, id, &rules))).collect();
    let (left, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(id, _)| id.is_multiple_of(LEFT));
    let alarms: Vec<_> = others.into_iter().filter(|(_, warned)| !warned.is_empty()).collect();
    assert_eq!(alarms, [], "false alarms");
    assert_eq!(left.len(), 25);
    assert!(
        left.iter().all(|(_, warned)| matches!(warned[..], [at] if (90..=121).contains(&at))),
        "{left:?}"
    );
}
