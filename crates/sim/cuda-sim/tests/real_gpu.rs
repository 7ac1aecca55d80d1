//! Programs of `contrib/real-gpu`: `facts.py` on the simulator, `mix.py` with stand-ins for Slurm and for CASE's programs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Node, ok, parts, text};

#[test]
fn the_facts_of_a_simulated_h200_are_told_to_the_end() {
    let node = Node::new("driver_version = \"580.159.04\"\n[[gpus]]\nmodel = \"h200-141gb\"\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../contrib/real-gpu/facts.py");
    let mut python = node.command("python3");
    python
        .args([script, "0.1"])
        .env("PYTHONPATH", parts().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let told = text(&ok(&mut python));
    for line in [
        "Name: NVIDIA H200",
        "profile 1: MIG 2g.35gb id 14, 33024 MiB, 32 SMs, at most 3; places 0 [(0, 2), (2, 2), (4, 2)]; instances 0 0",
        "MIG device 0: error 6: Not Found",
        "  a context: 526 MiB used, compute processes {",
        "killed under a kernel: gone in ",
        "all but 8 MiB: 0, then 16 MiB: 2",
        "'UUID': cuInit 0, count 0 1",
        "'1': cuInit 100, count 3 -1",
        "== done",
    ] {
        assert!(told.lines().any(|seen| seen.starts_with(line)), "no line begins with {line:?} in:\n{told}");
    }
}

/// Runs `contrib/real-gpu/mix.py` with stand-ins: Slurm runs each job at once, and `needle` fails.
#[test]
fn a_mix_of_jobs_is_submitted_and_what_failed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("sbatch", &format!("echo \"$*\" >> {}/asked; exec sh", dir.path().display()));
    for family in ["backprop", "bfs", "srad_v1", "srad_v2", "dwt2d", "lavaMD"] {
        program(&format!("{family}-plain"), "exit 0");
    }
    program("needle-plain", "exit 3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../contrib/real-gpu/mix.py");
    let scratch = dir.path().join("scratch");
    let mut python = Command::new("python3");
    python.arg(script).arg("--programs").arg(dir.path()).arg("--scratch").arg(&scratch);
    python.args(["--ways", "declared", "--graph-nodes", "10"]);
    python.env("PATH", format!("{}:/usr/bin:/bin", dir.path().display())).env("PYTHONDONTWRITEBYTECODE", "1");
    let told = text(&ok(&mut python));
    assert!(told.contains("declared: needle-32768 failed with 3; see "), "{told}");
    assert!(told.contains("\n| declared | 16 of 16 | "), "{told}");
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap();
    assert!(asked.lines().all(|call| call.starts_with("--parsable -c1 -o ")), "{asked}");
    assert!(asked.contains(" --gpu-isolation=gpu-tasks --gpu-mem=13676M\n"), "lavaMD-120: {asked}");
}
