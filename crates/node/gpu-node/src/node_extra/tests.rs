use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::*;

/// A node, and stand-ins for Slurm's commands that keep its `extra` in a file.
struct Stand {
    dir: tempfile::TempDir,
    settings: Settings,
}

const SINFO: &str = "#!/bin/sh\ncat \"$0.extra\"\nsleep 0.02\n";
const SCONTROL: &str = "#!/bin/sh\nfor last; do :; done\nsleep 0.02\nprintf '%s\\n' \"${last#Extra=}\" > \"${0%/*}/sinfo.extra\"\n";

/// Writes a program. Another process does, since a child that another test starts meanwhile has this process's open files until its exec,
/// and a program that is open for writing cannot be run.
fn program(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    assert!(Command::new("sh").args(["-c", write]).arg(path).arg(text).status().unwrap().success());
}

impl Stand {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("sinfo", SINFO), ("scontrol", SCONTROL)] {
            program(&dir.path().join(name), text);
        }
        let text = format!(
            "[node]\nstate_dir = \"{0}/state\"\nrun_dir = \"{0}/run\"\n[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n",
            dir.path().display()
        );
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let settings = Settings::of(&config, "n1");
        let stand = Self { dir, settings };
        stand.shows("tessera gpu0-1=free");
        stand
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sinfo.extra")
    }

    fn shows(&self, extra: &str) {
        fs::write(self.file(), format!("{extra}\n")).unwrap();
    }

    fn extra(&self) -> String {
        fs::read_to_string(self.file()).unwrap().trim().to_owned()
    }

    fn slurm(&self) -> NodeInSlurm<'_> {
        let mut node = NodeInSlurm::new("n1", &self.settings.node.state_dir, None);
        node.env.push(("PATH", format!("{}:/usr/bin:/bin", self.dir.path().display())));
        node
    }

    fn unblock(&self) -> bool {
        unblock_gpu_jobs(&self.slurm(), &self.settings, "tessera gpu0-1=free").unwrap()
    }

    /// Makes the notes look as if they had been written a while ago.
    fn age(&self) {
        for note in unfit_notes(&self.settings) {
            let long_ago = SystemTime::now() - 2 * SAVED_AFTER;
            File::options().append(true).open(note).unwrap().set_modified(long_ago).unwrap();
        }
    }
}

#[test]
fn a_slurmctld_that_forgets_that_a_node_is_fit_is_told_again() {
    let stand = Stand::new();
    assert!(stand.slurm().block_gpu_jobs(&stand.settings, "GPU 1 is missing").unwrap());
    assert!(!stand.slurm().block_gpu_jobs(&stand.settings, "GPU 1 is missing").unwrap());
    let unfit = "tessera unfit: GPU 1 is missing";
    assert!(stand.extra() == unfit && blocks_gpu_jobs(&stand.settings));
    stand.age();
    for _ in 0..2 {
        assert!(stand.unblock());
        assert_eq!(stand.extra(), "tessera gpu0-1=free");
        assert!(!stand.unblock() && blocks_gpu_jobs(&stand.settings), "slurmctld may not have saved it");
        // It was killed before it had.
        stand.shows(unfit);
    }
    assert!(stand.unblock());
    stand.age();
    assert!(!stand.unblock() && !blocks_gpu_jobs(&stand.settings));
}

#[test]
fn what_one_process_says_of_a_node_is_not_written_over_by_another() {
    let stand = Stand::new();
    let said = Said { started: 5, file: 7 };
    for round in 0..8 {
        stand.slurm().block_gpu_jobs(&stand.settings, "GPU 1 is missing").unwrap();
        let word = format!("sick=1:{round}:xid_79");
        thread::scope(|scope| {
            scope.spawn(|| name_sick(&stand.slurm(), &word).unwrap());
            scope.spawn(|| say(&stand.slurm(), said).unwrap());
            scope.spawn(|| stand.unblock());
        });
        assert_eq!(stand.extra(), format!("tessera gpu0-1=free {word} {}", NodeWord::Says(said)));
        stand.shows("tessera gpu0-1=free");
    }
}

#[test]
fn a_directory_that_has_no_locks_keeps_no_node_from_saying_that_it_is_unfit() {
    let stand = Stand::new();
    fs::write(&stand.settings.node.state_dir, "a file").unwrap();
    assert!(stand.slurm().block_gpu_jobs(&stand.settings, "state_dir is a file").unwrap());
    assert_eq!(stand.extra(), "tessera unfit: state_dir is a file");
}

#[test]
fn one_task_of_an_array_is_requeued() {
    let stand = Stand::new();
    let program = |name: &str, text: &str| program(&stand.dir.path().join(name), text);
    program("scontrol", "#!/bin/sh\necho \"$*\" > \"${0%/*}/ran\"\n");
    let requeued = |shown: &str| {
        program("squeue", &format!("#!/bin/sh\nprintf '{shown}'\n"));
        requeue(&stand.slurm(), JobId(12)).unwrap();
        fs::read_to_string(stand.dir.path().join("ran")).unwrap().trim().to_owned()
    };
    let line = |job: u32, task: &str| format!("{job:<12}{:<12}{task:<12}\\n", 12);
    assert_eq!(requeued(&(line(13, "0") + &line(12, "2"))), "requeue 12_2");
    assert_eq!(requeued(&line(12, "N/A")), "requeue 12");
    assert_eq!(requeued(""), "requeue 12");
    // A waiting array.
    assert_eq!(requeued(&line(12, "3-5")), "requeue 12");
    assert_eq!(requeued("another table\\n"), "requeue 12");
}
