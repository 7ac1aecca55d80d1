//! Unmodified programs with the library preloaded, on the simulated driver and under the real broker.

#![allow(clippy::unwrap_used, reason = "tests")]

mod edges;
mod node;
mod runtime;
mod stops;

use node::{Node, program, wait};
use task_control::status::TaskState::{Running, Waiting};

const WAYS: [&str; 4] = ["link", "dlsym", "proc", "proc_v2"];

#[test]
fn a_declared_process_holds_what_its_job_declared_however_it_reaches_the_driver() {
    let node = Node::new(1);
    node.add(Some(3072));
    for way in WAYS {
        let mut holder = node.spawn(
            way,
            "init environment count total context info alloc 1024 async 100 pitch 4096 info wait free free_async free info",
        );
        let lines = holder.until_it_waits();
        let environment = format!("environment: 0 {} {}", node.uuid(0), node.path("pipe").display());
        let expect = [
            "init: 0",
            &environment,
            "count: 0 1",
            "total: 0 3072",
            "context: 0",
            "info: 0 3072 3072",
            "alloc: 0",
            "async: 0",
            "pitch: 0 1024",
            "info: 0 1944 3072",
        ];
        assert_eq!(lines, expect, "{way}");
        assert_eq!(node.tasks(), [(Running, 3072)], "{way}: one lease, whatever it allocates");
        holder.go_on();
        let (rest, errors) = holder.finish();
        assert_eq!(rest, "free: 0\nfree_async: 0\nfree: 0\ninfo: 0 3072 3072\n", "{way}");
        assert_eq!(errors, "", "{way}");
        node.assert_clean();
    }
}

#[test]
fn what_goes_beyond_is_asked_for_and_given_back() {
    let node = Node::new(1);
    node.add(Some(1024));
    let mut grower = node.spawn("dlsym", "init context alloc 1000 alloc 500 info wait free info wait");
    assert_eq!(grower.until_it_waits()[2..], ["alloc: 0", "alloc: 0", "info: 0 0 1500"]);
    assert_eq!(node.leased(), 1500);
    grower.go_on();
    assert_eq!(grower.until_it_waits(), ["free: 0", "info: 0 24 1024"]);
    assert_eq!(node.leased(), 1024);
    grower.finish();
    // More than the device will ever have for it.
    let (lines, errors) = node.run("dlsym", "init context alloc 40000 alloc 1000");
    assert_eq!(lines, "init: 0\ncontext: 0\nalloc: 2\nalloc: 0\n");
    let expect = "tessera: an allocation of 40000 MiB failed: this process may hold 1024 MiB and has 1024 MiB left, and it \
                  gets no more: ";
    assert!(errors.starts_with(expect) && errors.ends_with("--gpu-mem.\n"), "{errors}");
    node.assert_clean();
}

/// HAMi-core#273: two processes that each see the last bytes free must not both take them.
#[test]
fn two_processes_after_the_last_bytes() {
    let node = Node::new(1);
    node.add(Some(10 << 10));
    let verbs = "init context alloc 10000 wait alloc 2500 wait";
    let mut first = node.spawn("proc_v2", verbs);
    let mut second = node.spawn("proc_v2", verbs);
    for process in [&mut first, &mut second] {
        process.until_it_waits();
        process.go_on();
    }
    // One grows, the other waits for it.
    wait("one that waits", || {
        let tasks = node.tasks();
        (tasks.iter().filter(|(state, _)| *state == Waiting).count() == 1 && tasks.len() == 4).then_some(())
    });
    let is_waiting = |process: &node::Running| {
        let tasks = node.status().jobs.into_iter().flat_map(|job| job.tasks);
        tasks.into_iter().any(|task| task.state == Waiting && task.pid == process.child.id())
    };
    let (mut lucky, mut waiter) = if is_waiting(&first) { (second, first) } else { (first, second) };
    assert_eq!(lucky.until_it_waits(), ["alloc: 0"]);
    lucky.kill();
    assert_eq!(waiter.until_it_waits(), ["alloc: 0"]);
    waiter.finish();
    node.assert_clean();
}

/// HAMi-core#191: what a process held that was killed is the next one's.
#[test]
fn a_second_process_after_a_first_that_was_killed() {
    let node = Node::new(1);
    node.add(Some(20 << 10));
    for _ in 0..3 {
        let mut first = node.spawn("link", "init context alloc 20000 wait");
        first.until_it_waits();
        let mut second = node.spawn("link", "init context alloc 20000 wait");
        wait("a second that waits", || node.tasks().contains(&(Waiting, 20 << 10)).then_some(()));
        first.kill();
        assert_eq!(second.until_it_waits(), ["init: 0", "context: 0", "alloc: 0"]);
        second.finish();
    }
    node.assert_clean();
}

#[test]
fn without_gpu_mem_a_process_has_a_device_alone() {
    let node = Node::new(1);
    node.add(None);
    let mut first = node.spawn("proc", "init context info alloc 20000 info wait");
    let lines = first.until_it_waits();
    assert_eq!(lines[3], "alloc: 0");
    let second = node.spawn("proc", "init context alloc 20000 wait");
    wait("a second that waits", || node.tasks().iter().any(|(state, _)| *state == Waiting).then_some(()));
    first.finish();
    let (lines, errors) = second.finish();
    assert_eq!((lines.as_str(), errors.as_str()), ("init: 0\ncontext: 0\nalloc: 0\nwaiting\n", ""));
    node.assert_clean();
}

#[test]
fn contexts_take_their_memory_along_and_what_fails_changes_nothing() {
    let node = Node::new(1);
    node.add(Some(3072));
    let verbs = "init context alloc 1000 alloc 1000 destroy context info free_bad info primary alloc 3000 reset primary info \
                 managed 5000 info free info vmm 3000 launch";
    let (lines, errors) = node.run("proc_v2", verbs);
    let expect = "init: 0\ncontext: 0\nalloc: 0\nalloc: 0\ndestroy: 0\ncontext: 0\ninfo: 0 3072 3072\nfree_bad: 1\n\
                  info: 0 3072 3072\nprimary: 0\nalloc: 0\nreset: 0\nprimary: 0\ninfo: 0 3072 3072\nmanaged: 0\n\
                  info: 0 3072 3072\nfree: 0\ninfo: 0 3072 3072\nvmm: 0\nlaunch: 400\n";
    assert_eq!((lines.as_str(), errors.as_str()), (expect, ""));
    node.assert_clean();
}

#[test]
fn threads_share_what_the_process_holds() {
    let node = Node::new(1);
    // Eight threads of 300 MiB each, and room for three: the others ask for more, or take what comes back.
    node.add(Some(1000));
    for way in ["link", "proc_v2"] {
        let (lines, errors) = node.run(way, "starts init context threads info");
        let expect = "starts: 0\ninit: 0\ncontext: 0\nthreads: 0\ninfo: 0 1000 1000\n";
        assert_eq!((lines.as_str(), errors.as_str()), (expect, ""));
    }
    node.assert_clean();
}

/// A thread that waits for more goes on when another thread frees, although nobody else gives anything up.
#[test]
fn a_thread_that_waits_takes_what_another_frees() {
    let node = Node::new(1);
    node.add(Some(10 << 10));
    let mut other = node.spawn("link", "init context wait");
    other.until_it_waits();
    for _ in 0..5 {
        let mut process =
            node.spawn("proc_v2", "init context alloc 8000 later 6000 wait free join info wait");
        process.until_it_waits();
        wait("a thread that waits", || node.tasks().iter().any(|(state, _)| *state == Waiting).then_some(()));
        process.go_on();
        assert_eq!(process.until_it_waits(), ["free: 0", "join: 0", "info: 0 4240 10240"]);
        assert_eq!(node.leased(), 20 << 10, "nothing beyond is held");
        process.finish();
    }
    other.finish();
    node.assert_clean();
}

#[test]
fn forks_and_execs_are_processes_of_their_own() {
    let node = Node::new(1);
    node.add(Some(3072));
    // A child of a process with CUDA cannot use it, holds nothing, and frees nothing of its parent's.
    let (lines, errors) = node.run("dlsym", "init context alloc 1000 fork init alloc 1 free");
    assert!(lines.contains("init: 3\nalloc: 3\n") && lines.contains("child: 0\n"), "{lines}");
    assert_eq!((lines.lines().last(), errors.as_str()), (Some("parent: 0"), ""));
    node.assert_clean();
    // A child that starts it holds for itself, and its parent nothing.
    let mut parent = node.spawn("dlsym", "vfork fork init context alloc 1000 wait");
    assert_eq!(parent.until_it_waits(), ["vfork: 0", "fork: 0", "init: 0", "context: 0", "alloc: 0"]);
    assert_eq!(node.tasks(), [(Running, 3072)]);
    assert_ne!(node.status().jobs[0].tasks[0].pid, parent.child.id());
    parent.finish();
    node.assert_clean();
    // The program after exec has one lease, not two.
    let mut process = node.spawn("dlsym", "init context alloc 1000 exec init context info wait");
    let lines = process.until_it_waits();
    assert_eq!(lines[3..], ["init: 0", "context: 0", "info: 0 3072 3072"]);
    wait("the end of the first lease", || (node.leased() == 3072).then_some(()));
    process.finish();
    node.assert_clean();
}

#[test]
fn a_program_is_told_why_it_gets_no_gpu_and_why_there_is_no_second() {
    let node = Node::new(2);
    node.add(Some(3072));
    let (lines, errors) = node.run("proc", "init count get 0 get 1 get 1");
    assert_eq!(lines, "init: 0\ncount: 0 1\nget: 0\nget: 101\nget: 101\n");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("sees one device") && errors.contains("tessera-clang++"), "{errors}");
    let node = Node::new(1);
    node.add(Some(40 << 10));
    let (lines, errors) = node.run("link", "init count");
    assert_eq!(lines, "init: 100\ncount: 3 -1\n");
    assert!(errors.starts_with("tessera: this program gets no GPU: "), "{errors}");
    node.assert_clean();
}

#[test]
fn holders_run_on_and_growers_come_back_while_the_broker_is_killed() {
    let node = Node::new(1);
    node.add(Some(3072));
    let mut holder = node.spawn("proc_v2", "init context alloc 3000 wait alloc 1000 free wait");
    holder.until_it_waits();
    node::kill(node.status().child);
    holder.go_on();
    assert_eq!(holder.until_it_waits(), ["alloc: 0", "free: 0"]);
    assert_eq!(node.tasks(), [(Running, 3072)]);
    holder.finish();
    node.assert_clean();
}

#[test]
fn killed_at_any_time_nothing_is_left() {
    let node = Node::new(1);
    node.add(Some(3072));
    for round in 0..40 {
        let process =
            node.spawn("proc_v2", "starts init context threads alloc 2000 alloc 2000 free free threads");
        std::thread::sleep(std::time::Duration::from_micros(round * 2500));
        process.kill();
    }
    node.assert_clean();
}

/// The library is inert outside a job of GPU tasks, and in programs that have nothing to do with CUDA.
#[test]
fn elsewhere_it_does_nothing() {
    let node = Node::new(1);
    node.add(Some(3072));
    let verbs = ["init", "context", "info", "alloc", "20000", "environment"];
    for way in WAYS {
        let alone = node.plain(program(way)).arg(way).args(verbs).output().unwrap();
        let mut preloaded = node.plain(program(way));
        preloaded.env("LD_PRELOAD", node.path("lib/libtessera_task.so"));
        assert_eq!(preloaded.arg(way).args(verbs).output().unwrap().stdout, alone.stdout, "{way}");
        // Linked, not preloaded: as `tasks:probes` starts it.
        let mut probes = node.command(program(way));
        let probes = probes.env_remove("LD_PRELOAD").arg(way).args(verbs).output().unwrap();
        assert_eq!(probes.stdout, alone.stdout, "{way}");
    }
    let ls = |command: &mut std::process::Command| command.arg("-la").arg("/usr/bin").output().unwrap();
    let (with, without) = (ls(&mut node.command("ls".as_ref())), ls(&mut node.plain("ls".as_ref())));
    assert!(with.stdout == without.stdout && with.stderr.is_empty());
    assert_eq!(node.status().jobs[0].tasks.len(), 0);
    node.assert_clean();
}
