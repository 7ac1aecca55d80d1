//! Sessions over the shared state: time, faults, permission, what other processes see.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::Node;
use nvidia_ml::engine::code::Code;
use nvidia_ml::engine::handle::Handle;
use nvidia_ml::engine::session::Session;

const GPU: Handle = Handle::Gpu(0);

fn session(node: &Node) -> Session {
    Session::at(&node.state()).unwrap()
}

/// What `body` gives, which must not wait for a driver that takes hours.
fn at_once<T: Send + 'static>(node: &Node, body: impl FnOnce(&Session) -> T + Send + 'static) -> T {
    let session = session(node);
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(body(&session)));
    answer.recv_timeout(Duration::from_secs(60)).expect("it waits for the driver")
}

/// From now on the driver takes hours to create anything on this GPU.
fn make_slow(node: &Node, gpu: u32) {
    node.sim(&["fault", "add", "--gpu", &gpu.to_string(), "--kind", "slow", "--factor", "100000"]);
}

/// Lets the driver work on an empty GPU until long after the tests.
fn occupy(node: &Node, gpu: u32) {
    make_slow(node, gpu);
    let s = session(node);
    std::thread::spawn(move || s.create_gi(Handle::Gpu(gpu), 0, None));
    let lock = node.path(&format!("state.gpu{gpu}.lock"));
    let is_free = || !lock.exists() || std::fs::File::open(&lock).unwrap().try_lock().is_ok();
    let begin = Instant::now();
    while is_free() {
        assert!(begin.elapsed().as_secs() < 60, "nothing is done on GPU {gpu}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_session_sees_what_another_made() {
    let node = Node::new(common::TWO_MIG);
    let (a, b) = (session(&node), session(&node));
    let gi = a.create_gi(GPU, 14, Some((2, 2))).unwrap();
    let ci = a.create_ci(Handle::Gi(gi), 1, None).unwrap();
    let uuid = b.state().unwrap().ci(ci).unwrap().1.uuid.clone();
    assert_eq!(b.by_uuid(&uuid), Ok(Handle::Mig(ci)));
    b.destroy_ci(Handle::Ci(ci)).unwrap();
    b.destroy_gi(Handle::Gi(gi)).unwrap();
    assert_eq!(a.destroy_gi(Handle::Gi(gi)), Err(Code::InvalidArgument));
    assert_eq!(a.by_uuid(&uuid), Err(Code::NotFound));
}

#[test]
fn creation_takes_the_drivers_time_and_readers_do_not_wait() {
    let node = Node::new(&format!("time_scale = 1.0\n{}", common::TWO_MIG));
    let start = Instant::now();
    session(&node).create_gi(GPU, 0, None).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(240), "Table 1: A100, 7 slices");
    // A refusal is not worth the wait.
    make_slow(&node, 0);
    assert_eq!(at_once(&node, |s| s.create_gi(GPU, 19, None)), Err(Code::InsufficientResources));
    occupy(&node, 1);
    let state = at_once(&node, |s| s.state().unwrap());
    assert!(state.gpus[1].instances.is_empty(), "the state changes at the end");
}

#[test]
fn operations_on_one_gpu_are_serial_and_on_two_are_not() {
    let node = Node::new(&format!("time_scale = 1.0\n{}", common::TWO_MIG));
    let start = Instant::now();
    let threads = [(); 2].map(|()| {
        let s = session(&node);
        std::thread::spawn(move || s.create_gi(GPU, 9, None).unwrap())
    });
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(400), "twice 0.20 s");
    node.sim(&["reset"]);
    occupy(&node, 1);
    at_once(&node, |s| s.create_gi(GPU, 9, None)).unwrap();
}

#[test]
fn faults_come_and_go() {
    let node = Node::new(common::TWO_MIG);
    let s = session(&node);
    let gi = s.create_gi(GPU, 14, None).unwrap();
    let busy_for = |time: &str| {
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "busy-destroy", "--for", time]);
    };
    busy_for("60m");
    assert_eq!(s.destroy_gi(Handle::Gi(gi)), Err(Code::InUse));
    node.sim(&["fault", "clear"]);
    busy_for("50ms");
    std::thread::sleep(Duration::from_millis(60));
    s.destroy_gi(Handle::Gi(gi)).unwrap();

    node.sim(&["fault", "add", "--gpu", "0", "--kind", "out-of-resources", "--count", "2"]);
    assert_eq!(s.create_gi(GPU, 14, None), Err(Code::InsufficientResources));
    assert_eq!(s.create_gi(GPU, 14, None), Err(Code::InsufficientResources));
    s.create_gi(GPU, 14, None).unwrap();

    node.sim(&["fault", "add", "--kind", "no-permission"]);
    assert_eq!(s.set_mig_mode(Handle::Gpu(1), false), Err(Code::NoPermission));
    node.sim(&["fault", "clear"]);

    node.sim(&["fault", "add", "--gpu", "0", "--kind", "gpu-lost"]);
    assert_eq!(s.create_gi(GPU, 14, None), Err(Code::GpuIsLost));
    assert_eq!(s.by_index(0), Err(Code::GpuIsLost));
    assert_eq!(s.by_index(1), Ok(1));
    node.sim(&["fault", "clear", "--gpu", "0", "--kind", "hidden"]);
    assert_eq!(s.by_index(0), Err(Code::GpuIsLost), "of another kind");
    node.sim(&["fault", "clear", "--gpu", "0", "--kind", "gpu-lost"]);
    assert_eq!(s.by_index(0), Ok(0));
}

#[test]
fn the_slow_fault_delays_an_operation() {
    let node = Node::new(&format!("time_scale = 0.1\n{}", common::TWO_MIG));
    node.sim(&["fault", "add", "--gpu", "0", "--kind", "slow", "--factor", "20", "--count", "1"]);
    let slow = || {
        let start = Instant::now();
        session(&node).create_gi(GPU, 19, None).unwrap();
        start.elapsed() >= Duration::from_millis(320)
    };
    assert!(slow(), "0.16 s x 0.1 x 20");
    // A busy machine makes one of them slow as well, not all.
    assert!((0..6).any(|_| !slow()), "it was slow once");
}

#[test]
fn a_process_counts_while_it_lives() {
    let node = Node::new(common::TWO_MIG);
    let s = session(&node);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    node.sim(&["proc", "add", "--gpu", "0", "--pid", &child.id().to_string(), "--memory-mib", "100"]);
    assert_eq!(s.reset(0), Err(Code::InUse));
    assert_eq!(s.create_gi(GPU, 14, None), Err(Code::InUse), "first instance beside a process");
    assert_eq!(s.state().unwrap().memory(0, None).unwrap()[2], 100);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(s.state().unwrap().memory(0, None).unwrap()[2], 0);
    s.reset(0).unwrap();
}

#[test]
fn the_tree_is_the_drivers() {
    let node = Node::new(common::TWO_MIG);
    session(&node).create_gi(Handle::Gpu(1), 9, Some((0, 4))).unwrap();
    // Upper half first: id 2 at start 0; minor 3 + 135 + 9 * 2.
    let access = node.path("root/proc/driver/nvidia/capabilities/gpu1/mig/gi2/access");
    let text = std::fs::read_to_string(access).unwrap();
    assert_eq!(text, "DeviceFileMinor: 156\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    assert!(node.path("root/dev/nvidia-caps/nvidia-cap156").exists());
    let minors = std::fs::read_to_string(node.path("root/proc/driver/nvidia-caps/mig-minors")).unwrap();
    assert_eq!(minors.lines().count(), 2 + 32 * 15 * 9);
    assert!(minors.contains("\ngpu1/gi2/access 156\n") && minors.ends_with("ci7/access 4322\n"));
}

/// What the simulator itself costs. Printed, not asserted: the machine decides.
#[test]
fn own_time() {
    let node = Node::new(common::DGX_V);
    let s = session(&node);
    s.set_mig_mode(GPU, true).unwrap();
    s.reset(0).unwrap();
    let start = Instant::now();
    for _ in 0..50 {
        let gi = s.create_gi(GPU, 9, None).unwrap();
        let ci = s.create_ci(Handle::Gi(gi), 2, None).unwrap();
        s.destroy_ci(Handle::Ci(ci)).unwrap();
        s.destroy_gi(Handle::Gi(gi)).unwrap();
    }
    eprintln!("GPU and compute instance, created and destroyed: {:?}", start.elapsed() / 50);
}

/// nvml.h: the search for a UUID opens GPUs on its way, and ends at the first that is lost.
#[test]
fn a_search_by_uuid_opens_each_gpu_on_its_way_and_ends_at_a_lost_one() {
    let node = Node::new("[[gpus]]\nmodel = \"a100-40gb\"\ncount = 4\n");
    let s = session(&node);
    let uuid = |gpu: usize| s.state().unwrap().node.gpus[gpu].uuid.clone();
    let is_open = |gpu: u32| {
        let path = node.path("root").join(format!("dev/nvidia{gpu}"));
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| target == path)
    };
    assert_eq!(s.search_uuid(&uuid(1)), Ok(Handle::Gpu(1)));
    assert_eq!([0, 1, 2, 3].map(is_open), [true, true, false, false]);
    node.sim(&["fault", "add", "--gpu", "2", "--kind", "gpu-lost"]);
    assert_eq!(s.search_uuid(&uuid(1)), Ok(Handle::Gpu(1)));
    assert_eq!(s.search_uuid(&uuid(3)), Err(Code::GpuIsLost));
    assert_eq!(s.by_uuid(&uuid(3)), Ok(Handle::Gpu(3)), "as CUDA names it");
    drop(s);
    assert!(!is_open(0));
}
