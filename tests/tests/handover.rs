//! A job keeps what it has until its last process has ended; only then another user's job gets it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, admin_comment, looked, with};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::process::Started;
use lab::{Cluster, Daemon, JobId, User};
use protocol::CommentBody;

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
        // The driver shows an instance only to those who may open its capability nodes. In the end Slurm kills the job's
        // processes one after another: an answer that was cut off says nothing.
        let mig_script = "trap 'ending=yes' TERM\necho looked\nwhile :; do sleep 0.1\n  test -z \"$ending\" && continue\n  \
             seen=$(nvidia-smi -L); test $? -gt 128 && continue\n  \
             case $seen in *MIG-*) echo kept ;; *) echo lost ;; esac\ndone";
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
        assert!(!said.contains(": released"), "its step lives: {said}");
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

const SMALL: [&str; 3] = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];
const SEEN: &str = "nvidia-smi --query-compute-apps=pid --format=csv,noheader";

/// A process of an ended job of Alice's that left its session and its step, and is still in the job's instance.
fn left_in_an_instance(cluster: &Cluster) -> Started {
    let file = cluster.layout().jobs().join("left");
    let _ = std::fs::remove_file(&file);
    let script = "setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' </dev/null >/dev/null 2>&1 &\n\
         while ! test -s left; do sleep 0.1; done";
    cluster.complete(User::Alice, &SMALL, script).unwrap();
    let pid = std::fs::read_to_string(file).unwrap().trim().to_owned();
    let sim = |args: &[&str]| {
        let mut sim = cluster.command_on("n1", User::Root, "nvml-sim").unwrap();
        run(sim.args(args)).unwrap().ok().unwrap()
    };
    let state: serde_json::Value = serde_json::from_str(&sim(&["show", "--json"])).unwrap();
    let all = state["gpus"].as_array().unwrap().iter().enumerate();
    let idle: Vec<(usize, u64)> = all
        .flat_map(|(gpu, state)| {
            let instances = state["instances"].as_array().cloned().unwrap_or_default();
            instances.into_iter().map(move |i| (gpu, i["id"].as_u64().unwrap()))
        })
        .collect();
    // Each of them: the next job of this shape gets one of them.
    for (gpu, id) in &idle {
        let (gpu, id) = (gpu.to_string(), id.to_string());
        sim(&["proc", "add", "--gpu", &gpu, "--gi", &id, "--pid", &pid, "--memory-mib", "4000"]);
    }
    assert!(!idle.is_empty(), "{state}");
    Started::of("sleep", pid.parse().unwrap()).unwrap()
}

/// The same process under each of the site's three choices. The job that gets the instance never runs beside it.
#[test]
fn a_site_chooses_what_becomes_of_processes_that_ended_jobs_left() {
    // Its own: the others rely on the site's default.
    common::on(&mut common::builder().start().unwrap(), |cluster| {
        let path = cluster.layout().etc("tessera.toml");
        let shipped = std::fs::read_to_string(&path).unwrap();
        let choose = |choice: &str| {
            let text = shipped.replace("[node]\n", &format!("[node]\nleftover_processes = \"{choice}\"\n"));
            std::fs::write(&path, text).unwrap();
            cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
        };
        let doctor = || {
            let done = run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg("doctor"));
            done.unwrap().stdout
        };

        choose("end");
        let left = left_in_an_instance(cluster);
        let told = doctor();
        assert!(told.contains(&format!("process {} (sleep)", left.pid)), "{told}");
        let saw = cluster.complete(User::Bob, &SMALL, SEEN).unwrap();
        assert!(!left.is_alive() && saw.lines().all(|line| line.trim() != left.pid.to_string()), "{saw}");

        choose("wait");
        let left = left_in_an_instance(cluster);
        let job = cluster.sbatch(User::Bob, &SMALL, &format!("date +%s.%N > began\n{SEEN}")).unwrap();
        cluster.wait_job(job, "given its instance", |job| job.state() != "PENDING").unwrap();
        // Long enough for a job that is not kept waiting.
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(left.is_alive() && cluster.output(job).is_empty(), "{}", cluster.output(job));
        assert!(!cluster.layout().jobs().join("began").exists());
        left.end(std::time::Duration::ZERO);
        cluster.wait_end(job).unwrap();
        assert_eq!(cluster.job(job).unwrap().state(), "COMPLETED", "{}", cluster.output(job));
        assert!(cluster.layout().jobs().join("began").exists());

        choose("fail");
        let left = left_in_an_instance(cluster);
        let job = cluster.sbatch(User::Bob, &SMALL, "echo began").unwrap();
        let said = wait_for("the job to be requeued, and to say why", PATIENCE, || {
            let now = cluster.job(job).map_err(|error| with_causes(&error))?;
            let said = match admin_comment(cluster, job).says {
                CommentBody::Requeued(said) => said,
                other => format!("{other:?}"),
            };
            let why = format!("still used by process {} (sleep) of uid", left.pid);
            if now.state() == "PENDING" && said.contains(&why) {
                Ok(said)
            } else {
                Err(format!("{now:?} {said}"))
            }
        })
        .unwrap();
        assert!(said.starts_with("by n1: GPU "), "{said}");
        assert!(left.is_alive() && cluster.output(job).is_empty(), "{}", cluster.output(job));
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        left.end(std::time::Duration::ZERO);
    });
}

/// Alice's two jobs: a process of the one has the device node of the other's GPU open, as CUDA and NVML do.
#[test]
fn a_running_jobs_process_is_not_ended_for_a_device_node_that_it_has_open() {
    with(|cluster| {
        let one = ["--gpu-isolation=whole", "--gpus-per-node=1", "-w", "n1"];
        let stay = "echo set=$TESSERA_GPU_SET\necho looked\nexec sleep 600";
        let other = cluster.sbatch(User::Alice, &one, stay).unwrap();
        let set = common::variable(&looked(cluster, other), "set").unwrap();
        let open = format!(
            "echo set=$TESSERA_GPU_SET\n\
             exec perl -e '$| = 1; sysopen(F, \"{}\", 0x200000) or die $!; print \"looked\\n\"; sleep 600'",
            gpu(cluster, set.parse().unwrap())
        );
        let job = cluster.sbatch(User::Alice, &one, &open).unwrap();
        looked(cluster, job);
        cluster.run(User::Root, "scancel", &[&other.to_string()]).unwrap().ok().unwrap();
        cluster.wait_end(other).unwrap();
        let rest = ["--gpu-isolation=whole", "--gpus-per-node=7", "-w", "n1"];
        cluster.complete(User::Bob, &rest, "true").unwrap();
        assert_eq!(cluster.job(job).unwrap().state(), "RUNNING", "{}", cluster.output(job));
        let log = std::fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
        assert!(log.contains(&format!("GPU {set}: process ")) && log.contains("and is left alone"), "{log}");
    });
}
