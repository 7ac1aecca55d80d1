//! Compute instances: jobs of one user beside each other in one GPU instance.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, admin_comment, instances, looked, variable, with};
use lab::{Cluster, JobId, User};
use protocol::CommentBody;

const FOUR: [&str; 4] = ["--gpu-isolation=mig-shared:4c.7g.40gb", "--gpu-mem=20G", "-w", "n1"];
const THREE: [&str; 4] = ["--gpu-isolation=mig-shared:3c.7g.40gb", "--gpu-mem=20G", "-w", "n1"];

fn layout(cluster: &Cluster) -> String {
    let layouts = cluster.published_layouts().unwrap();
    layouts.into_iter().find(|(node, _)| node == "n1").unwrap().1
}

/// The instance that `CUDA_VISIBLE_DEVICES` names: profile and UUID. A user's jobs see each other's instances.
fn own(saw: &str) -> (String, String) {
    let uuid = variable(saw, "CUDA_VISIBLE_DEVICES").unwrap();
    instances(saw).into_iter().find(|(_, other)| *other == uuid).unwrap_or_else(|| panic!("{saw}"))
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

#[test]
fn four_and_three_slices_run_side_by_side() {
    with(|cluster| {
        let four = cluster.sbatch(User::Alice, &FOUR, LOOK_AND_STAY).unwrap();
        let saw_four = looked(cluster, four);
        let three = cluster.sbatch(User::Alice, &THREE, LOOK_AND_STAY).unwrap();
        let saw_three = looked(cluster, three);
        let (hers, other) = (own(&saw_four), own(&saw_three));
        assert_eq!((hers.0.as_str(), other.0.as_str()), ("4c.7g.40gb", "3c.7g.40gb"), "{saw_three}");
        assert_ne!(hers.1, other.1);
        // Both are in one GPU instance of one GPU, whose memory they have stated together.
        let shared = format!("=mig[7g.40gb@0:ci[4c@0:job{four}:19074M,3c@4:job{three}:19074M]]");
        assert!(layout(cluster).contains(&shared), "{}", layout(cluster));
        let CommentBody::Started(started) = admin_comment(cluster, three).says else {
            panic!("{:?}", admin_comment(cluster, three))
        };
        assert!(started.got.ends_with("/7g.40gb@0/3c@4/mem=19074"), "{started:?}");
        assert!(started.why.contains("joins others in a GPU instance"), "{started:?}");
        // Root sees both on the node.
        let all = cluster.run(User::Root, "srun", &["-w", "n1", "--overlap", "nvidia-smi", "-L"]).unwrap();
        // Beside what earlier tests have left idle.
        let all = instances(&all.ok().unwrap());
        assert!(all.contains(&hers) && all.contains(&other), "{all:?}");
        // Its neighbour goes, and the job that stays keeps its part.
        cancel(cluster, four);
        cluster.wait_end(four).unwrap();
        let id = format!("--jobid={three}");
        let still = cluster.run(User::Alice, "srun", &[&id, "--overlap", "nvidia-smi", "-L"]).unwrap();
        assert_eq!(instances(&still.ok().unwrap()), [other]);
        // The free slices are the next job's, of another size.
        let two = ["--gpu-isolation=mig-shared:2c.7g.40gb", "--gpu-mem=20G", "-w", "n1"];
        let saw = cluster.complete(User::Alice, &two, LOOK).unwrap();
        assert_eq!(own(&saw).0, "2c.7g.40gb", "{saw}");
    });
}

#[test]
fn nobody_is_beside_another_user_unless_the_site_says_so() {
    with(|cluster| {
        let hers = cluster.sbatch(User::Alice, &FOUR, LOOK_AND_STAY).unwrap();
        looked(cluster, hers);
        let his = cluster.sbatch(User::Bob, &THREE, LOOK_AND_STAY).unwrap();
        let saw = looked(cluster, his);
        // He sees his own alone, in a GPU instance of its own.
        assert_eq!(instances(&saw), [own(&saw)]);
        let line = layout(cluster);
        for (job, size) in [(hers, "4c@0"), (his, "3c@4")] {
            let alone = format!("=mig[7g.40gb@0:ci[{size}:job{job}:19074M]]");
            assert!(line.contains(&alone), "{line}");
        }
    });
}

#[test]
fn a_job_that_states_no_memory_is_refused() {
    with(|cluster| {
        let refused =
            cluster.sbatch(User::Alice, &["--gpu-isolation=mig-shared:4c.7g.40gb"], LOOK).unwrap_err();
        assert!(format!("{refused:?}").contains("also needs --gpu-mem"), "{refused:?}");
    });
}

#[test]
fn a_power_cap_travels_with_the_placement() {
    with(|cluster| {
        for (options, got) in [
            (&["-w", "n1", "--gpu-power=200W"][..], "/cap=200"),
            (&["-w", "n1", "--gpu-power=190", "--gpu-isolation=mig:2g.10gb"][..], "/cap=190"),
            (&["-w", "n1", "--gres=gpu:2"][..], "whole:0,3"),
        ] {
            let job = cluster.sbatch(User::Alice, options, LOOK).unwrap();
            assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
            let CommentBody::Started(started) = admin_comment(cluster, job).says else {
                panic!("{options:?}")
            };
            assert!(started.got.ends_with(got), "{options:?}: {started:?}");
        }
    });
}
