//! Finds a cluster's processes, and tests a prolog that continues without its slurmd.

use lab::command::{PATIENCE, wait_for};
use lab::process::Started;
use lab::{Cluster, Daemon, HarnessError, JobId, User};

use super::{LOOK, LOOK_AND_STAY};

/// Waits until nobody works on a node's GPUs.
pub(crate) fn wait_quiet(cluster: &Cluster) -> Result<(), HarnessError> {
    wait_for("prologs and reconciliations to end", PATIENCE, || {
        let prolog = working(cluster, "slurmstepd", "prolog");
        let process = prolog.or_else(|| working(cluster, "tessera", "reconcile"));
        process.map_or(Ok(()), |process| Err(command_line(process.pid)))
    })
}

/// Kills n1's slurmd while a prolog works. The prolog still works when the next slurmd reconciles; in the end nothing is
/// left of the job.
pub(crate) fn outlive_slurmd(cluster: &mut Cluster) {
    // An idle instance that cannot be destroyed for now is in the way of the job.
    cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb", "-w", "n1"], LOOK).unwrap();
    cluster.fault("n1", &["add", "--kind", "busy-destroy"]).unwrap();
    let options = ["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1"];
    let job = cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap();
    let journalled = cluster.layout().at(&format!("nodes/n1/state/jobs/{job}.json"));
    let until = |what: &str, seen: &dyn Fn() -> bool| {
        wait_for(what, PATIENCE, || if seen() { Ok(()) } else { Err("not yet".to_owned()) }).unwrap();
    };
    until("the prolog to wait for the driver", &|| journalled.exists());
    // slurmd waits for the prolog then.
    cancel_until_known(cluster, job);
    let slurmd = Daemon::Slurmd("n1".to_owned());
    cluster.kill9(&slurmd).unwrap();
    cluster.start(&slurmd).unwrap();
    until("a reconciliation to wait for the prolog", &|| {
        working(cluster, "tessera", "reconcile").is_some()
            || working(cluster, "slurmstepd", "prolog").is_none()
    });
    cluster.fault("n1", &["clear"]).unwrap();
    wait_quiet(cluster).unwrap();
    assert!(!journalled.exists(), "job {job} still has GPUs");
}

/// Cancels a job and waits until n1's slurmd has noted that it is to end. Started again, slurmd runs no epilog for such a
/// job.
pub(crate) fn cancel_until_known(cluster: &Cluster, job: JobId) {
    let noted = cluster.layout().at("spool/n1/cred_state");
    let noted = || std::fs::metadata(&noted).and_then(|file| file.modified()).ok();
    let before = noted();
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
    wait_for("slurmd to know that the job is to end", PATIENCE, || {
        if noted().is_some_and(|now| Some(now) != before) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .unwrap();
}

/// A process of this program in this cluster whose command line says `what`.
pub(crate) fn working(cluster: &Cluster, name: &str, what: &str) -> Option<Started> {
    processes(name, cluster).into_iter().find(|process| command_line(process.pid).contains(what))
}

/// Processes of a program that belong to this cluster.
pub(crate) fn processes(name: &str, cluster: &Cluster) -> Vec<Started> {
    let dir = cluster.layout().dir().display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()) else { continue };
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = String::from_utf8_lossy(&environ).contains(&dir) || command_line(pid).contains(&dir);
        if comm.trim() == name && ours {
            found.extend(Started::of(name, pid));
        }
    }
    found
}

pub(crate) fn command_line(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
