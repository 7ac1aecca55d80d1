//! The steps of docs/upgrade.md and the way back, with a job of each kind running.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, builder, instances, looked, variable};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, Daemon, User};

/// Puts the same files in place again, as `cargo xtask install` does: each under its name in one step.
fn install(cluster: &Cluster) {
    for entry in std::fs::read_dir(cluster.layout().at("plugins")).unwrap() {
        let file = entry.unwrap().path();
        let fresh = file.with_extension("new");
        std::fs::copy(&file, &fresh).unwrap();
        std::fs::rename(&fresh, &file).unwrap();
    }
}

/// Steps 2 to 4: new files, then each daemon anew, in order as an init system does.
fn change_version(cluster: &mut Cluster) {
    install(cluster);
    for daemon in [Daemon::Slurmctld, Daemon::Slurmd("n1".to_owned()), Daemon::Slurmd("n2".to_owned())] {
        cluster.stop(&daemon).unwrap();
        cluster.start(&daemon).unwrap();
    }
    cluster.wait_ready(PATIENCE).unwrap();
}

#[test]
fn running_jobs_keep_what_they_have() {
    let mut cluster = builder().start().unwrap();
    let kinds: [&[&str]; 3] = [
        &["--gpu-isolation=mig:2g.10gb"],
        &["--gpu-isolation=mps", "--gpu-mem=3G"],
        &["--gpu-isolation=whole", "--gpus-per-node=2"],
    ];
    // A step that begins after the upgrade sees what the script saw before.
    let script = format!(
        "{LOOK}\nwhile [ ! -e $1 ]; do sleep 0.2; done\nsrun -n1 sh -c 'echo later=$CUDA_VISIBLE_DEVICES'\nexec sleep 600"
    );
    let go = cluster.layout().jobs().join("go");
    let script = script.replace("$1", &go.display().to_string());
    let jobs: Vec<_> = kinds
        .iter()
        .map(|kind| cluster.sbatch(User::Alice, &[&["-w", "n1"], *kind].concat(), &script).unwrap())
        .collect();
    let saw: Vec<String> = jobs.iter().map(|job| looked(&cluster, *job)).collect();
    cluster.wait_saved(jobs[2]).unwrap();
    let before = cluster.published_layouts().unwrap();
    for _upgrade_and_back in 0..2 {
        change_version(&mut cluster);
        assert_eq!(cluster.published_layouts().unwrap(), before);
    }
    std::fs::write(&go, "").unwrap();
    for (job, saw) in jobs.iter().zip(&saw) {
        let text = wait_for("a new step of a running job", PATIENCE, || {
            let text = cluster.output(*job);
            if text.contains("later=") { Ok(text) } else { Err(text) }
        })
        .unwrap();
        assert_eq!(variable(&text, "later"), variable(saw, "CUDA_VISIBLE_DEVICES"), "{text}");
        assert_eq!(cluster.job(*job).unwrap().state(), "RUNNING");
    }
    let other =
        cluster.sbatch(User::Bob, &["-w", "n1", "--gpu-isolation=mig:2g.10gb"], LOOK_AND_STAY).unwrap();
    assert_ne!(instances(&looked(&cluster, other)), instances(&saw[0]));
    let doctor = run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg("doctor")).unwrap();
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    for job in jobs.into_iter().chain([other]) {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    cluster.wait_idle().unwrap();
    wait_for("the nodes to be clean", PATIENCE, || cluster.assert_clean().map_err(|e| with_causes(&e)))
        .unwrap();
}
