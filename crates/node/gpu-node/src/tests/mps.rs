//! Shares, with the real `nvidia-cuda-mps-control`.

use std::os::unix::fs::symlink;

use node_state::GpuState;
use protocol::ShareOn;

use super::*;
use crate::{Fault, task_environment};
use node_journal::Journal;

fn on_gpu(gpu: u16, mem_mib: u64, threads: u8) -> Grant {
    Grant::Mps { on: ShareOn::Gpu(GpuIndex(gpu)), mem_mib, threads }
}

fn inside(gpu: u16, profile: &str, start: u8) -> Grant {
    Grant::Mps { on: ShareOn::Instance(spec(gpu, profile, start)), mem_mib: 2048, threads: 50 }
}

/// Asks the daemon that a task would use, as the task would: its answer to a command.
fn ask(node: &TestNode, env: &[(String, String)], uid: u32, words: &str) -> String {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    let mut client = Command::new(&node.settings.node.mps_control);
    client.envs(env.iter().cloned()).uid(uid).gid(uid);
    client.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = client.spawn().unwrap();
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{words}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_daemon_lives_from_the_first_share_to_the_last() {
    on_node("tests::mps::the_daemon_lives_from_the_first_share_to_the_last", |node| {
        let first = node.realise(1, ALICE, on_gpu(1, 2862, 25)).unwrap().entry;
        let daemons = node.daemons();
        assert_eq!(daemons.len(), 1);
        assert_eq!(node_driver::process::owner(daemons[0]), Some(ALICE));
        assert_eq!(node.access("nvidia1"), (ALICE, 0o600));
        let env = task_environment(&first, 0, 1);
        assert_eq!(var(&env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=2862M");
        assert_eq!(var(&env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), first.gpus[0].uuid);
        let limits = || {
            let of = |words| ask(node, &env, ALICE, words).trim().to_owned();
            (of("get_default_active_thread_percentage\n"), of("get_default_device_pinned_mem_limit 0\n"))
        };
        let are = |threads: &str, mem: &str| assert_eq!(limits(), (threads.to_owned(), mem.to_owned()));
        are("25.0", "3G");
        let environ = std::fs::read_to_string(format!("/proc/{}/environ", daemons[0])).unwrap();
        assert!(environ.contains(&format!("CUDA_VISIBLE_DEVICES={}", first.gpus[0].uuid)));

        node.realise(2, ALICE, on_gpu(1, 1000, 25)).unwrap();
        assert_eq!(node.daemons(), daemons, "one daemon for both");
        are("25.0", "3G");
        node.realise(4, ALICE, on_gpu(1, 4096, 60)).unwrap();
        are("60.0", "4G");
        node.release(4);
        are("25.0", "3G");
        let GpuState::Mps(shares) = &node.inspect().node.gpus[1].state else { panic!("shared") };
        assert_eq!(shares.len(), 2);
        let error = node.realise(3, BOB, on_gpu(1, 1000, 25)).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Held { .. })), "{error}");
        node.release(1);
        assert_eq!(node.daemons(), daemons);
        assert_eq!(node.access("nvidia1"), (ALICE, 0o600));
        node.release(2);
        assert_eq!(node.daemons(), Vec::<u32>::new());
        assert_eq!(node.access("nvidia1"), (0, 0o600));
        node.release(3);
        node.realise(3, BOB, on_gpu(1, 1000, 25)).unwrap();
        node.release(3);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn an_instance_is_shared_by_its_own_daemon() {
    on_node("tests::mps::an_instance_is_shared_by_its_own_daemon", |node| {
        let first = node.realise(1, ALICE, inside(0, "3g.20gb", 0)).unwrap().entry;
        let second = node.realise(2, ALICE, inside(0, "3g.20gb", 0)).unwrap().entry;
        let beside = node.realise(3, BOB, inside(0, "3g.20gb", 4)).unwrap().entry;
        assert_eq!(node.daemons().len(), 2);
        assert_eq!(first.instances, second.instances);
        assert_eq!(node.access(&first.device_nodes[0]), (ALICE, 0o400));
        assert_eq!(node.access(&beside.device_nodes[1]), (BOB, 0o400));
        let env = task_environment(&second, 0, 4);
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), first.instances[0].live.clone().unwrap().uuid);
        let error = node.realise(4, ALICE, mig(&[(0, "3g.20gb", 0)])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Held { .. })), "alone and shared never mix");
        node.release(1);
        assert_eq!(node.access(&first.device_nodes[0]), (ALICE, 0o400), "job 2 still uses it");
        node.release(2);
        assert_eq!(node.access(&first.device_nodes[0]), (0, 0o400));
        assert_eq!(node.daemons().len(), 1);
        node.release(3);
        node.release(4);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

/// Gives a daemon's answer to a user who has none of a job's environment but the path.
fn try_ask(node: &TestNode, pipe: &Path, uid: u32, words: &str) -> Option<String> {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    let mut client = Command::new(&node.settings.node.mps_control);
    client.env("CUDA_MPS_PIPE_DIRECTORY", pipe).uid(uid).gid(uid);
    client.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = client.spawn().unwrap();
    // One that cannot reach the daemon may end before it has read this.
    let _ = child.stdin.take().unwrap().write_all(words.as_bytes());
    let output = child.wait_with_output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn users_share_a_daemon_where_the_site_says_so_and_nobody_else_reaches_it() {
    on_node("tests::mps::users_share_a_daemon_where_the_site_says_so_and_nobody_else_reaches_it", |node| {
        const MALLORY: u32 = 51003;
        let settings = Settings { share_between_users: true, ..node.settings.clone() };
        let entry = crate::realise(&settings, &node.job(1, ALICE, on_gpu(1, 1000, 50))).unwrap().entry;
        let pipe = entry.share.unwrap().pipe_dir;
        let get = |uid| try_ask(node, &pipe, uid, "get_default_active_thread_percentage\n").is_some();
        let may_lock = |uid: u32| {
            use std::os::unix::process::CommandExt;
            let mut shell = Command::new("sh");
            shell.args(["-c", ": >> \"$1\"/control_lock", "sh"]).arg(&pipe).uid(uid).gid(uid);
            shell.stderr(std::process::Stdio::null()).status().unwrap().success()
        };
        let reach = |uids: [u32; 3]| uids.map(|uid| (get(uid), may_lock(uid)));
        let users = [ALICE, BOB, MALLORY];
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(reach(users), [yes, no, no], "before the other's share");
        crate::realise(&settings, &node.job(2, BOB, on_gpu(1, 1000, 50))).unwrap();
        assert_eq!(node.access("nvidia1"), (0, 0o666));
        assert_eq!(node.daemons().len(), 1);
        assert_eq!(reach(users), [yes, yes, no]);
        crate::release(&settings, JobId(1)).unwrap();
        assert_eq!(reach(users), [no, yes, no], "the first has ended");
        let pid = node.daemons();
        // As a Tessera before this one left it.
        std::fs::set_permissions(pipe.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(reach(users), [yes, yes, yes]);
        let live = HashSet::from([JobId(2)]);
        crate::reconcile(&settings, crate::LiveJobs::Exactly(&live)).unwrap();
        assert_eq!((reach(users), node.daemons()), ([no, yes, no], pid));
        crate::release(&settings, JobId(2)).unwrap();
        assert_eq!(node.daemons().len(), 0);
    });
}

#[test]
fn a_dead_daemon_is_noticed_and_replaced() {
    on_node("tests::mps::a_dead_daemon_is_noticed_and_replaced", |node| {
        node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap();
        let before = node.daemons();
        kill(before[0]);
        while !node.daemons().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = node.disagreements(&[1]);
        assert!(seen.iter().any(|d| d.contains("its MPS daemon gpu1 does not run")), "{seen:?}");
        node.realise(2, ALICE, on_gpu(1, 1000, 50)).unwrap();
        let after = node.daemons();
        assert!(after.len() == 1 && after != before);
        node.release(1);
        node.release(2);
        assert_eq!(node.daemons().len(), 0);
    });
}

/// Anybody who may reach the socket can call more often than the daemon answers.
#[test]
fn a_daemon_that_too_many_call_is_not_ended() {
    on_node("tests::mps::a_daemon_that_too_many_call_is_not_ended", |node| {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
        node.reconcile(&[]);
        let entry = node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap().entry;
        let before = node.daemons();
        let pid = rustix::process::Pid::from_raw(i32::try_from(before[0]).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let address = SocketAddrUnix::new(entry.share.unwrap().pipe_dir.join("control")).unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let mut calls = Vec::new();
        loop {
            let call = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            if connect(&call, &address).is_err() {
                break;
            }
            calls.push(call);
        }
        node.realise(2, ALICE, on_gpu(1, 1000, 50)).unwrap();
        assert_eq!(node.daemons(), before);
        node.assert_clean(&[1, 2]);
        drop(calls);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        node.release(1);
        node.release(2);
        assert_eq!(node.daemons().len(), 0);
    });
}

/// A site may start NVIDIA's program by a script of its own, and update the program under a daemon.
#[test]
fn a_daemon_is_known_whatever_started_it_and_after_an_update() {
    on_node("tests::mps::a_daemon_is_known_whatever_started_it_and_after_an_update", |node| {
        node.reconcile(&[]);
        let script = node.dir.join("control.sh");
        let real = node.settings.node.mps_control.display();
        std::fs::write(&script, format!("#!/bin/sh\nexec {real} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let mut by_script = node.settings.clone();
        by_script.node.mps_control = script;
        crate::realise(&by_script, &node.job(1, ALICE, on_gpu(1, 1000, 50))).unwrap();
        assert_eq!(node.daemons().len(), 1);
        crate::release(&by_script, JobId(1)).unwrap();
        assert_eq!(node.daemons().len(), 0);
        node.realise(2, ALICE, on_gpu(1, 1000, 50)).unwrap();
        let before = node.daemons();
        let new = node.dir.join("new");
        assert!(
            Command::new("cp").arg(&node.settings.node.mps_control).arg(&new).status().unwrap().success()
        );
        std::fs::rename(&new, &node.settings.node.mps_control).unwrap();
        node.realise(3, ALICE, on_gpu(1, 1000, 50)).unwrap();
        assert_eq!(node.daemons(), before);
        node.assert_clean(&[2, 3]);
        node.release(2);
        // Its record is lost, and its socket.
        std::fs::write(node.settings.node.state_dir.join("daemons/gpu1.json"), "{").unwrap();
        std::fs::remove_file(node.settings.node.run_dir.join("mps/gpu1/pipe/control")).unwrap();
        node.release(3);
        node.reconcile(&[]);
        assert_eq!(node.daemons().len(), 0);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_daemon_that_another_job_uses_is_not_ended() {
    on_node("tests::mps::a_daemon_that_another_job_uses_is_not_ended", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap();
        let before = node.daemons();
        // The site has changed its mind about users while the job runs.
        let settings = Settings { share_between_users: true, ..node.settings.clone() };
        let error = crate::realise(&settings, &node.job(2, ALICE, on_gpu(1, 1000, 50))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "MPS daemon gpu1 serves job 1: it cannot be ended or changed before that job ends"
        );
        assert!(matches!(error, RealiseError::JobFailed(_)), "the node is fit");
        assert_eq!(node.daemons(), before);
        node.release(2);
        assert_eq!((node.daemons(), node.access("nvidia1")), (before, (ALICE, 0o600)));
        node.release(1);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_daemon_without_its_record_is_ended() {
    on_node("tests::mps::a_daemon_without_its_record_is_ended", |node| {
        node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap();
        let record = node.settings.node.state_dir.join("daemons/gpu1.json");
        // A stale process id: some other process has it now.
        let text = std::fs::read_to_string(&record).unwrap();
        let pid = node.daemons()[0].to_string();
        std::fs::write(&record, text.replace(&pid, &std::process::id().to_string())).unwrap();
        node.reconcile(&[]);
        assert_eq!(node.daemons().len(), 0);
        node.assert_clean(&[]);
        node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap();
        std::fs::write(&record, "{").unwrap();
        std::fs::remove_file(node.settings.node.run_dir.join("mps/gpu1/pipe/control")).unwrap();
        node.reconcile(&[]);
        assert_eq!(node.daemons().len(), 0);
        node.assert_clean(&[]);
    });
}

#[test]
fn what_a_user_plants_beside_a_daemon_is_not_followed() {
    on_node("tests::mps::what_a_user_plants_beside_a_daemon_is_not_followed", |node| {
        let entry = node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap().entry;
        let pipe = entry.share.clone().unwrap().pipe_dir;
        let victim = node.dir.join("precious");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), "x").unwrap();
        symlink(&victim, pipe.join("dir")).unwrap();
        std::fs::remove_file(pipe.join("control")).unwrap();
        symlink(victim.join("file"), pipe.join("control")).unwrap();
        node.release(1);
        assert_eq!(node.daemons().len(), 0);
        assert!(victim.join("file").exists() && !pipe.exists());
        // A run directory that leads elsewhere is refused.
        std::fs::remove_dir_all(&node.settings.node.run_dir).unwrap();
        symlink(&victim, &node.settings.node.run_dir).unwrap();
        let error = node.realise(2, ALICE, on_gpu(1, 1000, 50)).unwrap_err();
        assert!(matches!(error, RealiseError::NodeUnfit(_)), "{error}");
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
    });
}

#[test]
fn a_missing_control_program_drains_the_node() {
    on_node("tests::mps::a_missing_control_program_drains_the_node", |node| {
        let mut settings = node.settings.clone();
        settings.node.mps_control = "/nonexistent/nvidia-cuda-mps-control".into();
        let error = crate::realise(&settings, &node.job(1, ALICE, on_gpu(1, 1000, 50))).unwrap_err();
        assert!(matches!(error, RealiseError::NodeUnfit(Fault::Mps(_))), "{error}");
        settings.node.mps_control = "/bin/false".into();
        let error = crate::realise(&settings, &node.job(1, ALICE, on_gpu(1, 1000, 50))).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Mps(_))), "{error}");
        assert_eq!(node.access("nvidia1"), (0, 0o600));
        let journal = Journal::open(&settings.node.state_dir).unwrap();
        assert!(journal.daemons().unwrap().into_parts().0.is_empty());
    });
}

/// Files that a user can leave in a daemon's directories are no reason to drain a node, or to let a prolog run out of stack.
#[test]
fn a_tree_that_a_user_left_keeps_nobody_from_sharing() {
    on_node("tests::mps::a_tree_that_a_user_left_keeps_nobody_from_sharing", |node| {
        // As on a node, where /run is in memory.
        let run = tempfile::Builder::new().prefix("tn").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(run.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut settings = node.settings.clone();
        settings.node.run_dir = run.path().join("run");
        let node = TestNode { dir: node.dir.clone(), settings };
        let entry = node.realise(1, ALICE, on_gpu(1, 1000, 25)).unwrap().entry;
        let pipe = entry.share.unwrap().pipe_dir;
        let mode = rustix::fs::Mode::RWXU;
        let open = |dir: &std::os::fd::OwnedFd, name: &str| {
            rustix::fs::openat(dir, name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap()
        };
        let mut dir = rustix::fs::open(&pipe, rustix::fs::OFlags::PATH, mode).unwrap();
        for _ in 0..30_000 {
            rustix::fs::mkdirat(&dir, "deep", mode).unwrap();
            dir = open(&dir, "deep");
        }
        std::fs::write(pipe.join("file"), "x").unwrap();
        symlink("/etc", pipe.join("link")).unwrap();
        node.release(1);
        assert!(!pipe.exists() && Path::new("/etc/passwd").exists());
        node.realise(2, BOB, on_gpu(1, 1000, 25)).unwrap();
        node.release(2);
        // What was too much for an epilog is gone after some reconciliations.
        let left = || std::fs::read_dir(node.settings.node.run_dir.join("mps")).unwrap().count();
        for _ in 0..60 {
            let live = HashSet::new();
            if crate::reconcile(&node.settings, crate::LiveJobs::Exactly(&live)).unwrap().problems.is_empty()
            {
                break;
            }
        }
        assert_eq!(left(), 0);
        node.assert_clean(&[]);
    });
}

/// Prologs and epilogs wait while a reconciliation looks at what was left.
#[test]
fn much_that_cannot_be_removed_takes_no_longer_than_little() {
    on_node("tests::mps::much_that_cannot_be_removed_takes_no_longer_than_little", |node| {
        node.reconcile(&[]);
        let mps = node.settings.node.run_dir.join("mps");
        let dirs: Vec<PathBuf> = (0..60).map(|k| mps.join(format!(".away-gpu{k}-1-1"))).collect();
        let mount =
            |args: &[&str], dir: &Path| Command::new(args[0]).args(&args[1..]).arg(dir).status().unwrap();
        for dir in &dirs {
            std::fs::create_dir_all(dir.join("pipe")).unwrap();
            assert!(mount(&["mount", "-t", "tmpfs", "tessera-test"], &dir.join("pipe")).success());
        }
        let start = std::time::Instant::now();
        let report = node.reconcile(&[]);
        let took = start.elapsed();
        dirs.iter().for_each(|dir| assert!(mount(&["umount", "--lazy"], &dir.join("pipe")).success()));
        assert_eq!(report.problems.len(), dirs.len(), "{report:?}");
        // A second for all, not for each.
        assert!(took < Duration::from_secs(40), "{took:?}");
        assert_eq!(node.reconcile(&[]).problems, Vec::<String>::new());
        node.assert_clean(&[]);
    });
}

/// Tells whether `uid` may look into a process as a debugger does: the kernel asks the same for `/proc/PID/environ` and ptrace.
fn may_trace(pid: u32, uid: u32) -> bool {
    use std::os::unix::process::CommandExt;
    let mut cat = Command::new("cat");
    cat.arg(format!("/proc/{pid}/environ")).uid(uid).gid(uid);
    cat.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// Checks the statement of docs/isolation.md about a process that wants to live on inside the daemon.
#[test]
fn a_user_traces_only_a_daemon_whose_program_he_can_read() {
    on_node("tests::mps::a_user_traces_only_a_daemon_whose_program_he_can_read", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, on_gpu(1, 1000, 50)).unwrap();
        assert!(may_trace(node.daemons()[0], ALICE) && !may_trace(node.daemons()[0], BOB));
        node.release(1);
        let closed = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(&node.settings.node.mps_control, closed).unwrap();
        let entry = node.realise(2, ALICE, on_gpu(1, 1000, 50)).unwrap().entry;
        assert!(!may_trace(node.daemons()[0], ALICE));
        // It serves its user all the same.
        let pipe = entry.share.unwrap().pipe_dir;
        assert!(try_ask(node, &pipe, ALICE, "get_default_active_thread_percentage\n").is_some());
        node.release(2);
        assert_eq!(node.daemons().len(), 0);
        node.assert_clean(&[]);
    });
}
