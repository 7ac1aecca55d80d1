//! Pending jobs: another number of whole GPUs and another request are taken, any other change of GRES is refused with its reason.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, admin_comment, looked, variable};
use lab::{Cluster, Daemon, JobId, User};
use protocol::CommentBody;
use protocol::wire::{encode_as_gres, parse_request};
use slurm_releases::Release;

fn update(cluster: &Cluster, job: JobId, what: &str) -> lab::command::Done {
    cluster.run(User::Alice, "scontrol", &["update", &format!("JobId={job}"), what]).unwrap()
}

#[test]
fn pending_jobs_are_resized_or_the_user_is_told_why_not() {
    common::with(|cluster| resized(cluster));
}

fn resized(cluster: &Cluster) {
    let held = |options: &[&str]| {
        cluster.sbatch(User::Alice, &[&["-H", "-w", "n1"], options].concat(), LOOK_AND_STAY).unwrap()
    };
    let whole = held(&["--gpu-isolation=whole", "--gpus-per-node=1"]);
    update(cluster, whole, "gres=gpu:3").ok().unwrap();
    let too_many = update(cluster, whole, "gres=gpu:9").refused().unwrap();
    let cut = held(&["--gpu-isolation=mig:1g.5gb"]);
    let refused = update(cluster, cut, "gres=shard:20").refused().unwrap();
    let emptied = held(&["--gpu-isolation=mig:2g.10gb"]);
    let not_given_up =
        ["gres=", "TresPerNode="].map(|what| update(cluster, emptied, what).refused().unwrap());
    let told = |said: &str, job, words: &str| {
        let comment = admin_comment(cluster, job);
        let noted = matches!(&comment.says, CommentBody::Unchanged(why) if why.contains(words));
        // 22.05 has no place for a plugin's message.
        let shown = if cluster.release() == Release::V22_05 { noted } else { said.contains(words) };
        assert!(shown, "{said}: {comment}");
    };
    told(&too_many, whole, "9 GPUs do not fit on an empty node, 8 do");
    told(&refused, cut, "change these with tessera change");
    not_given_up.iter().for_each(|said| told(said, emptied, "cannot give up its GRES"));
    assert!(cluster.job(emptied).unwrap().get("TresPerNode").contains("shard:10"));
    cluster.run(User::Alice, "scancel", &[&emptied.to_string()]).unwrap().ok().unwrap();
    for job in [whole, cut] {
        cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    }
    let saw = looked(cluster, whole);
    assert_eq!(cluster.gpus_of(whole).unwrap().len(), 3, "{saw}");
    assert_eq!(variable(&saw, "CUDA_VISIBLE_DEVICES").unwrap().matches("GPU-").count(), 3, "{saw}");
    assert_eq!(common::profiles(&looked(cluster, cut)), ["1g.5gb"]);
    assert!(matches!(admin_comment(cluster, cut).says, CommentBody::Started(_)));
    let late = update(cluster, whole, "gres=gpu:2").refused().unwrap();
    assert!(!late.is_empty());
    for job in [whole, cut] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
    }
    cluster.wait_idle().unwrap();
    cluster.complete(User::Alice, &["-w", "n1", "--gpu-isolation=whole"], LOOK).unwrap();
}

/// A job of Alice's on n1 that is held.
fn held(cluster: &Cluster, options: &[&str]) -> JobId {
    cluster.sbatch(User::Alice, &[&["-H", "-w", "n1"], options].concat(), LOOK_AND_STAY).unwrap()
}

fn change(cluster: &Cluster, user: User, job: &str, options: &[&str]) -> lab::command::Done {
    cluster.run(user, "tessera", &[&["change", job], options].concat()).unwrap()
}

fn shards(cluster: &Cluster, job: JobId) -> String {
    cluster.job(job).unwrap().get("TresPerNode").to_owned()
}

fn release(cluster: &Cluster, job: JobId) {
    cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
}

const ONE: &str = "--gpu-isolation=mig:1g.5gb";
const TWO: &str = "--gpu-isolation=mig:2g.10gb";

#[test]
fn a_pending_job_gets_what_its_new_request_says() {
    common::with(|cluster| {
        let job = held(cluster, &[ONE]);
        let number = job.to_string();
        let told = change(cluster, User::Alice, &number, &[TWO]).ok().unwrap();
        assert_eq!(told, format!("job {job} asks for an instance 2g.10gb now; before: an instance 1g.5gb\n"));
        assert!(shards(cluster, job).ends_with("shard:10"));
        let never = change(cluster, User::Alice, &number, &["--gpu-isolation=mig", "--gpu-mem=200G"]);
        let never = never.refused().unwrap();
        assert!(never.contains("stays as it was: --gpu-isolation=mig --gpu-mem=200.0GB"), "{never}");
        let theirs = change(cluster, User::Bob, &number, &[ONE]).refused().unwrap();
        assert!(theirs.contains("stays as it was"), "{theirs}");
        assert!(shards(cluster, job).ends_with("shard:10"));
        // The change is saved with the job.
        cluster.stop(&Daemon::Slurmctld).unwrap();
        cluster.start(&Daemon::Slurmctld).unwrap();
        release(cluster, job);
        assert_eq!(common::profiles(&looked(cluster, job)), ["2g.10gb"]);
        let late = change(cluster, User::Alice, &number, &[ONE]).refused().unwrap();
        assert!(late.contains("it keeps its GPUs"), "{late}");
    });
}

#[test]
fn a_change_that_slurm_refuses_leaves_the_job_as_it_was() {
    common::with(|cluster| {
        let gres = format!("Gres={}", encode_as_gres(&parse_request("v1 iso=mig:2g.10gb typed=1").unwrap()));
        let [settled, started] = [(); 2].map(|()| {
            let job = held(cluster, &[ONE]);
            // Slurm looks at the reservation after the job submit plugins.
            let both = ["update", &format!("JobId={job}"), &gres, "ReservationName=none"];
            cluster.run(User::Alice, "scontrol", &both).unwrap().refused().unwrap();
            assert!(shards(cluster, job).ends_with("shard:5"));
            job
        });
        update(cluster, settled, "Nice=1").ok().unwrap();
        let asks = admin_comment(cluster, settled).asks.unwrap();
        assert!(asks.starts_with("v1 iso=mig:1g.5gb"), "{asks}");
        for job in [settled, started] {
            release(cluster, job);
            // Of the second job's GPU, Alice sees both of her instances.
            let profiles = common::profiles(&looked(cluster, job));
            assert!(profiles.iter().all(|profile| profile == "1g.5gb"), "{profiles:?}");
        }
    });
}

#[test]
fn tasks_components_and_plain_jobs_get_new_requests() {
    common::with(|cluster| {
        let array = held(cluster, &["--array=0-2", ONE]);
        change(cluster, User::Alice, &format!("{array}_1"), &[TWO]).ok().unwrap();
        let told =
            change(cluster, User::Alice, &array.to_string(), &["--gpu-isolation=mig:3g.20gb"]).ok().unwrap();
        assert_eq!(told.matches("asks for an instance 3g.20gb now").count(), 2, "{told}");
        let list = ["-h", "-r", "-O", "tres-per-node:60", &format!("--jobs={array}")];
        let all = cluster.run(User::Alice, "squeue", &list).unwrap().ok().unwrap();
        assert_eq!(all.matches("shard:20").count(), 3, "{all}");

        let components = held(cluster, &[ONE, ":", ONE]);
        let unnamed = change(cluster, User::Alice, &components.to_string(), &[TWO]).refused().unwrap();
        assert!(unnamed.contains("is heterogeneous"), "{unnamed}");
        change(cluster, User::Alice, &format!("{components}+1"), &[TWO]).ok().unwrap();
        let list = ["-h", "-O", "tres-per-node:60", &format!("--jobs={components}")];
        let both = cluster.run(User::Alice, "squeue", &list).unwrap().ok().unwrap();
        assert!(both.contains("shard:5") && both.contains("shard:10"), "{both}");

        let plain = held(cluster, &["--gres=gpu:1"]);
        let part = change(cluster, User::Alice, &plain.to_string(), &[TWO]);
        if cluster.release() == Release::V22_05 {
            let why = part.refused().unwrap();
            assert!(why.contains("older than 23.11") && why.contains("submit it again"), "{why}");
        } else {
            part.ok().unwrap();
            release(cluster, plain);
            assert_eq!(common::profiles(&looked(cluster, plain)), ["2g.10gb"]);
        }
    });
}

/// n1 and n2 have GPUs of different types, which Slurm keeps apart for a job and its steps from 23.02 on. It frees some of it twice when
/// such a job gives up a node under a step.
#[test]
fn a_running_job_with_two_types_of_gpu_gives_up_no_node() {
    common::with(|cluster| {
        let options = ["-N2", "-n2", "--mem-per-cpu=50", "--gres=gpu:1"];
        let job =
            cluster.sbatch(User::Alice, &options, "srun -n2 sh -c 'echo looked; exec sleep 600'").unwrap();
        looked(cluster, job);
        let done = update(cluster, job, "NumNodes=1");
        if cluster.release() != Release::V22_05 {
            let said = done.refused().unwrap();
            assert!(said.contains("GPUs of several types"), "{said}");
        }
        cluster.run(User::Alice, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        cluster.wait_idle().unwrap();
        cluster.complete(User::Alice, &["-w", "n1", ONE], LOOK).unwrap();
    });
}
