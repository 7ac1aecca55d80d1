//! Users who use up what they share with root: room, processes, open files.

use std::os::unix::process::CommandExt;
use std::time::Instant;

use protocol::ShareOn;

use super::*;
use crate::Fault;

fn share(gpu: u16) -> Grant {
    Grant::Mps { on: ShareOn::Gpu(GpuIndex(gpu)), mem_mib: 1000, threads: 25 }
}

/// A user touches files in the pipe directory until there is no inode left.
#[test]
fn a_run_directory_that_a_user_filled_is_no_fault_of_the_node() {
    on_node("tests::crowded::a_run_directory_that_a_user_filled_is_no_fault_of_the_node", |node| {
        let run = &node.settings.run_dir;
        std::fs::create_dir_all(run).unwrap();
        let options = ["-t", "tmpfs", "-o", "nr_inodes=100,mode=0755", "tessera-test"];
        assert!(Command::new("mount").args(options).arg(run).status().unwrap().success());
        let pipe = node.realise(1, ALICE, share(1)).unwrap().entry.share.unwrap().pipe_dir;
        let full = (0..200).any(|k| std::fs::write(pipe.join(k.to_string()), "").is_err());
        let error = node.realise(2, BOB, share(2)).unwrap_err();
        // Whoever needs no room there is not concerned, and the user's own job gives everything back.
        node.realise(3, BOB, whole(&[0])).unwrap();
        node.release(3);
        node.release(2);
        node.release(1);
        let after = node.realise(4, BOB, share(2)).map(drop);
        node.release(4);
        assert!(Command::new("umount").arg("--lazy").arg(run).status().unwrap().success());
        assert!(full && matches!(error, RealiseError::JobFailed(Fault::Mps(_))), "{error:?}");
        let why = error_chain::with_causes(&error);
        assert!(why.contains("No space left on device"), "{why}");
        after.unwrap();
    });
}

/// A process with this many files open; killed when dropped.
struct Opener(std::process::Child);

impl Opener {
    fn start(uid: u32, job: &str, files: usize) -> Self {
        let script = format!("ulimit -n {}; exec perl -e '{OPEN}' {files}", files + 100);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("SLURM_JOB_ID", job).uid(uid).gid(uid);
        let mut child = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        let output = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self(child)
    }
}

const OPEN: &str =
    r#"$| = 1; for (1..$ARGV[0]) { open($f[$_], "<", "/dev/null") or die } print "ready\n"; sleep 600"#;

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All processes of the machine are looked at, so more files would keep other tests waiting.
#[test]
fn open_files_of_a_user_keep_no_prolog_for_long() {
    on_node("tests::crowded::open_files_of_a_user_keep_no_prolog_for_long", |node| {
        node.reconcile(&[]);
        let _openers: Vec<Opener> = (0..10).map(|_| Opener::start(BOB, "", 1000)).collect();
        let begin = Instant::now();
        node.realise(1, ALICE, whole(&[2])).unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        node.release(1);
        node.assert_clean(&[]);
    });
}
