//! Journal files that make no sense: whoever is live keeps what it has.

use super::*;
use crate::{LiveJobs, reconcile};
use node_journal::Journal;

#[test]
fn a_damaged_file_is_moved_aside_and_harms_no_other_job() {
    on_node("tests::damaged::a_damaged_file_is_moved_aside_and_harms_no_other_job", |node| {
        let first = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let second = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap().entry;
        let jobs = node.settings.node.state_dir.join("jobs");
        let good = std::fs::read_to_string(jobs.join("1.json")).unwrap();
        let damaged = [
            String::new(),
            "{".into(),
            "\u{0}\u{0}\u{0}".into(),
            good[..good.len() / 2].into(),
            good.replace("\"version\": 2", "\"version\": 0"),
            good.replace("\"version\": 2,", ""),
            good.replace("\"uid\": 51001", "\"uid\": -1"),
        ];
        for text in &damaged {
            std::fs::write(jobs.join("1.json"), text).unwrap();
            let seen = node.disagreements(&[1, 2]);
            assert!(seen.iter().any(|d| d.contains("damaged journal file")), "{seen:?}");
            assert_eq!(
                &std::fs::read_to_string(jobs.join("1.json")).unwrap(),
                text,
                "looking changes nothing"
            );
            assert_eq!(node.reconcile(&[1, 2]).damaged.len(), 1);
            assert!(!jobs.join("1.json").exists());
        }
        // Job 1 may still run: its nodes stay its own until it is gone.
        let report = node.reconcile(&[1, 2]);
        assert!(report.problems.iter().any(|p| p.contains("damaged")), "{report:?}");
        assert_eq!(node.access(&first.device_nodes[0]), (ALICE, 0o400));
        let report = node.reconcile(&[2]);
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(node.access(&first.device_nodes[0]), (0, 0o400));
        assert_eq!(node.access(&second.device_nodes[0]), (BOB, 0o400));
        node.assert_clean(&[2]);
        assert_eq!(node.bad_files(), damaged.len());
    });
}

#[test]
fn a_daemon_whose_jobs_file_is_damaged_serves_on() {
    on_node("tests::damaged::a_daemon_whose_jobs_file_is_damaged_serves_on", |node| {
        let on = protocol::ShareOn::Gpu(GpuIndex(0));
        node.realise(1, ALICE, Grant::Mps { on, mem_mib: 1000, threads: 25 }).unwrap();
        let daemons = node.daemons();
        assert_eq!(daemons.len(), 1);
        std::fs::write(node.settings.node.state_dir.join("jobs/1.json"), "{").unwrap();
        let slurms = HashSet::from([JobId(1)]);
        for live in
            [LiveJobs::Unknown, LiveJobs::Unknown, LiveJobs::AtLeast(&slurms), LiveJobs::Exactly(&slurms)]
        {
            let report = reconcile(&node.settings, live).unwrap();
            assert!(report.problems.iter().any(|p| p.contains("damaged")), "{report:?}");
            assert_eq!(node.daemons(), daemons, "{live:?}");
        }
        assert_eq!(node.reconcile(&[]).daemons, ["gpu0"]);
        assert_eq!(node.daemons().len(), 0);
    });
}

#[test]
fn a_live_job_whose_file_lies_in_bad_keeps_what_it_has() {
    on_node("tests::damaged::a_live_job_whose_file_lies_in_bad_keeps_what_it_has", |node| {
        let first = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        std::fs::write(node.settings.node.state_dir.join("jobs/1.json"), "{").unwrap();
        let nodes = [&first.device_nodes[0], "nvidia0"];
        let before = nodes.map(|name| node.access(name));
        // Slurm was asked before the second job began, and after it ended.
        let live = HashSet::from([JobId(1)]);
        reconcile(&node.settings, LiveJobs::AtLeast(&live)).unwrap();
        let second = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap().entry;
        let report = reconcile(&node.settings, LiveJobs::AtLeast(&live)).unwrap();
        assert!(report.problems.iter().any(|p| p.contains("damaged")), "{report:?}");
        assert_eq!(node.access(nodes[0]), before[0]);
        assert_eq!(node.access(&second.device_nodes[0]), (BOB, 0o400));
        node.release(2);
        // Job 1 is over: what it had is taken back, once.
        let report = reconcile(&node.settings, LiveJobs::AtLeast(&HashSet::new())).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(nodes.map(|name| node.access(name)), [(0, 0o400), (0, 0o600)]);
        let report = reconcile(&node.settings, LiveJobs::Unknown).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "the file is of a job that is over");
        node.assert_clean(&[]);
    });
}

/// XFS may leave a file empty that was written a moment before the power failed.
#[test]
fn a_file_that_a_power_failure_has_left_empty_keeps_nothing_open_after_the_boot() {
    on_node(
        "tests::damaged::a_file_that_a_power_failure_has_left_empty_keeps_nothing_open_after_the_boot",
        |node| {
            node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
            node.release(1);
            let file = node.settings.node.state_dir.join("jobs/9.json");
            let journal = Journal::open(&node.settings.node.state_dir).unwrap();
            let busy = || crate::hand_over(&node.settings).unwrap().busy;
            for live in [LiveJobs::Unknown, LiveJobs::AtLeast(&HashSet::new())] {
                // As the driver makes them at a boot.
                let gpu = node.settings.node.dev_root.join("nvidia1");
                std::fs::set_permissions(&gpu, PermissionsExt::from_mode(0o666)).unwrap();
                std::fs::write(&file, "").unwrap();
                assert_eq!(busy(), [JobId(9)], "it is of this boot");
                let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(86_400);
                std::fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
                let report = reconcile(&node.settings, live).unwrap();
                assert_eq!((report.damaged.len(), &*report.problems), (1, &[][..]), "{live:?}");
                assert_eq!(node.access("nvidia1"), (0, 0o600), "{live:?}");
                assert_eq!(journal.lost_files().unwrap(), []);
            }
            node.assert_clean(&[]);
        },
    );
}

#[test]
fn who_comes_and_goes_takes_no_access_from_a_job_whose_file_is_damaged() {
    on_node("tests::damaged::who_comes_and_goes_takes_no_access_from_a_job_whose_file_is_damaged", |node| {
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.realise(3, ALICE, whole(&[1])).unwrap();
        assert_eq!(node.access("nvidia0"), (ALICE, 0o600));
        let file = node.settings.node.state_dir.join("jobs/1.json");
        std::fs::write(&file, "{").unwrap();
        node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap();
        assert_eq!(node.access("nvidia0"), (0, 0o666), "both users' instances are on it");
        node.release(2);
        assert_eq!(node.access("nvidia0"), (0, 0o666));
        node.release(3);
        assert_eq!(node.access("nvidia1"), (0, 0o600), "a whole GPU was one job's alone");
        // The same where a reconciliation has moved the file aside.
        node.reconcile(&[1]);
        assert!(!file.exists());
        node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap();
        node.release(2);
        assert_eq!(node.access("nvidia0"), (0, 0o666));
        node.reconcile(&[]);
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        node.assert_clean(&[]);
    });
}

#[test]
fn a_job_started_again_is_over_when_it_is_released() {
    on_node("tests::damaged::a_job_started_again_is_over_when_it_is_released", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        std::fs::write(node.settings.node.state_dir.join("jobs/1.json"), "{").unwrap();
        // Its own prolog, again.
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        let journal = Journal::open(&node.settings.node.state_dir).unwrap();
        assert_eq!(journal.lost_files().unwrap().len(), 1);
        node.assert_clean(&[1]);
        node.release(1);
        assert_eq!(journal.lost_files().unwrap(), []);
        assert_eq!(node.bad_files(), 1, "it stays for whoever wants to look");
        node.assert_clean(&[]);
    });
}

#[test]
fn a_copy_of_a_journal_file_keeps_nothing_for_a_job_that_has_ended() {
    on_node("tests::damaged::a_copy_of_a_journal_file_keeps_nothing_for_a_job_that_has_ended", |node| {
        let first = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let second = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap().entry;
        let jobs = node.settings.node.state_dir.join("jobs");
        let copies = ["1.json.bak", "9.json", "1 copy.json"];
        let copy = || copies.map(|name| std::fs::copy(jobs.join("1.json"), jobs.join(name)).unwrap());
        copy();
        // Made while the job runs, they take nothing from it.
        let report = node.reconcile(&[1, 2]);
        assert_eq!((report.damaged.len(), report.problems), (copies.len(), Vec::new()));
        assert_eq!(node.access(&first.device_nodes[0]), (ALICE, 0o400));
        copy();
        node.release(1);
        assert_eq!(node.reconcile(&[2]).problems, Vec::<String>::new());
        assert_eq!(node.access(&first.device_nodes[0]), (0, 0o400));
        assert_eq!(node.access(&second.device_nodes[0]), (BOB, 0o400));
        assert!(copies.iter().all(|name| !jobs.join(name).exists()));
        node.assert_clean(&[2]);
    });
}

#[test]
fn a_node_is_not_handed_over_while_a_live_jobs_file_may_be_damaged() {
    on_node("tests::damaged::a_node_is_not_handed_over_while_a_live_jobs_file_may_be_damaged", |node| {
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        std::fs::write(node.settings.node.state_dir.join("jobs/1.json"), "").unwrap();
        let instances = || node.inspect().gpus[0].instances.len();
        let busy = || crate::hand_over(&node.settings).unwrap().busy;
        assert_eq!((busy(), instances()), (vec![JobId(1)], 1));
        // A reconciliation has moved the file aside.
        node.reconcile(&[1]);
        assert_eq!((busy(), instances()), (vec![JobId(1)], 1));
        node.reconcile(&[]);
        assert_eq!((busy(), instances()), (vec![], 0));
    });
}
