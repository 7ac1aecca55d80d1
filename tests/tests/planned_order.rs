//! The planner with jobs of several users and the site's own priorities, on one A100.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{admin_comment, builder, on};
use error_chain::with_causes;
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User};
use slurm_releases::Release;

const ONE_GPU: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
/// Every job of the one partition has priority 1000, less its Nice. Backfill looks at once what it can keep for whom.
const PRIORITIES: &str = "PriorityType=priority/multifactor\nPriorityWeightPartition=1000\n\
                          SchedulerParameters=bf_interval=1";
/// Sizes on which the best order of three such jobs is not the one in which they came.
const TIMES: [&str; 3] = ["1g:90s,2g:80s", "1g:500s,7g:90s", "1g:700s,7g:120s"];

fn tessera(cluster: &Cluster, user: User, args: &[&str]) -> Done {
    run(cluster.command(user, "tessera").unwrap().args(args)).unwrap()
}

fn planned(cluster: &Cluster) -> String {
    tessera(cluster, User::Root, &["planner", "--once"]).ok().unwrap()
}

fn comment(cluster: &Cluster, job: JobId) -> String {
    admin_comment(cluster, job).to_string()
}

fn number(cluster: &Cluster, job: JobId, field: &str) -> i64 {
    cluster.job(job).unwrap().get(field).parse().unwrap()
}

fn update(cluster: &Cluster, job: JobId, field: &str) {
    let args = ["update", &format!("JobId={job}"), field];
    cluster.run(User::Root, "scontrol", &args).unwrap().ok().unwrap();
}

fn waiting(cluster: &Cluster, user: User, options: &[&str]) -> JobId {
    let job = cluster.sbatch(user, options, "sleep 1").unwrap();
    cluster.wait_job(job, "pending", |j| j.state() == "PENDING").unwrap();
    job
}

/// When each is planned to begin.
fn begins(cluster: &Cluster, jobs: &[JobId]) -> Vec<u64> {
    let begin = |&job: &JobId| admin_comment(cluster, job).plan().unwrap().begin.unwrap();
    jobs.iter().map(begin).collect()
}

fn among_others(cluster: &mut Cluster) {
    let whole = ["--gpu-isolation=whole", "--gpus-per-node=1", "--time=5"];
    let full = cluster.sbatch(User::Bob, &whole, "sleep 300").unwrap();
    cluster.wait_running(full).unwrap();
    let alices = TIMES.map(|times| waiting(cluster, User::Alice, &[&format!("--gpu-times={times}")]));
    if cluster.release() == Release::V24_11 {
        wait_for("backfill to keep the node for the first of them", PATIENCE, || {
            let state = cluster.run(User::Root, "sinfo", &["-h", "-o", "%T"]).and_then(Done::ok);
            let state = state.map_err(|e| with_causes(&e))?;
            if state.trim() == "mixed-" { Ok(()) } else { Err(state) }
        })
        .unwrap();
    }

    let said = planned(cluster);
    let mut order: Vec<(u64, JobId)> = begins(cluster, &alices).into_iter().zip(alices).collect();
    order.sort_unstable();
    let priorities: Vec<i64> = order.iter().map(|(_, job)| number(cluster, *job, "Priority")).collect();
    assert!(priorities.is_sorted_by(|a, b| a > b) && priorities[0] <= 1000, "{priorities:?}: {said}");

    // An administrator's Nice stays, though the planner had given another.
    let last = order[2].1;
    update(cluster, last, "Nice=500");
    planned(cluster);
    assert_eq!((number(cluster, last, "Nice"), number(cluster, last, "Priority")), (500, 500));

    // Bob's job comes between: Alice's get back what they had, so that none of them stands behind it for the planner.
    update(cluster, last, "Nice=0");
    planned(cluster);
    let bobs = waiting(cluster, User::Bob, &["--gpu-times=7g:90s", "--nice=1"]);
    let said = planned(cluster);
    let nices: Vec<i64> = alices.iter().map(|&job| number(cluster, job, "Nice")).collect();
    assert_eq!(nices, [0, 0, 0], "{said}");
    assert!(begins(cluster, &[bobs])[0] > *begins(cluster, &alices).iter().max().unwrap(), "{said}");

    // The site's priority counts before any plan.
    update(cluster, bobs, "Priority=5000");
    let said = planned(cluster);
    assert!(begins(cluster, &[bobs])[0] < *begins(cluster, &alices).iter().min().unwrap(), "{said}");
    assert_eq!(number(cluster, bobs, "Priority"), 5000);

    // What a user may not do, the planner does not do for them.
    let lock = cluster.layout().jobs().join("alices.lock").display().to_string();
    update(cluster, alices[0], "AdminComment=");
    let refused = tessera(cluster, User::Alice, &["planner", "--once", "--lock", &lock]);
    assert_eq!(refused.code, Some(1), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stdout.contains("slurmctld refuses the plan: "), "{}", refused.stdout);
    assert_eq!(admin_comment(cluster, alices[0]).plan(), None);

    cluster.run(User::Root, "scancel", &[&full.to_string()]).unwrap().ok().unwrap();
    for job in alices.into_iter().chain([bobs]) {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    }
    let starts = |job: JobId| cluster.job(job).unwrap().get("StartTime").to_owned();
    assert!(alices.iter().all(|&job| starts(bobs) <= starts(job)), "Bob's job has the higher priority");
    assert_eq!(planned(cluster), "");
}

/// The tasks of an array that wait have the plan of the one that begins next; what a task that runs has got stays.
fn an_array(cluster: &mut Cluster) {
    let whole = ["--gpu-isolation=whole", "--gpus-per-node=1", "--time=5"];
    let full = cluster.sbatch(User::Bob, &whole, "sleep 300").unwrap();
    cluster.wait_running(full).unwrap();
    // Three times 9 s one after the other are less than 60 s side by side.
    let options = ["--array=1-3", "--gpu-times=1g:60s,7g:9s"];
    let array = cluster.sbatch(User::Alice, &options, "sleep 3").unwrap();
    cluster.wait_job(array, "pending", |j| j.state() == "PENDING").unwrap();
    let said = planned(cluster);
    assert!(
        said.starts_with(&format!("job {array}_[1-3] of {}: 7g.40gb at n1:0@0", User::Alice.name())),
        "{said}"
    );
    assert!(admin_comment(cluster, array).plan().is_some());
    let task = |n: u32| {
        let shown = cluster.run(User::Root, "scontrol", &["-o", "show", "job", &format!("{array}_{n}")]);
        shown.and_then(Done::ok).map_err(|e| with_causes(&e))
    };
    cluster.run(User::Root, "scancel", &[&full.to_string()]).unwrap().ok().unwrap();
    let wait = |n: u32, state: &str| {
        wait_for("a task's state", PATIENCE, || {
            let shown = task(n)?;
            if shown.contains(&format!("JobState={state}")) { Ok(shown) } else { Err(shown) }
        })
        .unwrap()
    };
    wait(1, "RUNNING");
    planned(cluster);
    for n in 1..=3 {
        let shown = wait(n, "COMPLETED");
        assert!(shown.contains("n1=mig:0/7g.40gb@0") && shown.contains("planned="), "{shown}");
    }
}

fn cluster() -> Cluster {
    let templates = Templates::for_nodes(ONE_GPU).unwrap();
    builder().templates(templates).slurm_conf(PRIORITIES).start().unwrap()
}

#[test]
fn priorities_are_the_sites_and_the_order_among_equals_the_planners() {
    let mut cluster = cluster();
    on(&mut cluster, an_array);
    on(&mut cluster, among_others);
}

/// Alice's account may have 45 shards at once: a job of 10 runs, the planned size of the other has 40, the requested 5.
#[test]
fn a_plan_is_no_reason_to_wait_by_a_limit() {
    // A job that a limit held is looked at again by intervals only.
    let limits = "AccountingStorageEnforce=limits\n\
                  SchedulerParameters=sched_interval=2,bf_interval=2";
    let templates = Templates::for_nodes(&ONE_GPU.replace("count = 1", "count = 2")).unwrap();
    let mut cluster = builder().accounting().templates(templates).slurm_conf(limits).start().unwrap();
    on(&mut cluster, |cluster| {
        let sacctmgr = |args: &[&str]| {
            cluster.run(User::Root, "sacctmgr", &[&["-i"], args].concat()).unwrap().ok().unwrap();
        };
        sacctmgr(&["add", "account", "a", "GrpTRES=gres/shard=45"]);
        sacctmgr(&["add", "user", User::Alice.name(), "account=a"]);
        // slurmdbd tells slurmctld of the account.
        let ten = wait_for("slurmctld to know the account", PATIENCE, || {
            let options = ["--gpu-isolation=mig:2g.10gb"];
            cluster.sbatch(User::Alice, &options, "sleep 600").map_err(|e| with_causes(&e))
        });
        let ten = ten.unwrap();
        cluster.wait_running(ten).unwrap();
        let wait = |plan_lasts: u64| {
            let job = cluster.sbatch(User::Alice, &["-H", "--gpu-times=1g:60s,7g:9s"], "sleep 1").unwrap();
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            update(
                cluster,
                job,
                &format!("AdminComment=tessera: plan v1 size=7g.40gb until={}", now + plan_lasts),
            );
            cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
            let limited = |j: &lab::Job| j.reason().starts_with("AssocGrp");
            cluster.wait_job(job, "held by the limit", limited).unwrap();
            job
        };
        let taken_back = wait(600);
        let said = planned(cluster);
        assert!(said.contains("a limit keeps it waiting (AssocGrp"), "{said}");
        assert_eq!(cluster.wait_end(taken_back).unwrap().state(), "COMPLETED");
        // Without a planner it lapses: the limit is then checked with the size that it runs on.
        let lapsed = wait(30);
        assert_eq!(cluster.wait_end(lapsed).unwrap().state(), "COMPLETED");
        assert!(comment(cluster, lapsed).contains("/1g.5gb@"), "{}", comment(cluster, lapsed));
    });
}
