//! A job that comes to the node again, or whose prolog and epilog overlap: nothing of it stays with its user.

use protocol::ShareOn;

use super::*;
use crate::{Fault, WaitingSlurmd};
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;
use node_journal::{Entry, Journal, Phase};

fn entry(node: &TestNode, job: u32) -> Option<Entry> {
    Journal::open(&node.settings.node.state_dir).unwrap().job(JobId(job)).unwrap()
}

#[test]
fn a_refused_start_takes_back_what_an_earlier_one_left() {
    on_node("tests::again::a_refused_start_takes_back_what_an_earlier_one_left", |node| {
        let had = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let again = JobContext { restart: 1, ..node.job(1, ALICE, whole(&[])) };
        let left = crate::refuse(&node.settings, &again, "the placement is malformed").unwrap();
        assert!(left.known && left.problems.is_empty());
        for cap in &had.device_nodes {
            assert_eq!(node.access(cap), (0, 0o400), "{cap}");
        }
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        let now = entry(node, 1).unwrap();
        assert_eq!((now.restart, now.phase), (1, Phase::Failed("the placement is malformed".to_owned())));
        node.release(1);
        assert_eq!(entry(node, 1), None);
    });
}

#[test]
fn a_second_attempt_that_fails_takes_back_what_the_first_gave() {
    on_node("tests::again::a_second_attempt_that_fails_takes_back_what_the_first_gave", |node| {
        let grant = mig(&[(0, "1g.5gb", 0)]);
        let had = node.realise(1, ALICE, grant.clone()).unwrap().entry;
        let mut broken = node.settings.clone();
        broken.node.nvml_library = node.dir.join("none.so");
        let failed = crate::realise(&broken, &node.job(1, ALICE, grant));
        assert!(matches!(failed, Err(RealiseError::NodeUnfit(_))));
        for cap in &had.device_nodes {
            assert_eq!(node.access(cap), (0, 0o400), "{cap}");
        }
        assert_eq!(node.access("nvidia0"), (0, 0o600));
    });
}

#[test]
fn a_requeued_job_waits_for_whoever_works_on_its_old_daemon() {
    on_node("tests::again::a_requeued_job_waits_for_whoever_works_on_its_old_daemon", |node| {
        let share = Grant::Mps { on: ShareOn::Gpu(GpuIndex(0)), mem_mib: 1000, threads: 25 };
        let had = node.realise(1, ALICE, share).unwrap().entry;
        let daemons: Vec<String> = had.daemons().into_iter().map(str::to_owned).collect();
        let deadline = Deadline::after(Duration::from_secs(5));
        let lock = Locks::for_job(&node.settings.node.state_dir, JobId(2), &[], &daemons, &deadline).unwrap();
        let mut hurried = node.settings.clone();
        hurried.node.operation_timeout_ms = 200;
        let again = JobContext { restart: 1, ..node.job(1, ALICE, whole(&[1])) };
        let error = crate::realise(&hurried, &again).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Lock(_))), "{error}");
        drop(lock);
        crate::realise(&node.settings, &again).unwrap();
        node.reconcile(&[1]);
        node.assert_clean(&[1]);
    });
}

#[test]
fn an_epilog_waits_for_a_prolog_that_has_written_nothing_yet() {
    on_node("tests::again::an_epilog_waits_for_a_prolog_that_has_written_nothing_yet", |node| {
        let had = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let journal = Journal::open(&node.settings.node.state_dir).unwrap();
        journal.remove(JobId(1)).unwrap();
        // As a prolog that has its locks and is about to write its entry.
        let deadline = Deadline::after(Duration::from_secs(5));
        let lock = Locks::for_job(&node.settings.node.state_dir, JobId(1), &[], &[], &deadline).unwrap();
        let epilog = std::thread::scope(|scope| {
            let epilog = scope.spawn(|| crate::release(&node.settings, JobId(1)).unwrap());
            std::thread::sleep(Duration::from_millis(300));
            journal.store(&had).unwrap();
            drop(lock);
            epilog.join().unwrap()
        });
        assert!(epilog.known && epilog.problems.is_empty(), "{epilog:?}");
        assert_eq!(entry(node, 1), None);
        assert_eq!(node.access("nvidia0"), (0, 0o600));
    });
}

#[test]
fn a_prolog_whose_slurmd_has_died_leaves_nothing() {
    on_node("tests::again::a_prolog_whose_slurmd_has_died_leaves_nothing", |node| {
        let share = Grant::Mps { on: ShareOn::Gpu(GpuIndex(1)), mem_mib: 1000, threads: 25 };
        let abandoned = |job, grant| JobContext {
            slurmd: Some(WaitingSlurmd::of_process(std::process::id())),
            ..node.job(job, ALICE, grant)
        };
        node.realise(9, BOB, mig(&[(0, "1g.5gb", 6)])).unwrap();
        node.reconcile(&[9]);
        for grant in [mig(&[(0, "2g.10gb", 0)]), share, whole(&[2]), mig(&[(0, "1g.5gb", 6)])] {
            let error = crate::realise(&node.settings, &abandoned(1, grant.clone())).unwrap_err();
            assert!(matches!(error, RealiseError::JobFailed(Fault::Abandoned)), "{grant:?}: {error}");
            assert_eq!(entry(node, 1), None, "{grant:?}");
            assert_eq!(node.daemons().len(), 0, "{grant:?}");
            node.assert_clean(&[9]);
        }
        crate::refuse(&node.settings, &abandoned(1, whole(&[])), "the placement is malformed").unwrap();
        assert_eq!(entry(node, 1), None);
    });
}

#[test]
fn what_a_prolog_found_made_is_not_its_own_to_give_back() {
    on_node("tests::again::what_a_prolog_found_made_is_not_its_own_to_give_back", |node| {
        node.reconcile(&[]);
        let grant = mig(&[(0, "1g.5gb", 0)]);
        let slurmd = Some(WaitingSlurmd::of_this_prolog());
        crate::realise(&node.settings, &JobContext { slurmd, ..node.job(1, ALICE, grant.clone()) }).unwrap();
        let slurmd = Some(WaitingSlurmd::of_process(std::process::id()));
        crate::realise(&node.settings, &JobContext { slurmd, ..node.job(1, ALICE, grant) }).unwrap();
        assert_eq!(entry(node, 1).unwrap().phase, Phase::Ready);
        node.assert_clean(&[1]);
    });
}

#[test]
fn a_job_that_was_started_again_is_not_given_back_for_dead() {
    on_node("tests::again::a_job_that_was_started_again_is_not_given_back_for_dead", |node| {
        let dead = node.realise(1, ALICE, whole(&[0])).unwrap().entry;
        let again = JobContext { restart: 1, ..node.job(1, ALICE, whole(&[1])) };
        let live = crate::realise(&node.settings, &again).unwrap().entry;
        assert!(!crate::release_dead(&node.settings, &dead).unwrap().known);
        assert_eq!(entry(node, 1), Some(live.clone()));
        assert_eq!(node.access("nvidia1"), (ALICE, 0o600));
        assert!(crate::release_dead(&node.settings, &live).unwrap().known);
        assert_eq!(entry(node, 1), None);
    });
}
