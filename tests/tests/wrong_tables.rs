//! Tables of Slurm's structures that are wrong: slurmctld goes on, and GPUs are left to Slurm.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, builder};
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::table_entry::entry;
use lab::{Cluster, Daemon, JobId, User};
use slurm_tables::table::Cell;
use slurm_tables::{OWN_TABLE, TABLES, Tables, Version};

/// What a table says of one release, with each entry changed.
fn written(of: Version, called: Version, change: &mut dyn FnMut(&str, Cell) -> Cell) -> String {
    let table = Tables::parse(TABLES).unwrap();
    let mut text = format!("releases {called}\n");
    for (name, row) in &table.rows {
        let Some((_, cell)) = row.range(..=of).next_back() else { continue };
        text.push_str(&format!("{name} {called}={}\n", entry(change(name, *cell))));
    }
    text
}

/// Moves the fields of a structure by some bytes, as far as they stay in it.
fn shifted(version: Version, structure: &str, by: usize) -> String {
    let table = Tables::parse(TABLES).unwrap();
    let size = table.layout(version).unwrap().size(structure).unwrap();
    let begin = format!("{structure}.");
    written(version, version, &mut |name, cell| match cell {
        Cell::Field { position, bytes } if name.starts_with(&begin) && position + bytes + by <= size => {
            Cell::Field { position: position + by, bytes }
        }
        other => other,
    })
}

/// Puts two fields of a structure in each other's place.
fn swapped(version: Version, one: &str, other: &str) -> String {
    let layout = Tables::parse(TABLES).unwrap().layout(version).unwrap();
    let place = |name: &str| {
        let (position, bytes) = layout.field(name).unwrap().unwrap();
        Cell::Field { position, bytes }
    };
    written(version, version, &mut |name, cell| match name {
        name if name == one => place(other),
        name if name == other => place(one),
        _ => cell,
    })
}

/// Puts every field of every structure anywhere.
fn anywhere(version: Version, seed: u64) -> String {
    let table = Tables::parse(TABLES).unwrap();
    let layout = table.layout(version).unwrap();
    let mut state = seed;
    let mut used = std::collections::HashSet::new();
    written(version, version, &mut |name, cell| match cell {
        Cell::Field { bytes, .. } => {
            let structure = name.split('.').next().unwrap();
            let words = layout.size(structure).unwrap() / 8;
            // Each in a word of its own: two in one would be refused before anything is read.
            let word = (0..).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(state >> 33).unwrap() % words
            });
            let word = word.take(10_000).find(|word| used.insert((structure.to_owned(), *word))).unwrap_or(0);
            Cell::Field { position: word * 8, bytes }
        }
        other => other,
    })
}

/// The table of the release before or after the first of another layout.
fn neighbour(version: Version) -> Version {
    let table = Tables::parse(TABLES).unwrap();
    let row = &table.rows["job_record"];
    row.range(..version)
        .map(|(release, _)| *release)
        .rfind(|release| row.range(..=version).next_back().map(|(_, cell)| cell) != row.get(release))
        .unwrap_or_else(|| row.range(version..).next().map(|(release, _)| *release).unwrap())
}

/// Starts slurmctld with a table, and gives its log after a plain job has run.
fn log_with(cluster: &mut Cluster, what: &str, text: &str) -> String {
    let file = cluster.layout().at("plugins").join(OWN_TABLE);
    cluster.stop(&Daemon::Slurmctld).unwrap();
    std::fs::write(&file, text).unwrap();
    let log = cluster.layout().log("slurmctld");
    std::fs::remove_file(&log).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let saw = cluster.complete(User::Alice, &["--gres=gpu:2", "-w", "n1"], LOOK).unwrap();
    assert_eq!(saw.lines().filter(|line| line.starts_with("GPU ")).count(), 2, "{what}: {saw}");
    std::fs::read_to_string(&log).unwrap()
}

/// With a table, plain jobs run, and placement is off, which is said.
fn goes_on_without(cluster: &mut Cluster, what: &str, text: &str) {
    let log = log_with(cluster, what, text);
    let said =
        log.lines().filter(|line| line.contains("Tessera is off until") || line.contains("left to Slurm"));
    let said: Vec<&str> = said.collect();
    assert!((1..=6).contains(&said.len()), "{what}: {said:?}\n{log}");
    let doctor = cluster.run(User::Root, "tessera", &["doctor"]).unwrap();
    assert!(
        doctor.code == Some(1) && doctor.stdout.contains("leaves all GPUs to Slurm"),
        "{what}: {doctor:?}"
    );
}

/// The job submit plugin adds no GPU to a submission that it cannot read.
fn no_job_of_ours_runs_without_a_gpu(cluster: &Cluster) {
    let why = "slurmctld gave it no GPU, because Tessera's job submit plugin was off";
    let job = cluster.sbatch(User::Alice, &["--gpu-mem=10G"], "echo ran").unwrap();
    wait_for("the job to be requeued with the reason", PATIENCE, || {
        let now = cluster.run(User::Root, "scontrol", &["show", "job", &job.to_string()]).unwrap().stdout;
        if now.contains(" Restarts=1 ") && now.contains(why) { Ok(()) } else { Err(now) }
    })
    .unwrap();
    assert!(!cluster.output(job).contains("ran"));
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    // slurmctld cannot requeue an srun: its step says why it does not start.
    let done = cluster.run(User::Alice, "srun", &["-n1", "--gpu-mem=10G", "echo", "ran"]).unwrap();
    assert!(done.code != Some(0) && !done.stdout.contains("ran") && done.stderr.contains(why), "{done:?}");
    let saw = cluster.complete(User::Alice, &["--gpu-isolation=slurm"], "echo ran").unwrap();
    assert!(saw.contains("ran"), "a job without GPUs asks nothing of Tessera: {saw}");
}

/// The shipped files, but n2 has two GPUs of each of two models.
fn two_models_on_n2() -> Templates {
    let mut templates = Templates::shipped().unwrap();
    for (text, from, to) in [
        (
            &mut templates.tessera,
            "gpu = \"h100-80gb-sxm\"\ncount = 4",
            "gpus = [\"h100-80gb-sxm\", \"h100-80gb-sxm\", \"a30-24gb\", \"a30-24gb\"]",
        ),
        (&mut templates.slurm, "gpu:h100:4,shard:320", "gpu:h100:2,gpu:a30:2,shard:208"),
        (
            &mut templates.gres,
            "NodeName=n2 Name=gpu Type=h100 File=/dev/nvidia[0-3]\nNodeName=n2 Name=shard Count=320",
            "NodeName=n2 Name=gpu Type=h100 File=/dev/nvidia[0-1]\nNodeName=n2 Name=gpu Type=a30 File=/dev/nvidia[2-3]\n\
             NodeName=n2 Name=shard Count=208",
        ),
    ] {
        assert!(text.contains(from), "{text}");
        *text = text.replace(from, to);
    }
    templates
}

/// Slurm's prolog names only the GPUs of a job's last type. Each task of an array asks for one of each.
fn jobs_have_the_gpus_of_both_types(cluster: &Cluster) {
    let script = "echo number=$SLURM_JOB_GPUS\nsrun nvidia-smi -L\necho looked\nexec sleep 600";
    let options = ["--array=1-2", "--gres=gpu:h100:1,gpu:a30:1"];
    let first = cluster.sbatch(User::Alice, &options, script).unwrap();
    let mut numbers: Vec<String> = [first, JobId(first.0 + 1)]
        .map(|job| {
            let saw = common::looked(cluster, job);
            let models = |name: &str| saw.lines().filter(|line| line.contains(name)).count();
            assert!(models("A30") > 0 && models("H100") > 0, "{saw}");
            common::variable(&saw, "number").unwrap()
        })
        .into();
    numbers.sort();
    assert_eq!(numbers, ["0,2", "1,3"]);
    cluster.run(User::Root, "scancel", &[&first.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
}

#[test]
fn a_wrong_table_is_found_and_never_used() {
    let version = lab::Slurm::by_default().unwrap().number().unwrap();
    let mut cluster = builder().templates(two_models_on_n2()).start().unwrap();
    let mut wrong = vec![
        ("a neighbour's".to_owned(), written(neighbour(version), version, &mut |_, cell| cell)),
        ("no table".to_owned(), format!("releases {version}\n")),
        ("no text".to_owned(), "\u{1}\u{2}".to_owned()),
    ];
    for structure in
        ["slurm_conf", "node_record", "job_record", "job_details", "part_record", "gres_node_state"]
    {
        wrong.push((format!("{structure} moved"), shifted(version, structure, 8)));
    }
    // Each other's kind: only slurmctld's own answers tell them apart.
    for (one, other) in [
        ("job_record.job_id", "job_record.user_id"),
        ("node_record.name", "node_record.extra"),
        // Nothing is kept free there: the nodes would have no names.
        ("node_record.name", "node_record.mem_spec_limit"),
        ("part_record.name", "part_record.nodes"),
    ] {
        wrong.push((format!("{one} for {other}"), swapped(version, one, other)));
    }
    wrong.extend((1..=4).map(|seed| (format!("random, seed {seed}"), anywhere(version, seed))));
    for (what, text) in &wrong {
        goes_on_without(&mut cluster, what, text);
    }
    jobs_have_the_gpus_of_both_types(&cluster);
    // Submissions are another plugin's: it alone leaves them to Slurm.
    let log = log_with(&mut cluster, "job_desc_msg moved", &shifted(version, "job_desc_msg", 8));
    let left = format!("job submit plugin: this is no Slurm {version} as it was published: ");
    assert_eq!(log.lines().filter(|line| line.contains(&left)).count(), 1, "{log}");
    no_job_of_ours_runs_without_a_gpu(&cluster);

    cluster.stop(&Daemon::Slurmctld).unwrap();
    std::fs::remove_file(cluster.layout().at("plugins").join(OWN_TABLE)).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let saw = cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb"], "nvidia-smi -L").unwrap();
    assert!(saw.contains("MIG 1g.5gb"), "{saw}");
    let doctor = cluster.run(User::Root, "tessera", &["doctor"]).unwrap().stdout;
    let keeps = doctor.lines().find(|line| line.contains("ok   slurmctld keeps ")).unwrap_or(&doctor);
    assert!(
        keeps.contains(" requests (at most 1024), ") && keeps.contains(" names of nodes (at most 100000)"),
        "{keeps}"
    );
    cluster.assert_clean().unwrap();
}
