//! Which devices a process gets: device nodes, instances, variables, MPS.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::{PermissionsExt, chown};

use common::{MIB, Node, V100, ok, text};
use nvidia_ml::engine::code::Code;
use nvidia_ml::engine::handle::Handle;
use nvidia_ml::engine::session::Session;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

const MIG: &str = "[[gpus]]\nmodel = \"a100-40gb\"\nmig = \"on\"\n[[gpus]]\nmodel = \"a100-40gb\"\n";

/// A node whose GPU 0 has a `2g.10gb` and a `3g.20gb`, with the instances' ids and UUIDs.
fn with_instances() -> (Node, Vec<(u32, String)>) {
    let node = Node::new(MIG);
    let session = Session::at(&node.path("state")).unwrap();
    for (profile, compute) in [(14, 1), (9, 2)] {
        let gi = session.create_gi(Handle::Gpu(0), profile, None).unwrap();
        session.create_ci(Handle::Gi(gi), compute, None).unwrap();
    }
    let state = node.store().read().unwrap();
    let of = |profile| state.gpus[0].instances.iter().find(|g| g.profile == profile).unwrap();
    let instances = [14, 9].map(|profile| (of(profile).id, of(profile).cis[0].uuid.clone()));
    (node, instances.into())
}

#[test]
fn devices_by_number_and_uuid() {
    let node = Node::new("[[gpus]]\nmodel = \"v100-16gb\"\n[[gpus]]\nmodel = \"a100-40gb\"\n");
    let names = |environment: &[(&str, &str)]| {
        let lines = node.client_with("init count device 0", environment);
        (lines[1].clone(), lines[2].rsplit(' ').next().unwrap_or_default().to_owned())
    };
    let state = node.store().read().unwrap();
    let uuid = |gpu: usize| state.node.gpus[gpu].uuid.as_str();
    let (both, v100, a100) = ("count: 0 2".to_owned(), "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB");
    let last = |name: &str| name.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(names(&[]), (both.clone(), last(a100)), "the fastest comes first");
    assert_eq!(names(&[("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]), (both.clone(), last(v100)));
    assert_eq!(names(&[("CUDA_VISIBLE_DEVICES", "1")]), ("count: 0 1".to_owned(), last(v100)));
    assert_eq!(names(&[("CUDA_VISIBLE_DEVICES", uuid(1))]), ("count: 0 1".to_owned(), last(a100)));
    assert_eq!(names(&[("CUDA_VISIBLE_DEVICES", &uuid(0)[..12])]), ("count: 0 1".to_owned(), last(v100)));
    let bytes = &uuid(1)[4..8];
    assert!(node.client("init device 0")[1].contains(&format!(" {bytes} ")), "the UUID is NVML's");
    assert_eq!(node.client_with("init count", &[("CUDA_VISIBLE_DEVICES", "")]), ["init: 100", "count: 3 -1"]);
    assert_eq!(node.client_with("init", &[("NVML_SIM_STATE", "/nowhere")]), ["init: 100"]);
}

#[test]
fn an_instance_is_a_device_with_its_own_memory() {
    let (node, instances) = with_instances();
    let device =
        |visible: &str| node.client_with("init count device 0", &[("CUDA_VISIBLE_DEVICES", visible)]);
    let (two, three) = (&instances[0], &instances[1]);
    let both = format!("{},{}", three.1, two.1);
    assert_eq!(device(&both)[1], "count: 0 1", "one instance, and nothing else");
    assert!(device(&both)[2].ends_with("MIG 3g.20gb") && device(&two.1)[2].ends_with("MIG 2g.10gb"));
    assert!(device(&two.1)[2].starts_with("device: 0 9856 "), "{:?}", device(&two.1));
    assert_eq!(node.client("init count")[1], "count: 0 1", "an instance hides the whole GPUs");
    let (client, lines) = node
        .waiting(&format!("init context 0 alloc {} wait", 9000 * MIB), &[("CUDA_VISIBLE_DEVICES", &two.1)]);
    assert_eq!(lines.last().unwrap(), "alloc: 0");
    // 28 SMs: 64 MiB and 3 MiB for each.
    assert_eq!((node.used(0, Some(two.0)), node.used(0, Some(three.0)), node.used(0, None)), (9148, 0, 9148));
    let pid = client.0.id().to_string();
    assert!(node.smi("").lines().any(|l| l.contains(&pid) && l.contains("9148MiB")), "nvidia-smi shows it");
    let gone = |visible: &str, verbs: &str| node.client_with(verbs, &[("CUDA_VISIBLE_DEVICES", visible)]);
    assert_eq!(gone(&two.1, &format!("init context 0 alloc {}", 700 * MIB))[2], "alloc: 2");
    assert_eq!(gone(&three.1, &format!("init context 0 alloc {}", 18_000 * MIB))[2], "alloc: 0");
    let session = Session::at(&node.path("state")).unwrap();
    let state = node.store().read().unwrap();
    let gi = state.gpus[0].instances.iter().find(|g| g.id == two.0).unwrap();
    let ci = Handle::Ci(gi.ci_ref(0, &gi.cis[0]));
    assert_eq!(session.destroy_ci(ci), Err(Code::InUse));
    client.finish();
    let (late, lines) = node.waiting("init wait context 0", &[("CUDA_VISIBLE_DEVICES", &two.1)]);
    assert_eq!(lines, ["init: 0"]);
    session.destroy_ci(ci).unwrap();
    late.finish();
    assert_eq!(gone(&two.1, "init"), ["init: 100"]);
}

/// A user without a device's node has no such device, whatever the variable says.
#[test]
fn a_closed_device_node_hides_its_gpu() {
    let node = Node::new(V100);
    let close = |name: &str| {
        std::fs::set_permissions(node.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    std::fs::write(node.path("log"), "").unwrap();
    chown(node.path("log"), Some(65534), Some(65534)).unwrap();
    let as_nobody = |verbs: &str| {
        let mut command = node.command("/usr/bin/setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(common::client());
        text(&ok(command.args(verbs.split_whitespace()))).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(as_nobody("init count context 0 alloc 1")[1..], ["count: 0 2", "context: 0", "alloc: 0"]);
    close("root/dev/nvidia0");
    let second = &node.store().read().unwrap().node.gpus[1].uuid[4..8];
    let lines = as_nobody("init count device 0 context 1");
    assert!(lines[1] == "count: 0 1" && lines[2].contains(second) && lines[3] == "context: 101", "{lines:?}");
    close("root/dev/nvidia1");
    assert_eq!(as_nobody("init count"), ["init: 100", "count: 3 -1"]);
    assert_eq!(node.client("init count")[1], "count: 0 2", "root has them all");
}

/// A listener where an MPS control daemon would be. It takes every call and says nothing.
struct Daemon {
    dir: String,
}

fn daemon(node: &Node) -> Daemon {
    let dir = node.path("mps");
    std::fs::create_dir_all(&dir).unwrap();
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(dir.join("control")).unwrap()).unwrap();
    rustix::net::listen(&socket, 100).unwrap();
    std::thread::spawn(move || while rustix::net::accept(&socket).is_ok() {});
    Daemon { dir: dir.display().to_string() }
}

#[test]
fn the_context_of_an_mps_client_is_part_of_its_limit() {
    let node = Node::new(V100);
    let daemon = daemon(&node);
    let pipe = ("CUDA_MPS_PIPE_DIRECTORY", daemon.dir.as_str());
    let limit = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G,1=400M");
    let verbs = format!("init context 0 alloc {} info alloc {} wait", 700 * MIB, 30 * MIB);
    let (client, lines) = node.waiting(&verbs, &[pipe, limit]);
    // The context of 304 MiB is part of the limit, which the total does not show.
    assert_eq!(lines[2..], ["alloc: 0", "info: 0 20 16130", "alloc: 2"]);
    assert_eq!(node.used(0, None), 1004);
    let mps: Vec<bool> = node.store().read().unwrap().gpus[0].processes.iter().map(|p| p.mps).collect();
    assert_eq!(mps, [true], "NVML lists it among the MPS clients");
    client.finish();
    assert_eq!(node.client_with("init context 1 info", &[pipe, limit])[2], "info: 0 96 16130");
    // Without a daemon the manual says that a program runs without MPS, and the limit is MPS's.
    let no_daemon = [("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"), limit];
    assert_eq!(node.client_with("init context 0 info", &no_daemon)[2], "info: 0 15826 16130");
}

#[test]
fn the_forty_ninth_client_is_refused() {
    let node = Node::new(V100);
    let daemon = daemon(&node);
    // With all of their SMs, the contexts of 48 clients do not fit into 16 GB.
    let few = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10");
    let pipe = [("CUDA_MPS_PIPE_DIRECTORY", daemon.dir.as_str()), few];
    let mut clients: Vec<_> = (0..48).map(|_| node.waiting("init context 0 wait", &pipe)).collect();
    assert!(clients.iter().all(|(_, lines)| lines == &["init: 0", "context: 0"]));
    assert_eq!(node.client_with("init context 0 context 1", &pipe)[1..], ["context: 808", "context: 0"]);
    assert_eq!(node.client("init context 0")[1], "context: 0", "a process without MPS is no client");
    clients.pop().unwrap().0.finish();
    assert_eq!(node.client_with("init context 0", &pipe)[1], "context: 0");
}

#[test]
fn a_compute_mode_limits_who_makes_a_context() {
    let node = Node::new(V100);
    let mode = |mode| {
        let set = |s: &mut nvidia_ml::engine::state::State| {
            s.gpus[0].compute_mode = mode;
            Ok(())
        };
        node.store().update(set).unwrap();
    };
    mode(2);
    assert_eq!(node.client("init context 0 context 1")[1..], ["context: 46", "context: 0"]);
    mode(3);
    let (client, _) = node.waiting("init context 0 wait", &[]);
    assert_eq!(node.client("init context 0")[1], "context: 46");
    client.finish();
    assert_eq!(node.client("init context 0")[1], "context: 0");
}
