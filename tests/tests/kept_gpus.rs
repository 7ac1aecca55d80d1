//! GPUs that the site keeps for something: the administrator's own instances, GPUs left to Slurm, and GPUs kept uncut.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, builder, instances, looked, profiles};
use lab::config::Templates;
use lab::{Builder, Cluster, Slurm, User};

/// n2's GPU 0 is cut by the site, GPU 3 is left to Slurm.
const N2: &str = "gpu_use = { \"3\" = \"slurm\" }\nstatic = { \"0\" = [\"3g.40gb@0\", \"3g.40gb@4\"] }\n";
/// Two of n1's GPUs may be cut.
const N1: &str = "keep_uncut = 6\n";

fn cluster() -> Cluster {
    cluster_of(builder())
}

fn cluster_of(builder: Builder) -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    templates.tessera = templates.tessera.replace("names = \"n2\"\n", &format!("names = \"n2\"\n{N2}"));
    templates.tessera = templates.tessera.replace("names = \"n1\"\n", &format!("names = \"n1\"\n{N1}"));
    let cluster = builder.templates(templates).start().unwrap();
    for args in ["-i 0 -mig 1", "mig -i 0 -cgi 9,9 -C"] {
        smi(&cluster, args);
    }
    cluster
}

fn smi(cluster: &Cluster, args: &str) -> String {
    let mut smi = cluster.command_on("n2", User::Root, "nvidia-smi").unwrap();
    lab::command::run(smi.args(args.split(' '))).unwrap().ok().unwrap()
}

fn layout(cluster: &Cluster, node: &str) -> String {
    let all = cluster.published_layouts().unwrap();
    all.into_iter().find(|(name, _)| name == node).unwrap().1
}

fn scancel(cluster: &Cluster, jobs: &[lab::JobId]) {
    for job in jobs {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
    }
}

fn cancel(cluster: &Cluster, jobs: &[lab::JobId]) {
    scancel(cluster, jobs);
    cluster.wait_idle().unwrap();
}

#[test]
fn the_sites_own_instances_stay_and_serve_jobs_that_fit() {
    let cluster = cluster();
    let by_hand = instances(&smi(&cluster, "-L"));
    assert_eq!(by_hand.len(), 2);
    let stay = |at: &str| assert_eq!(instances(&smi(&cluster, "-L")), by_hand, "{at}");
    let idle = "tessera gpu0=mig[3g.40gb@0:idle,3g.40gb@4:idle] gpu1-2=free gpu3=slurm";
    assert_eq!(layout(&cluster, "n2"), idle);

    // Jobs for all GPUs: refused, by Slurm's options and by ours.
    for options in
        [&["--gres=gpu:4"][..], &["--gpu-isolation=whole", "--gpus-per-node=4"], &["--gres=gpu:h100:4"]]
    {
        let done = cluster.try_sbatch(User::Alice, &[options, &["-w", "n2"]].concat(), LOOK).unwrap();
        done.refused().unwrap();
    }
    let said = cluster
        .try_sbatch(User::Alice, &["--gpu-isolation=whole", "--gpus-per-node=3", "-w", "n2"], LOOK)
        .unwrap()
        .refused()
        .unwrap();
    assert!(said.contains("3 GPUs do not fit on an empty node, 2 do"), "{said}");
    stay("refused jobs");

    // A job that has every GPU of the node in Slurm's accounts gets those that it may have whole.
    let options = ["--exclusive", "-w", "n2", "--gres=gpu:1"];
    let exclusive = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
    let saw = looked(&cluster, exclusive);
    assert_eq!(
        saw.matches("GPU-").count(),
        2 * 3,
        "three GPUs by UUID, in CUDA_VISIBLE_DEVICES and in the list: {saw}"
    );
    cancel(&cluster, &[exclusive]);
    stay("an exclusive job");

    // A plain job may have the GPU that is Slurm's, and its device node stays as it is.
    let explained = |options: &[&str]| {
        let mut tessera = cluster.command(User::Bob, "tessera").unwrap();
        lab::command::run(tessera.args(["explain", "--node", "n2"]).args(options)).unwrap()
    };
    let said = explained(&["--gres=gpu:3"]);
    assert!(said.code == Some(0) && said.stdout.contains("n2: GPUs 1, 2, 3: "), "{}", said.stdout);
    for options in [&["--gres=gpu:4"][..], &["--gpu-isolation=whole", "--gpus-per-node=3"]] {
        let said = explained(options);
        assert!(said.code == Some(1) && said.stdout.contains("never on this node: "), "{}", said.stdout);
    }
    let node = cluster.layout().node("n2").join("dev/nvidia3");
    std::fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let plain = cluster.sbatch(User::Bob, &["--gres=gpu:3", "-w", "n2"], LOOK_AND_STAY).unwrap();
    let saw = looked(&cluster, plain);
    assert!(
        layout(&cluster, "n2").ends_with(&format!("gpu1-3=whole[job{plain}]")),
        "{}",
        layout(&cluster, "n2")
    );
    assert_eq!(saw.matches("GPU-").count(), 2 * 3, "{saw}");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&node).unwrap()) & 0o777, 0o666);

    // Beside it the instances are used as they are, and nothing else is made.
    let named =
        cluster.sbatch(User::Alice, &["--gpu-isolation=mig:3g.40gb", "-w", "n2"], LOOK_AND_STAY).unwrap();
    let larger = cluster
        .sbatch(User::Bob, &["--gpu-isolation=mig", "--gpu-mem=8G", "-w", "n2"], LOOK_AND_STAY)
        .unwrap();
    let got = [looked(&cluster, named), looked(&cluster, larger)].map(|saw| instances(&saw));
    assert_eq!(got.concat().len(), 2);
    assert_ne!(got[0], got[1]);
    let mut of_jobs = got.concat();
    of_jobs.sort();
    let mut all = by_hand.clone();
    all.sort();
    assert_eq!(of_jobs, all);
    cancel(&cluster, &[plain, named, larger]);
    stay("jobs that used them");
    assert_eq!(layout(&cluster, "n2"), idle);
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&node).unwrap()) & 0o777, 0o666);

    // What is gone is not made: the job waits for an administrator.
    smi(&cluster, "mig -i 0 -dci");
    smi(&cluster, "mig -i 0 -dgi");
    let mut doctor = cluster.command_on("n2", User::Root, "tessera").unwrap();
    let said = lab::command::run(doctor.arg("doctor")).unwrap().stdout;
    assert!(said.contains("the site says that it has 3g.40gb@0 (static), the driver shows none"), "{said}");
    assert_eq!(instances(&smi(&cluster, "-L")), []);
    assert_eq!(cluster.leftovers().unwrap(), [""; 0]);
}

#[test]
fn some_gpus_stay_uncut_for_whole_jobs() {
    let cluster = cluster();
    let seven =
        |user| cluster.sbatch(user, &["--gpu-isolation=mig:7g.40gb", "-w", "n1"], LOOK_AND_STAY).unwrap();
    let jobs = [seven(User::Alice), seven(User::Bob), seven(User::Alice)];
    for job in &jobs[..2] {
        assert_eq!(profiles(&looked(&cluster, *job)), ["7g.40gb"]);
    }
    let whole = cluster
        .sbatch(User::Bob, &["--gpu-isolation=whole", "--gpus-per-node=6", "-w", "n1"], LOOK_AND_STAY)
        .unwrap();
    looked(&cluster, whole);
    assert_eq!(cluster.job(jobs[2]).unwrap().state(), "PENDING");
    scancel(&cluster, &[whole]);
    let share = cluster
        .sbatch(User::Bob, &["--gpu-isolation=mps", "--gpu-mem=2G", "-w", "n1"], LOOK_AND_STAY)
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(
        [jobs[2], share].map(|job| cluster.job(job).unwrap().state().to_owned()),
        ["PENDING", "PENDING"]
    );
    scancel(&cluster, &[jobs[0]]);
    assert_eq!(profiles(&looked(&cluster, jobs[2])), ["7g.40gb"]);
    cancel(&cluster, &[jobs[1], jobs[2], share]);
}

/// Slurm would give GPU 0 of n2, which is cut. It tests a reservation of GPUs like a job, here the first that slurmctld sees.
#[test]
fn a_reservation_of_gpus_holds_no_job_off_from_gpus_elsewhere() {
    let cluster = cluster_of(builder().slurm(Slurm::by_default().unwrap()).accounting());
    let bobs = format!("Users={}", User::Bob.name());
    let reserve = ["create", "reservation", "Reservation=class", &bobs, "Nodes=n1", "TRES=gres/gpu=4"];
    let times = ["StartTime=now", "Duration=300"];
    cluster.run(User::Root, "scontrol", &[&reserve[..], &times].concat()).unwrap().ok().unwrap();
    let whole = cluster.sbatch(User::Alice, &["-w", "n2", "--gres=gpu:1"], LOOK_AND_STAY).unwrap();
    cluster.wait_running(whole).unwrap();
    assert_ne!(cluster.gpus_of(whole).unwrap(), [0]);
    let options = ["--reservation=class", "-w", "n1", "--gres=gpu:4"];
    let member = cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap();
    cluster.wait_running(member).unwrap();
    let shown = layout(&cluster, "n1");
    assert!(shown.contains(&format!("whole[job{member}]")), "{shown}");
    let reserved = cluster.gpus_of(member).unwrap();
    scancel(&cluster, &[whole, member]);
    members_get_parts_of_these_gpus(&cluster, &reserved);
}

/// From 25.05 on Slurm itself gives a job of a reservation of GPUs no shards.
fn members_get_parts_of_these_gpus(cluster: &Cluster, reserved: &[u32]) {
    let options = ["--reservation=class", "-w", "n1", "--gpu-isolation=mig:7g.40gb"];
    let jobs = [(); 2].map(|()| cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap());
    for job in jobs {
        assert!(looked(cluster, job).contains("MIG 7g.40gb"));
        let shown = layout(cluster, "n1");
        let on = |gpu: &&u32| shown.contains(&format!("gpu{gpu}=mig[7g.40gb@0:job{job}]"));
        assert!(reserved.iter().any(|gpu| on(&gpu)), "{reserved:?}: {shown}");
    }
    scancel(cluster, &jobs);
}
