use proptest::prelude::*;
use site_config::HealthRule;

use site_config::HealthAction;

use super::*;
use crate::known_gpu::MOST_FINDINGS;

/// A GPU, and the errors that the log has of it.
type At = (Seen, Vec<u16>);

fn gpu(number: u16, reading: Option<Reading>, xids: &[u16]) -> At {
    let seen = Seen {
        uuid: format!("GPU-{number}"),
        bus_id: format!("0000:0{number}:00"),
        number: Some(GpuIndex(number)),
        reading,
    };
    (seen, xids.to_vec())
}

/// Looks at GPUs whose errors are new in the log.
fn look(record: &mut HealthRecord, gpus: &[At], boot: &str, now: u64, rules: &Rules<'_>) -> Vec<Change> {
    let mut sequence = if record.boot == boot { record.next_record } else { 0 };
    let mut log = Vec::new();
    for (seen, xids) in gpus {
        for xid in xids {
            log.push(KernelXid { sequence, at: bus_id(&seen.bus_id).unwrap(), xid: *xid });
            sequence += 1;
        }
    }
    let seen: Vec<Seen> = gpus.iter().map(|(seen, _)| seen.clone()).collect();
    record.look(&Look { gpus: &seen, log: &log, boot, now }, rules)
}

const WELL: Option<Reading> = Some(Reading {
    ecc: 0,
    remap_pending: false,
    remap_failed: false,
    hot: false,
    nvlink: 0,
    recovery: false,
});

fn out(record: &HealthRecord, rules: &Rules<'_>) -> Vec<(u16, u64, String)> {
    record.left_out(rules).into_iter().map(|sick| (sick.gpu.0, sick.since, sick.why)).collect()
}

fn reading(change: impl Fn(&mut Reading)) -> Option<Reading> {
    let mut reading = WELL.unwrap();
    change(&mut reading);
    Some(reading)
}

#[test]
fn an_error_leaves_its_gpu_out_until_the_node_boots() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let changes = look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[79, 43])], "a", 100, &rules);
    assert_eq!(
        changes,
        [
            Change::New("GPU-1".to_owned(), HealthEvent::Xid(79), HealthAction::Requeue),
            Change::New("GPU-1".to_owned(), HealthEvent::Xid(43), HealthAction::Ignore),
        ]
    );
    assert!(record.gpus[1].findings[0].requeue && !record.gpus[1].findings[1].requeue);
    assert_eq!(out(&record, &rules), [(1, 100, "xid 79".to_owned())]);
    look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[])], "a", 9000, &rules);
    assert_eq!(out(&record, &rules), [(1, 100, "xid 79".to_owned())]);
    assert_eq!(record.gpus[1].findings.len(), 1, "what is only noted is over");
    let changes = look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[])], "b", 9100, &rules);
    assert_eq!(changes, [Change::Over("GPU-1".to_owned(), HealthEvent::Xid(79))]);
    assert_eq!((out(&record, &rules), record.next_record), (vec![], 0));
}

#[test]
fn heat_ends_by_itself_after_a_while_of_calm() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let hot = reading(|r| r.hot = true);
    look(&mut record, &[gpu(0, hot, &[])], "a", 100, &rules);
    look(&mut record, &[gpu(0, hot, &[])], "a", 200, &rules);
    look(&mut record, &[gpu(0, WELL, &[])], "a", 230, &rules);
    assert_eq!(out(&record, &rules), [(0, 100, "hot".to_owned())]);
    assert_eq!(
        look(&mut record, &[gpu(0, WELL, &[])], "a", 260, &rules),
        [Change::Over("GPU-0".to_owned(), HealthEvent::Hot)]
    );
    assert_eq!(out(&record, &rules), []);
}

#[test]
fn counters_count_by_their_growth() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let errors = |n| reading(|r| r.ecc = n);
    look(&mut record, &[gpu(0, errors(2), &[])], "a", 100, &rules);
    assert_eq!(out(&record, &rules), [(0, 100, "ecc".to_owned())]);
    record.accept(|gpu| gpu.uuid == "GPU-0");
    look(&mut record, &[gpu(0, errors(2), &[])], "a", 200, &rules);
    assert_eq!(out(&record, &rules), [], "accepted, and no new ones");
    look(&mut record, &[gpu(0, errors(0), &[])], "a", 300, &rules);
    look(&mut record, &[gpu(0, errors(1), &[])], "a", 400, &rules);
    assert_eq!(out(&record, &rules), [(0, 400, "ecc".to_owned())]);
}

#[test]
fn what_still_holds_comes_back_after_it_was_accepted() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let failed = reading(|r| r.remap_failed = true);
    look(&mut record, &[gpu(0, failed, &[]), gpu(1, None, &[])], "a", 100, &rules);
    assert_eq!(out(&record, &rules), [(0, 100, "remap-failed".to_owned()), (1, 100, "lost".to_owned())]);
    record.accept(|_| true);
    look(&mut record, &[gpu(0, failed, &[]), gpu(1, WELL, &[])], "a", 200, &rules);
    assert_eq!(out(&record, &rules), [(0, 200, "remap-failed".to_owned())]);
    look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[])], "b", 300, &rules);
    assert_eq!(out(&record, &rules), [(0, 200, "remap-failed".to_owned())], "no boot mends that");
}

#[test]
fn a_finding_follows_its_gpu_and_not_its_number() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[]), gpu(2, WELL, &[])], "a", 100, &rules);
    record.tell("GPU-2", "x", 100, &rules);
    // GPU 1 is gone after a boot: the next one has its number.
    let moved = (Seen { number: Some(GpuIndex(1)), ..gpu(2, WELL, &[]).0 }, vec![]);
    look(&mut record, &[gpu(0, WELL, &[]), moved], "b", 200, &rules);
    assert_eq!(out(&record, &rules), [(1, 100, "x".to_owned())]);
    // The GPU itself is replaced: its successor is healthy, and the finding waits for it.
    let other = (Seen { uuid: "GPU-new".to_owned(), ..gpu(1, WELL, &[]).0 }, vec![]);
    look(&mut record, &[gpu(0, WELL, &[]), other], "c", 300, &rules);
    assert_eq!(out(&record, &rules), []);
    assert_eq!(record.gpus.iter().filter(|gpu| !gpu.findings.is_empty()).count(), 1);
}

#[test]
fn an_administrator_says_and_takes_back() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    look(&mut record, &[gpu(0, WELL, &[])], "a", 100, &rules);
    assert_eq!(record.tell("GPU-9", "x", 100, &rules), None);
    let new = Change::New("GPU-0".to_owned(), HealthEvent::Told, HealthAction::LeaveOut);
    assert_eq!(record.tell("GPU-0", "dcgm diag failed", 110, &rules), Some(new));
    assert_eq!(record.tell("GPU-0", "dcgm diag failed again", 120, &rules), None);
    assert_eq!(out(&record, &rules), [(0, 110, "dcgm diag failed again".to_owned())]);
    look(&mut record, &[gpu(0, WELL, &[])], "b", 9000, &rules);
    assert_eq!(out(&record, &rules).len(), 1);
    look(&mut record, &[gpu(0, WELL, &[79])], "b", 9100, &rules);
    assert_eq!(record.untell("GPU-9"), []);
    assert_eq!(record.untell("GPU-0"), [Change::Over("GPU-0".to_owned(), HealthEvent::Told)]);
    assert_eq!(out(&record, &rules), [(0, 9100, "xid 79".to_owned())], "what was seen stays");
    assert_eq!(record.accept(|_| true), [Change::Over("GPU-0".to_owned(), HealthEvent::Xid(79))]);
    assert_eq!(out(&record, &rules), []);
    record.tell("GPU-0", &"x".repeat(100_000), 9200, &rules);
    assert_eq!(record.gpus[0].findings[0].why.len(), 200);
}

#[test]
fn a_gpu_is_named_by_its_number_or_uuid_in_this_boot() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let left = (Seen { number: None, ..gpu(1, WELL, &[]).0 }, vec![]);
    look(&mut record, &[gpu(0, WELL, &[]), left], "a", 100, &rules);
    assert_eq!((record.named("0", "a"), record.named("GPU-0", "a")), (Some("GPU-0"), Some("GPU-0")));
    for (gpu, boot) in [("0", "b"), ("1", "a"), ("GPU-1", "a"), ("-1", "a"), ("", "a"), ("x", "a")] {
        assert_eq!(record.named(gpu, boot), None, "{gpu} {boot}");
    }
}

#[test]
fn a_reset_that_the_driver_asked_for_brings_the_gpu_back() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let asks = reading(|r| r.recovery = true);
    look(&mut record, &[gpu(0, asks, &[95]), gpu(1, WELL, &[95])], "a", 100, &rules);
    record.tell("GPU-0", "x", 100, &rules);
    look(&mut record, &[gpu(0, asks, &[]), gpu(1, WELL, &[])], "a", 150, &rules);
    assert_eq!(out(&record, &rules).len(), 2);
    let changes = look(&mut record, &[gpu(0, WELL, &[]), gpu(1, WELL, &[])], "a", 160, &rules);
    let over = |event| Change::Over("GPU-0".to_owned(), event);
    assert_eq!(changes, [over(HealthEvent::Recovery), over(HealthEvent::Xid(95))]);
    let left = [(0, 100, "x".to_owned()), (1, 100, "xid 95".to_owned())];
    assert_eq!(
        out(&record, &rules),
        left,
        "an administrator's word stays, and so does a GPU whose driver is silent"
    );
}

#[test]
fn errors_in_the_log_count_once() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let xid = |sequence| KernelXid { sequence, at: (0, 0, 0), xid: 79 };
    let log = [xid(7), xid(9)];
    let seen = [gpu(0, WELL, &[]).0];
    for boot in ["a", "a", "b", "b"] {
        record.look(&Look { gpus: &seen, log: &log, boot, now: 100 }, &rules);
        assert_eq!((record.gpus[0].findings[0].count, record.next_record), (2, 10), "{boot}");
    }
}

#[test]
fn a_storm_is_counted_and_takes_no_room() {
    let (mut record, rules) = (HealthRecord::default(), Rules::default());
    let storm: Vec<u16> = (0..10_000).map(|i| [95, 31, 1, 2, 3][i % 5]).collect();
    look(&mut record, &[gpu(0, WELL, &storm)], "a", 100, &rules);
    assert_eq!(record.gpus[0].findings.iter().map(|f| f.count).collect::<Vec<_>>(), [2000; 5]);
    // As many different ones.
    let all: Vec<u16> = (1..10_000).collect();
    look(&mut record, &[gpu(0, WELL, &all)], "a", 101, &rules);
    assert_eq!(record.gpus[0].findings.len(), MOST_FINDINGS);
    assert!(record.gpus[0].against(&rules).any(|f| f.event == "xid 95"));
    assert!(serde_json::to_string(&record).unwrap().len() < 4000);
}

#[test]
fn a_sites_rule_counts_for_what_was_found_before_it() {
    let mut record = HealthRecord::default();
    look(&mut record, &[gpu(0, WELL, &[48])], "a", 100, &Rules::default());
    let action = Some(HealthAction::Ignore);
    let site = [HealthRule { event: HealthEvent::Xid(48), action, returns: None, advice: None }];
    assert_eq!(out(&record, &Rules::new(&site)), []);
    assert_eq!(out(&record, &Rules::default()).len(), 1);
}

#[test]
fn slurmctld_is_asked_again_whatever_it_was_told() {
    let mut record = HealthRecord::default();
    assert!(record.is_due(sick::NONE, 100), "an earlier record may be lost");
    record.told = Some((sick::NONE.to_owned(), 100));
    assert!(!record.is_due(sick::NONE, 159));
    for at in [160, 99] {
        assert!(record.is_due(sick::NONE, at), "{at}");
    }
    let word = "sick=0:5:xid_79";
    assert!(record.is_due(word, 101));
    record.told = Some((word.to_owned(), 101));
    assert!(record.is_due(word, 101), "a GPU that is left out must stay so");
}

proptest! {
    #[test]
    fn a_record_survives_its_file(xids in proptest::collection::vec(1_u16..200, 0..40), now: u32, why in "[ -~]{0,60}") {
        let (mut record, rules) = (HealthRecord::default(), Rules::default());
        look(&mut record, &[gpu(0, None, &xids), gpu(1, WELL, &xids)], "a", now.into(), &rules);
        record.tell("GPU-1", &why, now.into(), &rules);
        let text = serde_json::to_string(&record).unwrap();
        let read: HealthRecord = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &record);
        // What is lost, or told, is out whatever else there is.
        prop_assert_eq!(read.left_out(&rules).len(), 2);
    }
}
