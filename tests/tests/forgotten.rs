//! A killed slurmctld that has forgotten what happened in its last seconds.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{LOOK, LOOK_AND_STAY, looked, variable, with};
use error_chain::with_causes;
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::{Cluster, Daemon, JobId, User};
use slurm_releases::Release;

const MIG: [&str; 3] = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];

/// What slurmctld knows now, to be all that it knows later. `job` is one that it knows.
fn snapshot(cluster: &Cluster, job: JobId) -> PathBuf {
    cluster.wait_saved(job).unwrap();
    let copy = cluster.layout().at("state-then");
    replace(&cluster.layout().at("state"), &copy);
    copy
}

fn replace(from: &Path, to: &Path) {
    // slurmctld may be at work there: for a moment a file that it replaces has no name, or only one that ends in `.new`.
    wait_for("a copy of slurmctld's files at rest", PATIENCE, || {
        let _ = std::fs::remove_dir_all(to);
        run(Command::new("cp").arg("-a").args([from, to])).and_then(Done::ok).map_err(|e| with_causes(&e))?;
        let files = std::fs::read_dir(to).map_err(|e| e.to_string())?;
        let names: Vec<_> = files.flatten().map(|file| file.file_name()).collect();
        let moving = names.iter().any(|name| name.as_encoded_bytes().ends_with(b".new"));
        if moving { Err(format!("{names:?}")) } else { Ok(()) }
    })
    .unwrap();
}

/// slurmctld is killed, and knows again what it knew then.
fn forget(cluster: &mut Cluster, then: &Path) {
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    replace(then, &cluster.layout().at("state"));
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
}

fn partition(cluster: &Cluster, state: &str) {
    let state = format!("state={state}");
    cluster.run(User::Root, "scontrol", &["update", "partitionname=gpu", &state]).unwrap().ok().unwrap();
}

/// Waits for a job's end. Slurm itself may take a job that it starts again for a duplicate, or wait in vain for the
/// prolog that it has skipped, and then drains the node and holds the job.
fn ended(cluster: &Cluster, job: JobId) -> String {
    let over = |state: &str| !["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"].contains(&state);
    wait_for("the job's end", PATIENCE, || {
        let now = cluster.job(job).map_err(|error| with_causes(&error))?;
        if over(now.state()) {
            return Ok(now.state().to_owned());
        }
        if now.get("Restarts") != "0" {
            let id = job.to_string();
            let _ = cluster.run(User::Root, "scontrol", &["update", "nodename=n1", "state=resume"]);
            let _ = cluster.run(User::Root, "scontrol", &["release", &id]);
            // slurmd refuses credentials of the second in which the job was requeued.
            std::thread::sleep(std::time::Duration::from_secs(2));
            let now = format!("jobid={id}");
            let _ = cluster.run(User::Root, "scontrol", &["update", &now, "StartTime=now"]);
        }
        Err(format!("{} ({})", now.state(), now.reason()))
    })
    .unwrap()
}

#[test]
fn jobs_begun_again_without_a_prolog_get_their_instances() {
    with(|cluster| {
        partition(cluster, "down");
        let jobs: Vec<JobId> = (0..8).map(|_| cluster.sbatch(User::Alice, &MIG, LOOK).unwrap()).collect();
        let then = snapshot(cluster, jobs[7]);
        partition(cluster, "up");
        for job in &jobs {
            assert_eq!(ended(cluster, *job), "COMPLETED", "{}", cluster.output(*job));
        }
        cluster.wait_idle().unwrap();
        // Slurm 22.05 skips the prologs of all but the first of jobs that it starts again in the same two seconds: on a slow
        // machine there may be none.
        let skipped = (0..4).any(|_| {
            for job in &jobs {
                std::fs::remove_file(cluster.layout().jobs().join(format!("{job}.out"))).unwrap();
            }
            forget(cluster, &then);
            partition(cluster, "up");
            for job in &jobs {
                assert_eq!(ended(cluster, *job), "COMPLETED", "{}", cluster.output(*job));
                let output = cluster.output(*job);
                let device = variable(&output, "CUDA_VISIBLE_DEVICES").unwrap_or_default();
                assert!(device.starts_with("MIG-") && !device.contains(','), "{output}");
                assert!(
                    output.contains(&format!("UUID: {device}")),
                    "it exists, and the job sees it: {output}"
                );
            }
            cluster.wait_idle().unwrap();
            let log = std::fs::read(cluster.layout().log("slurmd-n1")).unwrap();
            String::from_utf8_lossy(&log).contains("made at its start, for slurmd has not run its prolog")
        });
        // Other series run every prolog.
        assert!(skipped || cluster.release() != Release::V22_05, "no prolog was skipped");
    });
}

#[test]
fn what_a_forgotten_job_has_is_given_back_when_it_is_aborted() {
    with(|cluster| {
        let held = cluster.sbatch(User::Alice, &["-H", "-w", "n1"], LOOK).unwrap();
        let then = snapshot(cluster, held);
        let running = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
        // Without a step slurmd has nothing to report, and nothing is aborted.
        looked(cluster, running);
        forget(cluster, &then);
        // No other job's prolog comes by here, and the next health check only after a minute.
        wait_for("the epilog to have Slurm asked", PATIENCE, || {
            let log = std::fs::read(cluster.layout().log("slurmd-n1")).unwrap();
            let log = String::from_utf8_lossy(&log);
            // 26.05 writes JobId=10 and an SLUID.
            let names = [format!("job {running} "), format!("JobId={running} ")];
            let aborted =
                |line: &str| line.contains("abort completed") && names.iter().any(|name| line.contains(name));
            let after = log.lines().skip_while(|line| !aborted(line));
            let after: String = after.collect();
            if after.contains("tessera node reconcile --if-dead") {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .unwrap();
        wait_for("the job to be gone", PATIENCE, || {
            cluster.assert_clean().map_err(|error| with_causes(&error))
        })
        .unwrap();
        cluster.run(User::Root, "scancel", &[&held.to_string()]).unwrap();
    });
}

#[test]
fn what_a_forgotten_job_has_is_given_back_by_the_health_check() {
    with(|cluster| {
        let (uid, gid) = User::Alice.ids().unwrap();
        let (uid, gid) = (uid.to_string(), gid.to_string());
        let args =
            ["node", "realise", "--uid", &uid, "--gid", &gid, "--placement", "v1 job=99999;n1=whole:0"];
        wait_for("the journal to have a job that Slurm does not know", PATIENCE, || {
            run(cluster.command_on("n1", User::Root, "tessera").unwrap().args(args)).unwrap().ok().unwrap();
            // slurmd's own health check may just have come by.
            if cluster.leftovers().unwrap().is_empty() { Err("clean".to_owned()) } else { Ok(()) }
        })
        .unwrap();
        cluster.health_check("n1").unwrap();
        wait_for("the job to be gone", PATIENCE, || {
            cluster.assert_clean().map_err(|error| with_causes(&error))
        })
        .unwrap();
    });
}
