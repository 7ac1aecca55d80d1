//! A process that is stopped and then killed anywhere in begin, hold and free.
//!
//! Others see of a process only what its system calls do, so it is stopped after each of them: what it does until the next one
//! changes nothing that anybody else can see.

use std::path::PathBuf;

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use task_wire::{Begin, Text};
use tessera_task::client::Client;

use crate::node::{JOB, Node, Running, built, ok};

/// The program, linked with the driver and the library as `tessera-clang++` does.
fn compile(node: &Node) -> PathBuf {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interposed/stops.c");
    let include = |dir: &str| format!("-I{}/../../{dir}", env!("CARGO_MANIFEST_DIR"));
    let out = node.path("stops");
    let mut cc = std::process::Command::new("cc");
    cc.args([
        "-Wall",
        "-Werror",
        &include("sim/cuda-sim/include"),
        &include("../contrib/case-pass/include"),
        here,
    ]);
    ok(cc.arg(built("libcuda.so")).arg(node.path("lib/libtessera_task.so")).arg("-o").arg(&out));
    out
}

/// Lets a process that waits go on until it has been stopped `stops` times. `false`: it ended before.
fn stop(process: &mut Running, stops: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(process.child.id()).unwrap());
    ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).unwrap();
    ptrace::interrupt(pid).unwrap();
    assert!(matches!(waitpid(pid, None).unwrap(), WaitStatus::PtraceEvent(..)));
    process.go_on();
    for _ in 0..stops {
        ptrace::syscall(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, 0) => return false,
            other => panic!("{other:?}"),
        }
    }
    true
}

#[test]
fn a_process_that_is_stopped_and_killed_at_any_system_call_delays_nobody_and_leaves_nothing() {
    let node = Node::new(1);
    node.add(None);
    let program = compile(&node);
    let other = Client::new(&task_control::socket(&node.path("run"), JOB), 1);
    // With a task of the stopped process the device is as good as full.
    let (bound, mem) = (Text::EMPTY, 20 << 30);
    let (blocks, threads) = (8, 128);
    let most =
        Begin { image: 1, nonce: 0, mem, managed: 0, blocks, threads, whole: false, sticky: false, bound };
    // The kernel stops it before and after each system call; the first is the one in which it waited.
    let mut stops = 2;
    loop {
        let mut process = node.start_program(node.command(&program));
        assert_eq!(process.until_it_waits(), Vec::<String>::new());
        let is_stopped = stop(&mut process, stops);
        // Others go on while it is stopped.
        let grant = other.begin(&most).unwrap();
        assert!(other.free(grant.nonce));
        if !is_stopped {
            break;
        }
        process.kill();
        node.assert_clean_but_for(1);
        stops += 2;
    }
    assert!(stops > 40, "{stops}: it has at least a connection, two requests and their answers");
}
