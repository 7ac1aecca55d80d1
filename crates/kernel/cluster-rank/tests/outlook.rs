//! Learning step by step, and the state of GPUs as capacity.

#![allow(clippy::unwrap_used, reason = "tests")]

use cluster_rank::{Extent, Models, Outlook, Shape, free_milli, part_milli};
use geometry::{GpuIndex, JobId, Model, Uid};
use node_state::{Gpu, MigPolicy, Node, Purpose};
use protocol::{Grant, MigSpec, ShareOn};
use topology::HardwareGraph;

const LARGEST: Extent = Extent { gpus: 8, cores_milli: 128_000 };

fn part(cores: u32, milli: u16) -> Shape {
    Shape { cores_milli: cores * 1000, gpus: 1, milli, models: Models::ANY }
}

#[test]
fn tables_come_after_sixteen_requests_and_a_bounded_number_of_steps() {
    let mut outlook = Outlook::new(LARGEST);
    for _ in 0..15 {
        outlook.arrived(1, part(4, 500));
        outlook.work();
        assert!(outlook.tables().is_none());
    }
    outlook.arrived(1, part(4, 500));
    let steps = (1..100).find(|_| {
        outlook.work();
        outlook.tables().is_some()
    });
    assert_eq!(steps, Some(13));
    let before = format!("{:?}", outlook.tables());
    (0..15).for_each(|_| outlook.arrived(1, part(8, 250)));
    outlook.finish();
    assert_eq!(format!("{:?}", outlook.tables()), before, "the next ones are due at 32 requests");
    outlook.arrived(1, part(8, 250));
    outlook.finish();
    assert_ne!(format!("{:?}", outlook.tables()), before);
}

#[test]
fn shares_leave_what_is_not_promised_and_instances_leave_nothing() {
    let model = Model::find("a100-40gb").unwrap();
    let gpu = |purpose| Gpu::kept(model, purpose, &[]);
    let links = HardwareGraph::uniform(3, 0.0);
    let mut node = Node::new(vec![gpu(Purpose::Any), gpu(Purpose::Any), gpu(Purpose::Slurm)], links);
    let free = |node: &Node| node.gpus.iter().map(free_milli).collect::<Vec<_>>();
    assert_eq!(free(&node), [1000, 1000, 0]);
    let share = |mem_mib| Grant::Mps { on: ShareOn::Gpu(GpuIndex(0)), mem_mib, threads: 50 };
    let half = model.visible_mib() / 2;
    node.apply(JobId(1), Uid(1), &share(half)).unwrap();
    node.apply(JobId(2), Uid(1), &share(half / 2)).unwrap();
    assert!((250..=252).contains(&free(&node)[0]), "{:?}", free(&node));
    let small = model.profiles.iter().find(|profile| profile.name == "1g.5gb").unwrap();
    let instance = MigSpec { gpu: GpuIndex(1), profile: small.id, start: small.starts[0] };
    node.apply(JobId(3), Uid(1), &Grant::Mig(vec![instance])).unwrap();
    assert_eq!(free(&node)[1], 0);
    node.release(JobId(3));
    assert_eq!(free(&node)[1], 1000, "an idle instance goes when its slices are needed");
    assert_eq!([part_milli(0, model), part_milli(u64::MAX, model)], [1, 1000]);
    assert_eq!(Gpu::new(model, MigPolicy::Dynamic).purpose, Purpose::Any);
}
