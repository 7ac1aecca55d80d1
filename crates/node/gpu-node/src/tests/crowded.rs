//! Users who use up what they share with root: room, processes, open files.

use std::os::unix::process::CommandExt;
use std::time::Instant;

use protocol::ShareOn;

use super::*;
use crate::Fault;

fn share(gpu: u16) -> Grant {
    Grant::Mps { on: ShareOn::Gpu(GpuIndex(gpu)), mem_mib: 1000, threads: 25 }
}

/// Makes `run_dir` a file system with so many inodes.
fn small_run(node: &TestNode, inodes: u32) {
    let run = &node.settings.node.run_dir;
    std::fs::create_dir_all(run).unwrap();
    let options = format!("nr_inodes={inodes},mode=0755");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tessera-test"]).arg(run).status();
    assert!(mount.unwrap().success());
}

/// A user touches files in a directory until there is no inode left.
fn fill(dir: &Path, prefix: &str) {
    let full = (0..2000).any(|k| std::fs::write(dir.join(format!("{prefix}{k}")), "").is_err());
    assert!(full, "{}", dir.display());
}

/// Root has kept the room for one start. The next one that finds nothing is its job's fault, and names who has filled the
/// directory.
#[test]
fn a_run_directory_that_a_user_filled_is_no_fault_of_the_node() {
    on_node("tests::crowded::a_run_directory_that_a_user_filled_is_no_fault_of_the_node", |node| {
        let run = &node.settings.node.run_dir;
        small_run(node, 200);
        let pipe = node.realise(1, ALICE, share(1)).unwrap().entry.share.unwrap().pipe_dir;
        let kept = std::fs::read_dir(run.join("reserve")).unwrap().count();
        fill(&pipe, "a");
        let second = node.realise(2, BOB, share(2)).map(|made| made.notes);
        node.release(2);
        fill(&pipe, "b");
        let error = node.realise(3, BOB, share(2)).unwrap_err();
        // Whoever needs no room there is not concerned, and the user's own job gives everything back.
        node.realise(4, BOB, whole(&[0])).unwrap();
        [4, 3, 1].into_iter().for_each(|job| node.release(job));
        // An ended daemon's files that there was no time to remove.
        let left = run.join("mps/.away-gpu1-1-1/pipe");
        std::fs::create_dir_all(&left).unwrap();
        fill(&left, "c");
        let after = node.realise(5, BOB, share(2)).map(drop);
        let again = std::fs::read_dir(run.join("reserve")).map_or(0, Iterator::count);
        let left = left.exists();
        node.release(5);
        assert!(Command::new("umount").arg("--lazy").arg(run).status().unwrap().success());
        assert_eq!((kept, again, left), (49, 49, false), "a quarter, but for the directory");
        let note = second.unwrap().join("; ");
        assert!(note.contains(&format!("the most is used by uid {ALICE}")), "{note}");
        assert!(matches!(error, RealiseError::JobFailed(Fault::Mps(_))), "{error:?}");
        let why = error_chain::with_causes(&error);
        assert!(
            why.contains(&format!(
                "finds no free space in {}: the most is used by uid {ALICE}",
                run.display()
            )),
            "{why}"
        );
        after.unwrap();
    });
}

/// While this process cannot open files, that the driver's library cannot be loaded says nothing about the node.
#[test]
fn a_driver_that_finds_no_file_handle_is_no_fault_of_the_node() {
    on_node("tests::crowded::a_driver_that_finds_no_file_handle_is_no_fault_of_the_node", |node| {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
        let scarce = node_driver::nvml::Nvml::load(&node.settings.node.nvml_library).map(drop);
        setrlimit(Resource::Nofile, before).unwrap();
        let fault = Fault::from(scarce.unwrap_err());
        assert!(!fault.drains_node() && fault.users_can_cause(), "{fault}");
        assert!(fault.to_string().contains("Too many open files"), "{fault}");
        let missing = node_driver::nvml::Nvml::load(&node.dir.join("none.so")).map(drop).unwrap_err();
        assert!(missing.drains_node(), "{missing}");
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
