//! Processes that stop, hide in namespaces or get another's number, and GPUs that are lost.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use task_control::status::TaskState;
use task_wire::{Code, Reply};

use crate::node::{Client, GIB, Node, Waiter, is_in_namespace, kill_and_wait, states, wait, with_number};

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// A process that cannot be ended, as one that waits for a dead file server: it holds what it has, keeps nobody from the rest,
/// and its job's epilog goes on.
#[test]
fn an_epilog_is_not_kept_by_a_process_that_is_stuck() {
    let node = Node::started();
    node.add(12, 0);
    node.add(13, 0);
    let mut stuck = Waiter::holding(&node, 20 * GIB);
    node.uses(stuck.0.id(), 20 << 10);
    signal(stuck.0.id(), Signal::STOP);
    let client = node.client(13);
    assert!(client.begin(1, GIB));
    client.granted(1);
    assert!(client.begin(2, 22 * GIB));
    assert!(matches!(client.reply(), Some(Reply::Refused(r)) if r.code == Code::Growth));
    assert!(client.free(1));
    assert_eq!(client.reply(), Some(Reply::Freed { nonce: 1 }));
    let ended = node.broker().end(12).unwrap();
    assert_eq!((ended.left, ended.jobs), (1, 1), "its memory stays its own");
    assert!(Client::connect(&node.at("12.sock")).is_none());
    let device = || node.status().devices[0].clone();
    assert_eq!((device().leased_mib, device().quarantined_mib), (0, 20 << 10));
    assert!(client.begin(3, GIB) && client.begin(4, 10 * GIB));
    client.granted(3);
    // The next end says the same, whoever asks again.
    assert_eq!(node.broker().end(12).unwrap().left, 1);
    stuck.kill();
    wait("an end", || (device().quarantined_mib == 0).then_some(()));
    client.granted(4);
}

/// Stopped anywhere between connect and free, a process keeps what it has and nobody waits for it.
#[test]
fn a_process_that_is_stopped_at_any_time_delays_nobody_else() {
    let node = Node::started();
    node.add(12, 0);
    node.add(13, 0);
    let client = node.client(13);
    for round in 0..40_u64 {
        let mut other = Waiter(Waiter::command(&node, GIB).spawn().unwrap());
        std::thread::sleep(Duration::from_micros(round * 400));
        signal(other.0.id(), Signal::STOP);
        assert!(client.begin(round, GIB));
        client.granted(round);
        assert!(client.free(round));
        assert_eq!(client.reply(), Some(Reply::Freed { nonce: round }));
        // Half of them end there, half go on.
        if round % 2 == 0 {
            other.kill();
        } else {
            signal(other.0.id(), Signal::CONT);
            other.granted();
        }
    }
    let is_over =
        || node.status().devices.first().is_some_and(|d| d.leased_mib == 0 && d.quarantined_mib == 0);
    wait("everybody's end", || is_over().then_some(()));
    node.assert_sound();
}

/// A container has its own process numbers and sees the socket alone, bound to another place.
#[test]
fn a_process_in_a_container_needs_one_bind_mount_and_is_known_by_the_nodes_number() {
    let node = Node::started();
    node.add(12, 0);
    let place = node.dir.path().join("inside");
    std::fs::write(&place, "").unwrap();
    let binds = "mount --bind \"$1\" \"$2\"; mount -t tmpfs none \"$3\"; exec \"$4\" --exact waits_in_another_process";
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", binds, "sh"]);
    inside.arg(node.at("12.sock")).arg(&place).arg(node.run_dir()).arg(std::env::current_exe().unwrap());
    inside
        .env("TEST_SOCKET", &place)
        .env("TEST_MEM", GIB.to_string())
        .env("TEST_HOLD", "1")
        .stdout(Stdio::null());
    let mut inside = Waiter(inside.spawn().unwrap());
    let task = wait("a grant", || node.status().jobs[0].tasks.first().cloned());
    // It is number 1 of its own.
    let status = std::fs::read_to_string(format!("/proc/{}/status", task.pid)).unwrap();
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap().trim();
    assert_eq!(inner.split_whitespace().collect::<Vec<_>>(), [&task.pid.to_string(), "1"]);
    // What NVML shows of it, by the node's number, is what it was promised.
    node.uses(task.pid, 1024);
    std::thread::sleep(Duration::from_millis(1200));
    assert!(node.status().devices[0].overhead_mib <= 512, "{:?}", node.status());
    kill_and_wait(task.pid);
    wait("an end", || (node.status().devices[0].leased_mib == 0).then_some(()));
    inside.kill();
}

/// While the broker is away, a holder ends and another process gets its number. Numbers repeat in a namespace of the test's
/// own, where the kernel can be told which comes next.
#[test]
fn a_process_with_the_number_of_one_that_ended_has_nothing_of_its() {
    const NAME: &str = "stuck_processes::a_process_with_the_number_of_one_that_ended_has_nothing_of_its";
    if !is_in_namespace(NAME) {
        return;
    }
    let mut node = Node::started();
    node.add(12, 0);
    let mut holder = Waiter::holding(&node, 20 * GIB);
    let (pid, before) = (holder.0.id(), node.status());
    node.parent.take().unwrap().kill().unwrap();
    kill_and_wait(before.child);
    holder.kill();
    // The kernel counts starts in hundredths of a second: the heir's must be another.
    std::thread::sleep(Duration::from_millis(30));
    let mut heir = with_number(pid, || Command::new("sleep").arg("600").spawn().unwrap());
    node.start();
    wait("the lease to end", || (states(&node.status()).is_empty()).then_some(()));
    assert_eq!(node.status().devices[0].leased_mib, 0);
    // The heir is not taken for it either when NVML shows it.
    node.uses(pid, 1024);
    wait("a charge", || (node.status().devices[0].overhead_mib >= 1024).then_some(()));
    heir.kill().unwrap();
    heir.wait().unwrap();
}

/// Of a job's two GPUs, the one that the driver has lost grants nothing, and the other goes on.
#[test]
fn a_lost_gpu_grants_nothing_and_the_others_go_on() {
    let mut node = Node::of(2);
    node.start();
    node.add_on(12, 0, &[0, 1]);
    let lost = || node.status().devices.iter().filter(|d| d.held.is_some()).count();
    assert_eq!(lost(), 0);
    let holder = Waiter::holding(&node, 10 * GIB);
    node.sim(&["fault", "add", "--gpu", "0", "--kind", "gpu-lost"]);
    wait("the loss to be seen", || (lost() == 1).then_some(()));
    let held = node.status().devices.iter().find_map(|d| d.held.clone()).unwrap();
    assert!(held.contains("lost"), "{held}");
    // 20 GiB and 2 would fit on two devices; the lost one is left out.
    let client = node.client(12);
    assert!(client.begin(1, 20 * GIB));
    client.granted(1);
    let others = Waiter(Waiter::command(&node, 20 * GIB).spawn().unwrap());
    wait("somebody to wait", || {
        states(&node.status()).contains(&(TaskState::Waiting, 20 << 10)).then_some(())
    });
    // The holder on the lost device keeps its place in the books, and its end is noticed.
    assert!(states(&node.status()).contains(&(TaskState::Running, 10 << 10)));
    drop(holder);
    node.sim(&["fault", "clear", "--gpu", "0"]);
    others.granted();
    wait("it to be back", || (lost() == 0).then_some(()));
}

/// A fatal fault ends the MPS server of all its clients, and the daemon goes on: to them it is the daemon's end.
#[test]
fn a_device_whose_mps_server_ended_under_its_clients_grants_nothing_until_they_are_gone() {
    let mut node = Node::started();
    node.add(12, 0);
    let mut holder = Waiter::holding(&node, GIB);
    let device = |node: &Node| node.status().devices[0].clone();
    let overhead = |node: &Node, wish: &dyn Fn(u64) -> bool| {
        wait("a look", || wish(device(node).overhead_mib).then_some(()))
    };
    node.uses(holder.0.id(), 1024);
    let server = node.start_server();
    node.uses(server, 64);
    overhead(&node, &|mib| mib == 512 + 64);
    kill_and_wait(server);
    assert!(wait("the device to be held", || device(&node).held).contains("server ended"));
    let client = node.client(12);
    assert!(client.begin(1, GIB));
    wait("somebody to wait", || states(&node.status()).contains(&(TaskState::Waiting, 1024)).then_some(()));
    holder.kill();
    client.granted(1);
    // One that ends without a client that NVML ever showed: the daemon makes room for another user's.
    let server = node.start_server();
    node.uses(server, 64);
    overhead(&node, &|mib| mib == 512 + 64);
    kill_and_wait(server);
    overhead(&node, &|mib| mib == 512);
    assert_eq!(device(&node).held, None);
    assert!(client.begin(2, GIB));
    client.granted(2);
    // A server is no stranger: no job's log names it.
    assert!(!node.at("12.notes").exists());
    node.assert_sound();
}
