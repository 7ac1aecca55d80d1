//! The GPUs of a node that the broker opens, and one that is lost.

use crate::node::{GIB, Node, wait};
use task_control::{Device, Job};

/// Numbers of the GPUs whose device nodes the broker has open, as the kernel shows them.
fn open_gpus(node: &Node) -> Vec<u32> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", node.status().child)).unwrap();
    let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let number = |path: std::path::PathBuf| path.file_name()?.to_str()?.strip_prefix("nvidia")?.parse().ok();
    let mut gpus: Vec<u32> = targets.filter_map(number).collect();
    gpus.sort_unstable();
    gpus
}

/// An open GPU changes no MIG mode, and is not reset.
#[test]
fn no_gpu_is_open_but_those_of_the_jobs_devices() {
    let mut node = Node::of(4);
    node.start();
    node.add_on(12, 0, &[2]);
    assert_eq!(open_gpus(&node), [2]);
    node.add_on(13, 0, &[3]);
    assert_eq!(open_gpus(&node), [3], "a device that is new has to be searched for");
    wait("a look", || (open_gpus(&node) == [2, 3]).then_some(()));
    node.broker().end(13).unwrap();
    wait("an end", || (open_gpus(&node) == [2]).then_some(()));
    // A job that cannot be added leaves none open.
    let missing = Device { uuid: "GPU-0".to_owned(), ..node.device(1) };
    let job = Job { job: 14, uid: 0, seats: 4, gpu_mem_mib: None, devices: vec![node.device(0), missing] };
    node.broker().add(&job).unwrap_err();
    node.broker().end(12).unwrap();
    wait("an end", || open_gpus(&node).is_empty().then_some(()));
}

#[test]
fn a_lost_gpu_ends_no_tasks_on_the_others() {
    let mut node = Node::of(3);
    node.start();
    node.add_on(12, 0, &[0]);
    node.add_on(13, 0, &[1]);
    node.sim(&["fault", "add", "--gpu", "0", "--kind", "gpu-lost"]);
    wait("a look", || node.status().devices[0].held.is_some().then_some(()));
    node.add_on(14, 0, &[1, 2]);
    for job in [13, 14] {
        let client = node.client(job);
        assert!(client.begin(1, GIB));
        client.granted(1);
    }
    let status = node.status();
    assert!(status.devices.iter().skip(1).all(|device| device.held.is_none()), "{status:?}");
    node.sim(&["fault", "clear"]);
    wait("a look", || node.status().devices[0].held.is_none().then_some(()));
}
