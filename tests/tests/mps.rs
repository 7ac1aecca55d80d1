//! Shares of GPUs, on nodes where other jobs have left no instance.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, looked, variable, with};
use lab::User;

#[test]
fn shares_of_one_user_are_packed_and_limited() {
    with(|cluster| {
        let options = ["--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25%", "-w", "n1"];
        let jobs: Vec<_> =
            (0..2).map(|_| cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap()).collect();
        let saw: Vec<String> = jobs.iter().map(|job| looked(cluster, *job)).collect();
        let pipe = |text: &str| variable(text, "CUDA_MPS_PIPE_DIRECTORY");
        assert!(pipe(&saw[0]).is_some(), "{}", saw[0]);
        assert_eq!(pipe(&saw[0]), pipe(&saw[1]));
        for text in &saw {
            assert_eq!(variable(text, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").as_deref(), Some("25"), "{text}");
            assert!(variable(text, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").is_some(), "{text}");
        }
        // Another user's share never goes to the same daemon.
        let other = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
        assert_ne!(pipe(&looked(cluster, other)), pipe(&saw[0]));
    });
}
