//! `tessera why` on a live cluster: who must end for a pending job, told from Slurm's own words.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, admin_comment};
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, JobId, User};
use protocol::CommentBody;

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
            if matches!(says, CommentBody::Slices(_)) { Ok(()) } else { Err(format!("{says:?}")) }
        })
        .unwrap();
        cluster.run(User::Root, "scancel", &[&bobs.to_string()]).unwrap().ok().unwrap();
    }
    // A job that wants its node to itself waits for one without GPUs too.
    let in_the_way = cluster.sbatch(User::Alice, &["-w", "n1"], "exec sleep 600").unwrap();
    cluster.wait_running(in_the_way).unwrap();
    let alone =
        cluster.sbatch(User::Bob, &["-w", "n1", "--exclusive", "--gpu-isolation=whole"], "true").unwrap();
    let said = why(&cluster, alone);
    let ends = format!("n1: has room when job {in_the_way} (tessera-alice) ends");
    assert!(said.contains("and for whole nodes") && said.contains(&ends), "{said}");
    for job in [alone, in_the_way] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
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

/// Options of Slurm's own that choose nodes or count GPUs: where sbatch refuses a job, explain finds no node for it.
#[test]
fn explain_takes_what_sbatch_takes() {
    let cluster = common::builder().start().unwrap();
    for (node, feature) in [("n1", "fast"), ("n2", "slow")] {
        let update = ["update", &format!("NodeName={node}"), &format!("Features={feature}")];
        cluster.run(User::Root, "scontrol", &update).unwrap().ok().unwrap();
    }
    let table: [(&[&str], &[&str]); 9] = [
        (&["--constraint=fast"], &["n1"]),
        (&["--constraint=(fast|slow)&slow"], &["n2"]),
        (&["--constraint=fast|slow"], &["n1", "n2"]),
        (&["--constraint=fast&slow"], &[]),
        (&["--constraint=absent"], &[]),
        (&["--exclude=n1"], &["n2"]),
        (&["--exclude=n[1-2]"], &[]),
        (&["--reservation=none"], &[]),
        (&["--gpus-per-task=1", "--ntasks-per-node=2"], &["n1", "n2"]),
    ];
    let mut wrong = Vec::new();
    for (options, nodes) in table {
        let options = [&["--gpu-isolation=whole"], options].concat();
        let submitted = cluster
            .try_sbatch(User::Alice, &[&options[..], &["-n2", "--test-only"]].concat(), "true")
            .unwrap();
        let mut tessera = cluster.command(User::Alice, "tessera").unwrap();
        let said = run(tessera.arg("explain").args(&options)).unwrap();
        let named =
            |node: &&str| said.stdout.lines().any(|line| line.contains(node) && line.contains(": now: "));
        let named: Vec<_> = ["n1", "n2"].into_iter().filter(named).collect();
        let agree = (submitted.code == Some(0)) == (said.code == Some(0));
        if !agree || named != nodes {
            wrong.push(format!("{options:?}: {submitted:?}\n{said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
