//! `[[limits]]` bind every way to a GPU, at submission, at a change, and when a job could start.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use error_chain::with_causes;
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, Slurm, User};
use protocol::CommentBody;

/// In partition gpu only parts of GPUs; everything goes in partition open.
fn cluster() -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    let gpu = templates.slurm.lines().find(|line| line.starts_with("PartitionName=gpu")).unwrap().to_owned();
    let open = gpu.replace("PartitionName=gpu", "PartitionName=open").replace("Default=YES", "Default=NO");
    templates.slurm = templates.slurm.replace(&gpu, &format!("{gpu}\n{open}"));
    templates
        .tessera
        .push_str("\n[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\nmax_mem = \"20G\"\n");
    common::builder().templates(templates).start().unwrap()
}

#[test]
fn no_option_and_no_change_walks_round_a_limit() {
    let cluster = cluster();
    shards_counted_per_task_are_neither_whole_gpus_nor_fewer_than_promised(&cluster);
    // Who names no partition is counted under the limits of the default one.
    let free = tessera(&cluster, User::Alice, &["free"]).ok().unwrap();
    let whole = "1 GPU: --gpu-isolation=whole is not allowed in partition gpu: use mig, mps";
    assert!(free.contains("In your default partition, gpu;") && free.contains(whole), "{free}");
    let open = tessera(&cluster, User::Alice, &["free", "--partition", "open"]).ok().unwrap();
    assert!(!open.contains("Refused") && open.contains("\n1 GPU "), "{open}");
    for options in [
        &["--gres=gpu:1"][..],
        &["--gpus=1"],
        &["--gpus-per-node=1"],
        &["--ntasks=1", "--gpus-per-task=1"],
        &["--exclusive"],
        &["--gpu-isolation=slurm", "--gres=gpu:1"],
        &["--gres=shard:30"],
        &["--ntasks=2", "--ntasks-per-gpu=1"],
        &["--gpu-isolation=whole"],
        &["--gpu-mem=30G"],
    ] {
        let done = cluster.try_sbatch(User::Alice, options, "true").unwrap();
        let said = done.refused().unwrap();
        assert!(said.contains("partition gpu"), "{options:?}: {said}");
    }
    for options in
        [&["--gres=shard:10"][..], &["--gpu-mem=10G"], &["--gpu-isolation=mig"], &["--gres=gpu:0"], &[]]
    {
        cluster.complete(User::Alice, options, "true").unwrap();
    }

    let job = cluster.sbatch(User::Alice, &["--hold", "-p", "open", "--gres=gpu:1"], "true").unwrap();
    let shares = cluster.sbatch(User::Alice, &["--hold", "-p", "open", "--gres=shard:10"], "true").unwrap();
    let update = |user, job: lab::JobId, what: &str| {
        cluster.run(user, "scontrol", &["update", &format!("JobId={job}"), what]).unwrap()
    };
    // All SMs are those of a whole GPU's instance, which has more memory than the limit leaves.
    let all_sms = &["--hold", "-p", "open", "--gpu-isolation=mig", "--gpu-sms=100"];
    let unserved = cluster.sbatch(User::Alice, all_sms, "true").unwrap();
    for job in [job, unserved] {
        update(User::Alice, job, "Partition=gpu").refused().unwrap();
        assert_eq!(cluster.job(job).unwrap().get("Partition"), "open");
    }
    update(User::Alice, shares, "Partition=gpu").ok().unwrap();
    assert_eq!(cluster.job(shares).unwrap().get("Partition"), "gpu");
    // Whoever runs the cluster may; the job then waits until the limit allows it, and says so.
    for job in [job, unserved] {
        update(User::Root, job, "Partition=gpu").ok().unwrap();
    }
    for job in [job, unserved, shares] {
        cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    }
    assert_eq!(cluster.wait_end(shares).unwrap().state(), "COMPLETED");
    wait_for("the job to say why it waits", PATIENCE, || match common::admin_comment(&cluster, job).says {
        CommentBody::Limited(why) if why.starts_with("--gres=gpu:1 asks for whole GPUs") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    wait_for("the other to say why it waits", PATIENCE, || {
        match common::admin_comment(&cluster, unserved).says {
            CommentBody::Limited(why) if why.contains("no instance that would do is allowed") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
    for job in [job, unserved] {
        let job = cluster.job(job).unwrap();
        assert_eq!(job.state(), "PENDING");
        assert_ne!(job.get("Priority"), "0", "Slurm holds it for good: {}", job.get("Reason"));
    }
    let file = cluster.layout().etc("tessera.toml");
    let limited = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, limited.split("[[limits]]").next().unwrap()).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    for job in [job, unserved] {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    }
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

fn shards_counted_per_task_are_neither_whole_gpus_nor_fewer_than_promised(cluster: &Cluster) {
    for partition in ["gpu", "open"] {
        let job = cluster.sbatch(User::Alice, &["--hold", "-p", partition, "-N1", "-n1"], "true").unwrap();
        for list in ["TresPerTask=gres:shard:10", "TresPerTask=gres/shard:10", "TresPerJob=gres:shard:10"] {
            let done =
                cluster.run(User::Alice, "scontrol", &["update", &format!("JobId={job}"), list]).unwrap();
            done.refused().unwrap();
        }
        cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let job = cluster.job(job).unwrap();
        assert!(!job.get("Licenses").contains("slice"), "it has GPUs");
    }
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

fn tessera(cluster: &Cluster, user: User, args: &[&str]) -> Done {
    run(cluster.command(user, "tessera").unwrap().args(args)).unwrap()
}

/// Waits until a limit keeps a job; gives what its AdminComment says.
fn limited(cluster: &Cluster, job: lab::JobId) -> String {
    let why = wait_for("the job to say why it waits", PATIENCE, || {
        match common::admin_comment(cluster, job).says {
            CommentBody::Limited(why) => Ok(why),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
    assert_eq!(cluster.job(job).unwrap().state(), "PENDING");
    why
}

const SUMS: &str = "
[[limits]]
qos = \"small\"
running_slices = 3
max_time_min = 60

[[limits]]
user = \"BOB\"
running_gpus = 1
";

/// Limits by QOS and user, on what running jobs have together and on a job's time.
#[test]
fn running_jobs_are_added_up() {
    let mut templates = Templates::shipped().unwrap();
    templates.tessera.push_str(&SUMS.replace("BOB", User::Bob.name()));
    let builder = common::builder().slurm(Slurm::by_default().unwrap()).templates(templates).accounting();
    let mut cluster = builder
        .slurm_conf("AccountingStorageEnforce=limits\nSchedulerParameters=sched_interval=2,bf_interval=2")
        .start()
        .unwrap();
    common::on(&mut cluster, sums);
}

fn sums(cluster: &mut Cluster) {
    let sacctmgr = |args: &[&str]| {
        cluster.run(User::Root, "sacctmgr", &[&["-i"], args].concat()).unwrap().ok().unwrap();
    };
    sacctmgr(&["add", "qos", "small"]);
    sacctmgr(&["add", "qos", "tiny", "MaxTRESPerJob=gres/gpu=1", "GrpTRES=license/slice=3", "MaxWall=60"]);
    sacctmgr(&["add", "qos", "large", "MinTRESPerJob=gres/gpu=1"]);
    sacctmgr(&["add", "account", "a"]);
    sacctmgr(&["add", "user", User::Bob.name(), "account=a"]);
    sacctmgr(&[
        "add",
        "user",
        User::Alice.name(),
        "account=a",
        "qos=normal,small,tiny,large",
        "defaultqos=normal",
    ]);
    told_at_submission(cluster, &sacctmgr);
    let small = |options: &[&'static str]| [&["--qos=small", "-t", "10"], options].concat();
    let two = small(&["--gpu-isolation=mig:2g.10gb"]);
    // slurmdbd tells slurmctld of the QOS.
    let first = wait_for("slurmctld to know the QOS", PATIENCE, || {
        cluster.sbatch(User::Alice, &two, "exec sleep 600").map_err(|e| with_causes(&e))
    })
    .unwrap();
    cluster.wait_running(first).unwrap();
    let refused =
        |user, options: &[&str]| cluster.try_sbatch(user, options, "true").unwrap().refused().unwrap();
    let file = std::fs::read_to_string(cluster.layout().etc("tessera.toml")).unwrap();
    let line = file.lines().position(|line| line == "qos = \"small\"").unwrap();
    let large = refused(User::Alice, &small(&["--gpu-isolation=mig:4g.20gb"]));
    let never = format!(
        "it needs 4 slices, and for QOS small running jobs together may have at most 3 (running_slices, line {line} of tessera.toml)"
    );
    assert!(large.contains(&never), "{large}");
    let long = refused(User::Alice, &["--qos=small", "-t", "90", "--gpu-isolation=mig:1g.5gb"]);
    assert!(
        long.contains("it has a time limit of 90 minutes, and for QOS small a job may have at most 60"),
        "{long}"
    );
    assert!(
        refused(User::Bob, &["--gres=gpu:2"])
            .contains(&format!("for user {} running jobs together may have at most 1", User::Bob.name()))
    );

    // Components of a heterogeneous job start together.
    let both = refused(User::Bob, &["--gres=gpu:1", ":", "--gres=gpu:1"]);
    assert!(both.contains("the components of this job start together and need 2 whole GPUs"), "{both}");

    let second = cluster.sbatch(User::Alice, &two, "exec sleep 600").unwrap();
    let waits = format!(
        "for QOS small running jobs have 2 of 3 slices (running_slices, line {line} of tessera.toml): job {first} has 2; it needs 2"
    );
    assert_eq!(limited(cluster, second), waits);
    // One that fits goes past it, and another QOS is not concerned.
    let one = cluster.sbatch(User::Alice, &small(&["--gpu-isolation=mig:1g.5gb"]), "true").unwrap();
    assert_eq!(cluster.wait_end(one).unwrap().state(), "COMPLETED");
    cluster.complete(User::Alice, &["--gpu-isolation=mig:4g.20gb"], "true").unwrap();
    told(cluster, (first, second), line);

    // What runs is added up again by a slurmctld that has just started.
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let third = cluster.sbatch(User::Alice, &small(&["--gpu-isolation=mig:2g.10gb"]), "true").unwrap();
    assert!(limited(cluster, third).contains(&format!("job {first} has 2")));
    cluster.run(User::Root, "scancel", &[&first.to_string()]).unwrap().ok().unwrap();
    cluster.wait_running(second).unwrap();
    cluster.run(User::Root, "scancel", &[&second.to_string()]).unwrap().ok().unwrap();
    assert_eq!(cluster.wait_end(third).unwrap().state(), "COMPLETED");

    // The limit of a user is for whole GPUs, by any option, and not for parts.
    let whole = cluster.sbatch(User::Bob, &["--gres=gpu:1"], "exec sleep 600").unwrap();
    cluster.wait_running(whole).unwrap();
    let exclusive = cluster.sbatch(User::Bob, &["-w", "n1", "--gres=gpu:1"], "true").unwrap();
    let has_one = format!("for user {} running jobs have 1 of 1 whole GPU ", User::Bob.name());
    assert!(limited(cluster, exclusive).contains(&has_one));
    cluster.complete(User::Bob, &["--gpu-mem=4G"], "true").unwrap();
    a_new_name_is_learnt(cluster);
}

/// A user whom the file names only later is known by slurmctld's accounting.
fn a_new_name_is_learnt(cluster: &Cluster) {
    let file = cluster.layout().etc("tessera.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let limit = format!("\n[[limits]]\nuser = \"{}\"\nmax_gpus = 1\n", User::Alice.name());
    std::fs::write(&file, before + &limit).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    let never =
        format!("it needs 2 whole GPUs, and for user {} a job may have at most 1", User::Alice.name());
    wait_for("the new limit to hold", PATIENCE, || {
        let done = cluster
            .try_sbatch(User::Alice, &["--hold", "--gres=gpu:2"], "true")
            .map_err(|e| with_causes(&e))?;
        if done.stderr.contains(&never) { Ok(()) } else { Err(format!("{done:?}")) }
    })
    .unwrap();
}

/// Submits a job of Alice that stays held; gives what sbatch says.
fn held(cluster: &Cluster, options: &[&str]) -> Done {
    cluster.try_sbatch(User::Alice, &[&["--hold"], options].concat(), "true").unwrap()
}

/// A job that a limit of Slurm never lets start is told so, with the limit and what would fit.
fn told_at_submission(cluster: &Cluster, sacctmgr: &dyn Fn(&[&str])) {
    let two = &["--qos=tiny", "--gres=gpu:2"][..];
    // slurmdbd tells slurmctld of the account and the QOS.
    wait_for("slurmctld to know the QOS", PATIENCE, || {
        let said = held(cluster, two);
        if said.code == Some(0) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .unwrap();
    let never = "tessera: a limit of Slurm never lets this job start: ";
    let gpus = "a job of QOS tiny may have at most 1 GPU, and this job needs 2 GPUs; ask for 1 GPU or less, or take another QOS";
    let time = "a job of QOS tiny may have a time limit of at most 60 minutes, and this job asks for 90 minutes; use --time=60";
    let slices = "QOS tiny may have 3 slices at once, and this job needs 4 slices; ask for 3 slices or less, or take another QOS";
    let part = &["--qos=large", "--gpu-mem=4G"][..];
    let least = "a job of QOS large must have at least 1 GPU, and Slurm counts 0 GPUs for this job; ask for 1 GPU or more";
    let cases = [
        (part, least),
        (&["--qos=large", "--gres=gpu:1"], ""),
        (two, gpus),
        (&["--qos=tiny", "--gpu-isolation=whole", "--gpus=2"], gpus),
        (&["--qos=tiny", "-N2", "--gpu-isolation=whole"], gpus),
        (&["--qos=tiny", "-t", "90", "--gpu-mem=4G"], time),
        (&["--qos=tiny", "-t", "60", "--gpu-mem=4G"], ""),
        (&["--qos=tiny", "--gpu-isolation=mig:1g.5gb", "--gpu-instances=3"], ""),
        (&["--qos=tiny", "-t", "90"], ""),
        (&["--gres=gpu:2"], ""),
        (&["--qos=tiny", "--gpu-isolation=mig:4g.20gb"], slices),
    ];
    for (options, says) in cases {
        let said = held(cluster, options);
        assert_eq!(said.code, Some(0), "{options:?}: {said:?}");
        let told = said.stderr.split_once(never).map_or("", |(_, told)| told);
        assert!(told.starts_with(says) && told.is_empty() == says.is_empty(), "{options:?}: {said:?}");
    }
    // A change has no message of slurmctld's.
    let changed = cluster.sbatch(User::Alice, &[&["--hold"], part].concat(), "true").unwrap();
    let said = tessera(cluster, User::Alice, &["change", &changed.to_string(), "--gpu-mem=5G"]);
    let limit = "A limit of Slurm never lets it start: a job of QOS large must have at least 1 GPU";
    assert!(said.code == Some(0) && said.stdout.contains(limit), "{said:?}");
    let nodes = held(cluster, &["-N9", "--gpu-mem=4G"]).stderr;
    assert!(nodes.contains("-N9: partition gpu has only 2, so Slurm never starts this job"), "{nodes}");
    // Slurm agrees.
    let waits = cluster.sbatch(User::Alice, two, "true").unwrap();
    cluster.wait_job(waits, "held by the limit", |job| job.reason().starts_with("QOS")).unwrap();
    for words in [&["why", &waits.to_string()][..], &["explain", "--qos", "tiny", "--gres=gpu:2"]] {
        let told = tessera(cluster, User::Alice, words).stdout;
        // GPUs and slices are above their limits.
        assert!(
            told.contains("A limit of Slurm never lets it start: ") && told.contains("QOS tiny may have "),
            "{words:?}: {told}"
        );
    }
    sacctmgr(&["modify", "qos", "tiny", "set", "Flags=DenyOnLimit"]);
    wait_for("Slurm to refuse it", PATIENCE, || {
        let said = held(cluster, two);
        if said.code != Some(0) && said.stderr.contains(gpus) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .unwrap();
    sacctmgr(&["modify", "qos", "tiny", "set", "Flags-=DenyOnLimit"]);
    let file = cluster.layout().etc("tessera.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{before}\n[submission]\ntell_slurm_limits = false\n")).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    wait_for("nothing to be told", PATIENCE, || {
        let said = held(cluster, two);
        if said.code == Some(0) && !said.stderr.contains("tessera: ") {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    })
    .unwrap();
    std::fs::write(&file, before).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    cluster.run(User::Root, "scancel", &["-u", User::Alice.name()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
}

/// Commands say the limit and who uses it, and name the job that a dependency waits for.
fn told(cluster: &Cluster, (first, second): (lab::JobId, lab::JobId), line: usize) {
    let alice = User::Alice.name();
    let why = tessera(cluster, User::Alice, &["why", &second.to_string()]).stdout;
    let kept = format!(
        "A limit of the site keeps it from starting: for QOS small running jobs have 2 of 3 slices (running_slices, line {line}"
    );
    assert!(why.contains(&kept) && !why.contains("still waits for cores"), "{why}");
    let free = tessera(cluster, User::Alice, &["free", "--qos", "small"]).ok().unwrap();
    let limit = format!(
        "jobs for QOS small may have 3 slices at once (running_slices, line {line} of tessera.toml); 2 in use ({alice} 2)"
    );
    assert!(free.contains(&limit), "{free}");
    // After "5.1 GB" and "14 of 108".
    let now = |line: &str| line.split_whitespace().nth(6) == Some("1");
    assert!(free.lines().any(|line| line.starts_with("1g.5gb ") && now(line)), "{free}");
    let explained =
        tessera(cluster, User::Alice, &["explain", "--qos", "small", "--gpu-isolation=mig:2g.10gb"]);
    assert!(
        explained.code == Some(1) && explained.stdout.contains("A limit of the site keeps it: "),
        "{explained:?}"
    );
    let after = format!("--dependency=afterany:{first}");
    let waits = cluster.sbatch(User::Alice, &[&after, "--gpu-mem=4G"], "true").unwrap();
    let why = wait_for("the job to depend on another", PATIENCE, || {
        let why = tessera(cluster, User::Alice, &["why", &waits.to_string()]).stdout;
        if why.contains("Dependency") { Ok(why) } else { Err(why) }
    })
    .unwrap();
    let named = format!("It waits for job {first} to end, which is RUNNING ({alice}).");
    assert!(why.contains(&named) && !why.contains("still waits for cores"), "{why}");
    cluster.run(User::Root, "scancel", &[&waits.to_string()]).unwrap().ok().unwrap();
    let array = cluster.sbatch(User::Alice, &["--array=1-3%2", "--gpu-mem=4G"], "exec sleep 600").unwrap();
    let why = wait_for("two tasks to run", PATIENCE, || {
        let why = tessera(cluster, User::Alice, &["why", &array.to_string()]).stdout;
        if why.contains("2 tasks are RUNNING") { Ok(why) } else { Err(why) }
    })
    .unwrap();
    // 26.05 goes on calling what is left of the array `6_[3%2]`.
    let named = ["_3 ", "_[3%2] "].map(|task| format!("job {array}{task}"));
    assert!(named.iter().any(|name| why.starts_with(name)) && why.contains("JobArrayTaskLimit"), "{why}");
    cluster.run(User::Root, "scancel", &[&array.to_string()]).unwrap().ok().unwrap();
}
