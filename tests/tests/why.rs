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

/// Slurm calls a reserved node mixed when jobs run there: who is not of the reservation learns of it all the same.
#[test]
fn reserved_nodes_are_not_called_free() {
    let cluster = common::builder().start().unwrap();
    let bobs = format!("Users={}", User::Bob.name());
    let reserve = ["create", "reservation", "Reservation=class", &bobs, "Nodes=n1"];
    let times = ["StartTime=now", "Duration=300"];
    cluster.run(User::Root, "scontrol", &[&reserve[..], &times].concat()).unwrap().ok().unwrap();
    let said = |user: User, args: &[&str]| {
        let mut command = cluster.command(user, "tessera").unwrap();
        run(command.args(args)).unwrap().stdout
    };
    let reserved = |text: &str| text.contains("n1: reserved by class for another ");
    let explain = ["explain", "--gpu-isolation=mig:1g.5gb"];
    // Its state is brought up to date by slurmctld's own clock.
    wait_for("explain to say so of the idle node", PATIENCE, || {
        let text = said(User::Alice, &explain);
        if reserved(&text) { Ok(()) } else { Err(text) }
    })
    .unwrap();
    let options = ["--reservation=class", "--gpu-isolation=mig:1g.5gb"];
    let runs = cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap();
    common::looked(&cluster, runs);
    for args in [&explain[..], &["free"]] {
        let text = said(User::Alice, args);
        assert!(reserved(&text), "{args:?}: {text}");
    }
    let waits = cluster.sbatch(User::Alice, &["--gpu-isolation=mig:1g.5gb"], "true").unwrap();
    let text = said(User::Alice, &["why", &waits.to_string()]);
    assert!(reserved(&text), "{text}");
    // A job of the reservation may run there, and nowhere else.
    let options = ["--reservation=class", "--gpu-isolation=whole", "--gpus-per-node=8"];
    let inside = cluster.sbatch(User::Bob, &options, "true").unwrap();
    let text = why(&cluster, inside);
    assert!(text.contains(&format!("n1: has room when job {runs} ")) && !text.contains("n2"), "{text}");
    for job in [waits, inside, runs] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        cluster.wait_end(job).unwrap();
    }
}
