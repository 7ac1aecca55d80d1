//! The node of a job that names none: where the cost to everybody else is least, not where the fewest CPUs are free.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use common::more_nodes::four_nodes;
use common::{AT_ONCE, admin_comment, builder, on};
use lab::config::Templates;
use lab::{Cluster, JobId, User};
use protocol::wire::split_node;

const STAY: &str = "exec sleep 600";
/// Two nodes that are alike.
const TWO: [&str; 2] = ["-p", "two"];

/// Partitions of some of the nodes that are alike; in `least`, jobs go where the load is least.
const PARTITIONS: &str = "PartitionName=least Nodes=n1,n2 MaxTime=INFINITE State=UP LLN=YES\n\
                          PartitionName=two Nodes=n1,n2 MaxTime=INFINITE State=UP\n\
                          PartitionName=three Nodes=n1,n2,n3 MaxTime=INFINITE State=UP\n";

fn templates() -> Templates {
    let mut templates = four_nodes();
    templates.slurm.push_str(PARTITIONS);
    templates
}

fn start(cluster: &Cluster, user: User, options: &[&str]) -> (JobId, String) {
    let job = cluster.sbatch(user, options, STAY).unwrap();
    let node = cluster.wait_running(job).unwrap().get("NodeList").to_owned();
    (job, node)
}

fn node_of(cluster: &Cluster, options: &[&str]) -> String {
    start(cluster, User::Alice, &[&TWO[..], options].concat()).1
}

fn end(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    let _ = cluster.wait_end(job).unwrap();
}

/// The job's AdminComment says this of its node.
fn is_told(cluster: &Cluster, job: JobId, why: &str) {
    let comment = admin_comment(cluster, job);
    let told = comment.started().and_then(|started| split_node(&started.why).1);
    assert_eq!(told, Some(why), "{comment:?}");
}

/// Fewer free CPUs on n1, so that Slurm alone goes there.
fn lean_to_n1(cluster: &Cluster) -> JobId {
    start(cluster, User::Bob, &["-w", "n1", "-c2"]).0
}

/// Takes all GPUs of a node but two.
fn leave(cluster: &Cluster, node: &str, free: [u32; 2]) {
    let mut extra = Vec::new();
    for _ in 0..8 {
        let (job, at) = start(cluster, User::Bob, &["-w", node, "--gres=gpu:1"]);
        assert_eq!(at, node);
        if free.contains(&cluster.gpus_of(job).unwrap()[0]) {
            extra.push(job);
        }
    }
    extra.into_iter().for_each(|job| end(cluster, job));
}

fn idle_instances_and_cut_gpus(cluster: &mut Cluster) {
    // An idle instance on n2.
    let (job, _) = start(cluster, User::Alice, &["-w", "n2", "--gpu-isolation=mig:1g.5gb"]);
    end(cluster, job);
    cluster.wait_idle().unwrap();
    let _lean = lean_to_n1(cluster);
    assert_eq!(node_of(cluster, &["--gpu-isolation=mig:1g.5gb"]), "n2", "an idle instance is used again");
    for _ in 0..3 {
        let (job, node) = start(cluster, User::Alice, &[&TWO[..], &["--gpu-isolation=mig:1g.5gb"]].concat());
        assert_eq!(node, "n2", "beside what is there");
        is_told(cluster, job, "fills a GPU that is in use already; keeps n1 whole");
    }
}

/// Ten small jobs among another user's jobs without GPUs: they share a node, and two of three jobs for all GPUs of a node start.
fn small_jobs_leave_nodes_whole(cluster: &mut Cluster) {
    let three = |user, options: &[&str]| start(cluster, user, &[&["-p", "three"], options].concat());
    let small = || three(User::Alice, &["-c1", "--gpu-isolation=mig:1g.5gb"]).1;
    let mut nodes = BTreeSet::new();
    for _ in 0..5 {
        let (cpus, _) = three(User::Bob, &["-c4"]);
        nodes.insert(small());
        end(cluster, cpus);
        nodes.insert(small());
    }
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let large = ["-p", "three", "--gpus-per-node=8"];
    let large = [(); 3].map(|()| cluster.sbatch(User::Alice, &large, STAY).unwrap());
    for job in &large[..2] {
        nodes.insert(cluster.wait_running(*job).unwrap().get("NodeList").to_owned());
    }
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    assert_eq!(cluster.job(large[2]).unwrap().state(), "PENDING");
}

/// Eight pairs of GPUs on two nodes: the rings of double links have room for all of them.
fn pairs_find_good_links_on_both_nodes(cluster: &mut Cluster) {
    for pair in 0..8 {
        let lean = start(cluster, User::Bob, &["-w", ["n1", "n2"][pair % 2], "-c2"]).0;
        let (job, node) = start(cluster, User::Alice, &[&TWO[..], &["--gres=gpu:2"]].concat());
        let gpus = cluster.gpus_of(job).unwrap();
        assert_eq!(cluster.links_within(&node, &gpus).unwrap(), 2, "pair {pair} on {node}: {gpus:?}");
        end(cluster, lean);
    }
}

fn sets_go_where_links_are_good(cluster: &mut Cluster) {
    leave(cluster, "n1", [0, 5]);
    leave(cluster, "n2", [0, 3]);
    let (job, node) = start(cluster, User::Alice, &[&TWO[..], &["--gres=gpu:2"]].concat());
    assert_eq!(node, "n2", "{:?}", admin_comment(cluster, job));
    is_told(cluster, job, "50 GB/s, 10 GB/s on n1");
}

/// n1 has GPUs and no core for days, n2's jobs end in an hour: the job is promised n2, and nothing that would delay it starts there.
fn a_start_is_foretold_where_cores_are(cluster: &mut Cluster) {
    let cores =
        cluster.run(User::Root, "sinfo", &["-h", "-n", "n1", "-p", "two", "-o", "%c"]).unwrap().ok().unwrap();
    start(cluster, User::Bob, &["-w", "n1", "-t", "10-0", "-c", cores.trim()]);
    start(cluster, User::Bob, &["-w", "n2", "-t", "60", "--gres=gpu:8"]);
    for asked in ["--gpus-per-node=8", "--gpu-isolation=mig:7g.40gb"] {
        is_foretold(cluster, "two", &[asked], ("n2", "+61 minutes"));
    }
}

/// n1 and n2 have shards enough for the job and no place until jobs of days have ended, n3's jobs end in an hour: the job is promised n3.
/// Once n3 has no core for longer, it is promised n2, which is the next.
fn a_start_is_foretold_where_there_is_a_place_first(cluster: &mut Cluster) {
    for (node, days) in [("n1", "10-0"), ("n2", "9-0")] {
        fill(cluster, node, days, &["--gpus-per-node=7"]);
        // On the last GPU: whichever four are left, one is in the way of a 4g.20gb.
        let ones = fill(cluster, node, days, &["--gpu-isolation=mig:1g.5gb"; 7]);
        ones[..3].iter().for_each(|job| end(cluster, *job));
    }
    fill(cluster, "n3", "60", &["--gpus-per-node=8"]);
    // One core of n3 comes free with its GPUs.
    let size = ["--gpu-isolation=mig:4g.20gb", "-c2"];
    is_foretold(cluster, "three", &size, ("n3", "+61 minutes"));
    let cores = cluster
        .run(User::Root, "sinfo", &["-h", "-n", "n3", "-p", "three", "-o", "%c"])
        .unwrap()
        .ok()
        .unwrap();
    let others: u32 = cores.trim().parse::<u32>().unwrap() - 1;
    fill(cluster, "n3", "20-0", &[&format!("-c{others}")]);
    is_foretold(cluster, "three", &size, ("n2", "+217 hours"));
}

/// The same for whole GPUs, of which Slurm forgets up to 24.11 that they are full of shards.
fn a_start_is_foretold_where_gpus_are_free_first(cluster: &mut Cluster) {
    fill(cluster, "n1", "10-0", &["--gpu-isolation=mig:3g.20gb"; 16]);
    fill(cluster, "n2", "60", &["--gpus-per-node=8"]);
    is_foretold(cluster, "two", &["--gpus-per-node=8"], ("n2", "+61 minutes"));
}

/// Starts these jobs, of one core if they do not say, for a time on a node.
fn fill(cluster: &Cluster, node: &str, time: &str, asked: &[&str]) -> Vec<JobId> {
    let submit =
        |asked: &&str| cluster.sbatch(User::Bob, &["-w", node, "-t", time, "-c1", asked], STAY).unwrap();
    let jobs: Vec<JobId> = asked.iter().map(submit).collect();
    jobs.iter().for_each(|job| drop(cluster.wait_running(*job).unwrap()));
    jobs
}

/// A job is promised this node, before a time as `date` reads it.
fn is_foretold(cluster: &Cluster, partition: &str, asked: &[&str], (node, before): (&str, &str)) {
    let words = [&["--test-only", "-p", partition, "-t", "30", "--wrap", "true"], asked].concat();
    let said = cluster.run(User::Alice, "sbatch", &words).unwrap();
    let said = said.stdout + &said.stderr;
    let latest = cluster.run(User::Root, "date", &["-d", before, "+%FT%T"]).unwrap().ok().unwrap();
    let start = said.split(" to start at ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("never");
    assert!(said.contains(&format!(" {node} ")) && start < latest.trim(), "{asked:?}: {said}{latest}");
}

fn the_model_and_its_links(cluster: &mut Cluster) {
    assert_eq!(start(cluster, User::Alice, &["--gpus-per-node=4"]).1, "n4", "300 GB/s rather than 50");
}

fn least_is_taken(cluster: &mut Cluster) {
    assert_eq!(
        start(cluster, User::Alice, &["--gpu-mem=40G"]).1,
        "n4",
        "half an H100 rather than a whole A100"
    );
}

fn a_share_joins(cluster: &mut Cluster) {
    let share = ["--gpu-isolation=mps", "--gpu-mem=5G"];
    let _ = start(cluster, User::Alice, &[&["-w", "n2"], &share[..]].concat());
    let _lean = lean_to_n1(cluster);
    assert_eq!(node_of(cluster, &share), "n2");
}

/// Jobs without GPUs, a site's own weights and jobs of several tasks stay Slurm's.
fn slurms_own(cluster: &mut Cluster) {
    let (instance, _) = start(cluster, User::Alice, &["-w", "n2", "--gpu-isolation=mig:1g.5gb"]);
    let _lean = lean_to_n1(cluster);
    assert_eq!(node_of(cluster, &["-c1"]), "n1", "no GPU");
    let tasks = [&TWO[..], &["-n4", "--gpu-isolation=mig:1g.5gb"]].concat();
    let (tasks, node) = start(cluster, User::Alice, &tasks);
    assert_eq!(node, "n1", "might have several nodes");
    end(cluster, tasks);
    let weigh = |n2: &str| {
        let update = ["update", "NodeName=n2", &format!("Weight={n2}")];
        cluster.run(User::Root, "scontrol", &update).unwrap().ok().unwrap();
    };
    weigh("10");
    let (job, node) = start(cluster, User::Alice, &[&TWO[..], &["--gpu-isolation=mig:1g.5gb"]].concat());
    assert_eq!(node, "n1", "the site's weight comes first");
    is_told(
        cluster,
        job,
        "Slurm chose it by cores, memory, features, types of GPU or weight; by its free GPUs n2 comes first",
    );
    weigh("1");
    assert_eq!(cluster.job(instance).unwrap().state(), "RUNNING");
}

/// A partition that wants the least loaded node gets it.
fn least_loaded(cluster: &mut Cluster) {
    let _cut = start(cluster, User::Alice, &["-w", "n2", "--gpu-isolation=mig:1g.5gb"]);
    let _loaded = start(cluster, User::Bob, &["-w", "n2", "-c20"]);
    assert_eq!(node_of(cluster, &["--gpu-isolation=mig:1g.5gb"]), "n2", "beside what is there");
    let (_, least) = start(cluster, User::Alice, &["-p", "least", "--gpu-isolation=mig:1g.5gb"]);
    assert_eq!(least, "n1", "the least loaded node");
}

/// Where cores run out, GPUs stay empty that the usual job cannot use: a job with fewer cores gets one of those.
fn what_is_asked_for_is_learnt(cluster: &mut Cluster) {
    let begin = |cluster: &Cluster, node: &str, options: &[&str]| {
        start(cluster, User::Bob, &[&["-w", node], options].concat()).0
    };
    for node in ["n1", "n1", "n2"] {
        let _gpu = begin(cluster, node, &["--gres=gpu:1"]);
    }
    let cpus =
        cluster.run(User::Root, "sinfo", &["-h", "-n", "n2", "-p", "two", "-o", "%c"]).unwrap().ok().unwrap();
    let cpus: u32 = cpus.trim().parse().unwrap();
    let _cores = begin(cluster, "n2", &[&format!("-c{}", cpus - 2)]);
    let small = || start(cluster, User::Alice, &[&TWO[..], &["--gres=gpu:1", "-c1"]].concat());
    // The state is rebuilt from the jobs that there are, with little to learn from.
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    let (job, node) = small();
    assert_eq!(node, "n1", "fewer of its GPUs are free");
    end(cluster, job);
    for _ in 0..48 {
        let usual = ["--gres=gpu:1", "-c2", "--begin=now+1hour"];
        let _waits = cluster.sbatch(User::Alice, &[&TWO[..], &usual].concat(), STAY).unwrap();
    }
    let (job, node) = small();
    assert_eq!(node, "n2", "{:?}", admin_comment(cluster, job));
    is_told(cluster, job, "less of what the job gets stays unused than on n1");
}

#[test]
fn a_job_gets_the_node_that_costs_the_others_least() {
    let mut cluster = builder().templates(templates()).slurm_conf(AT_ONCE).start().unwrap();
    for part in [
        idle_instances_and_cut_gpus,
        small_jobs_leave_nodes_whole,
        sets_go_where_links_are_good,
        pairs_find_good_links_on_both_nodes,
        a_start_is_foretold_where_cores_are,
        a_start_is_foretold_where_there_is_a_place_first,
        a_start_is_foretold_where_gpus_are_free_first,
        the_model_and_its_links,
        least_is_taken,
        a_share_joins,
        slurms_own,
        least_loaded,
        what_is_asked_for_is_learnt,
    ] {
        on(&mut cluster, part);
    }
}
