//! Pending jobs: another number of whole GPUs is taken, any other change of GRES is refused with its reason.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, admin_comment, looked, variable};
use lab::{Cluster, JobId, User};
use protocol::CommentBody;
use slurm_releases::Release;

fn update(cluster: &Cluster, job: JobId, what: &str) -> lab::command::Done {
    cluster.run(User::Alice, "scontrol", &["update", &format!("JobId={job}"), what]).unwrap()
}

#[test]
fn pending_jobs_are_resized_or_the_user_is_told_why_not() {
    let cluster = common::builder().start().unwrap();
    let held = |options: &[&str]| {
        cluster.sbatch(User::Alice, &[&["-H", "-w", "n1"], options].concat(), LOOK_AND_STAY).unwrap()
    };
    let whole = held(&["--gpu-isolation=whole", "--gpus-per-node=1"]);
    update(&cluster, whole, "gres=gpu:3").ok().unwrap();
    let too_many = update(&cluster, whole, "gres=gpu:9").refused().unwrap();
    let cut = held(&["--gpu-isolation=mig:1g.5gb"]);
    let refused = update(&cluster, cut, "gres=shard:20").refused().unwrap();
    let emptied = held(&["--gpu-isolation=mig:2g.10gb"]);
    let not_given_up =
        ["gres=", "TresPerNode="].map(|what| update(&cluster, emptied, what).refused().unwrap());
    let told = |said: &str, job, words: &str| {
        let comment = admin_comment(&cluster, job);
        let noted = matches!(&comment.says, CommentBody::Unchanged(why) if why.contains(words));
        // 22.05 has no place for a plugin's message.
        let shown = if cluster.release() == Release::V22_05 { noted } else { said.contains(words) };
        assert!(shown, "{said}: {comment}");
    };
    told(&too_many, whole, "9 GPUs do not fit on an empty node, 8 do");
    told(&refused, cut, "cancel the job and submit it anew");
    not_given_up.iter().for_each(|said| told(said, emptied, "cannot give up its GRES"));
    assert!(cluster.job(emptied).unwrap().get("TresPerNode").contains("shard:10"));
    cluster.run(User::Alice, "scancel", &[&emptied.to_string()]).unwrap().ok().unwrap();
    for job in [whole, cut] {
        cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    }
    let saw = looked(&cluster, whole);
    assert_eq!(cluster.gpus_of(whole).unwrap().len(), 3, "{saw}");
    assert_eq!(variable(&saw, "CUDA_VISIBLE_DEVICES").unwrap().matches("GPU-").count(), 3, "{saw}");
    assert_eq!(common::profiles(&looked(&cluster, cut)), ["1g.5gb"]);
    assert!(matches!(admin_comment(&cluster, cut).says, CommentBody::Started(_)));
    let late = update(&cluster, whole, "gres=gpu:2").refused().unwrap();
    assert!(!late.is_empty());
    for job in [whole, cut] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
    }
    cluster.wait_idle().unwrap();
    cluster.complete(User::Alice, &["-w", "n1", "--gpu-isolation=whole"], LOOK).unwrap();
}
