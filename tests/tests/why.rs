//! `tessera why` on a live cluster: who must end for a pending job, told from Slurm's own words.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, admin_comment};
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, JobId, User};
use protocol::Says;

fn why(cluster: &Cluster, job: JobId) -> String {
    let mut command = cluster.command(User::Bob, "tessera").unwrap();
    run(command.args(["why", &job.to_string()])).unwrap().stdout
}

#[test]
fn a_pending_job_learns_who_must_end() {
    let cluster = common::builder().start().unwrap();
    let alices = cluster
        .sbatch(
            User::Alice,
            &["-w", "n2", "-t", "60", "--gpu-isolation=whole", "--gpus-per-node=4"],
            LOOK_AND_STAY,
        )
        .unwrap();
    common::looked(&cluster, alices);
    let named = ["-w", "n2", "--gpu-isolation=mig:2g.20gb"];
    for options in [&named as &[&str], &["-w", "n2", "--gres=gpu:1"]] {
        let bobs = cluster.sbatch(User::Bob, options, LOOK_AND_STAY).unwrap();
        let said = why(&cluster, bobs);
        assert!(
            said.contains(&format!("n2: has room when job {alices} (tessera-alice) ends, expected in ")),
            "{said}"
        );
        wait_for("squeue to say so too", PATIENCE, || {
            let says = admin_comment(&cluster, bobs).says;
            if matches!(says, Says::Slices(_)) { Ok(()) } else { Err(format!("{says:?}")) }
        })
        .unwrap();
        cluster.run(User::Root, "scancel", &[&bobs.to_string()]).unwrap().ok().unwrap();
    }
    let said = why(&cluster, alices);
    assert!(said.contains("does not wait: it is RUNNING on n2"), "{said}");
    cluster.run(User::Root, "scancel", &[&alices.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
}
