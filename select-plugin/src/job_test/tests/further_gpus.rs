//! Jobs of GPU tasks that may use several GPUs of a node.

use super::*;
use crate::effect::{Counted, Devices};

/// Nodes with V100s whose jobs of GPU tasks may use three.
fn site() -> Memory {
    let text = "[tasks]\ngpus_per_job = 3\n\
                [[nodes]]\nnames = \"v1\"\ngpu = \"v100-16gb\"\ncount = 4\nmig = \"off\"\n\
                [[nodes]]\nnames = \"v2\"\ngpu = \"v100-16gb\"\ncount = 2\nmig = \"off\"\n";
    Memory::new(Engine::of_tests(text))
}

/// The devices in Slurm's accounts and the placement of a job with two seats, where Slurm could give these GPUs of each node.
fn placed(memory: &mut Memory, nodes: &[(&str, u64)]) -> (Vec<Devices>, String) {
    let view = job("v1 iso=tasks:probes", GresKind::Shard, 2);
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let offered = Fake::with(&names);
    let chosen = nodes
        .iter()
        .fold(offered.clone(), |fake, (name, free)| fake.choosing(name, free & free.wrapping_neg(), *free));
    let (opinion, effects) = succeeds(memory, Ask::RunNow, &view, &offered, &chosen);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    let placement = effects.iter().find_map(|effect| match effect {
        Effect::Placement(Some(text)) => Some(text.clone()),
        _ => None,
    });
    (effects.iter().filter_map(Effect::devices).cloned().collect(), placement.unwrap())
}

#[test]
fn slurm_counts_all_seats_on_each_gpu() {
    let mut memory = site();
    let (devices, placement) = placed(&mut memory, &[("v1", 0b1111), ("v2", 0b11)]);
    assert_eq!(placement, "v1 job=9;v1=tasks:0*2,1*0,2*0/probes;v2=tasks:0*2,1*0/probes");
    let of = |d: &Devices| (d.devices.clone(), d.shards.unwrap());
    let counted = |per_node| Counted { per_gpu: 2, per_node, of_job: 10 };
    assert_eq!(of(&devices[0]), (vec![(0, 1), (1, 1), (2, 1)], counted(6)));
    assert_eq!(of(&devices[1]), (vec![(0, 1), (1, 1)], counted(4)));
}

#[test]
fn gpus_that_slurm_does_not_have_for_the_job_are_left_out() {
    let mut memory = site();
    let (devices, placement) = placed(&mut memory, &[("v1", 0b1010)]);
    assert_eq!(placement, "v1 job=9;v1=tasks:1*2,3*0/probes");
    assert_eq!(devices[0].devices, [(1, 1), (3, 1)]);
    // On one GPU, everything is as Slurm has counted it.
    let (devices, placement) = placed(&mut memory, &[("v1", 0b0100)]);
    assert_eq!((placement.as_str(), devices[0].shards), ("v1 job=9;v1=tasks:2*2/probes", None));
}
