//! The same requests through every door: the options' check of sbatch, the controller's ruling, `tessera explain`, a
//! planner that takes its plan back, and the engine when the job starts. They must agree on what each means.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use admission::{Ruling, judge};
use insta::assert_snapshot;
use job_options::{Renames, Source, Spec, Typed};
use protocol::wire::{encode_request, parse_request};
use serde_json::Value;
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::counted::{Counted, as_counted};
use site_limits::tres::Tres;

const SITE: &str = "[defaults]\ngpu_mem = \"8G\"\nmps_threads = 20\n\
    [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\ninterconnect = \"dgx-v\"\n\
    [[nodes]]\nnames = \"n2\"\ngpu = \"h100-80gb-sxm\"\ncount = 2\nmig = \"on\"\n\
    [[limits]]\npartition = \"small\"\nisolation = [\"mps\", \"whole\"]\nmax_mem = \"20G\"\n";

const KINDS: [&str; 7] = ["", "auto", "mig", "mig:2g.10gb", "mig:9g.9gb", "mps", "whole"];

const OTHERS: [&str; 24] = [
    "",
    "--gpu-mem=10G",
    "--gpu-mem=70G",
    "--gpu-mem=200G",
    "--gpu-mem=10X",
    "--gpu-sms=25",
    "--gpu-mem=3G --gpu-sms=25",
    "--gpu-instances=2",
    "--gpu-mem=10G --gpu-instances=8",
    "--gpus=2",
    "--gpu-mem=10G --gpus=3",
    "--gpu-pattern=ring --gpus=4",
    "--gpu-times=1g:60s,2g:35s",
    "--gpu-times=1g:60s,2g:35s --gpu-mem=9G",
    "--gpu-mem=10G --exclusive",
    "--gpu-mem=30G --partition=small",
    "--gres=gpu:2",
    "--gres=shard:10",
    "--gres=shard:10 --partition=small",
    "--gres=shard:30 --partition=small",
    "--gpus-per-task=2",
    "--gpus-per-task=1 --ntasks-per-node=4",
    "--gpus-per-task=1 --gpu-pattern=ring --partition=small",
    "--gpu-mem=10G --exclude=n2",
];

/// What each door makes of one command line: the request as it is meant, with the GRES that Slurm is asked for and what the user
/// should know, or why not.
type Answer = Result<(String, Option<(String, u64)>, Option<String>), String>;

/// The options' check, then the controller's ruling. `within`: what slurmctld knows of the nodes in a partition.
fn submitted(line: &str, config: &SiteConfig, within: &dyn Fn(Submission) -> Submission) -> Answer {
    let mut typed = Typed::default();
    let (mut job, mut gpus) = (Submission::default(), None);
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("--gpus", n)) => gpus = Some(format!("gres:gpu:{n}")),
            Some(("--gres", list)) => gpus = Some(format!("gres:{list}")),
            Some(("--gpus-per-task", n)) => job.tres.per_task = Some(format!("gres:gpu:{n}")),
            Some(("--ntasks-per-node", n)) => job.tasks_per_node = Some(n.parse().unwrap()),
            Some(("--partition", name)) => job.partitions = vec![name.to_owned()],
            // What these leave out is looked at when the job is to start.
            Some(("--exclude" | "--constraint" | "--reservation", _)) => {}
            Some((name, text)) => {
                typed.push(Spec::by_name(&name[2..]).unwrap().opt, text, Source::CommandLine);
            }
            None => job.exclusive = true,
        }
    }
    job.tres = Tres { per_node: gpus, ..job.tres };
    let mut job = within(job);
    let request = typed
        .request(&Renames::new(), &|_| Err("no file".to_owned()))
        .map_err(|refusals| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    job.request = request.as_ref().map(encode_request);
    match judge(&job, Some(config)) {
        Ruling::Refused(why) => Err(why.text),
        Ruling::Untouched => Ok((String::new(), None, None)),
        Ruling::Accepted { request, add, note } => {
            let add = add.map(|(name, n)| (name.to_owned(), u64::from(n)));
            assert_eq!(at_start(&request, &job, add.as_ref()), request, "{line}: at its start");
            if request.is_moldable() {
                job.request = Some(encode_request(&request));
                let shards = admission::plan::judge(&job, "", "", true, 0, Some(config));
                let as_added = add.as_ref().map(|(_, n)| u32::try_from(*n).unwrap());
                assert_eq!(shards, Ok(as_added), "{line}: its plan is taken back");
            }
            Ok((encode_request(&request), add, note))
        }
    }
}

/// What the engine reads of a job that was accepted.
fn at_start(request: &protocol::Request, job: &Submission, add: Option<&(String, u64)>) -> protocol::Request {
    let counted = match add {
        Some((name, shards)) if name == "shard" => Counted::Shards(*shards),
        Some((_, gpus)) => Counted::Gpus(*gpus),
        None => Counted::Gpus(job.tres.gpu_entries().iter().map(|e| e.count).sum()),
    };
    let asked = parse_request(&encode_request(request)).ok();
    let read = as_counted(asked, counted).unwrap();
    assert!(read.managed);
    // Whole GPUs that nobody counted are one.
    protocol::Request { gpus: request.gpus, ..read.request }
}

/// `tessera explain`.
fn explained(line: &str, dir: &Path) -> Answer {
    let mut args = vec!["explain", "--json"];
    args.extend(line.split_whitespace());
    let out = slurm::command(dir, &args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let Ok(json) = serde_json::from_slice::<Value>(&out.stdout) else {
        assert_eq!(out.status.code(), Some(1), "{line}: {}", text(&out.stderr));
        let why = text(&out.stderr);
        return Err(why.trim_end().strip_prefix("tessera: refused at submission: ").unwrap().to_owned());
    };
    if let Some(why) = json["refused"].as_str() {
        assert_eq!(out.status.code(), Some(1), "{line}");
        return Err(why.to_owned());
    }
    let nodes = json["nodes"].as_array().unwrap();
    let gres = nodes.iter().find_map(|n| {
        let (name, count) = n["gres"].as_object()?.iter().next()?;
        Some((name.clone(), count.as_u64()?))
    });
    assert!(gres.is_some() || nodes.iter().all(|n| n["gres"]["never"].is_string()), "{line}");
    let note = json["note"].as_str().map(str::to_owned);
    if let Some(note) = &note {
        let for_a_person = slurm::command(dir, &[&["explain"], &args[2..]].concat()).output().unwrap();
        assert_eq!(text(&for_a_person.stderr), format!("tessera: {note}\n"));
    }
    Ok((json["request"].as_str().unwrap().to_owned(), gres, note))
}

#[test]
fn every_door_gives_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tessera.toml"), SITE).unwrap();
    let (config, errors) = site_config::parse("t", SITE, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    let config = config.unwrap();
    let mut table = String::new();
    for kind in KINDS {
        let isolation = if kind.is_empty() { String::new() } else { format!("--gpu-isolation={kind}") };
        for others in OTHERS {
            let line = format!("{isolation} {others}").trim().to_owned();
            if line.is_empty() {
                continue;
            }
            let (sbatch, explain) = (submitted(&line, &config, &|job| job), explained(&line, dir.path()));
            match (&sbatch, &explain) {
                // Slurm alone counts what it was asked for itself.
                (Ok((meant, None, note)), Ok((same, Some(_), said))) if !meant.is_empty() => {
                    assert_eq!((meant, note), (same, said));
                }
                (Ok((meant, ..)), Ok(_)) if meant.is_empty() => {}
                _ => assert_eq!(sbatch, explain, "{line}"),
            }
            let answer = match sbatch {
                Ok((meant, ..)) if meant.is_empty() => "Slurm's own".to_owned(),
                Ok((meant, add, note)) => {
                    let add = add.map_or(String::new(), |(name, n)| format!("  ({name}:{n})"));
                    meant + &add + &note.map_or(String::new(), |note| format!("\n    note: {note}"))
                }
                Err(why) => format!("refused: {}", why.replace('\n', "\n    ")),
            };
            table.push_str(&format!("{line}\n    {answer}\n"));
        }
    }
    assert!(table.lines().filter(|l| !l.starts_with(' ')).count() > 100);
    assert_snapshot!(table);
}

/// Nodes that Tessera has, has in part, and leaves to Slurm; `other` is not in tessera.toml.
const MIXED: &str = "[[nodes]]\nnames = \"ours,fewer,silent,unfit\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
    [[nodes]]\nnames = \"part\"\ngpu = \"t4-16gb\"\ncount = 2\ngpu_use = { \"0\" = \"whole\", \"1\" = \"slurm\" }\n\
    [[nodes]]\nnames = \"whole\"\ngpu = \"a30-24gb\"\ncount = 1\ngpu_use = { \"0\" = \"whole\" }\n";
/// What Slurm counts and publishes of them.
const KNOWN: [(&str, &str, &str); 7] = [
    ("ours", "gpu:a100:2(S:0-1),shard:80(S:0-1)", "tessera gpu0-1=free"),
    // What it published before slurm.conf changed.
    ("fewer", "gpu:a100:1,shard:40", "tessera gpu0-1=free"),
    ("silent", "gpu:a100:2,shard:80", ""),
    ("unfit", "gpu:a100:2,shard:80", "tessera unfit: GPU 1 is missing"),
    ("part", "gpu:t4:2,shard:32", "tessera gpu0=free gpu1=slurm"),
    ("whole", "gpu:a30:1,shard:24", "tessera gpu0=free"),
    ("other", "gpu:x1:4,shard:180", ""),
];
/// Partitions and their nodes. `alone` gives whole nodes.
const PARTITIONS: [(&str, &[&str]); 5] = [
    ("all", &["ours", "fewer", "silent", "unfit", "part", "whole"]),
    ("left", &["fewer"]),
    ("whole", &["whole"]),
    ("foreign", &["other"]),
    ("alone", &["ours", "fewer", "part"]),
];

fn mixed_site(dir: &Path) {
    fs::create_dir(dir.join("bin")).unwrap();
    fs::write(dir.join("tessera.toml"), MIXED).unwrap();
    let node = |(name, gres, extra): (&str, &str, &str)| {
        let extra = if extra.is_empty() { String::new() } else { format!("   Extra={extra}\n") };
        format!("NodeName={name} A=x\n   ActiveFeatures=gpu,{name}\n   Gres={gres}\n{extra}\n")
    };
    fs::write(dir.join("nodes"), KNOWN.map(node).concat()).unwrap();
    let of = |(partition, nodes): (&str, &[&str])| -> String {
        let shares = if partition == "alone" { "EXCLUSIVE" } else { "NO" };
        // Somebody is on the one node of Tessera's that is not whole; its GPUs are free.
        let state = |node: &str| if node == "part" { "mixed" } else { "idle" };
        nodes.iter().map(|node| format!("{node} {} {partition} {shares}\n", state(node))).collect()
    };
    fs::write(dir.join("sinfo"), PARTITIONS.map(of).concat()).unwrap();
    slurm::program(dir, "squeue", "true");
    slurm::program(dir, "sinfo", "case \"$*\" in *%P*) echo 'all*' ;; *) cat sinfo ;; esac");
    let class = "ReservationName=class StartTime=1 EndTime=9999999999 Nodes=part,whole Flags=SPEC_NODES";
    slurm::program(
        dir,
        "scontrol",
        &format!("case \"$*\" in *reservations*) [ ! -e reserved ] || echo {class} ;; *) cat nodes ;; esac"),
    );
}

/// What slurmctld's plugin fills into a submission.
fn known_to_slurm(job: Submission, config: &SiteConfig) -> Submission {
    let partition = job.partitions.first().map_or("all", String::as_str);
    let (_, nodes) = PARTITIONS.iter().find(|(name, _)| *name == partition).unwrap();
    let nodes = Some(Arc::new(nodes.iter().map(|name| (*name).to_owned()).collect()));
    let exclusive = job.exclusive || partition == "alone";
    let job = Submission { partitions: vec![partition.to_owned()], partition_nodes: nodes, exclusive, ..job };
    let gres = |name: &str| KNOWN.iter().find(|known| known.0 == name).map(|known| known.1.to_owned());
    let left_to_slurm = admission::left_to_slurm(&job, config, &gres);
    Submission { left_to_slurm, ..job }
}

/// What `tessera explain` says of each node, for a person.
fn verdicts(line: &str, dir: &Path) -> String {
    let args: Vec<&str> = ["explain"].into_iter().chain(line.split_whitespace()).collect();
    let said = slurm::tessera(dir, &args);
    let beside = ["as Slurm shows", "counts in Slurm", "--all shows"];
    let lines = said.lines().filter(|line| !beside.iter().any(|begin| line.starts_with(begin)));
    lines.map(|line| format!("    {line}\n")).collect()
}

#[test]
fn nodes_that_are_left_to_slurm_say_what_sbatch_says() {
    let dir = tempfile::tempdir().unwrap();
    mixed_site(dir.path());
    let (config, errors) = site_config::parse("t", MIXED, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    let config = config.unwrap();
    let mut table = String::new();
    for partition in PARTITIONS.map(|(name, _)| name) {
        for asked in [
            "--gpu-isolation=mig:2g.10gb",
            "--gpu-isolation=mps --gpu-mem=3G",
            "--gpu-isolation=whole",
            "--gres=gpu:1",
            "--gres=gpu:2",
            "--gres=shard:10",
            "--gres=shard:50",
        ] {
            let line = format!("{asked} --partition={partition}");
            let sbatch = submitted(&line, &config, &|job| known_to_slurm(job, &config));
            let explain = explained(&line, dir.path());
            match (&sbatch, &explain) {
                // sbatch takes the job, and leaves the nodes to slurmctld.
                (Ok(_), Ok(_)) => {}
                _ => assert_eq!(sbatch, explain, "{line}"),
            }
            table.push_str(&format!("{line}\n{}", verdicts(&line, dir.path())));
        }
    }
    table.push_str(&slurm::tessera(dir.path(), &["free", "--mem", "12G"]));
    table.push('\n');
    fs::write(dir.path().join("reserved"), "").unwrap();
    for partition in ["all", "alone"] {
        for wish in ["--exclude=ours", "--constraint=ours|(gpu&whole)", "--reservation=class"] {
            for asked in
                ["--gpu-isolation=mig:2g.10gb", "--gpu-isolation=whole", "--gres=gpu:1", "--gpus-per-task=1"]
            {
                let line = format!("{asked} --partition={partition} {wish}");
                let sbatch = submitted(&line, &config, &|job| known_to_slurm(job, &config));
                let explain = explained(&line, dir.path());
                match (&sbatch, &explain) {
                    (Ok(_), Ok(_)) => {}
                    _ => assert_eq!(sbatch, explain, "{line}"),
                }
                table.push_str(&format!("{line}\n{}", verdicts(&line, dir.path())));
            }
        }
    }
    assert_snapshot!(table);
}
