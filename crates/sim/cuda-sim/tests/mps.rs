//! Clients of NVIDIA's own MPS control daemon, held to what a physical H200 with driver 580 showed: docs/real-gpu.md.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{MIB, Node, parts, wait_until};
use cuda::core::control::Limits;

const H200: &str = "driver_version = \"580.159.04\"\n[[gpus]]\nmodel = \"h200-141gb\"\n";

/// NVIDIA's daemon in a directory of its own.
struct Daemon {
    process: Child,
    dir: PathBuf,
}

impl Daemon {
    fn start(node: &Node) -> Self {
        let dir = node.path("mps");
        std::fs::create_dir(&dir).unwrap();
        let mut command = Self::command(&dir);
        let process = command.arg("-f").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let daemon = Self { process, dir };
        wait_until("the daemon listens", || daemon.dir.join("control").exists());
        daemon
    }

    fn command(dir: &std::path::Path) -> Command {
        let program = parts().join("root/usr/bin/nvidia-cuda-mps-control");
        assert!(program.exists(), "{} is missing: run cargo xtask setup", program.display());
        let mut command = Command::new(program);
        command.env("CUDA_MPS_PIPE_DIRECTORY", dir).env("CUDA_MPS_LOG_DIRECTORY", dir);
        command
    }

    fn tell(&self, words: &str) {
        let mut command = Self::command(&self.dir).stdin(Stdio::piped()).spawn().unwrap();
        command.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
        assert!(command.wait().unwrap().success(), "{words}");
    }

    fn pipe(&self) -> (&str, &str) {
        ("CUDA_MPS_PIPE_DIRECTORY", self.dir.to_str().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const MEMORY: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
const SHOW: &str = "init context 0 sms info";

#[test]
fn a_client_sees_its_sms_and_its_limit_less_its_context() {
    let node = Node::new(H200);
    let daemon = Daemon::start(&node);
    let shown = |own: &[(&str, &str)]| {
        let environment = [&[daemon.pipe()], own].concat();
        node.client_with(SHOW, &environment)[2..].join(", ")
    };
    let total = node.client_with(SHOW, &[])[3].rsplit(' ').next().unwrap().to_owned();
    for (threads, sms, context) in
        [("1", 8, 58), ("4", 8, 58), ("7", 8, 58), ("14", 18, 94), ("25", 32, 146), ("100", 132, 514)]
    {
        let own = [(THREADS, threads), (MEMORY, "0=10G")];
        assert_eq!(shown(&own), format!("sms: 0 {sms}, info: 0 {} {total}", 10_240 - context), "{threads} %");
    }
    // A limit that cannot be read is none: all is left but the context.
    let left = total.parse::<u64>().unwrap() - 58;
    assert_eq!(shown(&[(MEMORY, "0=x"), (THREADS, "7")]), format!("sms: 0 8, info: 0 {left} {total}"));
    // A client that runs keeps its limits; the daemon's hold for those that come.
    let old = Old::start(&node, &daemon, &format!("init context 0 wait alloc {} sms", 4096 * MIB));
    daemon.tell("set_default_device_pinned_mem_limit 0 3G\nset_default_active_thread_percentage 50\n");
    let limits = Limits { threads: Some(50.0), memory: vec![Some(3 << 30)] };
    wait_until("the daemon has its limits", || Limits::of(&daemon.dir, 1) == limits);
    assert_eq!(shown(&[(MEMORY, "0=8G"), (THREADS, "90")]), format!("sms: 0 66, info: 0 2802 {total}"));
    assert_eq!(shown(&[(MEMORY, "0=1G"), (THREADS, "7")]), format!("sms: 0 8, info: 0 966 {total}"));
    assert_eq!(shown(&[]), format!("sms: 0 66, info: 0 2802 {total}"), "without variables of its own");
    let lines = node.client_with(&format!("init context 0 alloc {}", 4096 * MIB), &[daemon.pipe()]);
    assert_eq!(lines[2], "alloc: 2");
    assert_eq!(old.goes_on(), ["alloc: 0", "sms: 0 132"]);
}

/// A client that was there before something happened, and waits.
struct Old {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Old {
    fn start(node: &Node, daemon: &Daemon, verbs: &str) -> Self {
        let mut command = node.command(common::client());
        command.args(verbs.split_whitespace()).envs([daemon.pipe()]);
        Self::of(command, "waiting\n")
    }

    /// Waits until it has said `word`.
    fn of(mut command: Command, word: &str) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while line != word {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended before it said {word}");
        }
        Self { process, out }
    }

    /// Lets it do the rest of its verbs, and returns their lines.
    fn goes_on(mut self) -> Vec<String> {
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        let lines = self.out.by_ref().lines().map(Result::unwrap).collect();
        self.process.wait().unwrap();
        lines
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
