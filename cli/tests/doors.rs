//! The same requests through every door: the options' check of sbatch, the controller's ruling, `tessera explain`, a
//! planner that takes its plan back, and the engine when the job starts. They must agree on what each means.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use admission::{Ruling, Submission, judge};
use insta::assert_snapshot;
use protocol::gres_list::Tres;
use protocol::meaning::{Counted, as_counted};
use protocol::options::{Renames, Source, Spec, Typed};
use protocol::wire::{encode_request, parse_request};
use serde_json::Value;
use site_config::SiteConfig;

const SITE: &str = "[defaults]\ngpu_mem = \"8G\"\nmps_threads = 20\n\
    [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\ninterconnect = \"dgx-v\"\n\
    [[nodes]]\nnames = \"n2\"\ngpu = \"h100-80gb-sxm\"\ncount = 2\nmig = \"on\"\n\
    [[limits]]\npartition = \"small\"\nisolation = [\"mps\", \"whole\"]\nmax_mem = \"20G\"\n";

const KINDS: [&str; 7] = ["", "auto", "mig", "mig:2g.10gb", "mig:9g.9gb", "mps", "whole"];

const OTHERS: [&str; 16] = [
    "",
    "--gpu-mem=10G",
    "--gpu-mem=70G",
    "--gpu-mem=200G",
    "--gpu-mem=10X",
    "--gpu-threads=25",
    "--gpu-mem=3G --gpu-threads=25",
    "--gpu-instances=2",
    "--gpu-mem=10G --gpu-instances=8",
    "--gpus=2",
    "--gpu-mem=10G --gpus=3",
    "--gpu-pattern=ring --gpus=4",
    "--gpu-times=1g:60,2g:35",
    "--gpu-times=1g:60,2g:35 --gpu-mem=9G",
    "--gpu-mem=10G --exclusive",
    "--gpu-mem=30G --partition=small",
];

/// What each door makes of one command line: the request as it is meant, with the GRES that Slurm is asked for, or why not.
type Answer = Result<(String, Option<(String, u64)>), String>;

/// The options' check, then the controller's ruling.
fn submitted(line: &str, config: &SiteConfig) -> Answer {
    let mut typed = Typed::default();
    let (mut job, mut gpus) = (Submission::default(), None);
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("--gpus", n)) => gpus = Some(format!("gres:gpu:{n}")),
            Some(("--partition", name)) => job.partitions = vec![name.to_owned()],
            Some((name, text)) => {
                typed.push(Spec::by_name(&name[2..]).unwrap().opt, text, Source::CommandLine);
            }
            None => job.exclusive = true,
        }
    }
    job.tres = Tres { per_node: gpus, ..Tres::default() };
    let request = typed
        .request(&Renames::new(), &|_| Err("no file".to_owned()))
        .map_err(|refusals| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    job.request = request.as_ref().map(encode_request);
    match judge(&job, Some(config)) {
        Ruling::Refused(why) => Err(why.text),
        Ruling::Untouched => Ok((String::new(), None)),
        Ruling::Accepted { request, add } => {
            let add = add.map(|(name, n)| (name.to_owned(), u64::from(n)));
            assert_eq!(at_start(&request, &job, add.as_ref()), request, "{line}: at its start");
            if request.is_moldable() {
                job.request = Some(encode_request(&request));
                let shards = admission::plan::judge(&job, "", "", true, 0, Some(config));
                let as_added = add.as_ref().map(|(_, n)| u32::try_from(*n).unwrap());
                assert_eq!(shards, Ok(as_added), "{line}: its plan is taken back");
            }
            Ok((encode_request(&request), add))
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(&args).current_dir(dir).env_clear().env("TESSERA_CONF", dir.join("tessera.toml"));
    let out = command.stdin(Stdio::null()).output().unwrap();
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
    Ok((json["request"].as_str().unwrap().to_owned(), gres))
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
            let (sbatch, explain) = (submitted(&line, &config), explained(&line, dir.path()));
            match (&sbatch, &explain) {
                // Slurm alone counts what it was asked for itself.
                (Ok((meant, None)), Ok((same, Some(_)))) if !meant.is_empty() => assert_eq!(meant, same),
                (Ok((meant, _)), Ok(_)) if meant.is_empty() => {}
                _ => assert_eq!(sbatch, explain, "{line}"),
            }
            let answer = match sbatch {
                Ok((meant, _)) if meant.is_empty() => "Slurm's own".to_owned(),
                Ok((meant, Some((name, n)))) => format!("{meant}  ({name}:{n})"),
                Ok((meant, None)) => meant,
                Err(why) => format!("refused: {}", why.replace('\n', "\n    ")),
            };
            table.push_str(&format!("{line}\n    {answer}\n"));
        }
    }
    assert!(table.lines().filter(|l| !l.starts_with(' ')).count() > 100);
    assert_snapshot!(table);
}
