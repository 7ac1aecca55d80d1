//! Compute instances of several jobs in one GPU instance.

use node_layout::layout_of;
use node_state::{GpuState, Holder};

use super::*;
use crate::{Fault, task_environment};

/// Compute instances and shares of jobs on GPU 0, as the layout line shows them.
fn layout(node: &TestNode) -> String {
    let line = layout_of(&node.inspect().node).to_string();
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn two_jobs_share_a_gpu_instance_and_one_goes() {
    on_node("tests::compute::two_jobs_share_a_gpu_instance_and_one_goes", |node| {
        let four = node.realise(1, ALICE, compute(0, "4c.7g.40gb", 0)).unwrap().entry;
        let three = node.realise(2, ALICE, compute(0, "3c.7g.40gb", 4)).unwrap().entry;
        let uuid = |e: &node_journal::Entry| e.instances[0].live.clone().unwrap().uuid;
        assert_ne!(uuid(&four), uuid(&three));
        assert_eq!(four.device_nodes[0], three.device_nodes[0], "the GPU instance's node is both jobs'");
        assert_ne!(four.device_nodes[1], three.device_nodes[1]);
        let env = task_environment(&three, 0, 1);
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), uuid(&three));
        assert_eq!(var(&env, "TESSERA_INSTANCES"), "3c.7g.40gb@0:0");
        assert_eq!(var(&env, "TESSERA_GPU_MEM_MIB"), "10000");
        let both = "gpu0=mig[7g.40gb@0:ci[4c@0:job1:10000M,3c@4:job2:10000M]]";
        assert_eq!(layout(node), both);
        node.reconcile(&[1, 2]);
        node.assert_clean(&[1, 2]);
        // What one gives back stays the other's.
        node.release(1);
        assert_eq!(node.access(&three.device_nodes[0]), (ALICE, 0o400));
        assert_eq!(node.access(&three.device_nodes[1]), (ALICE, 0o400));
        assert_eq!(node.access(&four.device_nodes[1]), (0, 0o400));
        node.assert_clean(&[2]);
        // The idle 4c goes for a 2c, and the 3c is not touched.
        let two = node.realise(3, ALICE, compute(0, "2c.7g.40gb", 2)).unwrap().entry;
        assert_eq!(layout(node), "gpu0=mig[7g.40gb@0:ci[2c@2:job3:10000M,3c@4:job2:10000M]]");
        let now = node.inspect().gpus[0].instances[0].compute.clone();
        assert!(now.len() == 2 && now.iter().any(|c| c.uuid == uuid(&three)), "{now:?}");
        assert_ne!(uuid(&two), uuid(&four));
        node.release(2);
        node.release(3);
        for name in three.device_nodes.iter().chain(&two.device_nodes).filter(|n| n.contains('/')) {
            assert_eq!(node.access(name), (0, 0o400), "{name}");
        }
        node.reconcile(&[]);
        node.assert_clean(&[]);
        assert_eq!(layout(node), "gpu0=mig[7g.40gb@0:idle]");
    });
}

#[test]
fn a_divided_instance_is_made_whole_for_a_job_of_its_own() {
    on_node("tests::compute::a_divided_instance_is_made_whole_for_a_job_of_its_own", |node| {
        node.realise(1, ALICE, compute(0, "3c.7g.40gb", 4)).unwrap();
        node.release(1);
        let own = node.realise(2, BOB, mig(&[(0, "7g.40gb", 0)])).unwrap().entry;
        let compute_instances = node.inspect().gpus[0].instances[0].compute.clone();
        assert!(compute_instances.len() == 1 && compute_instances[0].slices == 7, "{compute_instances:?}");
        let holder = |node: &TestNode| match &node.inspect().node.gpus[0].state {
            GpuState::Mig(all) => all[0].holder.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(holder(node), Holder::Isolated(JobId(2)));
        // A job that has it alone does not give room, whatever a placement says.
        let error = node.realise(3, BOB, compute(0, "1c.7g.40gb", 6)).unwrap_err();
        assert!(matches!(&error, RealiseError::JobFailed(Fault::Held { .. })), "{error}");
        node.release(3);
        node.release(2);
        // And back: the whole compute instance goes for a part.
        let part = node.realise(4, ALICE, compute(0, "1c.7g.40gb", 6)).unwrap().entry;
        assert_ne!(part.instances[0].live, own.instances[0].live);
        node.release(4);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn users_beside_each_other_have_the_gpu_instances_node_in_common_alone() {
    let name = "tests::compute::users_beside_each_other_have_the_gpu_instances_node_in_common_alone";
    on_node(name, |node| {
        let hers = node.realise(1, ALICE, compute(2, "4c.7g.80gb", 0)).unwrap().entry;
        let his = node.realise(2, BOB, compute(2, "3c.7g.80gb", 4)).unwrap().entry;
        let [of_gi, her_ci, his_ci] = [&hers.device_nodes[0], &hers.device_nodes[1], &his.device_nodes[1]];
        assert_eq!(node.access(of_gi), (0, 0o444));
        assert_eq!((node.access(her_ci), node.access(his_ci)), ((ALICE, 0o400), (BOB, 0o400)));
        assert_eq!(node.access("nvidia2"), (0, 0o666));
        node.reconcile(&[1, 2]);
        node.assert_clean(&[1, 2]);
        node.release(1);
        assert_eq!((node.access(of_gi), node.access(her_ci)), ((BOB, 0o400), (0, 0o400)));
        node.assert_clean(&[2]);
        node.release(2);
        assert_eq!((node.access(of_gi), node.access(his_ci)), ((0, 0o400), (0, 0o400)));
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn two_jobs_never_have_a_compute_slice_in_common() {
    on_node("tests::compute::two_jobs_never_have_a_compute_slice_in_common", |node| {
        node.realise(1, ALICE, compute(0, "4c.7g.40gb", 0)).unwrap();
        for taken in [("4c.7g.40gb", 0), ("3c.7g.40gb", 0), ("1c.7g.40gb", 3)] {
            let error = node.realise(2, ALICE, compute(0, taken.0, taken.1)).unwrap_err();
            assert!(matches!(&error, RealiseError::JobFailed(Fault::Held { .. })), "{taken:?}: {error}");
        }
        node.release(2);
        // A second prolog finds its work done.
        let again = node.realise(1, ALICE, compute(0, "4c.7g.40gb", 0)).unwrap().entry;
        assert_eq!(
            again.instances,
            node.realise(1, ALICE, compute(0, "4c.7g.40gb", 0)).unwrap().entry.instances
        );
        node.release(1);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}
