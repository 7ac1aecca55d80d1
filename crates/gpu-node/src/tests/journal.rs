//! A damaged journal, and directories that somebody else got hold of.

use std::os::unix::fs::{chown, symlink};

use super::*;
use crate::journal::Journal;
use crate::{Fault, reconcile};

#[test]
fn a_damaged_file_is_moved_aside_and_harms_no_other_job() {
    on_node("tests::journal::a_damaged_file_is_moved_aside_and_harms_no_other_job", |node| {
        let first = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let second = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap().entry;
        let jobs = node.settings.state_dir.join("jobs");
        let good = std::fs::read_to_string(jobs.join("1.json")).unwrap();
        let damaged = [
            String::new(),
            "{".into(),
            "\u{0}\u{0}\u{0}".into(),
            good[..good.len() / 2].into(),
            good.replace("\"version\": 1", "\"version\": 2"),
            good.replace("\"uid\": 51001", "\"uid\": -1"),
        ];
        for text in &damaged {
            std::fs::write(jobs.join("1.json"), text).unwrap();
            let seen = node.disagreements(&[1, 2]);
            assert!(seen.iter().any(|d| d.contains("damaged journal file")), "{seen:?}");
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
        let journal = Journal::open(&node.settings.state_dir).unwrap();
        assert_eq!(journal.bad_files().unwrap().len(), damaged.len());
    });
}

#[test]
fn remains_of_killed_writers_are_swept() {
    on_node("tests::journal::remains_of_killed_writers_are_swept", |node| {
        node.realise(1, ALICE, whole(&[2])).unwrap();
        let left = node.settings.state_dir.join("jobs/.1.json.4242");
        std::fs::write(&left, "{").unwrap();
        node.reconcile(&[1]);
        assert!(!left.exists());
        node.assert_clean(&[1]);
    });
}

#[test]
fn a_job_of_an_earlier_boot_is_dead() {
    on_node("tests::journal::a_job_of_an_earlier_boot_is_dead", |node| {
        let mut entry = node.realise(1, ALICE, whole(&[2])).unwrap().entry;
        entry.boot = "another".into();
        Journal::open(&node.settings.state_dir).unwrap().store(&entry).unwrap();
        assert_eq!(reconcile(&node.settings, None).unwrap().finished, [JobId(1)]);
        assert_eq!(node.access("nvidia2"), (0, 0o600));
        node.assert_clean(&[]);
    });
}

#[test]
fn directories_that_others_could_redirect_are_refused() {
    on_node("tests::journal::directories_that_others_could_redirect_are_refused", |node| {
        let theirs = node.dir.join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(ALICE), None).unwrap();
        let try_state = |path: &Path| {
            let mut settings = node.settings.clone();
            settings.state_dir = path.to_owned();
            crate::realise(&settings, &node.job(1, ALICE, whole(&[2]))).unwrap_err()
        };
        let error = try_state(&theirs);
        assert!(matches!(error, RealiseError::NodeUnfit(Fault::Dir(_))), "{error}");
        let link = node.dir.join("link");
        symlink(&theirs, &link).unwrap();
        let error = try_state(&link);
        assert!(matches!(error, RealiseError::NodeUnfit(Fault::Dir(_))), "{error}");
        let open = node.dir.join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let error = try_state(&open);
        assert!(error.to_string().contains("writable by nobody else"), "{error}");
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
    });
}

#[test]
fn a_planted_journal_file_is_not_followed() {
    on_node("tests::journal::a_planted_journal_file_is_not_followed", |node| {
        drop(Journal::open(&node.settings.state_dir).unwrap());
        let victim = node.dir.join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, node.settings.state_dir.join("jobs/1.json")).unwrap();
        node.realise(1, ALICE, whole(&[2])).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        node.release(1);
    });
}
