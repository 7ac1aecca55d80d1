//! The daemon, with the simulated NVML: what only processes, sockets and files show.

#![allow(clippy::unwrap_used, reason = "tests")]

mod crowd;
mod gpus;
mod node;
mod security;
mod stuck_processes;

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use node::{Client, GIB, Node, Waiter, kill, kill_and_wait, states, wait};
use task_control::status::TaskState;
use task_wire::{Begin, Code, Reply, Request, Text};

#[test]
fn a_job_comes_holds_and_goes() {
    let mut node = Node::started();
    node.add(12, 0);
    node.add(12, 0);
    let client = node.client(12);
    assert!(client.begin(1, 3 * GIB));
    client.granted(1);
    assert!(client.begin(2, 40 * GIB));
    let Some(Reply::Refused(refused)) = client.reply() else { panic!() };
    assert_eq!((refused.code, refused.need), (Code::TooLarge, 40 * GIB));
    let status = node.status();
    assert_eq!(states(&status), [(TaskState::Running, 3072)]);
    assert_eq!(status.jobs[0].tasks[0].pid, std::process::id());
    assert_eq!((status.devices[0].leased_mib, status.devices[0].overhead_mib), (3072, 512));
    assert!(status.devices[0].mem_mib > 23_000, "what NVML shows free");
    assert!(
        matches!(node.broker().stop(), Err(task_control::ControlError::Refused(why)) if why.contains("a job shares"))
    );
    assert_eq!(node.broker().end(12).unwrap().jobs, 0);
    assert!(client.reply().is_none(), "hung up");
    assert!(Client::connect(&task_control::socket(&node.run_dir(), 12)).is_none());
    node.broker().stop().unwrap();
    assert!(node.parent.take().unwrap().wait().unwrap().success());
    let left: Vec<_> =
        std::fs::read_dir(node.run_dir().join("tasks")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["lock"]);
    let events = node.events();
    for part in
        [r#""ev":"begin""#, r#""ev":"grant""#, r#""ev":"refuse""#, r#""ev":"free""#, &node.uuid, r#""pid":"#]
    {
        assert!(events.contains(part), "{part} in {events}");
    }
}

#[test]
fn no_lease_is_lost_or_doubled_when_the_broker_is_killed() {
    for what in ["child", "parent", "both"] {
        let mut node = Node::started();
        node.add(12, 0);
        let holder = node.client(12);
        assert!(holder.begin(1, 10 * GIB) && holder.begin(2, 2 * GIB));
        let task = holder.granted(1);
        holder.granted(2);
        // A process of its own waits for more than is left.
        let waiter = Waiter::start(&node, 20 * GIB);
        wait("a waiting task", || {
            states(&node.status()).contains(&(TaskState::Waiting, 20 << 10)).then_some(())
        });
        let before = node.status();
        if what != "child" {
            kill(before.parent);
            let _ = node.parent.take().unwrap().wait();
        }
        if what != "parent" {
            kill_and_wait(before.child);
        }
        if what == "both" {
            assert!(node.broker().status().is_err(), "{what}");
            node.start();
        }
        let after = node.status();
        assert_eq!(before.devices, after.devices, "{what}");
        assert_eq!(states(&before), states(&after), "{what}");
        // The same begin again is the same grant.
        let again = if what == "parent" { holder } else { node.client(12) };
        assert!(again.begin(1, 10 * GIB));
        assert_eq!(again.granted(1), task, "{what}");
        assert!(again.free(1) && again.free(2));
        assert_eq!(again.reply(), Some(Reply::Freed { nonce: 1 }));
        assert_eq!(again.reply(), Some(Reply::Freed { nonce: 2 }));
        waiter.granted();
    }
}

/// Does nothing unless another test starts it: begins a task, comes back after each hang-up, and ends once it is granted.
#[test]
fn waits_in_another_process() {
    let Ok(socket) = std::env::var("TEST_SOCKET") else { return };
    let mem = std::env::var("TEST_MEM").unwrap().parse().unwrap();
    wait("a grant", || {
        let client = Client::connect(Path::new(&socket))?;
        client.begin(77, mem);
        client.reply().filter(|reply| matches!(reply, Reply::Granted(_)))
    });
    if std::env::var("TEST_HOLD").is_ok() {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_process_is_quarantined_while_nvml_shows_memory() {
    let node = Node::started();
    node.add(12, 0);
    let mut holder = Waiter::holding(&node, 20 * GIB);
    let client = node.client(12);
    assert!(client.begin(1, 10 * GIB));
    // A stranger's memory stays where it is; nothing is promised on it.
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    node.uses(stranger.id(), 15 << 10);
    holder.kill();
    wait("an end", || {
        node.status().devices.first().filter(|d| d.leased_mib == 0 && d.quarantined_mib == 0).map(|_| ())
    });
    wait("a charge", || (node.status().devices[0].overhead_mib >= 15 << 10).then_some(()));
    assert!(client.is_silent(), "9 GiB are not there for it");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    client.granted(1);
}

#[test]
fn noise_is_answered_or_hung_up_and_changes_nothing() {
    let node = Node::started();
    node.add(12, 0);
    let holder = node.client(12);
    assert!(holder.begin(1, GIB));
    holder.granted(1);
    let before = node.status();
    let mut other = Request::Hello { image: 1 }.encode();
    other[4] = 2;
    let long = [7; 5000];
    for noise in [&b"GET / HTTP/1.1"[..], &other, &[0; 128], &long, &other[..5]] {
        let client = node.client(12);
        assert!(client.send(noise));
        let Some(Reply::Refused(refused)) = client.reply() else { panic!("{noise:?}") };
        assert_eq!(refused.code, Code::Unreadable);
        assert!(client.reply().is_none(), "hung up");
    }
    for (blocks, threads, code) in
        [(0, 32, Code::BadLaunch), (1, 1025, Code::BadLaunch), (1, 0, Code::BadLaunch)]
    {
        let bound = Text::EMPTY;
        let begin = Begin {
            image: 1,
            nonce: 9,
            mem: 1,
            managed: 0,
            blocks,
            threads,
            whole: false,
            sticky: false,
            bound,
        };
        assert!(holder.send(&Request::Begin(begin).encode()));
        assert!(matches!(holder.reply(), Some(Reply::Refused(r)) if r.code == code && r.nonce == 9));
    }
    assert!(holder.begin(9, 1 << 63));
    assert!(matches!(holder.reply(), Some(Reply::Refused(r)) if r.code == Code::TooLarge));
    assert!(holder.free(8));
    assert!(matches!(holder.reply(), Some(Reply::Refused(r)) if r.code == Code::Unknown));
    // More connections than a process may have: the rest is hung up, and those that are there go on.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let raised = rustix::process::Rlimit { current: most, maximum: most };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let crowd: Vec<Client> = (0..10_000).map(|_| node.client(12)).collect();
    let hung_up = crowd
        .iter()
        .filter(|client| !client.send(&Request::Hello { image: 1 }.encode()) || client.reply().is_none())
        .count();
    // Two things may be held by this process already: the first connection, and one that is about to be hung up.
    assert!((9_936..=9_942).contains(&hung_up), "{hung_up}");
    drop(crowd);
    assert_eq!(before.devices, node.status().devices);
    assert!(holder.free(1));
    assert_eq!(holder.reply(), Some(Reply::Freed { nonce: 1 }));
}

#[test]
fn it_is_idle_small_and_quick_to_recover() {
    let mut node = Node::started();
    node.add(12, 0);
    let client = node.client(12);
    for nonce in 0..1000 {
        assert!(client.begin(nonce, 2 << 20));
        client.granted(nonce);
    }
    let child = node.status().child;
    let before = node.status().devices;
    kill_and_wait(child);
    let after = node.status();
    assert_eq!((after.devices[0].leased_mib, before[0].leased_mib), (2000, 2000));
    let rss = std::fs::read_to_string(format!("/proc/{}/status", after.child)).unwrap();
    let rss = rss.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let rss_kib: u64 = rss.split(' ').next().unwrap().parse().unwrap();
    assert!(rss_kib < 16 << 10, "{rss}");
    node.broker().end(12).unwrap();
    node.broker().stop().unwrap();
    assert!(node.parent.take().unwrap().wait().unwrap().success());
}

#[test]
fn started_twice_in_the_background_it_serves_once() {
    let node = Node::new();
    for _ in 0..2 {
        let started = node.command().arg("--daemon").output().unwrap();
        assert!(started.status.success(), "{started:?}");
    }
    let status = node.status();
    assert_ne!(status.parent, status.child);
    node.broker().stop().unwrap();
    wait("an end", || node.broker().status().is_err().then_some(()));
    // A folder that others can write to is not used.
    std::fs::set_permissions(
        node.run_dir().join("tasks"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let refused = node.command().arg("--daemon").output().unwrap();
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("must be a directory")
    );
}

#[test]
fn a_broker_that_cannot_serve_is_tried_by_one_parent_however_many_start_it() {
    let node = Node::new();
    let leases = node.run_dir().join("tasks/leases");
    std::fs::create_dir_all(&leases).unwrap();
    let start = |_| node.command().arg("--daemon").stderr(Stdio::null()).spawn().unwrap();
    for mut started in (0..3).map(start).collect::<Vec<_>>() {
        assert!(!started.wait().unwrap().success());
    }
    let run_dir = node.run_dir().display().to_string();
    let is_parent = |words: &str| words.contains("\0parent\0") && words.contains(&run_dir);
    let parents = || -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|dir| dir.path().join("cmdline"));
        all.filter_map(|path| std::fs::read_to_string(path).ok()).filter(|words| is_parent(words)).collect()
    };
    assert_eq!(parents().len(), 1, "{:?}", parents());
    // One with other arguments makes way: it would never serve with those of now.
    let mut started = node.command().args(["--policy", "alg2", "--daemon"]).spawn().unwrap();
    wait("the other parent", || matches!(&parents()[..], [one] if one.contains("alg2")).then_some(()));
    // A third one kills that parent while the second still waits.
    let mut third = node.command().args(["--policy", "alg3", "--daemon"]).spawn().unwrap();
    wait("the third parent", || matches!(&parents()[..], [one] if one.contains("alg3")).then_some(()));
    // It serves as soon as it can, for both.
    std::fs::remove_dir(leases).unwrap();
    assert_eq!(wait("a broker", || node.broker().status().ok()).policy, "alg3");
    assert!(third.wait().unwrap().success() && started.wait().unwrap().success());
    // One that serves goes on, whatever the arguments of the next start are.
    let before = node.status();
    assert!(node.command().arg("--daemon").status().unwrap().success());
    assert_eq!((node.status().parent, node.status().policy), (before.parent, before.policy));
    node.broker().stop().unwrap();
    assert!(node.command().arg("--daemon").status().unwrap().success(), "the parent's lock went with it");
    node.broker().stop().unwrap();
}

#[test]
fn a_log_that_cannot_be_opened_keeps_no_broker_from_serving() {
    let node = Node::new();
    let started = node.command().args(["--log", "/no/such/directory/log", "--daemon"]).output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let messages = std::fs::read_to_string(node.run_dir().join("tasks/broker.log")).unwrap();
    let why = "the event log cannot be opened, and gets no decisions: No such file or directory";
    assert!(messages.contains(why), "{messages}");
    node.broker().stop().unwrap();
}

/// Does nothing unless another test starts it: threads that begin and free tasks through the C interface.
#[test]
fn uses_the_library() {
    if std::env::var("TEST_LIBRARY").is_err() {
        return;
    }
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..50 {
                    let task = tessera_task::ffi::tessera_task_begin(GIB, 128, 8);
                    assert!(task > 0, "{task}");
                    tessera_task::ffi::tessera_task_select(task);
                    tessera_task::ffi::tessera_task_free(task);
                    tessera_task::ffi::tessera_task_free(task);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(std::env::var("CUDA_MPS_PIPE_DIRECTORY").as_deref().map(|p| p.ends_with("/pipe")), Ok(true));
    assert!(std::env::var("CUDA_VISIBLE_DEVICES").unwrap().starts_with("GPU-"));
    assert!(tessera_task::ffi::tessera_task_begin(1 << 63, 128, 8) < 0);
    assert!(tessera_task::ffi::tessera_task_begin(1, 1025, 8) < 0);
}

#[test]
fn threads_of_a_program_share_the_library_while_the_broker_is_killed() {
    let node = Node::started();
    node.add(12, 0);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "uses_the_library"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TESSERA_TASK_SOCKET", task_control::socket(&node.run_dir(), 12)).env("TEST_LIBRARY", "1");
    let mut program = command.spawn().unwrap();
    kill_and_wait(node.status().child);
    assert!(program.wait().unwrap().success());
    let over = || node.status().devices.first().filter(|d| d.leased_mib == 0 && d.workers == 0).map(|_| ());
    wait("an end", over);
    node.assert_sound();
}

/// A device whose MPS daemon ended grants nothing until its clients are gone; who waits there is told, others go on.
#[test]
fn a_device_without_its_mps_daemon_grants_nothing_until_its_clients_are_gone() {
    let mut node = Node::started();
    node.add(12, 0);
    let mut holder = Waiter::holding(&node, GIB);
    node.kill_mps();
    let held = |node: &Node| node.status().devices.first().and_then(|d| d.held.clone());
    assert!(wait("the device to be held", || held(&node)).contains("MPS daemon or server ended"));
    let client = node.client(12);
    assert!(client.begin(1, GIB));
    std::thread::sleep(Duration::from_millis(50));
    assert!(client.is_silent());
    // A new daemon alone is not enough.
    node.start_mps();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(held(&node).is_some() && client.is_silent());
    holder.kill();
    client.granted(1);
    // Its next end, under a process that holds and would wait: it is told, instead of waiting for itself.
    node.kill_mps();
    wait("the device to be held", || held(&node));
    assert!(client.begin(2, GIB));
    assert!(matches!(client.reply(), Some(Reply::Refused(r)) if r.code == Code::DeviceLost));
    node.assert_sound();
}

/// A process that NVML shows without a lease is charged, named for the job's log and, where the site wants that, ended.
#[test]
fn who_uses_what_nobody_promised_is_named_and_ended() {
    let mut node = Node::new();
    node.start_with(&["--overuse", "end"]);
    node.add(12, 1001);
    node.add(13, 1002);
    let client = {
        node.add(14, 0);
        node.client(14)
    };
    assert!(client.begin(1, GIB));
    client.granted(1);
    let mut stranger = Command::new("sleep");
    let mut stranger =
        std::os::unix::process::CommandExt::uid(&mut stranger, 1001).arg("600").spawn().unwrap();
    node.uses(stranger.id(), 3 << 10);
    assert_eq!(signal_of(&mut stranger), Some(9));
    let notes = |job: u32| {
        std::fs::read_to_string(node.run_dir().join(format!("tasks/{job}.notes"))).unwrap_or_default()
    };
    let pid = stranger.id();
    let named = notes(12);
    assert!(
        named.contains(&format!("process {pid} uses 3072 MiB of {} that it was not promised", node.uuid))
    );
    // Written once the process is killed.
    let ended = format!("process {pid} was ended");
    wait("its end to be named", || notes(12).contains(&ended).then_some(()));
    assert!(notes(13).is_empty() && notes(14).is_empty(), "other users' jobs are not told");
    assert!(client.free(1));
    assert_eq!(client.reply(), Some(Reply::Freed { nonce: 1 }));
    node.broker().end(12).unwrap();
    assert!(notes(12).is_empty());
}

/// A program may give itself any name, that of an MPS server too.
#[test]
fn who_calls_himself_an_mps_server_is_ended_all_the_same() {
    let mut node = Node::new();
    node.start_with(&["--overuse", "end"]);
    node.add(12, 1001);
    let client = {
        node.add(14, 0);
        node.client(14)
    };
    assert!(client.begin(1, GIB));
    client.granted(1);
    let mut stranger = Command::new("sh");
    stranger.args(["-c", "echo nvidia-cuda-mps > /proc/$$/comm && echo named && read line"]);
    stranger.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut stranger = std::os::unix::process::CommandExt::uid(&mut stranger, 1001).spawn().unwrap();
    let mut said = [0; 5];
    stranger.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", stranger.id())).unwrap();
    assert_eq!((&said, name.as_str()), (b"named", "nvidia-cuda-mps\n"));
    node.uses(stranger.id(), 3 << 10);
    let ended = format!("process {} was ended", stranger.id());
    let notes = || std::fs::read_to_string(node.run_dir().join("tasks/12.notes")).unwrap_or_default();
    wait("its end to be named", || notes().contains(&ended).then_some(()));
    assert_eq!(signal_of(&mut stranger), Some(9));
}

/// The signal that ends a child.
fn signal_of(child: &mut Child) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap())
}

/// The broker follows each of its policies across its own death.
#[test]
fn every_policy_is_served_and_its_log_is_sound() {
    for policy in task_broker::core::POLICIES {
        let mut node = Node::new();
        node.start_with(&["--policy", policy]);
        node.add(12, 0);
        assert_eq!(node.status().policy, policy);
        let client = node.client(12);
        for nonce in 1..=4 {
            assert!(client.begin(nonce, 2 * GIB));
            client.granted(nonce);
        }
        kill_and_wait(node.status().child);
        let client = node.client(12);
        assert_eq!(states(&node.status()).len(), 4, "{policy}");
        assert!(client.begin(5, 30 * GIB));
        assert!(matches!(client.reply(), Some(Reply::Refused(_))));
        for nonce in 1..=4 {
            assert!(client.free(nonce));
            assert_eq!(client.reply(), Some(Reply::Freed { nonce }), "{policy}");
        }
        node.assert_sound();
    }
}
