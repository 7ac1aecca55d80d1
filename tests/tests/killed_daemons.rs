//! Daemons that die in the middle of a job, and a driver that is slow or busy.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use common::processes::{cancel_until_known, outlive_slurmd, processes, wait_quiet, working};
use common::{LOOK, LOOK_AND_STAY, instances, looked, with};
use error_chain::with_causes;
use lab::command::{Done, PATIENCE, wait_for};
use lab::{Cluster, Daemon, User};
use rustix::process::Signal;

const MIG: [&str; 3] = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];

fn n1() -> Daemon {
    Daemon::Slurmd("n1".to_owned())
}

fn restart(cluster: &mut Cluster, daemon: &Daemon) {
    cluster.start(daemon).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
}

fn state(cluster: &Cluster) -> Result<String, String> {
    let state = cluster.run(User::Root, "sinfo", &["-h", "-n", "n1", "-o", "%T"]);
    state.and_then(Done::ok).map_err(|e| with_causes(&e))
}

/// Waits until the node has no job and takes some again, whatever was made of it, and whenever; and until nobody works on
/// its GPUs.
fn wait_resumed(cluster: &Cluster) {
    wait_quiet(cluster).unwrap();
    wait_for("n1 to be idle", PATIENCE, || {
        let state = state(cluster)?;
        if state.trim() == "idle" {
            return Ok(());
        }
        if state.contains("drain") || state.contains("down") {
            let _ = cluster.run(User::Root, "scontrol", &["update", "nodename=n1", "state=resume"]);
        }
        Err(state)
    })
    .unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    // slurmd may have started one since.
    wait_quiet(cluster).unwrap();
}

#[test]
fn a_killed_slurmctld_knows_who_has_what() {
    with(|cluster| {
        let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
        let hers = instances(&looked(cluster, job));
        let before = cluster.published_layouts().unwrap();
        cluster.wait_saved(job).unwrap();
        cluster.kill9(&Daemon::Slurmctld).unwrap();
        restart(cluster, &Daemon::Slurmctld);
        wait_for("the layouts to be as before", PATIENCE, || {
            let now = cluster.published_layouts().map_err(|error| with_causes(&error))?;
            if now == before { Ok(()) } else { Err(format!("{now:?}, before {before:?}")) }
        })
        .unwrap();
        let other = cluster.complete(User::Bob, &MIG, LOOK).unwrap();
        assert_ne!(instances(&other), hers, "{other}");
        assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
    });
}

#[test]
fn a_killed_slurmd_loses_no_job() {
    with(|cluster| {
        let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
        let hers = instances(&looked(cluster, job));
        cluster.kill9(&n1()).unwrap();
        restart(cluster, &n1());
        // Reconciliation, begun at slurmd's start, leaves the live job's instance alone.
        std::thread::sleep(Duration::from_secs(2));
        let other = cluster.complete(User::Bob, &MIG, LOOK).unwrap();
        assert_eq!(instances(&other).len(), 1, "{other}");
        assert_ne!(instances(&other), hers, "{other}");
    });
}

#[test]
fn a_killed_step_daemon_gives_its_instance_back() {
    with(|cluster| {
        let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
        looked(cluster, job);
        kill_steps(cluster);
        // slurmctld takes the job for running until somebody, or its time limit, ends it.
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
        wait_resumed(cluster);
    });
}

/// Kills the step daemons, and the tasks they can no longer end.
fn kill_steps(cluster: &Cluster) {
    for name in ["slurmstepd", "slurm_script", "sleep"] {
        for process in processes(name, cluster) {
            process.signal(Signal::KILL);
        }
    }
}

#[test]
fn a_slurmd_killed_with_its_steps_leaves_nothing() {
    with(|cluster| {
        let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
        looked(cluster, job);
        cluster.kill9(&n1()).unwrap();
        kill_steps(cluster);
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
        restart(cluster, &n1());
        wait_resumed(cluster);
    });
}

/// slurmd knows that a job is to end when it is killed, and so runs no epilog for it. The job outlives slurmd's next start,
/// and no health check helps.
#[test]
fn a_slurmd_killed_while_a_job_ends_leaves_nothing() {
    with(|cluster| {
        let health = cluster.layout().at("etc/tessera-health");
        std::fs::set_permissions(&health, Permissions::from_mode(0o644)).unwrap();
        let go = cluster.layout().jobs().join("may-end");
        let script = format!("trap '' TERM\necho looked\nuntil test -e {}; do sleep 0.1; done", go.display());
        let job = cluster.sbatch(User::Alice, &MIG, &script).unwrap();
        looked(cluster, job);
        cancel_until_known(cluster, job);
        cluster.kill9(&n1()).unwrap();
        restart(cluster, &n1());
        // Its first pass is over: the job lives, and keeps its instance.
        std::thread::sleep(Duration::from_secs(2));
        let journalled = cluster.layout().at(&format!("nodes/n1/state/jobs/{job}.json"));
        assert!(journalled.exists(), "{}", cluster.output(job));
        std::fs::write(&go, "").unwrap();
        wait_for("what the job has to be given back", PATIENCE, || {
            if journalled.exists() { Err("not yet".to_owned()) } else { Ok(()) }
        })
        .unwrap();
        std::fs::set_permissions(&health, Permissions::from_mode(0o755)).unwrap();
        wait_resumed(cluster);
    });
}

#[test]
fn a_killed_prolog_leaves_nothing() {
    with(|cluster| {
        // Long enough to meet the prolog at work on an instance that is not there yet.
        cluster.fault("n1", &["add", "--kind", "busy-destroy", "--for", "20s"]).unwrap();
        let keep = cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb", "-w", "n1"], LOOK).unwrap();
        assert_eq!(instances(&keep).len(), 1, "{keep}");
        // Needs the slices of every idle instance on its GPU, which cannot be destroyed for now.
        let options = ["--gpu-isolation=mig:7g.40gb", "-w", "n1"];
        let jobs: Vec<_> =
            (0..8).map(|_| cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap()).collect();
        let met = wait_for("a prolog", Duration::from_secs(15), || {
            working(cluster, "slurmstepd", "prolog").ok_or_else(|| "none".to_owned())
        });
        if let Ok(prolog) = met {
            prolog.signal(Signal::KILL);
        }
        for job in jobs {
            cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
        }
        cluster.fault("n1", &["clear"]).unwrap();
        cluster.kill9(&n1()).unwrap();
        cluster.start(&n1()).unwrap();
        wait_resumed(cluster);
    });
}

#[test]
fn a_prolog_that_outlives_its_slurmd_leaves_nothing() {
    with(|cluster| {
        outlive_slurmd(cluster);
        wait_resumed(cluster);
    });
}

/// Kills the epilog of a job. False if it had ended before it was seen.
fn kill_an_epilog(cluster: &Cluster) -> bool {
    let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
    looked(cluster, job);
    let journalled = cluster.layout().at(&format!("nodes/n1/state/jobs/{job}.json"));
    // An epilog waits some seconds for this lock before it forgets its job.
    let lock = std::fs::File::open(cluster.layout().at("nodes/n1/state/locks/nodes")).unwrap();
    lock.lock().unwrap();
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
    let epilog = wait_for("the epilog", PATIENCE, || match working(cluster, "slurmstepd", "epilog") {
        None if journalled.exists() => Err("none".to_owned()),
        met => Ok(met),
    });
    epilog.unwrap().inspect(|epilog| epilog.signal(Signal::KILL)).is_some()
}

#[test]
fn the_place_of_a_killed_epilog_is_taken_over() {
    with(|cluster| {
        assert!((0..10).any(|_| kill_an_epilog(cluster)), "no epilog was met at work");
        wait_for("Slurm to notice", PATIENCE, || {
            let state = state(cluster)?;
            if state.contains("drain") { Ok(()) } else { Err(state) }
        })
        .unwrap();
        wait_resumed(cluster);
        let options = ["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1"];
        let job = cluster.sbatch(User::Bob, &options, LOOK).unwrap();
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        assert_eq!(cluster.output(job).matches("GPU ").count(), 8, "{}", cluster.output(job));
    });
}

#[test]
fn a_destroy_that_is_busy_drains_no_node() {
    with(|cluster| {
        // An idle instance stays behind on a GPU; then all GPUs are wanted whole while destroying is refused.
        cluster.complete(User::Alice, &MIG, LOOK).unwrap();
        cluster.fault("n1", &["add", "--kind", "busy-destroy", "--for", "5s"]).unwrap();
        let options = ["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1"];
        let job = cluster.sbatch(User::Bob, &options, LOOK).unwrap();
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let state = state(cluster).unwrap();
        assert!(!state.contains("drain"), "{state}");
        assert_eq!(cluster.output(job).matches("GPU ").count(), 8, "{}", cluster.output(job));
    });
}
