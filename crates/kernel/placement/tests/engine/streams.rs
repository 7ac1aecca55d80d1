//! Long random job streams on nodes of real size, audited at every step.

use crate::common::*;
use geometry::*;
use node_state::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};

#[test]
fn streams_of_mixed_jobs_leave_nothing_behind() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    for round in 0..12 {
        let key = ["a100-40gb", "a30-24gb", "rtx-pro-6000-96gb"][round % 3];
        let mode = [MigPolicy::Dynamic, MigPolicy::On, MigPolicy::Off, MigPolicy::Dynamic][round % 4];
        let mut keys = vec![key; 8];
        if round >= 9 {
            keys[5] = "h100-80gb-sxm";
        }
        let mut n = node(&keys, mode);
        let policy = site_policies().new_tree(&mut runner).unwrap().current();
        let mut placed = Vec::new();
        for job in 1..250 {
            let ask = asks(4).new_tree(&mut runner).unwrap().current();
            let ask = Ask { job: JobId(job), ..ask };
            if run(&mut n, &ask, &policy).chosen.is_some() {
                placed.push(job);
            }
            // Ends overtake: the node stays about half full.
            if placed.len() > 12 {
                let at = (0..placed.len()).new_tree(&mut runner).unwrap().current();
                assert!(n.release(JobId(placed.remove(at))));
                assert_eq!(audit::audit_node(&n), []);
            }
        }
        for job in placed {
            assert!(n.release(JobId(job)));
        }
        assert!(n.gpus.iter().all(|g| match &g.state {
            GpuState::Free => true,
            GpuState::Mig(all) => all.iter().all(|i| i.holder == Holder::Idle),
            _ => false,
        }));
    }
}
