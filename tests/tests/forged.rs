//! What users write into their jobs is printed by squeue and sacct as it is: no newline in it makes another job of it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::builder;
use lab::command::{PATIENCE, wait_for};
use lab::{Cluster, JobId, User};
use slurm_releases::Release;

/// A note as `tessera plan submit` writes it into a job's Comment.
const NOTE: &str = "tessera-plan v1 plan=forged at=1790000000 policy=tessera overhead=0.3 task=a on=n1:1/2g.10gb@4 \
                    begin=0.17 end=31.47";

/// A job whose comment and account hold, on a line of their own, what squeue and sacct would print of `victim`.
fn forge(cluster: &Cluster, victim: JobId) -> JobId {
    let comment = format!("--comment=x\n{:<14}{NOTE}", victim.to_string());
    let account = format!("--account=x\n{victim:<14}{victim:<14}", victim = victim.to_string());
    let options = ["--hold", "-n1", "--mem=1G", &comment, &account];
    cluster.sbatch(User::Alice, &options, "true").unwrap()
}

/// Checks that every record has the same length.
fn in_step(cluster: &Cluster, program: &str, args: &[&str], length: usize, jobs: usize) {
    let out = cluster.run(User::Root, program, args).unwrap().ok().unwrap();
    assert_eq!(out.len(), jobs * (length + 1), "{program}: {out:?}");
    assert!(out.as_bytes().chunks(length + 1).all(|record| record.ends_with(b"\n")), "{program}: {out:?}");
    assert!(out.lines().count() > jobs, "the newlines are there: {out:?}");
}

#[test]
fn a_comment_with_a_newline_is_no_other_jobs_plan() {
    let cluster = builder().accounting().slurm_conf("AccountingStoreFlags=job_comment").start().unwrap();
    let victim = cluster.sbatch(User::Bob, &["--hold", "-n1", "--mem=1G"], "true").unwrap();
    let forged = forge(&cluster, victim);
    let said = cluster.run(User::Root, "tessera", &["plan", "reality", &victim.to_string()]).unwrap();
    assert!(said.stderr.contains("Slurm knows no plan for these jobs"), "{said:?}");
    in_step(&cluster, "squeue", &["-h", "-a", "-t", "all", "-O", "JobID:14,Comment:1024"], 1038, 2);
    cluster.run(User::Root, "scancel", &[&victim.to_string(), &forged.to_string()]).unwrap().ok().unwrap();
    let list = format!("{victim},{forged}");
    let sacct = ["-X", "-n", "-o", "JobIDRaw%14,Comment%1024", "-j", &list];
    wait_for("sacct to have the comment", PATIENCE, || {
        let out = cluster.run(User::Root, "sacct", &sacct).unwrap();
        if out.stdout.contains("forged") { Ok(()) } else { Err(format!("{out:?}")) }
    })
    .unwrap();
    in_step(&cluster, "sacct", &sacct, 15 + 1025, 2);
}

#[test]
fn squeue_pads_and_cuts_alike_24_11() {
    let cluster = builder().slurm(Release::V24_11).stock(true).start().unwrap();
    let victim = cluster.sbatch(User::Bob, &["--hold", "-n1", "--mem=1G"], "true").unwrap();
    forge(&cluster, victim);
    let squeue =
        ["-h", "-a", "-t", "all", "-O", "JobID:14,Account:64,StartTime:22,Comment:1024,admin_comment:2048"];
    in_step(&cluster, "squeue", &squeue, 14 + 64 + 22 + 1024 + 2048, 2);
}
