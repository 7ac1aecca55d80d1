//! Moldable jobs, and plans for them in a planner's format, on each Slurm.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use common::{LOOK, LOOK_AND_STAY, looked, on, profiles, start_now, with};
use lab::command::{Done, PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};

/// On the node of A100s: 5, 10 and 20 shards; least work on 1g.
const TIMES: &str = "--gpu-times=1g:60s,2g:35s,3g:0:00:25";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A plan that lasts ten minutes.
fn plan(size: &str, place: &str) -> String {
    let now = now();
    let place = if place.is_empty() { String::new() } else { format!(" place={place}") };
    format!("tessera: plan v1 size={size}{place} begin={now} end={} until={}", now + 35, now + 600)
}

fn held(cluster: &Cluster, options: &[&str]) -> JobId {
    let options: Vec<&str> = ["-H"].into_iter().chain(options.iter().copied()).collect();
    cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap()
}

fn update(cluster: &Cluster, user: User, job: JobId, field: &str) -> Done {
    cluster.run(user, "scontrol", &["update", &format!("JobId={job}"), field]).unwrap()
}

fn comment(cluster: &Cluster, job: JobId) -> String {
    let shown =
        cluster.run(User::Root, "scontrol", &["show", "job", &job.to_string()]).unwrap().ok().unwrap();
    let line = shown.lines().find_map(|l| l.trim().strip_prefix("AdminComment="));
    line.unwrap_or_default().trim().to_owned()
}

fn set(cluster: &Cluster, job: JobId, text: &str) {
    update(cluster, User::Root, job, &format!("AdminComment={text}")).ok().unwrap();
}

/// The shards that Slurm accounts the job with, however the version writes them.
fn shards(cluster: &Cluster, job: JobId) -> String {
    cluster.job(job).unwrap().get("TresPerNode").rsplit(':').next().unwrap().to_owned()
}

/// Released, looked, and cancelled: profiles it had, and what the comment said.
fn ran(cluster: &Cluster, job: JobId) -> (Vec<String>, String) {
    cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    let saw = looked(cluster, job);
    let said = comment(cluster, job);
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    (profiles(&saw), said)
}

fn alone(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES, "-w", "n1"]);
    assert_eq!(shards(cluster, job), "5");
    assert_eq!(comment(cluster, job), "tessera: asks v1 iso=mig times=1g:60,2g:35,3g:25");
    let (got, said) = ran(cluster, job);
    assert_eq!(got, ["1g.5gb"]);
    assert!(said.contains(": fewest slice-seconds of 1g, 2g, 3g; 14 of 108 SMs"), "{said}");

    // What is too small for the memory is not among the sizes any more.
    let job = held(cluster, &[TIMES, "--gpu-mem=12G", "-w", "n1"]);
    assert_eq!(comment(cluster, job), "tessera: asks v1 iso=mig mem=11445 times=3g:25");
    assert_eq!(ran(cluster, job).0, ["3g.20gb"]);
    // A size that the user names stands until a planner chooses another.
    let job = held(cluster, &[TIMES, "--gpu-isolation=mig:2g.10gb", "-w", "n1"]);
    assert_eq!((shards(cluster, job), ran(cluster, job).0), ("10".to_owned(), vec!["2g.10gb".to_owned()]));
}

fn resized(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES]);
    set(cluster, job, &plan("2g.10gb", "n1:5@2"));
    assert_eq!(shards(cluster, job), "10");
    let asks = "; asks v1 iso=mig times=1g:60,2g:35,3g:25";
    assert!(comment(cluster, job).ends_with(asks), "{}", comment(cluster, job));
    let (got, said) = ran(cluster, job);
    assert_eq!(got, ["2g.10gb"]);
    assert!(said.starts_with("tessera: n1=mig:5/2g.10gb@2 planned="), "{said}");
    assert!(said.contains(": 2g.10gb chosen by the planner out of 1g, 2g, 3g; end expected 20"), "{said}");
    assert!(said.contains(", at the planned place; ") && said.ends_with(asks), "{said}");

    // Taken back, by clearing it or by somebody's own text.
    for other in ["", "benchmark of June"] {
        let job = held(cluster, &[TIMES, "-w", "n1"]);
        set(cluster, job, &plan("3g.20gb", "n1:5@4"));
        assert_eq!(shards(cluster, job), "20");
        set(cluster, job, other);
        assert_eq!((shards(cluster, job), ran(cluster, job).0), ("5".to_owned(), vec!["1g.5gb".to_owned()]));
    }
}

fn stale(cluster: &mut Cluster) {
    // The place is taken: it does not wait for it.
    let first = held(cluster, &[TIMES]);
    set(cluster, first, &plan("2g.10gb", "n1:5@2"));
    cluster.run(User::Root, "scontrol", &["release", &first.to_string()]).unwrap().ok().unwrap();
    looked(cluster, first);
    // It has started since a planner looked: what it got stays.
    let got = comment(cluster, first);
    for late in [plan("3g.20gb", "n1:5@4"), "tessera: asks v1 iso=mig times=1g:60,2g:35,3g:25".to_owned()] {
        assert_ne!(
            update(cluster, User::Root, first, &format!("AdminComment={late}")).code,
            Some(0),
            "{late}"
        );
        assert_eq!(comment(cluster, first), got);
    }
    let second = held(cluster, &[TIMES]);
    set(cluster, second, &plan("2g.10gb", "n1:5@2"));
    cluster.run(User::Root, "scontrol", &["release", &second.to_string()]).unwrap().ok().unwrap();
    looked(cluster, second);
    let said = comment(cluster, second);
    assert!(said.contains("/2g.10gb@") && said.contains("2g.10gb chosen by the planner"), "{said}");
    assert!(!said.contains("mig:5/2g.10gb@2") && !said.contains("at the planned place"), "{said}");
    for job in [first, second] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    cluster.wait_idle().unwrap();

    // It lapses while the job waits: requested size, requested shards.
    let job = held(cluster, &[TIMES, "-w", "n1"]);
    let until = now() + 10;
    set(cluster, job, &format!("tessera: plan v1 size=3g.20gb until={until}"));
    assert_eq!(shards(cluster, job), "20");
    wait_for("the plan to lapse", PATIENCE, || if now() > until { Ok(()) } else { Err(String::new()) })
        .unwrap();
    cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    assert_eq!(profiles(&looked(cluster, job)), ["1g.5gb"]);
    assert_eq!(shards(cluster, job), "5");
    let said = comment(cluster, job);
    assert!(said.contains("its plan had lapsed"), "{said}");
}

/// Its planned node has the place but no cores for it: the other one takes it.
fn elsewhere(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES, "--cpus-per-task=2"]);
    set(cluster, job, &plan("2g.10gb", "n1:0@2"));
    let hog = cluster.sbatch(User::Bob, &["--cpus-per-task=63", "-w", "n1"], "sleep 600").unwrap();
    cluster.wait_running(hog).unwrap();
    cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    looked(cluster, job);
    let said = comment(cluster, job);
    assert!(said.starts_with("tessera: n2=mig:0/2g.10gb@"), "{said}");
}

fn refused(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES, "-w", "n1"]);
    let asks = comment(cluster, job);
    let lapsed = format!("tessera: plan v1 size=2g.10gb until={}", now() - 1);
    let plans = [
        "tessera: plan".to_owned(),
        "tessera: plan v1 size=$(reboot) until=1".to_owned(),
        format!("{} colour=red", plan("2g.10gb", "")),
        plan("7g.40gb", ""),
        plan("2g.10gb", "n7:0@0"),
        plan("2g.10gb", "n1:0@1"),
        lapsed,
    ];
    for text in &plans {
        let done = update(cluster, User::Root, job, &format!("AdminComment={text}"));
        assert_ne!(done.code, Some(0), "{text}");
        assert_eq!((comment(cluster, job), shards(cluster, job)), (asks.clone(), "5".to_owned()), "{text}");
    }
    let log = std::fs::read_to_string(cluster.layout().at("log").join("slurmctld.log")).unwrap();
    assert!(log.contains("7g.40gb is not among the sizes of the job, 1g, 2g, 3g"), "the log has the reason");

    // Users can neither write a plan nor have one written for them in what is theirs to write.
    let good = plan("2g.10gb", "n1:5@2");
    let forged = update(cluster, User::Alice, job, &format!("AdminComment={good}"));
    assert_ne!(forged.code, Some(0));
    assert_eq!(comment(cluster, job), asks);
    update(cluster, User::Alice, job, &format!("Comment={good}")).ok().unwrap();
    let smuggled = held(cluster, &[TIMES, "-w", "n1", "--comment", &good]);
    let gres = update(cluster, User::Alice, job, "Gres=shard:10");
    assert_ne!(gres.code, Some(0));
    for job in [job, smuggled] {
        assert_eq!((shards(cluster, job), ran(cluster, job).0), ("5".to_owned(), vec!["1g.5gb".to_owned()]));
    }
    // A job that is not moldable cannot be planned, and keeps its administrator's text.
    let job = held(cluster, &["--gpu-isolation=mig:1g.5gb", "-w", "n1"]);
    assert_ne!(update(cluster, User::Root, job, &format!("AdminComment={good}")).code, Some(0));
    set(cluster, job, "benchmark of June");
    assert_eq!(
        (ran(cluster, job).0, comment(cluster, job)),
        (vec!["1g.5gb".to_owned()], "benchmark of June".to_owned())
    );
}

fn survives_slurmctld(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES]);
    set(cluster, job, &plan("2g.10gb", "n1:6@4"));
    let planned = comment(cluster, job);
    cluster.wait_saved(job).unwrap();
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    assert_eq!((comment(cluster, job), shards(cluster, job)), (planned, "10".to_owned()));
    let (got, said) = ran(cluster, job);
    assert_eq!(got, ["2g.10gb"]);
    assert!(said.starts_with("tessera: n1=mig:6/2g.10gb@4 "), "{said}");
}

fn requeued(cluster: &mut Cluster) {
    let job = held(cluster, &[TIMES, "--requeue"]);
    set(cluster, job, &plan("2g.10gb", "n1:5@2"));
    cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    looked(cluster, job);
    cluster.run(User::Root, "scontrol", &["requeuehold", &job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_job(job, "pending", |j| j.state() == "PENDING").unwrap();
    cluster.wait_idle().unwrap();
    std::fs::remove_file(cluster.layout().jobs().join(format!("{job}.out"))).unwrap();
    // No plan any more: the requested size, and its shards.
    let (got, said) = ran_after(cluster, job);
    assert_eq!(got, ["1g.5gb"], "{said}");
    assert_eq!(shards(cluster, job), "5");
}

fn ran_after(cluster: &Cluster, job: JobId) -> (Vec<String>, String) {
    start_now(cluster, job);
    ran(cluster, job)
}

fn wished(cluster: &mut Cluster) {
    let options = ["--gpu-isolation=mig:2g.10gb", "--gpu-place=6@4", "-w", "n1"];
    let job = held(cluster, &options);
    let (got, said) = ran(cluster, job);
    assert_eq!(got, ["2g.10gb"]);
    assert!(said.starts_with("tessera: n1=mig:6/2g.10gb@4: as named, at the planned place; "), "{said}");
    let saw = cluster.complete(User::Bob, &["--gpu-app=bert", "--gpu-mem=8G", "-w", "n1"], LOOK).unwrap();
    assert_eq!(profiles(&saw).len(), 1, "{saw}");
}

#[test]
fn without_a_plan_the_requested_size_runs() {
    with(alone);
}

#[test]
fn a_plan_sets_size_shards_and_place() {
    with(resized);
}

#[test]
fn a_stale_plan_makes_nobody_wait() {
    with(stale);
}

#[test]
fn a_planned_node_without_cores_makes_nobody_wait() {
    let node = |name: &str| {
        format!("[[nodes]]\nnames = \"{name}\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n")
    };
    let nodes = Templates::for_nodes(&format!("{}{}", node("n1"), node("n2"))).unwrap();
    let mut cluster = common::builder().templates(nodes).start().unwrap();
    on(&mut cluster, elsewhere);
}

#[test]
fn plans_are_checked_and_cannot_be_forged() {
    with(refused);
}

#[test]
fn a_plan_survives_a_killed_slurmctld() {
    with(survives_slurmctld);
}

#[test]
fn a_requeued_job_has_no_plan() {
    with(requeued);
}

#[test]
fn a_place_can_be_wished_for() {
    with(wished);
}
