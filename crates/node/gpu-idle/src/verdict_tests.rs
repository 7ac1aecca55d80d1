//! Properties of the verdict: what never happens to a job.

use proptest::prelude::*;
use site_config::{Idle, IdleEnd, IdleKind, IdleRule};

use crate::{HeldJob, IdleMemory, IdleStep, Promise, Stretch, rule_of, verdict};

const BEGIN: u64 = 1_790_000_000;

fn job(id: u32, stretch: Stretch) -> HeldJob {
    HeldJob {
        job: id,
        partition: "gpu".to_owned(),
        account: "bio".to_owned(),
        kind: IdleKind::Interactive,
        can_requeue: false,
        runs: true,
        in_het: false,
        suspended_s: 0,
        stretch,
    }
}

fn rule(warn_min: u64, end: Option<(IdleEnd, u64)>) -> IdleRule {
    let end = end.map(|(end, min)| (end, min * 60));
    IdleRule { partition: None, account: None, kind: None, warn_after_s: warn_min * 60, end }
}

fn rules(all: Vec<IdleRule>) -> Idle {
    Idle { rules: all, ..Idle::default() }
}

/// Takes the steps of one moment.
fn act(memory: &mut IdleMemory, jobs: &[HeldJob], rules: &Idle, now: u64) -> Vec<IdleStep> {
    memory.forget(jobs);
    let steps = verdict(jobs, memory, rules, now);
    for step in &steps {
        if let IdleStep::Warn { job, end, .. } = step {
            memory.warn(jobs.iter().find(|one| one.job == *job).unwrap(), *end, now);
            memory.told(*job);
        }
    }
    steps
}

#[test]
fn a_job_is_warned_once_and_ends_when_that_was_announced() {
    let rules = rules(vec![rule(60, Some((IdleEnd::Cancel, 30)))]);
    let (mut memory, jobs) = (IdleMemory::default(), [job(7, Stretch::Since(BEGIN))]);
    let mut at = |minute: u64| act(&mut memory, &jobs, &rules, BEGIN + minute * 60);
    assert_eq!(at(59), []);
    let end = Some((IdleEnd::Cancel, 1800));
    assert_eq!(at(65), [IdleStep::Warn { job: 7, idle_s: 3900, end }]);
    assert_eq!((at(66), at(94)), (vec![], vec![]));
    let ends = |minute: u64| IdleStep::End { job: 7, idle_s: minute * 60, end: IdleEnd::Cancel };
    assert_eq!((at(95), at(96)), (vec![ends(95)], vec![ends(96)]));
    // Slurm refuses three times.
    (0..3).for_each(|_| memory.refused(7));
    assert_eq!(act(&mut memory, &jobs, &rules, BEGIN + 97 * 60), []);
}

#[test]
fn a_job_that_has_computed_is_warned_again() {
    let rules = rules(vec![rule(60, Some((IdleEnd::Cancel, 30)))]);
    let mut memory = IdleMemory::default();
    let mut at =
        |stretch: Stretch, minute: u64| act(&mut memory, &[job(7, stretch)], &rules, BEGIN + minute * 60);
    assert_eq!(at(Stretch::Since(BEGIN), 60).len(), 1);
    // Its node is silent for a while: what was announced holds.
    assert_eq!(at(Stretch::Unknown, 100), []);
    assert!(matches!(at(Stretch::Since(BEGIN), 101)[..], [IdleStep::End { .. }]));
    assert_eq!(at(Stretch::InUse, 102), []);
    assert_eq!(at(Stretch::Since(BEGIN + 103 * 60), 140), []);
    assert!(matches!(at(Stretch::Since(BEGIN + 103 * 60), 163)[..], [IdleStep::Warn { .. }]));
    // The same number, and a stretch without a warning.
    assert_eq!(at(Stretch::Since(BEGIN + 170 * 60), 200), []);
}

#[test]
fn a_change_of_the_rules_is_announced_before_it_counts() {
    let (mut memory, jobs) = (IdleMemory::default(), [job(7, Stretch::Since(BEGIN))]);
    let mut at =
        |rule: IdleRule, minute: u64| act(&mut memory, &jobs, &rules(vec![rule]), BEGIN + minute * 60);
    let cancel = |min| rule(60, Some((IdleEnd::Cancel, min)));
    assert!(matches!(at(rule(60, None), 60)[..], [IdleStep::Warn { end: None, .. }]));
    assert!(matches!(at(cancel(30), 120)[..], [IdleStep::Warn { end: Some(_), .. }]));
    assert_eq!(at(cancel(60), 150), [], "the site gives more time");
    assert_eq!(at(cancel(10), 149), [], "less time than was announced");
    assert_eq!(at(rule(60, None), 151), [], "nothing is to happen any more");
    assert!(matches!(at(cancel(10), 152)[..], [IdleStep::End { .. }]));
}

#[test]
fn the_first_rule_for_a_job_counts_and_no_requeue_is_announced_that_slurm_refuses() {
    let only = |partition: &str, account: &str, kind| IdleRule {
        partition: Some(partition.to_owned()).filter(|p| !p.is_empty()),
        account: Some(account.to_owned()).filter(|a| !a.is_empty()),
        kind,
        ..rule(60, None)
    };
    let all = rules(vec![
        only("cpu", "", None),
        only("", "Chem", None),
        only("gpu", "", Some(IdleKind::Batch)),
        only("gpu", "BIO", None),
    ]);
    assert_eq!(rule_of(&job(7, Stretch::Unknown), &all), Some(&all.rules[3]));
    let batch = HeldJob { kind: IdleKind::Batch, ..job(7, Stretch::Unknown) };
    assert_eq!(rule_of(&batch, &all), Some(&all.rules[2]));
    let other = HeldJob { partition: "x".to_owned(), ..batch };
    assert_eq!(rule_of(&other, &all), None);
    let requeue = rules(vec![rule(60, Some((IdleEnd::Requeue, 30)))]);
    let idle = job(7, Stretch::Since(BEGIN));
    let batch = HeldJob { job: 8, kind: IdleKind::Batch, can_requeue: true, ..idle.clone() };
    let no_requeue = HeldJob { job: 9, can_requeue: false, ..batch.clone() };
    let jobs = [idle, batch, no_requeue];
    let mut memory = IdleMemory::default();
    let steps = act(&mut memory, &jobs, &requeue, BEGIN + 3600);
    let ends: Vec<_> = steps.iter().map(|step| matches!(step, IdleStep::Warn { end: Some(_), .. })).collect();
    assert_eq!(ends, [false, true, false]);
    let end = IdleStep::End { job: 8, idle_s: 5400, end: IdleEnd::Requeue };
    assert_eq!(act(&mut memory, &jobs, &requeue, BEGIN + 5400), [end], "the others are left alone");
}

#[test]
fn who_was_suspended_has_as_much_more_time() {
    let rules = rules(vec![rule(60, Some((IdleEnd::Cancel, 30)))]);
    let mut memory = IdleMemory::default();
    let mut at = |runs, suspended_min: u64, minute: u64| {
        let job = HeldJob { runs, suspended_s: suspended_min * 60, ..job(7, Stretch::Since(BEGIN)) };
        act(&mut memory, &[job], &rules, BEGIN + minute * 60)
    };
    assert_eq!(at(true, 20, 79), [], "it could not compute for 20 minutes of these");
    assert_eq!(at(true, 20, 80).len(), 1);
    assert_eq!(at(false, 50, 110), [], "suspended");
    assert_eq!(at(true, 50, 139), []);
    assert!(matches!(at(true, 50, 140)[..], [IdleStep::End { .. }]));
}

#[test]
fn a_warning_that_was_not_finished_is_given_again() {
    let rules = rules(vec![rule(60, Some((IdleEnd::Cancel, 30)))]);
    let (mut memory, idle) = (IdleMemory::default(), job(7, Stretch::Since(BEGIN)));
    let promise = memory.warn(&idle, Some((IdleEnd::Cancel, 1800)), BEGIN + 3600);
    assert_eq!(promise, Some(Promise { end: IdleEnd::Cancel, at: BEGIN + 5400 }));
    let steps = verdict(std::slice::from_ref(&idle), &memory, &rules, BEGIN + 6000);
    assert!(matches!(steps[..], [IdleStep::Warn { .. }]), "{steps:?}");
    let kept = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<IdleMemory>(&kept).unwrap(), memory);
    assert!(serde_json::from_str::<IdleMemory>(&kept.replace("cancel", "kill")).is_err());
}

#[test]
fn users_who_cannot_be_told_keep_no_warning_from_others() {
    let rules = rules(vec![rule(60, None)]);
    let mut memory = IdleMemory::default();
    let mut jobs: Vec<HeldJob> = (0..40).map(|id| job(id, Stretch::Since(BEGIN))).collect();
    for job in &jobs {
        memory.warn(job, None, BEGIN + 3600);
    }
    jobs.push(job(40, Stretch::Since(BEGIN + 60)));
    let steps = verdict(&jobs, &memory, &rules, BEGIN + 3720);
    assert_eq!(steps.len(), 30);
    assert!(matches!(steps[0], IdleStep::Warn { job: 40, .. }), "{:?}", steps[0]);
}

#[test]
fn warnings_and_ends_are_bounded() {
    let rules = rules(vec![rule(60, Some((IdleEnd::Cancel, 30)))]);
    let mut memory = IdleMemory::default();
    let jobs: Vec<HeldJob> =
        (0..20_000).map(|id| job(id, Stretch::Since(BEGIN + u64::from(id % 60)))).collect();
    let now = BEGIN + 7200;
    assert_eq!(act(&mut memory, &jobs, &rules, now).len(), 30);
    assert_eq!(act(&mut memory, &jobs, &rules, now + 1), [], "in the same minute");
    assert_eq!(act(&mut memory, &jobs, &rules, now + 60).len(), 30);
    (0..20_000_u32).for_each(|id| {
        memory.warn(&job(id, Stretch::Since(BEGIN)), None, now);
    });
    assert_eq!(memory.room(now + 600), 0, "it remembers no more");
    let mut memory = IdleMemory::default();
    for id in 0..100 {
        memory.warn(&job(id, Stretch::Since(BEGIN)), Some((IdleEnd::Cancel, 1800)), now);
        memory.told(id);
    }
    let jobs: Vec<HeldJob> = (0..100).map(|id| job(id, Stretch::Since(BEGIN))).collect();
    assert_eq!(verdict(&jobs, &memory, &rules, now + 1800).len(), 10);
}

/// What happens to a job in ten minutes.
#[derive(Clone, Copy, Debug)]
enum Event {
    Computes,
    Idles,
    Silent,
    Suspended,
    /// The program that acts is away.
    NoRun,
    /// It ends between the decision to warn and the warning.
    Killed,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Computes),
        8 => Just(Event::Idles),
        1 => Just(Event::Silent),
        2 => Just(Event::Suspended),
        1 => Just(Event::NoRun),
        1 => Just(Event::Killed),
    ]
}

proptest! {
    /// Whatever happens: a job ends only if its user was told of it in the same stretch, at least the promised time of running
    /// before, and no warning is repeated unless the program was killed in the middle of it.
    #[test]
    fn no_job_ends_that_was_not_promised_it(
        events in prop::collection::vec(event(), 1..80),
        warn_min in 1_u64..15,
        end_min in 1_u64..15,
    ) {
        let (warn_s, end_s) = (warn_min * 600, end_min * 600);
        let rules = rules(vec![rule(warn_min * 10, Some((IdleEnd::Cancel, end_min * 10)))]);
        let mut memory = IdleMemory::default();
        let (mut since, mut suspended_s) = (BEGIN, 0);
        // When the user was told in this stretch, and how long the job had been suspended then.
        let mut told: Option<(u64, u64)> = None;
        for (event, i) in events.into_iter().zip(1_u64..) {
            let now = BEGIN + i * 600;
            let mut one = job(7, Stretch::Since(since));
            match event {
                Event::Computes => {
                    (since, told) = (now, None);
                    one.stretch = Stretch::InUse;
                }
                Event::Silent => one.stretch = Stretch::Unknown,
                Event::Suspended => {
                    suspended_s += 600;
                    one.runs = false;
                }
                Event::NoRun => continue,
                Event::Idles | Event::Killed => {}
            }
            one.suspended_s = suspended_s;
            memory.forget(std::slice::from_ref(&one));
            for step in verdict(std::slice::from_ref(&one), &memory, &rules, now) {
                prop_assert!(matches!(event, Event::Idles | Event::Killed), "{event:?}");
                match step {
                    IdleStep::Warn { idle_s, end, .. } => {
                        prop_assert!(told.is_none(), "warned twice");
                        prop_assert!(idle_s >= warn_s && now - since >= warn_s);
                        memory.warn(&one, end, now);
                        if !matches!(event, Event::Killed) {
                            memory.told(7);
                            told = Some((now, suspended_s));
                        }
                    }
                    IdleStep::End { .. } => {
                        let Some((at, then_s)) = told else { panic!("not told") };
                        prop_assert!(now - at >= end_s + suspended_s - then_s, "too early");
                    }
                }
            }
        }
    }

    /// A job that is in use, silent, suspended or a part of another has no step, whatever else holds.
    #[test]
    fn some_jobs_have_no_step(runs: bool, in_het: bool, kind in 0..3, later in 0_u64..1_000_000, suspended_s in 0_u64..10_000) {
        let stretch = [Stretch::InUse, Stretch::Unknown, Stretch::Since(BEGIN)][usize::try_from(kind).unwrap()];
        let rules = rules(vec![rule(10, Some((IdleEnd::Cancel, 10)))]);
        let warned = job(7, Stretch::Since(BEGIN));
        let mut memory = IdleMemory::default();
        memory.warn(&warned, Some((IdleEnd::Cancel, 600)), BEGIN);
        memory.told(7);
        let one = HeldJob { runs, in_het, suspended_s, stretch, ..warned };
        for memory in [memory, IdleMemory::default()] {
            let steps = verdict(std::slice::from_ref(&one), &memory, &rules, BEGIN + later);
            prop_assert!(steps.is_empty() || runs && !in_het && kind == 2);
        }
    }
}
