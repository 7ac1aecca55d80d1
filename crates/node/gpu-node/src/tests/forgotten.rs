//! What is left of jobs that slurmctld, once killed, does not know any more.

use std::time::SystemTime;

use super::*;
use crate::Fault;
use node_journal::Journal;

#[test]
fn a_holder_that_is_about_to_end_is_waited_for() {
    on_node("tests::forgotten::a_holder_that_is_about_to_end_is_waited_for", |node| {
        node.realise(1, ALICE, whole(&[0])).unwrap();
        let live = || Some(HashSet::from([JobId(1)]));
        let mut job = node.job(2, BOB, whole(&[0]));
        let mut start =
            |ms| crate::realise_waiting(&node.settings, &mut job, &live, Duration::from_millis(ms));
        let refused = start(300).unwrap_err();
        assert!(
            matches!(refused, RealiseError::JobFailed(Fault::Held { holder: JobId(1), .. })),
            "{refused}"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                node.release(1);
            });
            let done = start(60_000).unwrap();
            assert_eq!(done.evicted, [], "it was given back, not taken");
        });
        assert_eq!(node.inspect().entries.len(), 1);
    });
}

#[test]
fn a_batch_script_begins_once_after_each_prolog() {
    on_node("tests::forgotten::a_batch_script_begins_once_after_each_prolog", |node| {
        let journal = Journal::open(&node.settings.node.state_dir).unwrap();
        let begun = || journal.job(JobId(1)).unwrap().map(|entry| entry.begun);
        let begin = || crate::begin_batch(&node.settings, JobId(1)).unwrap();
        begin();
        assert_eq!(begun(), None, "nothing is known of it");
        node.realise(1, ALICE, whole(&[0])).unwrap();
        assert_eq!(begun(), Some(false));
        begin();
        assert_eq!(begun(), Some(true));
        node.realise(1, ALICE, whole(&[0])).unwrap();
        assert_eq!(begun(), Some(false), "a prolog has run");
    });
}

#[test]
fn a_job_without_a_step_is_asked_for_once_in_a_while() {
    on_node("tests::forgotten::a_job_without_a_step_is_asked_for_once_in_a_while", |node| {
        node.realise(1, ALICE, whole(&[0])).unwrap();
        let minute = Duration::from_secs(60);
        let ask = |own: u32, live: &[u32]| {
            let live = live.iter().map(|j| JobId(*j)).collect();
            crate::seems_forgotten(&node.settings, JobId(own), &live, minute)
        };
        assert!(!ask(2, &[]), "its first step may be on its way");
        let file = std::fs::File::open(node.settings.node.state_dir.join("jobs/1.json")).unwrap();
        file.set_modified(SystemTime::now() - 2 * minute).unwrap();
        assert!(!ask(1, &[]), "it is the one that asks");
        assert!(!ask(2, &[1]), "it has a step");
        assert!(ask(2, &[]));
        assert!(!ask(2, &[]), "that was just asked");
    });
}
