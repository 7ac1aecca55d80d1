//! Memory: what fits, what does not, and who sees it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{MIB, Node, V100, V100_CONTEXT_MIB, V100_MIB, wait_until};

#[test]
fn granules_and_the_context() {
    let node = Node::new(V100);
    let used = |verbs: &str| {
        let (client, lines) = node.waiting(&format!("init {verbs} wait"), &[]);
        assert!(lines.iter().all(|l| l.ends_with(": 0")), "{lines:?}");
        let used = node.used(0, None);
        client.finish();
        used
    };
    assert_eq!(used(""), 0, "without a context a process holds nothing");
    assert_eq!(used("context 0"), V100_CONTEXT_MIB);
    assert_eq!(used("context 0 context 0"), V100_CONTEXT_MIB, "once per process and device");
    assert_eq!(used("context 0 alloc 1"), V100_CONTEXT_MIB + 2);
    assert_eq!(
        used("context 0 alloc 1000 alloc 1000000"),
        V100_CONTEXT_MIB + 2,
        "small ones share a granule"
    );
    assert_eq!(used("context 0 alloc 1048576"), V100_CONTEXT_MIB + 2);
    assert_eq!(used("context 0 alloc 2097153"), V100_CONTEXT_MIB + 4);
    assert_eq!(used("context 0 alloc 2097153 free alloc 1 free"), V100_CONTEXT_MIB);
    assert_eq!(used("context 0 managed 99000000"), V100_CONTEXT_MIB, "managed memory lives on the host");
    assert_eq!(used("context 0 alloc 5000000 destroy"), 0, "a context's end frees everything");
    assert_eq!(node.used(0, None), 0, "and so does a process's");
}

#[test]
fn what_does_not_fit_is_refused() {
    let node = Node::new(V100);
    let most = (V100_MIB - V100_CONTEXT_MIB) * MIB;
    let lines = node
        .client(&format!("init context 0 info alloc {} alloc {most} alloc 1 free alloc 1 info", most + 1));
    let info = format!("info: 0 {} {V100_MIB}", most / MIB);
    let left = format!("info: 0 {} {V100_MIB}", most / MIB - 2);
    let expect =
        ["init: 0", "context: 0", &info, "alloc: 2", "alloc: 0", "alloc: 2", "free: 0", "alloc: 0", &left];
    assert_eq!(lines, expect);
    assert_eq!(
        node.client("init context 0 alloc 18446744073709551615 alloc 0")[2..],
        ["alloc: 2", "alloc: 1"]
    );
}

/// Eight processes at once ask for a quarter of the memory each: three get it, whatever the order.
#[test]
fn processes_together_cannot_exceed_the_memory() {
    let node = Node::new(V100);
    let quarter = (V100_MIB - 8 * V100_CONTEXT_MIB) / 3 / 2 * 2 * MIB;
    let verbs = format!("init context 0 alloc {quarter} wait");
    let clients: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8).map(|_| scope.spawn(|| node.waiting(&verbs, &[]))).collect();
        started.into_iter().map(|s| s.join().unwrap()).collect()
    });
    let of = |line: &str| clients.iter().filter(|(_, lines)| lines.last().unwrap() == line).count();
    assert_eq!((of("alloc: 0"), of("alloc: 2")), (3, 5));
    assert_eq!(node.used(0, None), 8 * V100_CONTEXT_MIB + 3 * quarter / MIB);
    assert_eq!(node.used(1, None), 0, "the other GPU is not concerned");
    clients.into_iter().for_each(|(client, _)| client.finish());
    assert_eq!(node.used(0, None), 0);
    let refused = node.log().iter().filter(|l| l["op"] == "alloc" && l["result"] == 2).count();
    assert_eq!(refused, 5);
}

#[test]
fn a_killed_process_holds_its_memory_for_a_moment() {
    // A look that comes after the moment proves nothing: the machine may stand still for longer.
    let moments = [1000, 4000, 16_000].map(std::time::Duration::from_millis);
    assert!(moments.into_iter().any(is_held_for), "no look was in time");
}

/// Whether the looks at the memory of a killed process came within the moment for which it is held.
fn is_held_for(moment: std::time::Duration) -> bool {
    let node = Node::new(&format!("late_free_ms = {}\n{V100}", moment.as_millis()));
    let (client, _) = node.waiting(&format!("init context 0 alloc {} wait", 1000 * MIB), &[]);
    let pid = client.0.id();
    let held = V100_CONTEXT_MIB + 1000;
    assert_eq!(
        node.smi("--query-compute-apps=pid,used_memory --format=csv,noheader"),
        format!("{pid}, {held} MiB\n")
    );
    // Longer than the moment: what counts is the time since its death, not since its last call.
    std::thread::sleep(moment + moment / 2);
    let killed = std::time::Instant::now();
    client.kill();
    let just_dead = node.used(0, None);
    let rest = (V100_MIB - V100_CONTEXT_MIB) * MIB;
    let refused = node.client(&format!("init context 0 alloc {rest}"))[2].clone();
    if killed.elapsed() >= moment {
        return false;
    }
    assert_eq!((just_dead, refused.as_str()), (held, "alloc: 2"));
    wait_until("the dead process's memory is free", || node.used(0, None) == 0);
    assert_eq!(node.client(&format!("init context 0 alloc {rest}"))[2], "alloc: 0");
    assert_eq!(node.smi("--query-compute-apps=pid --format=csv,noheader"), "");
    let exits: Vec<_> = node.log().into_iter().filter(|l| l["op"] == "exit" && l["pid"] == pid).collect();
    assert_eq!(exits.len(), 1, "written by the next process that came");
    assert_eq!(exits[0]["bytes"], held * MIB);
    true
}

#[test]
fn nvml_refuses_what_disturbs_a_program() {
    let node = Node::new(V100);
    let (client, _) = node.waiting("init context 1 wait", &[]);
    let reset = |gpu| nvidia_ml::engine::session::Session::at(&node.path("state")).unwrap().reset(gpu);
    assert_eq!(reset(1), Err(nvidia_ml::engine::code::Code::InUse));
    assert_eq!(reset(0), Ok(()));
    client.finish();
    assert_eq!(reset(1), Ok(()));
}

#[test]
fn stand_ins_of_nvml_sim_take_memory_too() {
    let node = Node::new(V100);
    let stand_in = nvidia_ml::engine::process::Process {
        pid: std::process::id(),
        started: nvidia_ml::engine::process::start_time(std::process::id()).unwrap(),
        gi: None,
        ci: None,
        memory_mib: V100_MIB - V100_CONTEXT_MIB - 10,
        mps: false,
        cuda_until_ms: None,
    };
    let add = |s: &mut nvidia_ml::engine::state::State| {
        s.gpus[0].processes.push(stand_in);
        Ok(())
    };
    node.store().update(add).unwrap();
    let lines = node.client(&format!("init context 0 alloc {} alloc {}", 12 * MIB, 10 * MIB));
    assert_eq!(lines[2..], ["alloc: 2", "alloc: 0"]);
}

#[test]
fn virtual_memory_is_counted_and_limited() {
    let node = Node::new(V100);
    assert_eq!(node.client("init context 0 vmm 6291456 info")[2..], ["vmm: 0", "info: 0 15826 16130"]);
    let too_much = (V100_MIB - V100_CONTEXT_MIB + 2) * MIB;
    let lines = node.client(&format!("init context 0 vmm {too_much}"));
    assert_eq!(lines[2], "cuMemCreate(&handle, bytes, &properties, 0): vmm: 2");
    assert!(node.client("init vmm 1000")[1].ends_with("vmm: 1"), "not whole granules");
    assert_eq!(node.used(0, None), 0);
}

#[test]
fn threads_share_a_context_and_children_lose_it() {
    let node = Node::new(V100);
    let lines = node.client("init context 0 threads info fork alloc 1 count");
    assert_eq!(lines[2..], ["threads: 0", "info: 0 15826 16130", "fork: 0 33", "alloc: 0", "count: 0 2"]);
    assert_eq!(node.client("count init count"), ["count: 3 -1", "init: 0", "count: 0 2"]);
}

#[test]
fn exec_ends_what_the_program_before_held() {
    let node = Node::new(V100);
    let lines =
        node.client(&format!("init context 0 context 1 alloc {} exec init context 0 info", 9000 * MIB));
    assert_eq!(lines[4..], ["init: 0", "context: 0", "info: 0 15826 16130"]);
    assert_eq!((node.used(0, None), node.used(1, None)), (0, 0));
}

/// A stopped process keeps its memory, and nobody waits for it.
#[test]
fn a_stopped_process_keeps_its_memory() {
    let node = Node::new(&format!("late_free_ms = 200\n{V100}"));
    let (client, _) = node.waiting(&format!("init context 0 alloc {} wait", 1000 * MIB), &[]);
    let pid = rustix::process::Pid::from_child(&client.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(node.used(0, None), V100_CONTEXT_MIB + 1000);
    client.kill();
    // Its last beat is long past: there is no late freeing.
    assert_eq!(node.used(0, None), 0);
}

#[test]
fn every_operation_has_its_line() {
    let node = Node::new(V100);
    node.client(&format!("init context 1 alloc 5 alloc {} free alloc {}", 3 * MIB, 99_999 * MIB));
    let lines = node.log();
    let used = |i: usize| lines[i]["used"].as_u64().unwrap() / MIB;
    let ops: Vec<_> =
        lines.iter().map(|l| (l["op"].as_str().unwrap(), l["result"].as_u64().unwrap())).collect();
    assert_eq!(ops, [("context", 0), ("alloc", 0), ("alloc", 0), ("free", 0), ("alloc", 2), ("exit", 0)]);
    let c = V100_CONTEXT_MIB;
    assert_eq!((0..6).map(used).collect::<Vec<_>>(), [c, c + 2, c + 6, c + 2, c + 2, 0]);
    let bytes: Vec<_> = lines.iter().map(|l| l["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [c * MIB, 5, 3 * MIB, 3 * MIB, 99_999 * MIB, (c + 2) * MIB]);
    let uuid = &node.store().read().unwrap().node.gpus[1].uuid;
    assert!(lines.iter().all(|l| l["device"] == uuid.as_str() && l["t"].is_f64() && l["pid"].is_u64()));
}
