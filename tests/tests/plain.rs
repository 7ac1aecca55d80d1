//! Jobs that use none of Tessera's options: beside a cluster of Slurm alone, and what their tasks see of their GPUs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::random::Random;
use common::{AT_ONCE, builder, device_cgroups, skipped, variable, with};
use lab::config::Templates;
use lab::{Cluster, Job, JobId, User};

/// A cluster whose nodes have names of their own, in Slurm's device cgroup where the machine has one.
fn cluster(prefix: &str, stock: bool) -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    // By default Tessera orders nodes for jobs with GPUs, too.
    templates.tessera = templates.tessera.replace("node_order = \"pack\"", "node_order = \"slurm\"");
    templates.rename_nodes(|name| format!("{prefix}{}", &name[1..]));
    let builder = builder().stock(stock).templates(templates).slurm_conf(AT_ONCE);
    if device_cgroups() { builder.device_cgroup() } else { builder }.start().unwrap()
}

/// What a job asks for. Four of them always have room side by side.
fn request(random: &mut Random) -> Vec<String> {
    let gpus = [
        "--gres=gpu:1",
        "--gres=gpu:2",
        "--gpus-per-node=2",
        "--gpus=1",
        "--gres=gpu:a100:2",
        "--gres=gpu:h100:1",
        "--gpus-per-task=1",
        "",
    ];
    let cpus = ["-n1", "-n2", "-n1 -c4", "-n2 -c2", "-n1 -N1"];
    let mem = ["--mem=1G", "--mem-per-cpu=200M", "--mem=3G", ""];
    let mut words = String::from("-N1");
    for choice in [&gpus[..], &cpus[..], &mem[..]] {
        words = format!("{words} {}", random.of(choice));
    }
    words.split_whitespace().map(str::to_owned).collect()
}

const LOOK: &str = "echo cvd=$CUDA_VISIBLE_DEVICES\n\
                    echo step=$(srun -Q -n1 --overlap sh -c 'echo $CUDA_VISIBLE_DEVICES')\n\
                    echo looked\nexec sleep 600";

/// What Slurm says that a running job has, without the numbers of its GPUs and the names of clusters.
fn has(job: &Job, shown: &str) -> Vec<String> {
    let detail = shown.split("Nodes=").nth(1).unwrap_or_default();
    let detail = detail.split_whitespace().take(3).skip(1).map(str::to_owned);
    let gres = shown.split(" GRES=").nth(1).unwrap_or_default().split(['(', ' ']).next().unwrap_or_default();
    ["NodeList", "NumNodes", "NumCPUs", "NumTasks", "BatchHost"]
        .map(|key| job.get(key).trim_start_matches(char::is_alphabetic).to_owned())
        .into_iter()
        .chain(detail)
        .chain([gres.to_owned()])
        .collect()
}

/// Starts a job and returns what it has and what it sees.
fn start(cluster: &Cluster, request: &[String]) -> (JobId, Vec<String>, [String; 2]) {
    let args: Vec<&str> = request.iter().map(String::as_str).collect();
    let id = cluster.sbatch(User::Alice, &args, LOOK).unwrap();
    let saw = common::looked(cluster, id);
    let shown = cluster.run(User::Root, "scontrol", &["-d", "-o", "show", "job", &id.to_string()]).unwrap();
    let seen = ["cvd", "step"].map(|name| variable(&saw, name).unwrap());
    (id, has(&cluster.job(id).unwrap(), &shown.stdout), seen)
}

/// The numbers in a list, ascending; `None` where one is no number.
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut all: Vec<u32> = list.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    all.sort_unstable();
    Some(all)
}

/// What slurmctld has spent on its schedulers since `sdiag --reset`: cycles and their mean in µs, of the main scheduler and
/// of backfill. A figure, and no test: the clusters run beside each other and beside whatever else the machine does.
fn spent(cluster: &Cluster) -> Vec<String> {
    let out = cluster.run(User::Root, "sdiag", &[]).unwrap();
    let wanted = |line: &&str| {
        ["Main schedule", "Backfilling stats", "Total cycles", "Mean cycle"].iter().any(|w| line.contains(w))
    };
    out.stdout.lines().map(str::trim).filter(wanted).map(str::to_owned).collect()
}

/// By hand with `TESSERA_PLAIN_JOBS=300`.
fn rounds() -> usize {
    std::env::var("TESSERA_PLAIN_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

#[test]
fn plain_jobs_have_what_slurm_alone_gives_them() {
    let (stock, ours) = (cluster("pls", true), cluster("plt", false));
    for cluster in [&stock, &ours] {
        cluster.run(User::Root, "sdiag", &["--reset"]).unwrap().ok().unwrap();
    }
    let mut random = Random(0x5eed);
    let mut running: Vec<[JobId; 2]> = Vec::new();
    for round in 0..rounds() {
        while running.len() >= 4 {
            let [a, b] = running.swap_remove(random.below(running.len()));
            for (cluster, id) in [(&stock, a), (&ours, b)] {
                cluster.run(User::Alice, "scancel", &[&id.to_string()]).unwrap().ok().unwrap();
                cluster.wait_job(id, "over", |job| !matches!(job.state(), "RUNNING" | "COMPLETING")).unwrap();
            }
        }
        let request = request(&mut random);
        let (a, slurms, slurms_view) = start(&stock, &request);
        let (b, own, view) = start(&ours, &request);
        assert_eq!(own, slurms, "round {round}: {request:?}");
        for (own, slurms) in view.iter().zip(&slurms_view) {
            if device_cgroups() {
                assert_eq!(numbers(own), numbers(slurms), "round {round}: {request:?}: {own}, {slurms}");
            } else {
                let count = |list: &str| list.split(',').filter(|gpu| !gpu.is_empty()).count();
                assert_eq!(count(own), count(slurms), "round {round}: {request:?}: {own}, {slurms}");
            }
        }
        running.push([a, b]);
    }
    eprintln!("plain Slurm: {:?}\nTessera: {:?}", spent(&stock), spent(&ours));
    if !device_cgroups() {
        skipped("CUDA_VISIBLE_DEVICES as Slurm writes it: needs Slurm 22.05 and cgroups of version 1");
    }
    for cluster in [&stock, &ours] {
        cluster.run(User::Root, "scancel", &["-u", User::Alice.name()]).unwrap();
        cluster.wait_idle().unwrap();
    }
    ours.assert_clean().unwrap();
}

/// Prints the task's devices as named, and those that the driver shows it, in its order.
const DEVICES: &str = "echo cvd=$SLURM_PROCID=$CUDA_VISIBLE_DEVICES=$NVIDIA_VISIBLE_DEVICES\n\
                       nvidia-smi -L | sed -n \"s/.*UUID: \\(.*\\))/smi=$SLURM_PROCID=\\1/p\"";

/// Checks that every number of every task names the GPU whose UUID stands in the same place of the other list; the
/// number of tasks.
fn numbers_mean_their_gpus(saw: &str) -> usize {
    let mut tasks = 0;
    for line in saw.lines().filter_map(|line| line.strip_prefix("cvd=")) {
        let [task, cuda, uuids] = line.split('=').collect::<Vec<_>>()[..] else { panic!("{saw}") };
        let prefix = format!("smi={task}=");
        let smi: Vec<&str> = saw.lines().filter_map(|l| l.strip_prefix(prefix.as_str())).collect();
        let named = |number: &str| number.parse::<usize>().ok().and_then(|n| smi.get(n).copied());
        let named: Option<Vec<&str>> = cuda.split(',').map(named).collect();
        assert_eq!(named, Some(uuids.split(',').collect()), "{saw}");
        tasks += 1;
    }
    tasks
}

#[test]
fn in_a_device_cgroup_each_number_is_the_gpu_that_the_task_sees_there() {
    if !device_cgroups() {
        skipped("tasks in a device cgroup: needs Slurm 22.05 and cgroups of version 1");
        return;
    }
    let cluster = cluster("plc", false);
    let node = ["-w", "plc1"];
    let low = cluster.sbatch(User::Alice, &[&node[..], &["--gres=gpu:1"]].concat(), common::LOOK_AND_STAY);
    let low = low.unwrap();
    common::looked(&cluster, low);
    let scripts = [
        ("--gres=gpu:7", "srun -Q -n1 sh look.sh", 1),
        ("--gres=gpu:3", "srun -Q -n3 --gpus-per-task=1 sh look.sh", 3),
        ("--gres=gpu:4", "srun -Q -n2 --gpus-per-task=2 sh look.sh", 2),
        ("--gres=gpu:3", "srun -Q -n1 --gres=gpu:2 sh look.sh", 1),
        ("--gres=gpu:2", "sh look.sh", 1),
    ];
    std::fs::write(cluster.layout().jobs().join("look.sh"), DEVICES).unwrap();
    for (gpus, script, tasks) in scripts {
        let saw = cluster.complete(User::Alice, &[&node[..], &["-n3", gpus]].concat(), script).unwrap();
        assert_eq!(numbers_mean_their_gpus(&saw), tasks, "{gpus} {script}: {saw}");
    }
    // Numbers stay right when another job of the user goes, with a GPU that comes before the job's own.
    let script = "while [ ! -e go ]; do sleep 0.1; done\nsh look.sh";
    let high = cluster.sbatch(User::Alice, &[&node[..], &["--gres=gpu:2"]].concat(), script).unwrap();
    cluster.wait_running(high).unwrap();
    cluster.run(User::Alice, "scancel", &[&low.to_string()]).unwrap();
    cluster.wait_end(low).unwrap();
    std::fs::write(cluster.layout().jobs().join("go"), "").unwrap();
    cluster.wait_end(high).unwrap();
    assert_eq!(numbers_mean_their_gpus(&cluster.output(high)), 1);
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn without_a_device_cgroup_only_all_gpus_of_a_node_go_by_number() {
    with(|cluster| {
        let saw = |gpus: &str| {
            let saw = cluster.complete(User::Alice, &["-w", "n2", gpus], DEVICES).unwrap();
            let devices = saw.lines().find_map(|l| l.strip_prefix("cvd=0=")).unwrap();
            devices.split_once('=').map(|(cuda, uuids)| (cuda.to_owned(), uuids.to_owned())).unwrap()
        };
        let (cuda, uuids) = saw("--gres=gpu:2");
        assert_eq!(cuda, uuids);
        let (cuda, _) = saw("--gres=gpu:4");
        assert_eq!(numbers(&cuda), Some(vec![0, 1, 2, 3]));
        let (cuda, uuids) = saw("--gpu-isolation=whole");
        assert_eq!(cuda, uuids, "options of ours");
    });
}

#[test]
fn an_exclusive_step_without_gpus_of_its_own_sees_the_jobs() {
    with(|cluster| {
        let look = "echo cvd=${CUDA_VISIBLE_DEVICES-unset}; nvidia-smi -L | wc -l";
        let srun = ["-w", "n1", "--exclusive", "sh", "-c", look];
        let out = cluster.run(User::Alice, "srun", &srun).unwrap();
        assert_eq!(out.stdout, "cvd=unset\n8\n", "{out:?}");
        assert!(!out.stderr.contains("tessera: "), "it asked for no GPU: {out:?}");
    });
}

#[test]
fn tasks_bound_to_no_gpu_see_those_of_their_step() {
    let script = "echo job=$CUDA_VISIBLE_DEVICES\n\
                  look='echo $0.$SLURM_LOCALID=${CUDA_VISIBLE_DEVICES-unset}'\n\
                  srun -Q -n2 --gpu-bind=none sh -c \"$look\" bound\n\
                  srun -Q -n2 --gpu-bind=verbose,none sh -c \"$look\" verbose\n\
                  srun -Q -n2 --gpu-bind=none --gres=none sh -c \"$look\" none";
    with(|cluster| {
        for gpus in ["--gres=gpu:1", "--gres=gpu:2"] {
            let saw = cluster.complete(User::Alice, &["-w", "n1", "-n2", gpus], script).unwrap();
            let of = |what: &str| variable(&saw, what).unwrap_or_else(|| panic!("no {what}: {saw}"));
            for task in ["bound.0", "bound.1", "verbose.0", "verbose.1"] {
                assert_eq!(of(task), of("job"), "{gpus} {task}: {saw}");
            }
            assert_eq!([of("none.0"), of("none.1")], ["NoDevFiles", "NoDevFiles"], "{gpus}: {saw}");
        }
    });
}

#[test]
fn a_quiet_srun_prints_no_notice() {
    with(|cluster| {
        let said = |options: &[&str]| {
            let words = [&["-w", "n1", "--gres=gpu:1"], options, &["env"]].concat();
            let out = cluster.run(User::Alice, "srun", &words).unwrap();
            assert!(!out.stdout.contains("TESSERA_QUIET"), "{out:?}");
            out.stderr.lines().filter(|line| line.starts_with("tessera: ")).count()
        };
        assert_eq!([said(&[]), said(&["-Q"]), said(&["--quiet"])], [1, 0, 0]);
        assert_eq!(said(&["-Q", "--export=NONE", "--gpu-isolation=whole"]), 0);
    });
}
