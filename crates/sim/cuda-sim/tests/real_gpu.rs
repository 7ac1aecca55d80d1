//! The program that compares a real GPU with the simulator, `contrib/real-gpu/facts.py`, on the simulator.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

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
        "  a context: 460 MiB used, compute processes {",
        "killed under a kernel: gone in ",
        "all but 8 MiB: 0, then 16 MiB: 2",
        "'UUID': cuInit 0, count 0 1",
        "'1': cuInit 100, count 3 -1",
        "== done",
    ] {
        assert!(told.lines().any(|seen| seen.starts_with(line)), "no line begins with {line:?} in:\n{told}");
    }
}
