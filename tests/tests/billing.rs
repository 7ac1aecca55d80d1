//! Slurm counts the compute slices of every GPU job, whatever option it asked with, and bills and limits it by them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod pages;

use common::{LOOK, builder, looked, on};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, Job, JobId, Slurm, User};
use serde_json::Value;
use site_limits::slices::slices_in;
use slurm_releases::Release;

/// Tells whether Slurm keeps what a job asks for and what it has apart.
fn apart() -> bool {
    common::release().series >= "25.05"
}

/// The slices of a job, as its record has them.
fn slices(job: &Job) -> u64 {
    slices_in(job.get(if apart() { "LicensesAlloc" } else { "Licenses" }))
}

/// A job that stays, once it runs.
fn started(cluster: &Cluster, options: &[&str]) -> (JobId, u64) {
    let id = cluster.sbatch(User::Alice, options, "exec sleep 600").unwrap();
    (id, slices(&cluster.wait_running(id).unwrap()))
}

/// How many slices slurmctld counts as used by all jobs together.
fn used(cluster: &Cluster) -> u64 {
    used_of(cluster, "slice")
}

fn used_of(cluster: &Cluster, license: &str) -> u64 {
    let said =
        cluster.run(User::Alice, "scontrol", &["-o", "show", "licenses", license]).unwrap().ok().unwrap();
    let field = said.split_whitespace().find_map(|word| word.strip_prefix("Used=")).map(str::to_owned);
    field.unwrap_or_else(|| panic!("{said}")).parse().unwrap()
}

fn wait_used(cluster: &Cluster, wanted: u64) {
    wait_for("slices to be given back", PATIENCE, || {
        let now = used(cluster);
        if now == wanted { Ok(()) } else { Err(format!("{now} are used")) }
    })
    .unwrap();
}

fn cancel(cluster: &Cluster, jobs: &[JobId]) {
    for job in jobs {
        cluster.run(User::Alice, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    for job in jobs {
        cluster.wait_end(*job).unwrap();
    }
}

/// Every way to ask, on an A100 of node n1 or on the four H100 of n2, and the slices.
const WAYS: [(&[&str], u64); 10] = [
    (&["-w", "n1", "--gpu-isolation=mig:3g.20gb"], 3),
    (&["-w", "n1", "--gpu-isolation=mig:1g.5gb", "--gpu-instances=2"], 2),
    (&["-w", "n1", "--gpu-mem=10G"], 1),
    (&["-w", "n1", "--gpu-isolation=mps", "--gpu-mem=20G"], 4),
    (&["-w", "n1", "--gpu-isolation=whole"], 7),
    (&["-w", "n1", "--gres=gpu:1"], 7),
    (&["-w", "n1", "--gpus=1"], 7),
    (&["-w", "n1", "--gres=shard:10"], 2),
    (&["-w", "n2", "--exclusive"], 28),
    (&["-w", "n1"], 0),
];

fn every_way(cluster: &mut Cluster) {
    let mut jobs = Vec::new();
    for (options, wanted) in WAYS {
        let (job, counted) = started(cluster, options);
        assert_eq!(counted, wanted, "{options:?}");
        jobs.push(job);
    }
    let all: u64 = WAYS.iter().map(|(_, slices)| slices).sum();
    assert_eq!(used(cluster), all);
    // A license of the user's own stays beside it, and nobody asks for slices.
    let said = cluster.try_sbatch(User::Alice, &["--licenses=slice:1"], "true").unwrap().refused().unwrap();
    assert!(said.contains("leave it out"), "{said}");
    if cluster.release().series >= "24.11" {
        // Nor for each task: a job without a GPU would keep the site's slices from all others.
        let said =
            cluster.try_sbatch(User::Alice, &["--tres-per-task=cpu=1,license/slice=5"], "true").unwrap();
        let said = said.refused().unwrap();
        assert!(said.contains("leave it out"), "{said}");
    }
    // A user cannot give them back while the job runs.
    let update = ["update", &format!("JobId={}", jobs[0]), "Licenses="];
    cluster.run(User::Alice, "scontrol", &update).unwrap().refused().unwrap();
    assert_eq!(slices(&cluster.job(jobs[0]).unwrap()), 3);
    // They survive a restart.
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    assert_eq!(used(cluster), all);
    cancel(cluster, &jobs);
    wait_used(cluster, 0);
}

/// A change to another GRES would take an instance's shards from its job, which would then start without a GPU.
fn keeps_its_shards(cluster: &mut Cluster) {
    let job = cluster.sbatch(User::Alice, &["-H", "-w", "n1", "--gpu-isolation=mig:2g.10gb"], LOOK).unwrap();
    let change = ["update", &format!("JobId={job}"), "gres=nic:1"];
    cluster.run(User::Alice, "scontrol", &change).unwrap().ok().unwrap();
    let asked = cluster.job(job).unwrap().get("TresPerNode").to_owned();
    assert!(asked.contains("nic:1") && asked.contains("shard:10"), "{asked}");
    cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    assert_eq!(common::profiles(&looked(cluster, job)), ["2g.10gb"]);
}

/// Jobs that ran on GPUs wait again, and are to have none when they next start.
fn gives_up(cluster: &mut Cluster) {
    let root = |args: &[&str]| cluster.run(User::Root, "scontrol", args).unwrap().ok().unwrap();
    // 22.05 adds what a change names to what the job has, and 24.11 keeps all of it if nothing is named.
    let no_gpu = if cluster.release() == Release::V22_05 { "TresPerNode=" } else { "gres=nic:1" };
    let asked: [(&[&str], u64, &str); 2] =
        [(&["-w", "n1", "--gres=gpu:1"], 7, no_gpu), (&["-w", "n2", "--exclusive"], 28, "OverSubscribe=yes")];
    let mut jobs = Vec::new();
    for (options, counted, change) in asked {
        let (job, now) = started(cluster, options);
        assert_eq!(now, counted, "{options:?}");
        root(&["requeuehold", &job.to_string()]);
        let held = cluster.wait_job(job, "held again", |job| job.state() == "PENDING").unwrap();
        // Up to 24.11 they stay until the job's next start.
        assert_eq!(slices(&held), if apart() { 0 } else { counted });
        root(&["update", &format!("JobId={job}"), change]);
        jobs.push(job);
    }
    wait_used(cluster, 0);
    // slurmd refuses credentials of the second in which a job was requeued.
    std::thread::sleep(std::time::Duration::from_secs(2));
    for job in &jobs {
        root(&["release", &job.to_string()]);
        wait_for("the job to run again", PATIENCE, || {
            // Slurm lets a requeued job wait for two minutes unless it is told otherwise.
            let _ =
                cluster.run(User::Root, "scontrol", &["update", &format!("JobId={job}"), "StartTime=now"]);
            let now = cluster.job(*job).map_err(|e| with_causes(&e))?;
            if now.state() == "RUNNING" { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .unwrap();
        assert_eq!(slices(&cluster.job(*job).unwrap()), 0, "{job}");
    }
    assert_eq!(used(cluster), 0);
    cancel(cluster, &jobs);
}

/// Nothing of what jobs have stays when they end: with a license of the user's own, in an array, requeued, and after a node is given back.
fn nothing_stays(cluster: &mut Cluster) {
    let both = &["-w", "n1", "--gpu-isolation=mig:3g.20gb", "--licenses=matlab:2"];
    let (own, counted) = started(cluster, both);
    assert_eq!((counted, used_of(cluster, "matlab")), (3, 2));
    let array = cluster
        .sbatch(User::Alice, &["--array=1-3", "-w", "n1", "--gpu-isolation=mig:1g.5gb"], "exec sleep 600")
        .unwrap();
    let (two, counted) = started(cluster, &["-N2", "--gres=gpu:1"]);
    assert_eq!(counted, 14);
    wait_used(cluster, 3 + 3 + 14);
    let root = |args: &[&str]| cluster.run(User::Root, "scontrol", args).unwrap().ok().unwrap();
    root(&["update", &format!("JobId={two}"), "NumNodes=1"]);
    root(&["requeuehold", &own.to_string()]);
    wait_used(cluster, 3 + 14);
    assert_eq!(used_of(cluster, "matlab"), 0);
    std::thread::sleep(std::time::Duration::from_secs(2));
    root(&["release", &own.to_string()]);
    wait_for("the job to run again", PATIENCE, || {
        let _ = cluster.run(User::Root, "scontrol", &["update", &format!("JobId={own}"), "StartTime=now"]);
        let now = cluster.job(own).map_err(|e| with_causes(&e))?;
        if now.state() == "RUNNING" && slices(&now) == 3 { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .unwrap();
    wait_used(cluster, 3 + 3 + 14);
    assert_eq!(used_of(cluster, "matlab"), 2);
    cancel(cluster, &[own, two]);
    cluster.run(User::Root, "scancel", &[&array.to_string()]).unwrap().ok().unwrap();
    wait_used(cluster, 0);
    assert_eq!(used_of(cluster, "matlab"), 0);
}

#[test]
fn slices_are_counted_for_every_way_to_ask() {
    let mut templates = Templates::shipped().unwrap();
    templates.slurm = templates
        .slurm
        .replace("Licenses=slice:", "Licenses=matlab:4,slice:")
        .replace("GresTypes=gpu,shard", "GresTypes=gpu,shard,nic")
        .replace("Gres=gpu:a100:8,", "Gres=nic:2,gpu:a100:8,");
    templates.gres.push_str("NodeName=n1 Name=nic Count=2\n");
    let mut cluster = builder().templates(templates).start().unwrap();
    on(&mut cluster, every_way);
    on(&mut cluster, gives_up);
    on(&mut cluster, nothing_stays);
    on(&mut cluster, keeps_its_shards);
}

/// A field of a job's record that lists TRES: `TRES` in 22.05.
fn allocated(job: &Job) -> String {
    ["AllocTRES", "TRES"]
        .map(|key| job.get(key).to_owned())
        .into_iter()
        .find(|t| !t.is_empty())
        .unwrap_or_default()
}

fn tres(list: &str, name: &str) -> Option<u64> {
    list.split(',').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Alice may have 10 slices at once in her account.
fn limits(cluster: &mut Cluster) {
    let sacctmgr = |args: &[&str]| {
        cluster.run(User::Root, "sacctmgr", &[&["-i"], args].concat()).unwrap().ok().unwrap();
    };
    sacctmgr(&["add", "account", "a", "GrpTRES=license/slice=10"]);
    sacctmgr(&["add", "user", User::Alice.name(), "account=a"]);
    let options = ["-w", "n1", "--gpu-isolation=mig:3g.20gb"];
    // slurmdbd tells slurmctld of the account.
    let three = wait_for("slurmctld to know the account", PATIENCE, || {
        cluster.sbatch(User::Alice, &options, "exec sleep 600").map_err(|e| with_causes(&e))
    })
    .unwrap();
    let record = cluster.wait_running(three).unwrap();
    let list = allocated(&record);
    assert_eq!((tres(&list, "license/slice"), tres(&list, "billing")), (Some(3), Some(3)), "{list}");
    let (whole, seven) = started(cluster, &["-w", "n1", "--gres=gpu:1"]);
    assert_eq!(seven, 7);
    // Ten are in use. Whatever asks for more waits, by any option.
    let waiting: Vec<JobId> =
        [&["--gpu-mem=4G"][..], &["--gres=gpu:1"], &["--gres=shard:5"], &["-w", "n2", "--exclusive"]]
            .into_iter()
            .map(|options| cluster.sbatch(User::Alice, options, "exec sleep 600").unwrap())
            .collect();
    for job in &waiting {
        let said =
            cluster.wait_job(*job, "held by the limit", |job| job.reason().starts_with("Assoc")).unwrap();
        assert_eq!((said.reason(), said.state()), ("AssocGrpLicense", "PENDING"));
    }
    told(cluster, waiting[1], waiting[3]);
    let without = cluster.sbatch(User::Alice, &["-w", "n1"], "true").unwrap();
    cluster.wait_end(without).unwrap();
    let control = |verb: &str, job: JobId| {
        cluster.run(User::Root, "scontrol", &[verb, &job.to_string()]).unwrap().ok().unwrap();
    };
    // A look at the queue that is under way when the job ends might start a later one first.
    control("hold", waiting[1]);
    cancel(cluster, &[whole]);
    // One slice and one more fit, all seven of a GPU do not.
    cluster.wait_running(waiting[0]).unwrap();
    cluster.wait_running(waiting[2]).unwrap();
    control("release", waiting[1]);
    cluster.wait_job(waiting[1], "held by the limit", |job| job.reason() == "AssocGrpLicense").unwrap();
    cancel(cluster, &[three, waiting[0], waiting[2]]);
    cluster.wait_running(waiting[1]).unwrap();
    // More than it may ever have. Without the GPUs, no limit holds it to their slices.
    assert_eq!(cluster.job(waiting[3]).unwrap().state(), "PENDING");
    let gives_up = ["update", &format!("JobId={}", waiting[3]), "OverSubscribe=yes"];
    cluster.run(User::Root, "scontrol", &gives_up).unwrap().ok().unwrap();
    assert_eq!(slices(&cluster.wait_running(waiting[3]).unwrap()), 0);
    cancel(cluster, &[waiting[1], waiting[3]]);
    // slurmdbd learns of it a little later.
    let said = wait_for("the report of a job that has ended", PATIENCE, || {
        let mut report = cluster.command(User::Root, "tessera").map_err(|e| with_causes(&e))?;
        let said = run(report.args(["report", &whole.to_string()])).map_err(|e| with_causes(&e))?;
        if said.stdout.contains("CANCELLED") { Ok(said.stdout) } else { Err(format!("{said:?}")) }
    })
    .unwrap();
    for line in ["\n  got         n1=whole:", "\n  slices      7 (", "), billed as 7\n"] {
        assert!(said.contains(line), "{said}");
    }
    let array = array(cluster);
    usage(cluster, array);
    history(cluster, &[three, whole, waiting[0]]);
    advice(cluster);
}

/// Ten slices of ten are in use: nothing is free for Alice, and the answers name the limit and its users.
fn told(cluster: &Cluster, whole: JobId, exclusive: JobId) {
    let said = |args: &[&str]| {
        let mut command = cluster.command(User::Alice, "tessera").unwrap();
        run(command.args(args)).unwrap().stdout
    };
    let free: Value = serde_json::from_str(&said(&["free", "--json"])).unwrap();
    let shapes = free["shapes"].as_array().unwrap();
    assert!(shapes.iter().all(|shape| shape["now"] == 0), "{free}");
    assert!(shapes.iter().any(|shape| shape["room"].as_u64().unwrap_or(0) > 0), "{free}");
    let alice = User::Alice.name();
    let users = serde_json::json!([{ "user": alice, "amount": 10 }]);
    let limit = &free["limits"][0];
    assert_eq!(
        (&limit["whose"], &limit["most"], &limit["used"], &limit["users"]),
        (&"account a".into(), &10.into(), &10.into(), &users)
    );
    let kept = format!("account a may have 10 slices at once; 10 in use ({alice} 10)");
    for words in [["why", &whole.to_string()], ["explain", "--gres=gpu:1"]] {
        let told = said(&words);
        assert!(
            told.contains(&format!("A limit of Slurm keeps it: {kept}; this job needs 7 slices.")),
            "{told}"
        );
    }
    let told = said(&["why", &exclusive.to_string()]);
    assert!(
        told.contains(&format!("Limits of Slurm for {alice}, account a")) && told.contains(&kept),
        "{told}"
    );
    let told = said(&["explain", "--gpu-isolation=whole", "--gpus-per-node=2"]);
    assert!(
        told.contains(&format!("A limit of Slurm never lets it start: {kept}; this job needs 14 slices.")),
        "{told}"
    );
}

/// An array that has ended, as `report` sums it.
fn array(cluster: &Cluster) -> JobId {
    let array = cluster.sbatch(User::Alice, &["--array=1-2", "-w", "n1", "--gpu-mem=4G"], "true").unwrap();
    wait_for("the report of an array", PATIENCE, || {
        let mut report = cluster.command(User::Alice, "tessera").map_err(|e| with_causes(&e))?;
        let said = run(report.args(["report", &array.to_string()])).map_err(|e| with_causes(&e))?;
        let head = format!("array {array} of {}: 2 COMPLETED\n", User::Alice.name());
        if said.stdout.starts_with(&head) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .unwrap();
    array
}

/// What Alice held is the same asked for by herself, by root and by account.
fn usage(cluster: &Cluster, array: JobId) {
    let asked = |user, args: &[&str]| -> Value {
        let mut usage = cluster.command(user, "tessera").unwrap();
        let said = run(usage.args(["usage", "--json"]).args(args)).unwrap().ok().unwrap();
        serde_json::from_str(&said).unwrap()
    };
    let alice = User::Alice.name();
    let own = asked(User::Alice, &[]);
    let rows = own["rows"].as_array().unwrap();
    assert!(rows.len() >= 4, "{own}");
    let of_array = rows.iter().find(|row| row["job"] == array.to_string()).unwrap();
    assert_eq!(of_array["jobs"], 2, "{own}");
    assert!(own["total"]["slice_s"].as_u64().unwrap() > own["total"]["gpu_s"].as_u64().unwrap(), "{own}");
    let of_account = asked(User::Root, &["--account", "a"]);
    assert_eq!(of_account["rows"][0]["user"], alice);
    for other in [asked(User::Root, &["--user", alice]), of_account] {
        assert_eq!(other["total"]["jobs"], own["total"]["jobs"], "{other}");
    }
}

/// sacct, and of each batch step 5500 MiB of GPU memory, which nothing samples here.
const SAMPLED: &str = r#"#!/bin/sh
case "$*" in *DBIndex*) exec /usr/bin/sacct "$@" ;; esac
/usr/bin/sacct "$@" | sed -E "/^ *[0-9]+\.batch/ s/^(.{468}).{512}/\1$(printf '%513s' 'gres\/gpumem=5500M')/"
"#;

/// A job that waited for 40 GB is told that its node had a place for what it used.
fn advice(cluster: &Cluster) {
    let submit = |options: &[&str]| {
        let options = [&["-w", "n2"], options].concat();
        cluster.sbatch(User::Root, &options, "exec sleep 600").unwrap()
    };
    let full = [submit(&["--gres=gpu:3"]), submit(&["--gpu-isolation=mig:3g.40gb"])];
    let in_the_way = submit(&["--gpu-isolation=mig:2g.20gb"]);
    for job in full.iter().chain([&in_the_way]) {
        cluster.wait_running(*job).unwrap();
    }
    let waits = submit(&["--gpu-isolation=mig", "--gpu-mem=40G"]);
    let since = cluster.wait_job(waits, "held by GPUs", |job| job.state() == "PENDING").unwrap();
    // Slurm counts whole seconds.
    std::thread::sleep(std::time::Duration::from_secs(3));
    cluster.run(User::Root, "scancel", &[&in_the_way.to_string()]).unwrap().ok().unwrap();
    cluster.wait_running(waits).unwrap();
    cluster.run(User::Root, "scancel", &[&waits.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(waits).unwrap();
    let bin = cluster.layout().at("sampled");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("sacct"), SAMPLED).unwrap();
    std::fs::set_permissions(bin.join("sacct"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    wait_for("the advice to a job that has ended", PATIENCE, || {
        let mut report = cluster.command(User::Root, "tessera").map_err(|e| with_causes(&e))?;
        let path = report.get_envs().find_map(|(name, path)| path.filter(|_| name == "PATH"));
        let path = path.map_or_else(|| "/usr/bin:/bin".into(), |path| path.to_string_lossy().into_owned());
        report.env("PATH", format!("{}:{path}", bin.display()));
        let said = run(report.args(["report", &waits.to_string(), "--json"])).map_err(|e| with_causes(&e))?;
        let job: Value = serde_json::from_str(&said.stdout).map_err(|e| format!("{e}: {said:?}"))?;
        let earlier = job["place_earlier_s"].as_u64().ok_or_else(|| job.to_string())?;
        let waited = job["waited_s"].as_u64().ok_or_else(|| job.to_string())?;
        assert!((2..=waited).contains(&earlier) && job["enough_gb"] == 8, "{job} {since:?}");
        Ok(())
    })
    .unwrap();
    for job in full {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
}

/// The accounting tells what became of the instances: `jobs` got an instance, a whole GPU and a small instance. What was
/// refused slurmctld counts itself, and it goes on counting after a restart.
fn history(cluster: &mut Cluster, jobs: &[JobId]) {
    let refused = |cluster: &Cluster| {
        // A profile of an A30, which no node here has.
        let done = cluster.try_sbatch(User::Alice, &["--gpu-isolation=mig:4g.24gb"], "true").unwrap();
        done.refused().unwrap();
    };
    refused(cluster);
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    refused(cluster);
    wait_for("the history of jobs that have ended", PATIENCE, || {
        let mut history = cluster.command(User::Root, "tessera").map_err(|e| with_causes(&e))?;
        let said = run(history.args(["history", "--since", "1d", "--json"])).map_err(|e| with_causes(&e))?;
        let all: Value = serde_json::from_str(&said.stdout).map_err(|e| format!("{e}: {said:?}"))?;
        // slurmdbd may hear of a start before it hears of the end that made room for it.
        let settled = all["misfits"] == 0 && all["unnamed"] == 0;
        let impossible = |day: &Value| day["refused"]["impossible"].as_u64();
        let refused: u64 = all["days"].as_array().into_iter().flatten().filter_map(impossible).sum();
        let counted = sum(&all, "started") >= jobs.len() as u64 && sum(&all, "created") >= 2 && refused == 2;
        if settled && counted { Ok(()) } else { Err(format!("{all}")) }
    })
    .unwrap();
}

/// A number of each day, added up.
fn sum(history: &Value, key: &str) -> u64 {
    history["days"].as_array().unwrap().iter().map(|day| day[key].as_u64().unwrap()).sum()
}

#[test]
fn limits_and_bills_count_slices_and_whole_gpus_together() {
    // A job that a limit held is looked at again by intervals only.
    let conf = "AccountingStorageEnforce=limits\nSchedulerParameters=sched_interval=2,bf_interval=2";
    // A cluster with accounting has the machine's Slurm unless a test chooses one.
    let slurm = Slurm::by_default().unwrap();
    let mut cluster = builder().slurm(slurm).accounting().slurm_conf(conf).start().unwrap();
    if cluster.release() == Release::V26_05 {
        pages::hold(&mut cluster);
    }
    on(&mut cluster, limits);
}
