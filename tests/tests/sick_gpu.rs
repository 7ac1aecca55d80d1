//! An unhealthy GPU gets no new jobs while its node goes on, and comes back. A job that leaves its GPUs idle is warned, and then ended.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{admin_comment, builder, start_now};
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};
use serde_json::Value;

const ON_N1: &str = "-wn1";

/// A command of `tessera` as root on n1.
fn tessera(cluster: &Cluster, args: &[&str]) -> Done {
    run(cluster.command_on("n1", User::Root, "tessera").unwrap().args(args)).unwrap()
}

fn extra(cluster: &Cluster) -> String {
    let shown = cluster.run(User::Root, "scontrol", &["show", "node", "n1"]).unwrap().ok().unwrap();
    let line = shown.lines().find_map(|line| line.trim().strip_prefix("Extra=")).unwrap_or_default();
    line.to_owned()
}

/// Number and reason of each GPU that is left out.
fn left_out(cluster: &Cluster) -> Vec<(String, String)> {
    let line = extra(cluster);
    let word = line.split(' ').find_map(|word| word.strip_prefix("sick=")).unwrap_or_default();
    let entry =
        |one: &str| (one.split(':').next().unwrap().to_owned(), one.rsplit(':').next().unwrap().to_owned());
    word.split(',').filter(|one| one.contains(':')).map(entry).collect()
}

fn shows(cluster: &Cluster, what: &str) {
    wait_for(&format!("n1 to show {what}"), PATIENCE, || {
        let line = extra(cluster);
        if line.contains(what) { Ok(()) } else { Err(line) }
    })
    .unwrap();
}

/// The GPU that a job has on n1.
fn gpu_of(cluster: &Cluster, job: JobId) -> String {
    let line = extra(cluster);
    let word = line.split(' ').find(|word| word.contains(&format!("whole[job{job}]"))).unwrap_or_default();
    word.split('=').next().unwrap().trim_start_matches("gpu").to_owned()
}

/// Submits jobs that have to wait.
fn waiting(cluster: &Cluster, all: &[&[&str]]) -> Vec<JobId> {
    let submit =
        |options: &&[&str]| cluster.sbatch(User::Bob, &[&[ON_N1][..], options].concat(), "true").unwrap();
    let jobs: Vec<JobId> = all.iter().map(submit).collect();
    std::thread::sleep(Duration::from_secs(3));
    for (job, options) in jobs.iter().zip(all) {
        assert_eq!(cluster.job(*job).unwrap().state(), "PENDING", "{options:?}");
    }
    jobs
}

fn cancel(cluster: &Cluster, jobs: &[JobId]) {
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    cluster.run(User::Root, "scancel", &jobs).unwrap().ok().unwrap();
}

#[test]
fn an_unhealthy_gpu_gets_no_new_jobs_until_it_is_well() {
    let mut templates = Templates::shipped().unwrap();
    templates.tessera.push_str(IDLE);
    let mut cluster = builder().templates(templates).start().unwrap();
    idle_jobs(&cluster);
    assert!(tessera(&cluster, &["node", "health"]).ok().unwrap().contains("all GPUs are healthy"));
    let runs = cluster.sbatch(User::Alice, &[ON_N1, "--gres=gpu:1", "--requeue"], "sleep 300").unwrap();
    cluster.wait_job(runs, "to run", |job| job.state() == "RUNNING").unwrap();
    let gpu = gpu_of(&cluster, runs);

    falls_off_the_bus(&cluster, &gpu, runs);
    goes_on_without(&cluster, &gpu);
    stays_out(&mut cluster, &gpu);
    counters_and_administrators(&cluster, &gpu);

    assert!(cluster.complete(User::Alice, &[ON_N1, "--gres=gpu:8"], "echo ran").unwrap().contains("ran"));
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

/// A fatal error in a storm of 10,000 harmless ones.
fn falls_off_the_bus(cluster: &Cluster, gpu: &str, runs: JobId) {
    for (xid, times) in [("79", "1"), ("31", "10000")] {
        let add = ["add", "--gpu", gpu, "--kind", "xid", "--number", xid, "--times", times];
        cluster.fault("n1", &add).unwrap();
    }
    let begun = Instant::now();
    let said = tessera(cluster, &["node", "health"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(said.code, Some(1), "{said:?}");
    let line = format!("n1: GPU {gpu}: xid 79: gets no new jobs, and its jobs are requeued");
    assert!(said.stdout.contains(&line) && said.stdout.contains("10000"), "{}", said.stdout);
    assert!(said.stdout.contains(&format!("job {runs} is requeued")), "{}", said.stdout);
    assert_eq!(left_out(cluster), [(gpu.to_owned(), "xid_79".to_owned())]);

    // Its job starts again elsewhere.
    cluster.wait_job(runs, "to be requeued", |job| job.get("Restarts") == "1").unwrap();
    start_now(cluster, runs);
    cluster.wait_job(runs, "to run again", |job| job.state() == "RUNNING").unwrap();
    assert_ne!(gpu_of(cluster, runs), gpu);
    cancel(cluster, &[runs]);
    cluster.wait_end(runs).unwrap();
}

/// The node's other GPUs take jobs of every kind; what needs all of them waits, and everybody is told why.
fn goes_on_without(cluster: &Cluster, gpu: &str) {
    let ours = ["--gpus=8", "-N1", "--gpu-isolation=whole"];
    let waits = waiting(cluster, &[&ours, &["--gres=gpu:8"], &["--exclusive"]]);
    let kinds =
        [&["--gpu-isolation=mig:1g.5gb"][..], &["--gpu-isolation=mps", "--gpu-mem=3G"], &["--gres=shard:4"]];
    for options in kinds {
        let job = cluster.sbatch(User::Alice, &[&[ON_N1][..], options].concat(), "sleep 300").unwrap();
        cluster.wait_job(job, "to run", |job| job.state() == "RUNNING").unwrap();
        let line = extra(cluster);
        let word = line.split(' ').find(|word| word.contains(&format!("job{job}"))).unwrap();
        assert!(!word.starts_with(&format!("gpu{gpu}=")), "{options:?}: {line}");
        cancel(cluster, &[job]);
        cluster.wait_end(job).unwrap();
    }
    let comment = format!("{:?}", admin_comment(cluster, waits[0]).says);
    assert!(comment.contains(&format!("GPU {gpu} of n1 gets no new jobs: xid 79")), "{comment}");
    let said = format!("GPU {gpu} gets no new jobs: xid 79");
    let job = waits[1].to_string();
    for command in
        [&["why", &job][..], &["layout", "--node", "n1"], &["doctor"], &["free"], &["explain", "--gpus=8"]]
    {
        let shown = tessera(cluster, command).stdout;
        assert!(shown.contains(&said), "{command:?}: {shown}");
    }
    cancel(cluster, &waits);
    let seven = cluster.complete(User::Alice, &[ON_N1, "--gres=gpu:7"], "echo ran").unwrap();
    assert!(seven.contains("ran"), "{seven}");
}

/// A kill and a text of somebody's own change nothing.
fn stays_out(cluster: &mut Cluster, gpu: &str) {
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    // What was cancelled since Slurm last saved its jobs has come back.
    let _none = cluster.run(User::Root, "scancel", &["--partition", "gpu"]).unwrap();
    cluster.wait_idle().unwrap();
    let own = ["update", "nodename=n1", "extra=rack 7"];
    cluster.run(User::Root, "scontrol", &own).unwrap().ok().unwrap();
    assert!(cluster.complete(User::Alice, &[ON_N1, "--gres=gpu:7"], "echo ran").unwrap().contains("ran"));
    shows(cluster, &format!("rack 7 sick={gpu}:"));
    cluster.run(User::Root, "scontrol", &["update", "nodename=n1", "extra="]).unwrap().ok().unwrap();
    let _tells_it_again = tessera(cluster, &["node", "health"]);
    shows(cluster, &format!("sick={gpu}:"));
}

/// GPUs are left out by the driver's counters and by an administrator's word, too; those that are still unhealthy are found again after they
/// were accepted.
fn counters_and_administrators(cluster: &Cluster, gpu: &str) {
    let mut others = (0..8).map(|i: u8| i.to_string()).filter(|other| *other != gpu);
    let kinds = ["gpu-lost", "hot", "remap-failed", "ecc-uncorrected", "needs-reset", "remap-pending"];
    let faults: Vec<(&str, String)> = kinds.into_iter().zip(others.by_ref()).collect();
    let last = others.next().unwrap();
    for (kind, gpu) in &faults {
        cluster.fault("n1", &["add", "--gpu", gpu, "--kind", kind]).unwrap();
    }
    let add = ["add", "--gpu", &faults[4].1, "--kind", "xid", "--number", "95"];
    cluster.fault("n1", &add).unwrap();
    assert_eq!(tessera(cluster, &["node", "health"]).code, Some(1));
    let said = tessera(cluster, &["node", "sick", &last, "--reason", "dcgm: diag failed"]).ok().unwrap();
    assert!(said.contains("told: dcgm: diag failed"), "{said}");
    let reasons = ["lost", "hot", "remap-failed", "ecc", "xid_95"];
    let mut all: Vec<(String, String)> =
        faults.iter().zip(reasons).map(|((_, gpu), why)| (gpu.clone(), why.to_owned())).collect();
    all.push((gpu.to_owned(), "xid_79".to_owned()));
    all.push((last.clone(), "dcgm_diag_failed".to_owned()));
    all.sort();
    assert_eq!(left_out(cluster), all);
    assert!(cluster.complete(User::Alice, &[ON_N1, "--gres=gpu:1"], "echo ran").unwrap().contains("ran"));

    let shown = tessera(cluster, &["node", "health", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let out = shown["gpus"].as_array().unwrap().iter().filter(|gpu| gpu["left_out"] == true).count();
    assert_eq!(out, 7, "{shown}");

    // A health check takes its own word back; a reset that the driver had asked for brings the GPU back.
    tessera(cluster, &["node", "sick", &last, "--over"]).ok().unwrap();
    cluster.fault("n1", &["clear", "--kind", "needs-reset"]).unwrap();
    assert_eq!(tessera(cluster, &["node", "health"]).code, Some(1));
    all.retain(|(_, why)| why != "dcgm_diag_failed" && why != "xid_95");
    assert_eq!(left_out(cluster), all);

    let said = tessera(cluster, &["node", "accept"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    all.retain(|(_, why)| why != "ecc" && why != "xid_79");
    assert_eq!(left_out(cluster), all);
    cluster.fault("n1", &["clear"]).unwrap();
    tessera(cluster, &["node", "accept"]).ok().unwrap();
    let unknown = tessera(cluster, &["node", "sick", "9", "--reason", "x"]);
    assert!(unknown.stderr.contains("this node has no GPU 9"), "{unknown:?}");
}

/// Jobs are warned after an hour, and half an hour later interactive ones are cancelled and batch jobs requeued.
const IDLE: &str = "\n[idle]\nact = false\n\
                    [[idle.rules]]\nkind = \"interactive\"\nwarn_after_min = 60\nend = \"cancel\"\nend_after_min = 30\n\
                    [[idle.rules]]\nwarn_after_min = 60\nend = \"requeue\"\nend_after_min = 30\n";

/// Changes each number at these keys in a JSON file, while no command looks.
fn change(file: &Path, keys: &[&str], by: i64) {
    fn walk(value: &mut Value, keys: &[&str], by: i64) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(|one| walk(one, keys, by)),
            Value::Object(all) => {
                for (key, one) in all {
                    match one.as_i64().filter(|_| keys.contains(&key.as_str())) {
                        Some(number) => *one = (number + by).into(),
                        None => walk(one, keys, by),
                    }
                }
            }
            _ => {}
        }
    }
    edit(file, |value| walk(value, keys, by));
}

fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let lock = fs::File::open(file.with_file_name(format!("{stem}-look.lock"))).unwrap();
    lock.lock().unwrap();
    let mut value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

/// Jobs with idle GPUs, and one that computes.
struct IdleJobs {
    /// Of `srun`.
    srun: JobId,
    suspended: JobId,
    /// Computes once after its warning.
    other: JobId,
    busy: JobId,
    /// A batch job that Slurm may not requeue.
    kept: JobId,
    /// A batch job with a share of a GPU, whose AdminComment has its request.
    share: JobId,
}

/// Starts them; `said` has what `srun` prints.
fn start_idle(cluster: &Cluster, said: &Path) -> (IdleJobs, std::process::Child) {
    let mut srun = cluster.command(User::Alice, "srun").unwrap();
    srun.args([ON_N1, "--gres=gpu:1", "--comment=\u{1b}[31m$(id)", "sleep", "600"]);
    let file = fs::File::create(said).unwrap();
    let srun = srun.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
    let salloc = ["--no-shell", ON_N1, "--gres=gpu:1", "-J"];
    for name in ["suspended", "other"] {
        let args = [&salloc[..], &[name]].concat();
        cluster.run(User::Alice, "salloc", &args).unwrap().ok().unwrap();
    }
    let sbatch = |options: &[&str], script: &str| {
        let job = cluster.sbatch(User::Alice, &[&[ON_N1][..], options].concat(), script).unwrap();
        cluster.wait_running(job).unwrap();
        job
    };
    let busy = sbatch(&["--gres=gpu:1"], "exec nvml-sim work --app stream --memory-mib 1000");
    let kept = sbatch(&["--gres=gpu:2", "--no-requeue"], "sleep 600");
    let share = sbatch(&["--gpu-isolation=mps", "--gpu-mem=3G", "--requeue"], "sleep 600");
    let number = |name: &str| {
        wait_for(&format!("{name} to run"), PATIENCE, || {
            let args = ["-h", "-t", "R", "-o", "%A", "-n", name];
            let said = cluster.run(User::Root, "squeue", &args).unwrap().stdout;
            said.trim().parse::<u32>().map(JobId).map_err(|_| said)
        })
        .unwrap()
    };
    let [idle, suspended, other] = ["sleep", "suspended", "other"].map(number);
    (IdleJobs { srun: idle, suspended, other, busy, kept, share }, srun)
}

/// Jobs that do nothing are warned, and then cancelled or requeued; one that computes, a suspended one and one that Slurm may not requeue go on.
fn idle_jobs(cluster: &Cluster) {
    let said = cluster.layout().at("idle.said");
    let (jobs, mut srun) = start_idle(cluster, &said);
    let record = cluster.layout().node("n1").join("state/idle.json");
    let at_work = || tessera(cluster, &["node", "status"]).stdout;
    wait_for("the program to compute", PATIENCE, || {
        let seen = tessera(cluster, &["node", "idle"]).ok().map_err(|e| e.to_string());
        let record = fs::read_to_string(&record).unwrap();
        if record.contains("\"most_mib\":1000") { Ok(()) } else { Err(format!("{seen:?} {record}")) }
    })
    .unwrap_or_else(|e| panic!("{e:?}: {}", at_work()));

    // Two hours pass for what the node remembers.
    change(&record, &["since"], -7200);
    change(&record, &["looks"], 9);
    let shown = tessera(cluster, &["node", "idle"]).ok().unwrap();
    assert!(shown.contains("2 of 2") && !shown.contains(&format!("{} ", jobs.busy)), "{shown}");
    cluster.run(User::Root, "scontrol", &["suspend", &jobs.suspended.to_string()]).unwrap().ok().unwrap();
    let listed = cluster.run(User::Bob, "tessera", &["idle", "--since", "2h"]).unwrap().ok().unwrap();
    for job in [jobs.srun, jobs.suspended, jobs.other, jobs.kept, jobs.share] {
        assert!(listed.contains(&format!("{job}  tessera-alice  ")), "{listed}");
    }
    assert!(listed.contains("no GPU: it has used none") && listed.contains("5 jobs: "), "{listed}");
    warned(cluster, &jobs, &said);
    ended(cluster, &jobs, &record);
    srun.wait().unwrap();
    cluster.run(User::Root, "scontrol", &["resume", &jobs.suspended.to_string()]).unwrap().ok().unwrap();
    cancel(cluster, &[jobs.suspended, jobs.other, jobs.busy, jobs.kept, jobs.share]);
    cluster.wait_idle().unwrap();
    assert!(extra(cluster).contains(" idle="), "{}", extra(cluster));
    let file = cluster.layout().etc("tessera.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.split("\n[idle]").next().unwrap()).unwrap();
    // A health check may have begun before.
    wait_for("the node to speak of no idle job", PATIENCE, || {
        tessera(cluster, &["node", "idle"]).ok().map_err(|e| e.to_string())?;
        let shown = extra(cluster);
        if shown.contains("idle=") || record.exists() { Err(shown) } else { Ok(()) }
    })
    .unwrap();
}

fn act(cluster: &Cluster, more: &[&str]) -> Done {
    cluster.run(User::Root, "tessera", &[&["idle", "--act"][..], more].concat()).unwrap()
}

/// Tells whether there is a line about a job that ends so.
fn says(text: &str, job: JobId, what: &str) -> bool {
    let begin = format!("job {job} (tessera-alice): idle for ");
    text.lines().any(|line| line.starts_with(&begin) && line.ends_with(&format!(": {what}")))
}

/// A dry run does nothing. Then users are told once, on the terminal, by mail and in the AdminComment.
fn warned(cluster: &Cluster, jobs: &IdleJobs, said: &Path) {
    let memory = cluster.layout().at("state/tessera-idle.json");
    let dry = act(cluster, &[]).ok().unwrap();
    for (job, what) in [
        (jobs.srun, "would be warned, and cancelled 30 min later"),
        (jobs.share, "would be warned, and requeued 30 min later"),
        (jobs.kept, "would be warned"),
    ] {
        assert!(says(&dry, job, what), "{what}: {dry}");
    }
    assert!(dry.contains("no act = true, so nothing was done") && dry.lines().count() == 5, "{dry}");
    assert!(!memory.exists() && admin_comment(cluster, jobs.srun).idle.is_none());

    let (file, mail) = (cluster.layout().etc("tessera.toml"), cluster.layout().at("mail"));
    let tell =
        format!("act = true\ntell = [\"terminal\", \"mail\", \"comment\"]\nmail = \"{}\"", mail.display());
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("act = false", &tell)).unwrap();
    let user = cluster.run(User::Alice, "tessera", &["idle", "--act"]).unwrap();
    assert!(user.stderr.contains("hint: run it as root or SlurmUser"), "{user:?}");
    for shown in [act(cluster, &["--dry-run"]), cluster.run(User::Root, "tessera", &["doctor"]).unwrap()] {
        assert!(shown.code == Some(1) && shown.stdout.contains("no mail is sent"), "{shown:?}");
    }
    fs::write(&mail, "#!/bin/sh\n{ printf '%s|' \"$@\"; cat; } >>\"$0.sent\"\n").unwrap();
    fs::set_permissions(&mail, fs::Permissions::from_mode(0o755)).unwrap();

    let told = act(cluster, &[]).ok().unwrap();
    for job in [jobs.srun, jobs.other, jobs.kept, jobs.share] {
        assert!(says(&told, job, "warned"), "{told}");
    }
    assert_eq!(told.lines().count(), 4, "{told}");
    let note = |job: JobId| admin_comment(cluster, job).idle.unwrap_or_default();
    assert!(note(jobs.srun).contains("it will be cancelled"), "{}", note(jobs.srun));
    assert!(
        note(jobs.kept).contains("has GPUs") && !note(jobs.kept).contains("will be"),
        "{}",
        note(jobs.kept)
    );
    let comment = admin_comment(cluster, jobs.share);
    assert!(comment.started().is_some() && comment.asks.is_some(), "{comment:?}");
    assert!(note(jobs.share).contains("it will be requeued"), "{comment:?}");
    let sent = fs::read_to_string(mail.with_extension("sent")).unwrap();
    let one = format!("-s|Slurm job {0} does not use its GPUs|tessera-alice|job {0} has GPUs", jobs.share);
    assert!(sent.contains(&one) && sent.lines().count() == 4, "{sent}");
    wait_for("srun to print the warning", PATIENCE, || {
        let text = fs::read_to_string(said).unwrap();
        if text.contains(&format!("tessera: job {} has GPUs", jobs.srun)) { Ok(()) } else { Err(text) }
    })
    .unwrap();
    assert_eq!(act(cluster, &[]).ok().unwrap(), "nothing to do\n", "the announced time is not over");
}

/// The announced time comes. One job has computed since, and is warned again.
fn ended(cluster: &Cluster, jobs: &IdleJobs, record: &Path) {
    change(&cluster.layout().at("state/tessera-idle.json"), &["at"], -1801);
    edit(record, |value| {
        let all = value["jobs"].as_array_mut().unwrap();
        let one = all.iter_mut().find(|one| one["job"] == jobs.other.0).unwrap();
        one["devices"][0]["since"] = (one["devices"][0]["since"].as_i64().unwrap() + 3600).into();
    });
    tessera(cluster, &["node", "idle"]).ok().unwrap();
    let done = act(cluster, &[]).ok().unwrap();
    for (job, what) in [(jobs.srun, "cancelled"), (jobs.share, "requeued"), (jobs.other, "warned")] {
        assert!(says(&done, job, what), "{what}: {done}");
    }
    assert_eq!(done.lines().count(), 3, "{done}");
    assert_eq!(cluster.wait_end(jobs.srun).unwrap().state(), "CANCELLED");
    let note = admin_comment(cluster, jobs.srun).idle.unwrap_or_default();
    assert!(note.starts_with("cancelled at "), "{note}");
    cluster.wait_job(jobs.share, "to be requeued", |job| job.get("Restarts") == "1").unwrap();
    let why = cluster.run(User::Alice, "tessera", &["why", &jobs.share.to_string()]).unwrap().stdout;
    assert!(why.contains("Idle GPUs: requeued at ") && why.contains("It will start again"), "{why}");
    let sent = fs::read_to_string(cluster.layout().at("mail.sent")).unwrap();
    assert!(sent.contains(&format!("tessera-alice|job {} is requeued at ", jobs.share)), "{sent}");
    let state = |job: JobId| cluster.job(job).unwrap().state().to_owned();
    let states = [jobs.suspended, jobs.other, jobs.busy, jobs.kept].map(state);
    assert_eq!(states, ["SUSPENDED", "RUNNING", "RUNNING", "RUNNING"]);
}
