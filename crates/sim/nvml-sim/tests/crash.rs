//! Whatever process is killed at whatever instant, the state stays whole and the next writer finishes the files.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Node;
use nvidia_ml::engine::handle::Handle;
use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::state::State;
use nvidia_ml::engine::store::Store;

const WRITER: &str = "NVML_SIM_TEST_WRITER";

/// Not a test of its own: what the test below starts, and kills, many times.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let session = Session::at(Path::new(&path)).unwrap();
    for round in 0u32.. {
        let gpu = Handle::Gpu(round % 2);
        for profile in [19, 14, 9] {
            if let Ok(gi) = session.create_gi(gpu, profile, None) {
                let ci = [(19, 0), (14, 1), (9, 2)].iter().find(|p| p.0 == profile).unwrap().1;
                let _ = session.create_ci(Handle::Gi(gi), ci, None);
            }
        }
        // Anybody's instances: several writers get in each other's way.
        let state = session.state().unwrap();
        for (gpu, g) in (0u32..).zip(&state.gpus) {
            for gi in &g.instances {
                for ci in &gi.cis {
                    let _ = session.destroy_ci(Handle::Ci(gi.ci_ref(gpu, ci)));
                }
                let _ = session.destroy_gi(Handle::Gi(nvidia_ml::engine::state::Gpu::gi_ref(gpu, gi)));
            }
        }
    }
}

fn spawn(node: &Node) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--test-threads=1"]).env(WRITER, node.state());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn check_whole(state: &State) {
    for g in &state.gpus {
        let mut used = [false; 8];
        for gi in &g.instances {
            for unit in gi.start..gi.start + gi.size {
                assert!(!std::mem::replace(&mut used[unit as usize], true), "two instances on unit {unit}");
            }
            assert!(gi.cis.len() <= 1);
        }
    }
}

/// Names under a GPU's proc directory: `gi1`, `gi1/ci0`.
fn listed(node: &Node, gpu: usize) -> Vec<String> {
    let mig = node.path(&format!("root/proc/driver/nvidia/capabilities/gpu{gpu}/mig"));
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).filter(|n| n != "access").collect()
    };
    let mut out = Vec::new();
    for gi in names(&mig) {
        out.extend(names(&mig.join(&gi)).iter().map(|ci| format!("{gi}/{ci}")));
        out.push(gi);
    }
    out.sort();
    out
}

#[test]
fn killed_writers_leave_a_whole_state() {
    let node = Node::new(common::TWO_MIG);
    let store = Store::new(&node.state());
    let mut writers: Vec<Child> = (0..3).map(|_| spawn(&node)).collect();
    let begin = Instant::now();
    let (mut kills, mut changes, mut seed, mut last) = (0u32, 0u32, 12345u64, None);
    while begin.elapsed().as_secs() < 5 || kills <= 20 || changes <= 5 {
        assert!(begin.elapsed().as_secs() < 300, "{kills} kills, {changes} different states seen");
        // A small generator: waits of 0 to 60 ms, victims in turn. On a slow machine a writer gets to write later.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let longest = 60_000 * (1 + begin.elapsed().as_secs() / 5);
        std::thread::sleep(Duration::from_micros((seed >> 33) % longest));
        let index = (seed >> 40) as usize % writers.len();
        let victim = &mut writers[index];
        victim.kill().unwrap();
        victim.wait().unwrap();
        kills += 1;
        let state = store.read().expect("always readable");
        check_whole(&state);
        changes += u32::from(last.as_ref() != Some(&state.gpus));
        last = Some(state.gpus.clone());
        writers[index] = spawn(&node);
    }
    for mut w in writers {
        w.kill().unwrap();
        w.wait().unwrap();
    }
    eprintln!("{kills} kills, {changes} different states seen");

    // The next one to come finishes what the last victim began.
    let session = Session::at(&node.state()).unwrap();
    let state = session.state().unwrap();
    assert!(!state.tree_dirty);
    check_whole(&state);
    for (gpu, g) in state.gpus.iter().enumerate() {
        let mut expected: Vec<String> = Vec::new();
        for gi in &g.instances {
            expected.push(format!("gi{}", gi.id));
            expected.extend(gi.cis.iter().map(|c| format!("gi{}/ci{}", gi.id, c.id)));
        }
        expected.sort();
        assert_eq!(listed(&node, gpu), expected);
    }
}

/// Readers must be fast: a client asks hundreds of questions. Printed, not asserted: the machine decides.
#[test]
fn reading_is_fast() {
    let node = Node::new(common::DGX_V);
    let session = Session::at(&node.state()).unwrap();
    session.state().unwrap();
    let start = Instant::now();
    for _ in 0..1000 {
        session.state().unwrap();
    }
    eprintln!("one cached read: {:?}", start.elapsed() / 1000);
}
