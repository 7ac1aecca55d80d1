//! Helpers that every end-to-end test uses.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod more_nodes;
pub(crate) mod processes;
pub(crate) mod random;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use lab::artefacts::BUILT;
use lab::command::{PATIENCE, run, wait_for};
use lab::paths::{target_dir, workspace};
use lab::{Builder, Cluster, JobId, Slurm, User};
use protocol::AdminComment;
use slurm_releases::Release;

/// Slurm's default `MessageTimeout` of 10 s is too short for a machine that can stand still for seconds. Together with
/// `KillWait` it also sets when slurmctld repeats to a returned slurmd what to end: after 65 s.
pub(crate) const STALLS: &str = "MessageTimeout=30\nKillWait=5";

/// slurmctld looks for a batch job's place within a second of its submission. Its own way is up to three seconds.
pub(crate) const AT_ONCE: &str = "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0";

/// Backfill goes each second as well, instead of each 30: what clusters have unless a test says otherwise.
pub(crate) const SOON: &str = "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1";

/// The series that clusters run unless a test says another. `cargo xtask test` runs every program once for each series that
/// Debian packages, except that tests whose name ends in a series run on that one alone.
pub(crate) fn release() -> Release {
    Slurm::by_default().unwrap().release
}

/// The `xtask` program. `cargo xtask test` has built it already.
pub(crate) fn xtask() -> PathBuf {
    if std::env::var_os(BUILT).is_none() {
        let mut build = Command::new(env!("CARGO"));
        build
            .current_dir(workspace())
            .args(["build", "--package", "xtask", "--target-dir"])
            .arg(target_dir());
        run(&mut build).unwrap().ok().unwrap();
    }
    target_dir().join("debug/xtask")
}

/// Whether a cluster's tasks can be held to their GPUs by Slurm's device cgroup. It was only tried on the machine's Slurm.
pub(crate) fn device_cgroups() -> bool {
    release() == Release::MACHINE && lab::device_cgroups()
}

/// Has a requeued job start at once: Slurm lets it wait for two minutes. slurmd refuses credentials of the second in which the job was
/// requeued.
pub(crate) fn start_now(cluster: &Cluster, job: JobId) {
    std::thread::sleep(std::time::Duration::from_secs(2));
    let now = ["update", &format!("JobId={job}"), "StartTime=now"];
    let done = cluster.run(User::Root, "scontrol", &now).unwrap();
    // On a busy machine the two minutes may be over: the job has started by itself.
    let started =
        ["Job has already finished", "Job is no longer pending"].iter().any(|w| done.stderr.contains(w));
    assert!(done.code == Some(0) || started, "{done:?}");
}

/// Says that a test, or a part of one, was not done. `cargo xtask test` repeats it at its end. libtest keeps what a test that
/// passed writes by `eprintln!`.
pub(crate) fn skipped(what: &str) {
    std::io::stderr().write_all(format!("\nskipped: {what}\n").as_bytes()).unwrap();
}

/// A builder whose cluster ends with the test's process, however the process ends.
pub(crate) fn builder() -> Builder {
    let guard = vec![env!("CARGO_BIN_EXE_cluster-guard").to_owned()];
    Cluster::builder().guardian(guard).slurm_conf(STALLS).slurm_conf(SOON)
}

/// The cluster that the tests of one file share, one test at a time. The guardian ends it.
static SHARED: OnceLock<Mutex<Cluster>> = OnceLock::new();

/// Runs `test` on the file's cluster, which has no job and is made from the example files. Afterwards this cancels all
/// jobs and checks that the nodes are clean.
pub(crate) fn with(test: impl FnOnce(&mut Cluster)) {
    let shared = SHARED.get_or_init(|| match builder().start() {
        Ok(cluster) => Mutex::new(cluster),
        Err(error) => panic!("{error:?}"),
    });
    // A failed test has cleaned up too.
    on(&mut shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner), test);
}

/// The same on a cluster that is there already.
pub(crate) fn on(cluster: &mut Cluster, test: impl FnOnce(&mut Cluster)) {
    let outcome = catch_unwind(AssertUnwindSafe(|| test(cluster)));
    if let Err(panic) = outcome {
        cluster.keep_files();
        eprintln!("{}", cluster.log_tails());
        eprintln!("all logs stay in {}", cluster.layout().at("log").display());
        let _ = settle(cluster);
        resume_unwind(panic);
    }
    if let Err(error) = settle(cluster).and_then(|()| cluster.assert_clean()) {
        cluster.keep_files();
        panic!("after the test: {error:?}\n{}", cluster.log_tails());
    }
}

/// Cancels every job and waits until the nodes are idle and nobody works on their GPUs: what is there then, stays.
fn settle(cluster: &Cluster) -> Result<(), lab::HarnessError> {
    for user in [User::Alice, User::Bob] {
        cluster.run(User::Root, "scancel", &["-u", user.name()])?;
    }
    cluster.wait_idle()?;
    processes::wait_quiet(cluster)
}

/// What a job sees. nvidia-smi asks for MIG devices one index at a time: where another job of the same user ends
/// meanwhile, the indexes move up and one device is missed. So it is asked until two answers agree.
macro_rules! look {
    ($then:literal) => {
        concat!(
            "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES\n",
            "now=$(nvidia-smi -L); was=\n",
            "until [ \"$now\" = \"$was\" ]; do was=$now; now=$(nvidia-smi -L); done\n",
            "echo \"$now\"\n",
            "env | grep ^CUDA_MPS | sort\n",
            "echo looked",
            $then
        )
    };
}

/// A script that prints what it sees and then runs until it is cancelled.
pub(crate) const LOOK_AND_STAY: &str = look!("\nexec sleep 600");

/// The same script, but it ends.
pub(crate) const LOOK: &str = look!("");

/// MIG devices in the output of `nvidia-smi -L`: profile and UUID.
pub(crate) fn instances(text: &str) -> Vec<(String, String)> {
    let parse = |line: &str| {
        let (_, rest) = line.split_once("MIG ")?;
        let profile = rest.split_whitespace().next()?.to_owned();
        let uuid = line.split_once("(UUID: ")?.1.split(')').next()?.to_owned();
        uuid.starts_with("MIG-").then_some((profile, uuid))
    };
    text.lines().filter_map(parse).collect()
}

/// Just the profiles.
pub(crate) fn profiles(text: &str) -> Vec<String> {
    instances(text).into_iter().map(|(profile, _)| profile).collect()
}

/// A variable the job printed.
pub(crate) fn variable(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Waits until a job of [`LOOK_AND_STAY`] has printed what it sees, and returns that.
pub(crate) fn looked(cluster: &Cluster, job: JobId) -> String {
    let wait = wait_for(&format!("job {job} to look at its GPUs"), PATIENCE, || {
        let text = cluster.output(job);
        if text.contains("looked\n") { Ok(text) } else { Err(text) }
    });
    match wait {
        Ok(text) => text,
        Err(error) => panic!("{error:?}; {:?}", cluster.job(job)),
    }
}

/// Checks that our options follow sbatch's order: the environment overrides the script, the command line overrides both.
pub(crate) fn overrides(cluster: &Cluster) {
    let script = cluster.layout().jobs().join("overridden.sh");
    let text = "#!/bin/sh\n#SBATCH --gpu-isolation=mps\n#SBATCH --gpu-mem=8G\necho got=$TESSERA_ISOLATION,$TESSERA_GPU_MEM_MIB\n";
    std::fs::write(&script, text).unwrap();
    let got = |env: Option<&str>, options: &[&str]| {
        let out = cluster.layout().jobs().join("overridden.out");
        let mut sbatch = vec!["--wait", "-w", "n1"];
        let output = format!("--output={}", out.display());
        sbatch.push(&output);
        sbatch.extend(options);
        let script = script.display().to_string();
        sbatch.push(&script);
        // `env` also where the command runs in a chroot.
        let words: Vec<&str> = env.into_iter().chain(["sbatch"]).chain(sbatch).collect();
        cluster.run(User::Alice, "env", &words).unwrap().ok().unwrap();
        let saw = std::fs::read_to_string(&out).unwrap();
        variable(&saw, "got").unwrap_or(saw)
    };
    let env = Some("TESSERA_GPU_MEM=6G");
    assert_eq!(got(None, &[]), "mps,7630");
    assert_eq!(got(env, &[]), "mps,5723");
    assert_eq!(got(env, &["--gpu-mem=4G"]), "mps,3815");
    assert_eq!(got(None, &["--gpu-mem", "4G", "--gpu-mem=3G"]), "mps,2862");
    assert_eq!(got(env, &["--gpu-isolation=slurm"]), ",");
}

/// Prints which step and task sees which of the job's GPUs, those as positions in the job's own list.
const STEPS: &str = r#"
export ALL=$CUDA_VISIBLE_DEVICES
cat > part.sh <<'END'
seen=
for gpu in $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); do
  place=$(echo $ALL | tr , '\n' | grep -nx "$gpu" | cut -d: -f1)
  seen="$seen${place:-$gpu} "
done
echo "$1.$SLURM_LOCALID=$seen"
# Two beside each other end only when both have begun.
[ $1 != beside ] || { echo >> begun; until [ $(wc -l < begun) = 2 ]; do sleep 0.1; done; }
END
srun -n2 --overlap sh part.sh all
srun -n3 --gpus-per-task=1 sh part.sh task
# From 26.05 on, srun refuses --gres=gpu in a job with --gpus-per-node.
unset SLURM_GPUS_PER_NODE
srun -n1 --exact --gres=gpu:1 sh part.sh beside &
srun -n1 --exact --gres=gpu:2 sh part.sh beside &
wait
SLURM_STEP_GPUS= srun -n1 --overlap sh part.sh empty
"#;

/// Checks that a step or task that gets some of the job's whole GPUs sees those, by UUID.
pub(crate) fn parts_of_whole_gpus(cluster: &Cluster) {
    let options = ["-w", "n1", "--gpu-isolation=whole", "--gpus-per-node=3", "-n3", "-c1"];
    let saw = cluster.complete(User::Alice, &options, STEPS).unwrap();
    let seen = |what: &str| variable(&saw, what).map(|places| places.trim().to_owned());
    let is = |what: &str, places: &str| assert_eq!(seen(what).as_deref(), Some(places), "{what}: {saw}");
    is("all.0", "1 2 3");
    is("all.1", "1 2 3");
    is("empty.0", "1 2 3");
    for (task, place) in [("task.0", "1"), ("task.1", "2"), ("task.2", "3")] {
        is(task, place);
    }
    // Two steps at a time have no GPU in common.
    let mut beside: Vec<&str> = saw
        .lines()
        .filter_map(|line| line.strip_prefix("beside.0="))
        .flat_map(str::split_whitespace)
        .collect();
    beside.sort_unstable();
    assert_eq!(beside, ["1", "2", "3"], "{saw}");
    // A job that Slurm's own option asked for: 22.05 refuses --gres=none to steps of jobs with --gpus-per-node.
    let script = "srun -n1 --gres=none sh -c 'echo none=$CUDA_VISIBLE_DEVICES,$NVIDIA_VISIBLE_DEVICES'";
    for gpus in ["--gres=gpu:2", "--gpu-isolation=mig:1g.5gb", "--gpu-isolation=mps"] {
        let saw = cluster.complete(User::Alice, &["-w", "n1", gpus], script).unwrap();
        assert_eq!(variable(&saw, "none").as_deref(), Some("NoDevFiles,void"), "{gpus}: {saw}");
    }
}

/// What a job's AdminComment says.
pub(crate) fn admin_comment(cluster: &Cluster, job: JobId) -> AdminComment {
    let args = ["-h", "-t", "all", "-O", "admin_comment:1000", &format!("--jobs={job}")];
    let shown = cluster.run(User::Root, "squeue", &args).unwrap().ok().unwrap();
    AdminComment::parse(shown.trim())
}
