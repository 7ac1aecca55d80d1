//! Programs with GPU tasks in Slurm's jobs, on the real broker and the simulated driver: who got its memory has it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{builder, on};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User, paths};
use task_control::Status;
use task_control::status::TaskState;

/// Two GPUs as in CASE's Figure 1, and an A100 that is cut as in Figure 3 of CASE for MIG.
const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"v100-16gb\"\ncount = 2\nmig = \"off\"\n\
                     [[nodes]]\nnames = \"n2\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"on\"\n";
const GB: u64 = 1_000_000_000;

fn cluster(tasks: &str) -> Cluster {
    let mut templates = Templates::for_nodes(NODES).unwrap();
    templates.tessera = templates.tessera.replace("[mps]\n", &format!("[tasks]\n{tasks}[mps]\n"));
    let cluster = builder().templates(templates).start().unwrap();
    let at = |name: &str| cluster.layout().at(name);
    let source = paths::workspace().join("tests/programs/tasks.c");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(paths::workspace().join("crates/sim/cuda-sim/include"));
    cc.arg("-I").arg(paths::workspace().join("contrib/case-pass/include")).arg(source).arg("-pthread");
    cc.arg(at("lib").join("libcuda.so.1")).arg(at("lib").join("libtessera_task.so"));
    run(cc.arg("-o").arg(at("bin").join("gpu-tasks"))).unwrap().ok().unwrap();
    cluster
}

/// A file that programs wait for or make.
fn mark(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.layout().jobs().join(name)
}

fn make(path: &Path) {
    std::fs::write(path, "").unwrap();
}

fn status(cluster: &Cluster, node: &str) -> Option<Status> {
    let run_dir = cluster.layout().at("nodes").join(node).join("run");
    task_control::Broker::at(&run_dir, PATIENCE).status().ok()
}

/// Waits until the broker's account is as wished.
fn becomes(cluster: &Cluster, node: &str, what: &str, wish: impl Fn(&Status) -> bool) -> Status {
    wait_for(what, PATIENCE, || match status(cluster, node) {
        Some(status) if wish(&status) => Ok(status),
        other => Err(format!("{other:?}")),
    })
    .unwrap()
}

fn running(status: &Status) -> usize {
    let tasks = status.jobs.iter().flat_map(|job| &job.tasks);
    tasks.filter(|task| task.state == TaskState::Running).count()
}

fn printed(cluster: &Cluster, job: JobId, what: &str) -> String {
    wait_for(&format!("job {job} to print {what}"), PATIENCE, || {
        let text = cluster.output(job);
        if text.contains(what) { Ok(text) } else { Err(text) }
    })
    .unwrap()
}

/// The device in the line of a task of this size.
fn device_of(text: &str, mem: u64) -> String {
    let line = text.lines().find(|line| line.contains(&format!("task {mem}: granted alloc 0 on ")));
    line.unwrap_or_else(|| panic!("no task of {mem}: {text}")).rsplit(' ').next().unwrap().to_owned()
}

/// CASE's Figure 1: of two programs, each with a kernel that fills a device's SMs and one that takes most of a device's
/// memory, the two kernels of either kind go to two devices, whichever device each program would have named.
fn figure_1(cluster: &Cluster) {
    let options =
        ["--gpu-isolation=gpu-tasks:probes", "--gpus-per-node=2", "-n2", "--overcommit", "-t5", "-w", "n1"];
    let (second, go) = (mark(cluster, "second"), mark(cluster, "go"));
    let (go, second) = (go.display(), second.display());
    // Each rank is one application. Sizes differ by a megabyte so that the lines can be told apart.
    let script = format!(
        "cat > app.sh <<'END'\n\
         if [ $SLURM_PROCID = 0 ]; then\n\
         exec gpu-tasks task 1000000000 1024 120 task 10000000000 32 8 touch {second} until {go} end end\n\
         else\n\
         exec gpu-tasks until {second} task 1001000000 1024 120 task 10001000000 32 8 until {go} end end\n\
         fi\nEND\n\
         srun -n2 --overlap sh app.sh"
    );
    let job = cluster.sbatch(User::Alice, &options, &script).unwrap();
    let text = printed(cluster, job, "task 10001000000: ");
    let devices = [GB, 10 * GB, GB + 1_000_000, 10 * GB + 1_000_000].map(|mem| device_of(&text, mem));
    assert_eq!(devices[0], devices[3], "k1 beside k4: {text}");
    assert_eq!(devices[1], devices[2], "k2 beside k3: {text}");
    assert_ne!(devices[0], devices[1], "{text}");
    let account = status(cluster, "n1").unwrap();
    assert_eq!((running(&account), account.devices.len()), (4, 2), "{account:?}");
    make(&mark(cluster, "go"));
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED", "{}", cluster.output(job));
    // The same programs, each with its own idea of where its kernels go: memory runs out.
    for name in ["second", "go"] {
        std::fs::remove_file(mark(cluster, name)).unwrap();
    }
    let script = format!(
        "unset TESSERA_TASK_SOCKET\n\
         gpu-tasks static 1 10000000000 touch {second} until {go} &\n\
         gpu-tasks until {second} static 1 10001000000 touch {go}\nwait"
    );
    let text = cluster.complete(User::Alice, &options, &script).unwrap();
    assert!(text.contains("static 1: alloc 0") && text.contains("static 1: alloc 2"), "{text}");
}

/// Figure 3 of CASE for MIG: an A100 with two instances of 10 GB and three of 5 GB, jobs with and without isolation.
/// Isolated jobs have theirs; the others' tasks go where there is memory, and wait for it where they must.
fn figure_3_for_mig(cluster: &Cluster) {
    let go = mark(cluster, "go3");
    let alone = |profile: &str, mem: u64| {
        let script = format!("gpu-tasks static 0 {mem} until {0} more 100000000", go.display());
        let isolation = format!("--gpu-isolation=mig:{profile}");
        cluster.sbatch(User::Bob, &[&isolation, "-t5", "-w", "n2"], &script).unwrap()
    };
    let isolated = [alone("2g.10gb", 9 * GB), alone("1g.5gb", 4 * GB)];
    for job in isolated {
        printed(cluster, job, "static 0: alloc 0");
    }
    // The first declares what it needs at most, and so opens an instance of 10 GB; it holds it until all others wait.
    let pool = |mem: u64, most: &str, words: &str| {
        let script = format!("gpu-tasks task {mem} 128 64 {words} end");
        let options = ["--gpu-isolation=gpu-tasks:probes", most, "-t5", "-w", "n2", "--overcommit"];
        cluster.sbatch(User::Alice, &options, &script).unwrap()
    };
    let wait = format!("until {}", go.display());
    let first = pool(5 * GB, "--gpu-mem=9G", &wait);
    printed(cluster, first, "alloc 0");
    let small = [pool(GB, "--gpu-mem=1G", &wait), pool(GB + 1, "--gpu-mem=1G", &wait)];
    let large = [pool(8 * GB, "--gpu-mem=9G", ""), pool(7 * GB, "--gpu-mem=9G", "")];
    for job in small {
        printed(cluster, job, "alloc 0");
    }
    // Of the two large ones one may have come to an instance that its job opened.
    let account = becomes(cluster, "n2", "a task that waits beside three that hold", |status| {
        let tasks = || status.jobs.iter().flat_map(|job| &job.tasks);
        running(status) >= 3 && tasks().any(|task| task.state == TaskState::Waiting)
    });
    assert!(account.devices.iter().all(|d| d.leased_mib + d.overhead_mib <= d.mem_mib), "{account:?}");
    make(&go);
    for job in large.into_iter().chain(small).chain([first]).chain(isolated) {
        let ended = cluster.wait_end(job).unwrap();
        let text = cluster.output(job);
        assert_eq!(ended.state(), "COMPLETED", "{text}");
        assert!(!text.contains("alloc 2") && !text.contains("refused"), "{text}");
    }
    for job in isolated {
        let text = cluster.output(job);
        assert!(text.contains("more: alloc 0"), "never disturbed: {text}");
    }
}

/// A job that is cancelled while its task waits leaves the queue, and a fork, an exec and threads are served.
fn life_of_processes(cluster: &Cluster) {
    let options = ["--gpu-isolation=gpu-tasks:probes", "-t5", "-w", "n1"];
    let go = mark(cluster, "go4");
    let hold = format!("gpu-tasks task 15000000000 32 8 until {} end", go.display());
    let holder = cluster.sbatch(User::Alice, &options, &hold).unwrap();
    printed(cluster, holder, "alloc 0");
    let waiter = cluster.sbatch(User::Alice, &options, "gpu-tasks task 14000000000 32 8 end").unwrap();
    becomes(cluster, "n1", "a task that waits", |s| {
        s.jobs.iter().flat_map(|job| &job.tasks).any(|task| task.state == TaskState::Waiting)
    });
    cluster.run(User::Root, "scancel", &[&waiter.to_string()]).unwrap();
    assert_eq!(cluster.wait_end(waiter).unwrap().state(), "CANCELLED");
    let account = becomes(cluster, "n1", "the waiter to be forgotten", |s| s.jobs.len() == 1);
    assert_eq!(running(&account), 1, "{account:?}");
    assert_eq!(
        account.devices[0].overhead_mib, 310,
        "the site's context_mib for its one process: {account:?}"
    );
    let too_large = cluster.complete(User::Alice, &options, "gpu-tasks task 17000000000 32 8 2>&1").unwrap();
    assert!(too_large.contains("refused") && too_large.contains("17001611264"), "names both: {too_large}");
    make(&go);
    cluster.wait_end(holder).unwrap();
    // A child of a process that initialised CUDA has no driver, on a real GPU too: it forks first, or executes another image.
    let script = "gpu-tasks task 1000000000 32 8 exec task 2000000000 32 8 end\n\
                  gpu-tasks fork task 3000000000 32 8 end\ngpu-tasks threads 8 500000000";
    let text = cluster.complete(User::Alice, &options, script).unwrap();
    assert_eq!(text.matches("alloc 0").count(), 3, "{text}");
    assert!(text.contains("threads: 0 bad"), "{text}");
}

/// A process that takes memory which nobody promised it, because it never asks: others get that much less, and its job's log
/// names it.
fn named_in_the_jobs_log(cluster: &Cluster) {
    let options = ["--gpu-isolation=gpu-tasks:probes", "-t5", "-w", "n1"];
    let go = mark(cluster, "go5");
    let script = format!("gpu-tasks static 0 3000000000 until {}\necho static ended", go.display());
    let charged = cluster.sbatch(User::Alice, &options, &script).unwrap();
    let honest = format!("gpu-tasks task 1000000000 32 8 until {} end", go.display());
    let honest = cluster.sbatch(User::Alice, &options, &honest).unwrap();
    let account = becomes(cluster, "n1", "a charge and a grant", |s| {
        running(s) == 1 && s.devices.iter().any(|d| d.overhead_mib >= 3_000_000_000 >> 20)
    });
    assert_eq!((account.jobs.len(), account.devices.len()), (2, 1), "{account:?}");
    make(&go);
    let line = format!(
        "MiB of {} that it was not promised; other tasks get that much less",
        account.devices[0].uuid
    );
    for (job, word) in [(charged, "static ended"), (honest, "end")] {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let text = printed(cluster, job, word);
        // The process never asked, so nothing tells of which job it is: its user's jobs on the device are told.
        assert_eq!(text.matches(&line).count(), 1, "{text}");
    }
}

/// The broker's child, its parent or both are killed under live jobs: holders run on, waiters are served.
fn broker_killed_under_jobs(cluster: &Cluster) {
    let options = ["--gpu-isolation=gpu-tasks:probes", "-n4", "--overcommit", "-t5", "-w", "n1"];
    // Eight tasks of 3 GB for the 16 GB of one GPU: some always wait.
    let script = "for i in 1 2 3 4 5 6 7 8; do gpu-tasks task 3000000000 64 8 end task 3500000000 64 8 end task 3000000000 \
                  64 8 end & done; wait";
    let job = cluster.sbatch(User::Alice, &options, script).unwrap();
    for which in 0..3 {
        let Some(before) = status(cluster, "n1") else { continue };
        let pids: &[u32] = match which {
            0 => &[before.child],
            1 => &[before.parent],
            _ => &[before.parent, before.child],
        };
        for pid in pids {
            run(Command::new("kill").args(["-9", &pid.to_string()])).unwrap();
        }
        // As the health check does.
        let mut reconcile = cluster.command_on("n1", User::Root, "tessera").unwrap();
        run(reconcile.args(["node", "reconcile"])).unwrap();
    }
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    let text = cluster.output(job);
    assert_eq!(text.matches("granted alloc 0").count(), 24, "{text}");
}

/// Lets the tasks of a job use both GPUs of n1 from now on.
fn open_both_gpus(cluster: &Cluster) {
    let file = cluster.layout().etc("tessera.toml");
    let text =
        std::fs::read_to_string(&file).unwrap().replacen("[tasks]\n", "[tasks]\ngpus_per_job = 2\n", 1);
    std::fs::write(file, text).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
}

fn layout(cluster: &Cluster, node: &str) -> String {
    cluster.published_layouts().unwrap().into_iter().find(|(name, _)| name == node).unwrap().1
}

/// Waits until every task that this job began has its memory.
fn granted(cluster: &Cluster, job: JobId, tasks: usize) -> String {
    wait_for(&format!("job {job} to have {tasks} tasks"), PATIENCE, || {
        let text = cluster.output(job);
        if text.matches("granted alloc 0").count() == tasks { Ok(text) } else { Err(text) }
    })
    .unwrap()
}

/// Jobs of their own, each task on whichever GPU has the memory, and none of these GPUs goes to anybody else.
fn any_gpu_of_the_node(cluster: &mut Cluster) {
    open_both_gpus(cluster);
    let go = mark(cluster, "go6");
    let holds = |mem: u64| format!("gpu-tasks task {mem} 32 8 until {} end", go.display());
    let options = ["--gpu-isolation=gpu-tasks:probes", "-n2", "--overcommit", "-t5", "-w", "n1"];
    // Both seats are on one GPU, whose 16 GB hold one of the two tasks.
    let both = format!("{} & {}; wait", holds(10 * GB), holds(10 * GB + 1_000_000));
    let first = cluster.sbatch(User::Alice, &options, &both).unwrap();
    let text = granted(cluster, first, 2);
    assert_ne!(device_of(&text, 10 * GB), device_of(&text, 10 * GB + 1_000_000), "{text}");
    assert_eq!(layout(cluster, "n1"), format!("tessera gpu0=tasks[job{first}*2] gpu1=tasks[job{first}*0]"));
    // The next has its seats on the other GPU, and its tasks go to both as well.
    let small = format!("{} & {}; wait", holds(4 * GB), holds(4 * GB + 1_000_000));
    let second = cluster.sbatch(User::Alice, &options, &small).unwrap();
    let text = granted(cluster, second, 2);
    assert_ne!(device_of(&text, 4 * GB), device_of(&text, 4 * GB + 1_000_000), "{text}");
    let shared =
        format!("tessera gpu0=tasks[job{first}*2,job{second}*0] gpu1=tasks[job{first}*0,job{second}*2]");
    assert_eq!(layout(cluster, "n1"), shared);
    // A restart of slurmctld and a requeue change nothing of that.
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    wait_for("the layout to be shown again", PATIENCE, || match layout(cluster, "n1") {
        line if line == shared => Ok(()),
        line => Err(line),
    })
    .unwrap();
    cluster.run(User::Root, "scontrol", &["requeue", &second.to_string()]).unwrap().ok().unwrap();
    // slurmd refuses credentials of the second in which the job was requeued.
    std::thread::sleep(Duration::from_secs(2));
    wait_for("the second job to run again", PATIENCE, || {
        let _ = cluster.run(User::Root, "scontrol", &["update", &format!("JobId={second}"), "StartTime=now"]);
        let line = layout(cluster, "n1");
        if line == shared { Ok(()) } else { Err(line) }
    })
    .unwrap();
    // A plain job for one GPU waits for both jobs, and takes the place of none.
    let plain = cluster.sbatch(User::Bob, &["--gres=gpu:1", "-t5", "-w", "n1"], "nvidia-smi -L").unwrap();
    cluster.run(User::Root, "scancel", &[&first.to_string()]).unwrap().ok().unwrap();
    becomes(cluster, "n1", "the first job to end", |s| s.jobs.len() == 1);
    assert_eq!(cluster.job(plain).unwrap().state(), "PENDING", "{}", layout(cluster, "n1"));
    make(&go);
    for job in [second, plain] {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED", "{}", cluster.output(job));
    }
    // Nothing is left in Slurm's accounts.
    cluster.complete(User::Bob, &["--gres=gpu:2", "-w", "n1"], "nvidia-smi -L").unwrap();
    let all = cluster.sbatch(User::Bob, &["--gres=shard:16", "-w", "n1"], "true").unwrap();
    assert_eq!(cluster.wait_end(all).unwrap().state(), "COMPLETED");
}

#[test]
fn programs_with_tasks_never_run_out_of_memory() {
    let mut cluster = cluster("log = \"/var/log/tasks-%n\"\ncontext_mib = 310\n");
    on(&mut cluster, |cluster| {
        figure_1(cluster);
        figure_3_for_mig(cluster);
        life_of_processes(cluster);
        named_in_the_jobs_log(cluster);
        broker_killed_under_jobs(cluster);
        any_gpu_of_the_node(cluster);
    });
}
