//! A job keeps what it has until its last process has ended; only then another user's job gets it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, looked, with};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::process::Started;
use lab::{Cluster, Daemon, JobId, User};

/// A script that lives through SIGTERM. After it, the script says ten times a second whether it can still use `file`.
fn stubborn(file: &str) -> String {
    format!(
        "trap 'ending=yes' TERM\necho looked\nwhile :; do sleep 0.1\n  test -z \"$ending\" && continue\n  \
         if test -r \"{file}\" && test -w \"{file}\"; then echo kept; else echo lost; fi\ndone"
    )
}

fn gpu(cluster: &Cluster, gpu: u32) -> String {
    cluster.layout().node("n1").join(format!("dev/nvidia{gpu}")).display().to_string()
}

fn output_has(cluster: &Cluster, job: JobId, line: &str, times: usize) {
    wait_for(&format!("job {job} to say {line}"), PATIENCE, || {
        let text = cluster.output(job);
        if text.lines().filter(|l| *l == line).count() >= times { Ok(()) } else { Err(text) }
    })
    .unwrap();
}

fn reconcile(cluster: &Cluster) -> String {
    let mut tessera = cluster.command_on("n1", User::Root, "tessera").unwrap();
    run(tessera.args(["node", "reconcile"])).unwrap().stdout
}

/// The health check, while cancelled jobs still write their checkpoints.
#[test]
fn a_cancelled_job_keeps_gpu_instance_and_daemon_until_it_has_ended() {
    with(|cluster| {
        let whole = ["--gpu-isolation=whole", "--gpus-per-node=1", "-w", "n1"];
        let share = ["--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n1"];
        let mig = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];
        let whole_script = stubborn("$DEV/nvidia$TESSERA_GPU_SET");
        let dev = cluster.layout().node("n1").join("dev").display().to_string();
        let whole_script = format!("export DEV={dev}\n{whole_script}");
        let share_script = stubborn("$CUDA_MPS_PIPE_DIRECTORY/control");
        // The driver shows an instance only to those who may open its capability nodes.
        let mig_script = "trap 'ending=yes' TERM\necho looked\nwhile :; do sleep 0.1\n  test -z \"$ending\" && continue\n  \
             if nvidia-smi -L | grep -q MIG-; then echo kept; else echo lost; fi\ndone";
        let jobs = [
            cluster.sbatch(User::Alice, &whole, &whole_script).unwrap(),
            cluster.sbatch(User::Alice, &share, &share_script).unwrap(),
            cluster.sbatch(User::Bob, &mig, mig_script).unwrap(),
        ];
        for job in jobs {
            looked(cluster, job);
        }
        for job in jobs {
            cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        }
        for job in jobs {
            output_has(cluster, job, "kept", 1);
        }
        let said = reconcile(cluster);
        let status = run(cluster.command_on("n1", User::Root, "tessera").unwrap().args(["node", "status"]));
        let status = status.unwrap().stdout;
        for job in jobs {
            cluster.wait_end(job).unwrap();
        }
        cluster.wait_idle().unwrap();
        for job in jobs {
            let text = cluster.output(job);
            assert!(!text.contains("lost"), "job {job}: {text}\n{said}");
        }
        assert_eq!(status.matches(" ending ").count(), jobs.len(), "{status}");
    });
}

/// slurmd is killed and its node set down: Slurm has no job there any more, but the job's processes go on.
#[test]
fn a_job_that_outlives_its_node_keeps_its_gpus_until_it_has_ended() {
    with(|cluster| {
        let all = ["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1", "--no-requeue"];
        let first = gpu(cluster, 0);
        // It is killed in the middle of anything: `used` is always whole.
        let script = format!(
            "trap '' TERM\necho looked\nwhile :; do sleep 0.1; test -w {first} && date +%s.%N > new && mv new used; done"
        );
        let job = cluster.sbatch(User::Alice, &all, &script).unwrap();
        looked(cluster, job);
        let slurmd = Daemon::Slurmd("n1".to_owned());
        cluster.kill9(&slurmd).unwrap();
        let down = ["update", "nodename=n1", "state=down", "reason=test"];
        cluster.run(User::Root, "scontrol", &down).unwrap().ok().unwrap();
        let over = |job: &lab::Job| ["NODE_FAIL", "COMPLETING"].contains(&job.state());
        cluster.wait_job(job, "taken from its node", over).unwrap();
        let said = reconcile(cluster);
        cluster.start(&slurmd).unwrap();
        // As an administrator would, until the node takes jobs again.
        let script = format!("test -w {first} && date +%s.%N > given\n{LOOK}");
        let other =
            cluster.sbatch(User::Bob, &["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1"], &script);
        let other = other.unwrap();
        wait_for("the other user's job to end", PATIENCE, || {
            let now = cluster.job(other).map_err(|error| with_causes(&error))?;
            if now.state() == "COMPLETED" {
                return Ok(());
            }
            let _ = cluster.run(User::Root, "scontrol", &["update", "nodename=n1", "state=resume"]);
            Err(format!("{} ({}): {}", now.state(), now.reason(), cluster.output(other)))
        })
        .unwrap();
        assert!(!said.contains("given back"), "its step lives: {said}");
        let time = |name: &str| -> f64 {
            let text = std::fs::read_to_string(cluster.layout().jobs().join(name)).unwrap();
            text.trim().parse().unwrap()
        };
        assert!(time("used") < time("given"), "both had the GPUs at {}", time("given"));
    });
}

/// A process that left its job, and its control group if there is one, still has memory of the job's GPU.
#[test]
fn what_an_ended_job_left_on_a_gpu_is_ended_before_another_user_gets_it() {
    with(|cluster| {
        let all = ["--gpu-isolation=whole", "--gpus-per-node=8", "-w", "n1"];
        let script = "setsid sh -c 'echo $$ > left; exec sleep 600' </dev/null >/dev/null 2>&1 &\nwhile ! test -s left; do sleep 0.1; done";
        cluster.complete(User::Alice, &all, script).unwrap();
        let pid = std::fs::read_to_string(cluster.layout().jobs().join("left")).unwrap().trim().to_owned();
        let process = Started::of("sleep", pid.parse().unwrap()).unwrap();
        assert!(process.is_alive(), "linuxproc does not find it");
        let mut sim = cluster.command_on("n1", User::Root, "nvml-sim").unwrap();
        run(sim.args(["proc", "add", "--gpu", "0", "--pid", &pid, "--memory-mib", "40000"]))
            .unwrap()
            .ok()
            .unwrap();
        let doctor = run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg("doctor")).unwrap();
        assert!(doctor.stdout.contains(&format!("GPU 0: process {pid} (sleep)")), "{}", doctor.stdout);
        let saw =
            cluster.complete(User::Bob, &all, "nvidia-smi --query-compute-apps=pid --format=csv,noheader");
        let saw = saw.unwrap();
        assert!(!saw.lines().any(|line| line.trim() == pid) && !process.is_alive(), "{saw}");
        let log = std::fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
        assert!(log.contains(&format!("process {pid} (sleep)")) && log.contains("was still on it"), "{log}");
    });
}
