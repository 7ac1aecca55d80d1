//! Every way to ask for a GPU, on a GPU of every use: what the job gets, or who refuses it. None of them waits for ever.

use std::sync::Arc;

use admission::{Ruling, judge};
use protocol::wire::encode_request;
use site_limits::Submission;
use site_limits::tres::Tres;

use super::*;

/// A use of a node's only GPU, as lines of its `[[nodes]]`.
const USES: [(&str, &str); 9] = [
    ("any", ""),
    ("mig = on", "mig = \"on\"\n"),
    ("mig = off", "mig = \"off\"\n"),
    ("gpu_use mig", "gpu_use = { \"0\" = \"mig\" }\n"),
    ("gpu_use whole", "gpu_use = { \"0\" = \"whole\" }\n"),
    ("gpu_use mps", "gpu_use = { \"0\" = \"mps\" }\n"),
    ("gpu_use slurm", "gpu_use = { \"0\" = \"slurm\" }\n"),
    ("static", "static = { \"0\" = [\"2g.10gb@0\", \"3g.20gb@4\"] }\n"),
    ("keep_uncut", "keep_uncut = 1\n"),
];

/// A way to ask: the request of our options, the GRES that the job asks Slurm for, `--exclusive`.
type Way = (&'static str, Option<&'static str>, Option<&'static str>, bool);

const WAYS: [Way; 10] = [
    ("mig:2g.10gb", Some("v1 iso=mig:2g.10gb typed=1"), None, false),
    ("mig 4G", Some("v1 iso=mig mem=3815 typed=1"), None, false),
    ("mps 4G", Some("v1 iso=mps mem=3815 typed=1"), None, false),
    ("tasks", Some("v1 iso=tasks mem=3815 typed=1"), None, false),
    ("whole", Some("v1 iso=whole typed=1"), None, false),
    ("auto 4G", Some("v1 iso=auto mem=3815"), None, false),
    ("--gres=gpu:1", None, Some("gres:gpu:1"), false),
    ("--gres=shard:4", None, Some("gres:shard:4"), false),
    ("none", Some("v1 iso=none typed=1"), Some("gres:gpu:1"), false),
    ("--exclusive", None, Some("gres:gpu:1"), true),
];

fn engine_of(lines: &str) -> Engine {
    let text = format!("[tasks]\n[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n{lines}");
    let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, [], "{text}");
    Engine::new(config.unwrap())
}

fn kind(grant: &Grant) -> &'static str {
    match grant {
        Grant::Mig(_) => "instance",
        Grant::Compute { .. } => "compute instance",
        Grant::Mps { on: protocol::ShareOn::Instance(_), .. } => "share of an instance",
        Grant::Mps { .. } => "share",
        Grant::Tasks(_) => "seat",
        Grant::Whole(_) => "whole",
    }
}

/// Gives the outcome of a job that asks this way while no other job is there.
fn outcome((_, request, per_node, exclusive): Way, lines: &str) -> String {
    let mut engine = engine_of(lines);
    let nodes = [node(0, "n1", 7)];
    let job = Submission {
        request: request.map(str::to_owned),
        tres: Tres { per_node: per_node.map(str::to_owned), ..Tres::default() },
        partition_nodes: Some(Arc::new([String::from("n1")].into())),
        exclusive,
        ..Submission::default()
    };
    let (request, add) = match judge(&job, Some(engine.site())) {
        Ruling::Refused(_) => return "refused".to_owned(),
        Ruling::Untouched => (job.request.clone(), None),
        Ruling::Accepted { request, add, .. } => (Some(encode_request(&request)), add),
    };
    let mut own = job.tres.gpu_entries().into_iter().map(|e| (e.name, e.count));
    let (name, count) = add.map(|(name, n)| (name.to_owned(), n.into())).or_else(|| own.next_back()).unwrap();
    let kind_of_gres = if name == "gpu" { GresKind::Gpu } else { GresKind::Shard };
    let view = JobView {
        uid: USER,
        request: request.and_then(|text| protocol::wire::parse_request(&text).ok()),
        gres: vec![GresRequest { kind: kind_of_gres, per_node: count, per_socket: false }],
        exclusive,
        ..JobView::of_tests()
    };
    let Some(want) = view.want() else {
        // Slurm gives it; which of it is ours to account for and to open, the engine says.
        let all = [GpuIndex(0)].into_iter().collect::<GpuSet>();
        let whole = !exclusive || !engine.to_be_had_whole("n1", all).is_empty();
        return if whole { "by Slurm" } else { "nothing" }.to_owned();
    };
    if ruled_out(&mut engine, &want, Mode::TestOnly, 1, &nodes) == [0] {
        return "refused by Slurm".to_owned();
    }
    assert_eq!(ruled_out(&mut engine, &want, Mode::RunNow, 1, &nodes), [0; 0], "it would wait for ever");
    match place(&engine, question(&engine, &want), &want, &choice(&[0], &[0])) {
        None => "by Slurm".to_owned(),
        Some(placed) => kind(&placed.expect("it would wait for ever").grant).to_owned(),
    }
}

#[test]
fn every_way_to_ask_ends_in_a_gpu_or_in_a_refusal() {
    let row = |way: &Way| -> Vec<String> { USES.iter().map(|(_, lines)| outcome(*way, lines)).collect() };
    let shown: Vec<String> = WAYS.iter().map(|way| format!("{}: {}", way.0, row(way).join(", "))).collect();
    assert_eq!(shown, TABLE, "{:?}", USES.map(|(name, _)| name));
}

/// A line per way, with its outcome on the GPUs of [`USES`].
const TABLE: [&str; 10] = [
    "mig:2g.10gb: instance, instance, refused, instance, refused, refused, refused, instance, refused",
    "mig 4G: instance, instance, refused, instance, refused, refused, refused, instance, refused",
    "mps 4G: share, share of an instance, share, share of an instance, refused, share, refused, share of an instance, refused",
    "tasks: seat, seat, seat, seat, refused, seat, refused, seat, refused",
    "whole: whole, refused, whole, refused, whole, refused, refused, refused, whole",
    "auto 4G: instance, instance, share, instance, whole, share, refused, instance, whole",
    "--gres=gpu:1: whole, refused by Slurm, whole, refused by Slurm, whole, refused by Slurm, whole, refused by Slurm, whole",
    "--gres=shard:4: share, share of an instance, share, share of an instance, refused, share, by Slurm, share of an instance, refused",
    "none: whole, refused by Slurm, whole, refused by Slurm, whole, refused by Slurm, whole, refused by Slurm, whole",
    "--exclusive: by Slurm, nothing, by Slurm, nothing, by Slurm, nothing, by Slurm, nothing, by Slurm",
];

#[test]
fn a_job_that_asks_for_no_change_reads_that_slurm_chose() {
    let mut view = JobView {
        uid: USER,
        request: protocol::wire::parse_request("v1 iso=none typed=1").ok(),
        gres: vec![GresRequest { kind: GresKind::Gpu, per_node: 1, per_socket: false }],
        ..JobView::of_tests()
    };
    let mut engine = engine_of("");
    let why = |engine: &mut Engine, view: &JobView| {
        let want = view.want().unwrap();
        place(engine, question(engine, &want), &want, &choice(&[0], &[0])).unwrap().unwrap().why
    };
    assert_eq!(why(&mut engine, &view), "Slurm's own choice");
    view.request = None;
    assert_eq!(why(&mut engine, &view), "the only free GPU");
}
