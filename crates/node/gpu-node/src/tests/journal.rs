//! The journal across kills, boots, upgrades and full disks, and directories that somebody else got hold of.

use std::os::unix::fs::{chown, symlink};

use error_chain::Chain;

use super::*;
use crate::{Fault, LiveJobs, reconcile};
use node_journal::Journal;

#[test]
fn remains_of_killed_writers_are_swept() {
    on_node("tests::journal::remains_of_killed_writers_are_swept", |node| {
        node.realise(1, ALICE, whole(&[2])).unwrap();
        let left = node.settings.node.state_dir.join("jobs/.1.json.4242");
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
        Journal::open(&node.settings.node.state_dir).unwrap().store(&entry).unwrap();
        assert_eq!(reconcile(&node.settings, LiveJobs::Unknown).unwrap().finished, [JobId(1)]);
        assert_eq!(node.access("nvidia2"), (0, 0o600));
        node.assert_clean(&[]);
    });
}

#[test]
fn a_dead_job_that_cannot_be_finished_keeps_no_other_from_it() {
    on_node("tests::journal::a_dead_job_that_cannot_be_finished_keeps_no_other_from_it", |node| {
        node.realise(1, ALICE, whole(&[2])).unwrap();
        node.realise(2, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        let file = node.settings.node.state_dir.join("jobs/1.json");
        let none = HashSet::new();
        // A mount point can neither be removed nor replaced.
        let held = Mounted::over(&file, &["--bind", file.to_str().unwrap()]);
        let report = reconcile(&node.settings, LiveJobs::Exactly(&none)).unwrap();
        assert_eq!(report.finished, [JobId(2)]);
        assert!(report.problems.iter().any(|why| why.contains("jobs/1.json")), "{report:?}");
        assert_eq!(node.access("nvidia2"), (0, 0o600), "a dead job's GPU is not given to its user again");
        drop(held);
        assert_eq!(reconcile(&node.settings, LiveJobs::Exactly(&none)).unwrap().finished, [JobId(1)]);
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
            settings.node.state_dir = path.to_owned();
            assert!(crate::journal_problem(&settings).is_some());
            crate::realise(&settings, &node.job(1, ALICE, whole(&[2]))).unwrap_err()
        };
        let error = try_state(&theirs);
        assert!(matches!(error, RealiseError::JobFailed(Fault::State(_))), "{error}");
        let link = node.dir.join("link");
        symlink(&theirs, &link).unwrap();
        let error = try_state(&link);
        assert!(matches!(error, RealiseError::JobFailed(Fault::State(_))), "{error}");
        let open = node.dir.join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let error = try_state(&open);
        assert!(Chain(&error).to_string().contains("no other user may write"), "{error}");
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
    });
}

#[test]
fn a_planted_journal_file_is_not_followed() {
    on_node("tests::journal::a_planted_journal_file_is_not_followed", |node| {
        drop(Journal::open(&node.settings.node.state_dir).unwrap());
        let victim = node.dir.join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, node.settings.node.state_dir.join("jobs/1.json")).unwrap();
        node.realise(1, ALICE, whole(&[2])).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        node.release(1);
    });
}

/// A mount in a path's place, for as long as this value lives.
struct Mounted<'p>(&'p Path);

impl<'p> Mounted<'p> {
    /// A small file system in memory.
    fn small(dir: &'p Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap();
        Self::over(dir, &["-t", "tmpfs", "-o", "size=64k,mode=700", "tessera-test"])
    }

    /// No process has memory at address 0: the file opens, and reading it is an input/output error.
    fn unreadable(file: &'p Path) -> Self {
        Self::over(file, &["--bind", &format!("/proc/{}/mem", std::process::id())])
    }

    fn over(path: &'p Path, args: &[&str]) -> Self {
        assert!(Command::new("mount").args(args).arg(path).status().unwrap().success());
        Self(path)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_drains_no_node_and_loses_nothing() {
    on_node("tests::journal::a_full_disk_drains_no_node_and_loses_nothing", |node| {
        let _small = Mounted::small(&node.settings.node.state_dir);
        let first = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let rubbish = node.settings.node.state_dir.join("rubbish");
        // Until the last page is taken.
        let mut file = std::fs::File::create(&rubbish).unwrap();
        while std::io::Write::write(&mut file, &[1; 512]).is_ok() {}
        let error = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::State(_))), "{error}");
        assert!(crate::begin_batch(&node.settings, JobId(1)).is_err());
        let problem = crate::journal_problem(&node.settings).unwrap();
        assert!(problem.contains("cannot write to it") && problem.contains("os error 28"), "{problem}");
        let names = |sub: &str| {
            let dir = std::fs::read_dir(node.settings.node.state_dir.join(sub)).unwrap();
            dir.map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((names("jobs"), names("bad").len()), (vec!["1.json".to_owned()], 0));
        assert_eq!(node.access(&first.device_nodes[0]), (ALICE, 0o400));
        assert_eq!(node.inspect().gpus[0].instances.len(), 1, "nothing was made for the other job");
        // Nothing has to be written to give back.
        node.release(1);
        assert_eq!(node.access(&first.device_nodes[0]), (0, 0o400));
        drop(file);
        std::fs::remove_file(&rubbish).unwrap();
        assert_eq!(crate::journal_problem(&node.settings), None);
        node.realise(3, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap();
        node.reconcile(&[3]);
        node.assert_clean(&[3]);
    });
}

#[test]
fn a_file_that_cannot_be_read_stays_and_is_read_again() {
    on_node("tests::journal::a_file_that_cannot_be_read_stays_and_is_read_again", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let file = node.settings.node.state_dir.join("jobs/1.json");
        let journal = Journal::open(&node.settings.node.state_dir).unwrap();
        let unreadable = Mounted::unreadable(&file);
        let error = journal.jobs().unwrap_err();
        assert_eq!(error.to_string(), format!("{}: cannot read it", file.display()));
        assert_eq!(node.bad_files(), 0);
        // What it says of the GPU is not known: neither given away nor taken back, though no job is live.
        let error = node.realise(2, BOB, whole(&[0])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::State(_))), "{error}");
        let error = reconcile(&node.settings, LiveJobs::Exactly(&HashSet::new())).unwrap_err();
        assert!(matches!(error, Fault::State(_)), "{error}");
        assert_eq!(node.access(&entry.device_nodes[0]), (ALICE, 0o400));
        drop(unreadable);
        assert_eq!(journal.job(JobId(1)).unwrap(), Some(entry));
        node.release(2);
        node.reconcile(&[1]);
        node.assert_clean(&[1]);
    });
}

/// A job's file as an earlier format had it.
fn in_format_1(text: &str) -> String {
    let lines = text.replace("\"version\": 2", "\"version\": 1");
    let lines: Vec<&str> = lines.lines().filter(|l| !l.contains("\"number\"")).collect();
    // The line before was not the last of its GPU.
    lines.join("\n").replace("\",\n    }", "\"\n    }")
}

#[test]
fn an_upgrade_keeps_the_jobs_that_run() {
    on_node("tests::journal::an_upgrade_keeps_the_jobs_that_run", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let share = Grant::Mps { on: protocol::ShareOn::Gpu(GpuIndex(1)), mem_mib: 1000, threads: 25 };
        node.realise(2, BOB, share.clone()).unwrap();
        node.reconcile(&[1, 2]);
        let before = node.daemons();
        for file in ["jobs/1.json", "jobs/2.json", "daemons/gpu1.json"] {
            let file = node.settings.node.state_dir.join(file);
            let old = in_format_1(&std::fs::read_to_string(&file).unwrap());
            std::fs::write(&file, old).unwrap();
        }
        assert!(node.reconcile(&[1, 2]).is_clean());
        node.assert_clean(&[1, 2]);
        assert_eq!(
            Journal::open(&node.settings.node.state_dir).unwrap().job(JobId(1)).unwrap(),
            Some(entry.clone())
        );
        node.realise(3, BOB, share).unwrap();
        assert_eq!(node.daemons(), before, "the daemon of before serves the next job, too");
        [1, 2, 3].into_iter().for_each(|job| node.release(job));
        assert_eq!(node.access(&entry.device_nodes[0]), (0, 0o400));
        node.assert_clean(&[]);
    });
}

#[test]
fn what_a_newer_tessera_wrote_is_left_alone() {
    on_node("tests::journal::what_a_newer_tessera_wrote_is_left_alone", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let file = node.settings.node.state_dir.join("jobs/1.json");
        let ours = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, r#"{ "version": 3, "holds": "something" }"#).unwrap();
        let said = |fault: Fault| {
            let want = format!("{}: is of format 3, this Tessera reads 1 to 2: ", file.display());
            assert!(fault.to_string().starts_with(&want), "{fault}");
        };
        // Whether the job is live or not: nobody here knows what it holds.
        said(reconcile(&node.settings, LiveJobs::Exactly(&HashSet::new())).unwrap_err());
        said(crate::inspect(&node.settings, None).unwrap_err());
        said(crate::release(&node.settings, JobId(1)).unwrap_err());
        said(crate::begin_batch(&node.settings, JobId(1)).unwrap_err());
        let Err(RealiseError::JobFailed(fault)) = node.realise(2, BOB, whole(&[0])) else {
            panic!("realised")
        };
        said(fault);
        assert_eq!(node.access(&entry.device_nodes[0]), (ALICE, 0o400));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), r#"{ "version": 3, "holds": "something" }"#);
        assert_eq!(node.bad_files(), 0);
        std::fs::write(&file, ours).unwrap();
        node.release(2);
        node.reconcile(&[1]);
        node.assert_clean(&[1]);
    });
}
