//! Verdicts on submissions.

use std::sync::Arc;

use protocol::wire::encode_request;
use site_limits::tres::Tres;

use super::*;

fn site(extra: &str) -> SiteConfig {
    let text = format!(
        "{extra}\n[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\n\
         interconnect = \"dgx-v\"\n"
    );
    let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, [], "{text}");
    config.unwrap()
}

fn verdict(request: &str, per_node: Option<&str>, extra: &str) -> Ruling {
    let job = Submission {
        request: Some(request.to_owned()),
        tres: Tres { per_node: per_node.map(str::to_owned), ..Tres::default() },
        partitions: vec!["debug".to_owned()],
        ..Submission::default()
    };
    judge(&job, Some(&site(extra)))
}

fn added(request: &str, per_node: Option<&str>) -> Option<(&'static str, u32)> {
    match verdict(request, per_node, "") {
        Ruling::Accepted { add, .. } => add,
        other => panic!("{request}: {other:?}"),
    }
}

fn refusal(request: &str, per_node: Option<&str>, extra: &str) -> String {
    match verdict(request, per_node, extra) {
        Ruling::Refused(why) => why.text,
        other => panic!("{request}: {other:?}"),
    }
}

#[test]
fn a_job_without_request_is_left_alone() {
    assert_eq!(judge(&Submission::default(), Some(&site(""))), Ruling::Untouched);
    assert_eq!(judge(&Submission::default(), None), Ruling::Untouched);
    assert_eq!(verdict("v1 iso=none", Some("gres:gpu:2"), ""), Ruling::Untouched);
}

#[test]
fn parts_become_shards_of_nominal_gigabytes() {
    assert_eq!(added("v1 iso=mig:2g.10gb", None), Some(("shard", 10)));
    assert_eq!(added("v1 iso=mig:1g.5gb inst=3", None), Some(("shard", 15)));
    assert_eq!(added("v1 iso=mps mem=2862", None), Some(("shard", 3)));
    assert_eq!(added("v1 iso=auto mem=9537", None), Some(("shard", 10)));
}

#[test]
fn a_pattern_with_ranks_that_the_job_lacks_is_refused() {
    let pattern = "v1 iso=whole pattern=edges:0-1,1-4";
    assert_eq!(added(pattern, Some("gres:gpu:5")), None);
    let why = |edge: &str, of: &str| {
        format!(
            "--gpu-pattern: edge {edge} has a rank that a job of {of} does not have: ranks are a node's GPUs, counted \
             from 0, as many as --gpus-per-node or --gres=gpu:N says"
        )
    };
    assert_eq!(refusal(pattern, Some("gres:gpu:4"), ""), why("1-4", "4 GPUs"));
    // Nothing said, it has one.
    assert_eq!(refusal(pattern, None, ""), why("0-1", "1 GPU"));
}

#[test]
fn a_job_that_asks_for_no_gpu_gets_none_instead_of_a_part() {
    for request in ["v1 iso=auto mem=4769", "v1 iso=mig:1g.5gb typed=1", "v1 iso=whole typed=1"] {
        let why = refusal(request, Some("gres:gpu:0"), "");
        assert!(
            why.starts_with("--gres=gpu:0 cannot be combined with ") && why.contains("asks for no GPU"),
            "{why}"
        );
    }
    assert_eq!(added("v1 iso=whole", Some("gres:gpu:0,gres:gpu:2")), None);
}

#[test]
fn whole_gpus_become_gpus_unless_asked_for_already() {
    assert_eq!(added("v1 iso=whole", None), Some(("gpu", 1)));
    assert_eq!(added("v1 iso=whole pattern=ring", Some("gres:gpu:3")), None);
    assert_eq!(added("v1 iso=auto mem=9537", Some("gres:gpu:2")), None);
}

#[test]
fn a_part_that_slurms_own_options_make_a_whole_gpu_is_said() {
    let noted = |request: &str, tres: Tres, exclusive, extra: &str| {
        let (request, partitions) = (Some(request.to_owned()), vec!["debug".to_owned()]);
        let job = Submission { request, tres, partitions, exclusive, ..Submission::default() };
        match judge(&job, Some(&site(extra))) {
            Ruling::Accepted { note, .. } => note.unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    };
    let node = |list: &str| Tres { per_node: Some(format!("gres:{list}")), ..Tres::default() };
    let per_job = |list: &str| Tres { per_job: Some(format!("gres:{list}")), ..Tres::default() };
    let why = "so the job gets more than --gpu-mem says; to get a part of a GPU, leave";
    let part = "v1 iso=auto mem=9537";
    assert_eq!(
        noted(part, node("gpu:1"), false, ""),
        format!("--gres=gpu:1 asks for a whole GPU, {why} --gres=gpu:1 out")
    );
    assert_eq!(
        noted(part, per_job("gpu:4"), false, ""),
        format!("--gpus=4 asks for whole GPUs, {why} --gpus=4 out")
    );
    assert!(
        noted(&format!("{part} threads=25"), node("gpu:2"), false, "")
            .contains("--gpu-mem and --gpu-sms say;")
    );
    for tres in [Tres::default(), node("gpu:1")] {
        let said = noted(part, tres, true, "");
        assert!(said.starts_with("with --exclusive, or in a partition of whole nodes"), "{said}");
    }
    // It gets what it says, or would get no part either.
    let whole_only = "[[limits]]\npartition = \"debug\"\nisolation = [\"whole\"]\n";
    for (request, tres, extra) in [
        (part, Tres::default(), ""),
        (part, node("nic:1"), ""),
        ("v1 iso=whole mem=9537 typed=1", node("gpu:1"), ""),
        ("v1 iso=whole", node("gpu:2"), ""),
        ("v1 iso=auto mem=9537", node("gpu:1"), whole_only),
    ] {
        assert_eq!(noted(request, tres, false, extra), "", "{request} {extra}");
    }
}

#[test]
fn counts_that_no_number_holds_are_refused_like_too_many() {
    let why = refusal("v1 iso=whole", Some("gres:gpu:18446744073709551615,gres:gpu:a100:2"), "");
    assert!(why.contains("no node could ever"), "{why}");
}

#[test]
fn contradictions_name_both_sides() {
    let why = refusal("v1 iso=mig:2g.10gb", Some("gres:gpu:2"), "");
    assert!(why.contains("--gres=gpu:2") && why.contains("--gpu-isolation=mig:2g.10gb"), "{why}");
    let why = refusal("v1 iso=mps mem=100", Some("gres:shard:3"), "");
    assert!(why.contains("--gres=shard:3"), "{why}");
}

#[test]
fn the_impossible_is_refused_with_the_nearest_thing() {
    let why = refusal("v1 iso=mig mem=60000", None, "");
    assert!(why.contains("no node could ever") && why.contains("7g.40gb"), "{why}");
    let why = refusal("v1 iso=whole", Some("gres:gpu:9"), "");
    assert!(why.contains("--gpus-per-node=8"), "{why}");
}

#[test]
fn instances_that_need_several_gpus_count_as_those_of_one_of_them() {
    // Slurm looks for the shards on one GPU: there is one instance on each of five, and three on each of two.
    let shards = |request: &str| match verdict(request, None, "") {
        Ruling::Accepted { add, .. } => add,
        other => panic!("{request}: {other:?}"),
    };
    assert_eq!(shards("v1 iso=mig:2g.10gb inst=3"), Some(("shard", 30)));
    assert_eq!(shards("v1 iso=mig:2g.10gb inst=5"), Some(("shard", 10)));
    assert_eq!(shards("v1 iso=mig:2g.10gb inst=6"), Some(("shard", 30)));
    let why = refusal("v1 iso=mig:2g.10gb inst=25", None, "");
    assert!(why.contains("each GPU must carry the same number, 24 do"), "{why}");
}

#[test]
fn instances_for_each_task_become_a_number_per_node() {
    let of = |text: &str, tasks| {
        let request = Some(text.to_owned());
        judge(&Submission { request, tasks_per_node: tasks, ..Submission::default() }, Some(&site("")))
    };
    for (text, tasks, wire, shards) in [
        ("v1 iso=mig:2g.10gb per-task=1", Some(3), "v1 iso=mig:2g.10gb inst=3", 30),
        ("v1 iso=mig:1g.5gb inst=2 per-task=1", Some(2), "v1 iso=mig:1g.5gb inst=4", 20),
        ("v1 iso=mig:1g.5gb per-task=1", None, "v1 iso=mig:1g.5gb", 5),
    ] {
        match of(text, tasks) {
            Ruling::Accepted { request, add, .. } => {
                assert_eq!((encode_request(&request).as_str(), add), (wire, Some(("shard", shards))));
            }
            other => panic!("{other:?}"),
        }
    }
    let Ruling::Refused(why) = of("v1 iso=mig:1g.5gb inst=8 per-task=1", Some(200)) else { panic!() };
    assert!(why.text.starts_with("--gpu-instances=8/task"), "{why}");
    let Ruling::Refused(why) = of("v1 iso=mig:2g.10gb per-task=1", Some(25)) else { panic!() };
    assert!(why.text.contains("25 such instances do not fit"), "{why}");
}

#[test]
fn the_sites_default_is_for_those_who_name_no_isolation() {
    let kind = |request: &str, per_node: Option<&str>| match verdict(
        request,
        per_node,
        "[defaults]\nisolation = \"mig\"\n",
    ) {
        Ruling::Accepted { request, .. } => request.isolation.to_string(),
        other => panic!("{request}: {other:?}"),
    };
    assert_eq!(kind("v1 iso=auto mem=9537", None), "mig");
    assert_eq!(kind("v1 iso=auto typed=1 mem=9537", None), "auto");
    assert_eq!(kind("v1 iso=mps typed=1 mem=9537", None), "mps");
    // Whole GPUs by Slurm's own options are no contradiction to a default that nobody typed.
    assert_eq!(kind("v1 iso=auto mem=9537", Some("gres:gpu:2")), "whole");
}

#[test]
fn a_refusal_tells_what_was_typed_from_what_was_made_of_it() {
    let mig = "[defaults]\nisolation = \"mig\"\n";
    let why = refusal("v1 iso=auto mem=60000", None, mig);
    assert!(why.starts_with("--gpu-mem=62.9GB (taken as --gpu-isolation=mig): "), "{why}");
    let why = refusal("v1 iso=mig typed=1 mem=60000", None, mig);
    assert!(why.starts_with("--gpu-isolation=mig --gpu-mem=62.9GB: "), "{why}");
}

#[test]
fn limits_of_the_partition_hold() {
    let limit = "[[limits]]\npartition = \"debug\"\nisolation = [\"mps\"]\n";
    assert!(refusal("v1 iso=mig:2g.10gb", None, limit).contains("in partition debug"));
}

#[test]
fn auto_stays_within_the_limits_of_the_partition() {
    let limit = "[[limits]]\npartition = \"debug\"\nisolation = [\"mps\"]\n";
    match verdict("v1 iso=auto mem=2862", None, limit) {
        Ruling::Accepted { request, add, .. } => {
            assert_eq!((request.isolation, add), (Isolation::Mps, Some(("shard", 3))));
        }
        other => panic!("{other:?}"),
    }
}

/// A request that names no profile means the smallest that will do, and a limit binds that one too.
#[test]
fn limits_bind_an_instance_that_is_not_named() {
    let profiles = "[[limits]]\npartition = \"debug\"\nisolation = [\"mig:1g.5gb\", \"mps\"]\n";
    let memory = "[[limits]]\npartition = \"debug\"\nmax_mem = \"10G\"\n";
    let shards = |request: &str, limit: &str| match verdict(request, None, limit) {
        Ruling::Accepted { add, .. } => add,
        Ruling::Refused(why) => panic!("{request}: {why:?}"),
        Ruling::Untouched => None,
    };
    assert_eq!(shards("v1 iso=mig mem=4769", profiles), Some(("shard", 5)));
    assert_eq!(shards("v1 iso=mig threads=25", memory), Some(("shard", 10)));
    for (request, limit) in [
        ("v1 iso=mig mem=28610", profiles),
        ("v1 iso=mig threads=100", memory),
        ("v1 iso=mig times=7g:60", memory),
    ] {
        let said = refusal(request, None, limit);
        assert!(said.contains("limits of the site leave this job no such instance; ask for less"), "{said}");
    }
}

#[test]
fn a_limit_holds_once_however_many_partitions_a_job_names() {
    let config = site(
        "[[limits]]\naccount = \"lab\"\nmax_mem = \"10G\"\n[[limits]]\npartition = \"b\"\nmax_gpus = 1\n",
    );
    let partitions = ('a'..='z').map(String::from).collect();
    let job = Submission { account: Some("lab".to_owned()), partitions, ..Submission::default() };
    assert_eq!(limits_of(&job, &config).iter().map(|limit| limit.number).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_crafted_request_is_refused_not_believed() {
    for text in ["", "v2 iso=mig", "v1 iso=mig mem=-1", "v1 iso=mig inst=99999999999", "v1 iso=../../x"] {
        assert!(matches!(verdict(text, None, ""), Ruling::Refused(_)), "{text}");
    }
}

#[test]
fn an_exclusive_job_gets_whole_gpus_or_a_reason() {
    let verdict = |text: &str| {
        let request = Some(text.to_owned());
        judge(&Submission { request, exclusive: true, ..Submission::default() }, Some(&site("")))
    };
    match verdict("v1 iso=auto mem=3815") {
        Ruling::Accepted { request, add, .. } => {
            assert_eq!((request.isolation, add), (Isolation::Whole, Some(("gpu", 1))));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(verdict("v1 iso=whole"), Ruling::Accepted { .. }));
    // It has ranks on all of a node's GPUs, however few it counts.
    let job = Submission {
        request: Some("v1 iso=whole pattern=edges:0-1,1-7".to_owned()),
        tres: Tres { per_node: Some("gres:gpu:2".to_owned()), ..Tres::default() },
        exclusive: true,
        ..Submission::default()
    };
    let got = judge(&job, Some(&site("")));
    assert!(matches!(got, Ruling::Accepted { add: None, .. }), "{got:?}");
    for text in ["v1 iso=mig:1g.5gb", "v1 iso=mps mem=100", "v1 iso=auto mem=3815 inst=2"] {
        match verdict(text) {
            Ruling::Refused(why) => assert!(why.text.contains("--exclusive"), "{why}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn without_configuration_a_request_is_refused() {
    let job = Submission { request: Some("v1 iso=whole".to_owned()), ..Submission::default() };
    assert!(matches!(judge(&job, None), Ruling::Refused(why) if why.text.contains("tessera.toml")));
}

#[test]
fn nodes_out_of_reach_do_not_count() {
    let only = |name: &str| Some([name.to_owned()].into_iter().collect());
    let job = Submission {
        request: Some("v1 iso=whole".to_owned()),
        required_nodes: only("cpu1"),
        ..Submission::default()
    };
    assert!(matches!(judge(&job, Some(&site(""))), Ruling::Refused(_)));
    let job = Submission { required_nodes: only("n2"), ..job };
    assert!(matches!(judge(&job, Some(&site(""))), Ruling::Accepted { .. }));
}

#[test]
fn whole_gpus_asked_with_instances_are_told_of_the_option_for_several() {
    let told = |tres: Tres| {
        let request = Some("v1 iso=mig mem=4769 typed=1".to_owned());
        let job = Submission { request, tres, ..Submission::default() };
        match judge(&job, Some(&site(""))) {
            Ruling::Refused(why) => why.text,
            other => panic!("{other:?}"),
        }
    };
    let per_node = |list: &str| told(Tres { per_node: Some(list.to_owned()), ..Tres::default() });
    let two = per_node("gres:gpu:2");
    assert!(two.contains("leave it out, for 2 instances use --gpu-instances=2 instead, or use"), "{two}");
    let per_task = told(Tres { per_task: Some("gres:gpu:2".to_owned()), ..Tres::default() });
    for other in [per_node("gres:gpu:1"), per_task] {
        assert!(other.contains("leave it out, or use --gpu-isolation=whole"), "{other}");
    }
}

/// Gives the answer to a job without a request of ours, in a partition where whole GPUs are not allowed, of an account that
/// may have 20 GB.
fn plain(change: impl FnOnce(&mut Submission)) -> Option<String> {
    let limits = "[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\n\
                  [[limits]]\naccount = \"lab\"\nmax_mem = \"20G\"\n";
    let mut job = Submission { partitions: vec!["gpu".to_owned()], ..Submission::default() };
    change(&mut job);
    match judge(&job, Some(&site(limits))) {
        Ruling::Refused(why) => Some(why.text),
        Ruling::Untouched => None,
        other @ Ruling::Accepted { .. } => panic!("{other:?}"),
    }
}

#[test]
fn limits_bind_every_way_to_a_gpu() {
    let list = |text: &str| Some(text.to_owned());
    let whole = "asks for whole GPUs: --gpu-isolation=whole is not allowed in partition gpu: use mig, mps";
    assert_eq!(plain(|job| job.tres.per_node = list("gres:gpu:1")), Some(format!("--gres=gpu:1 {whole}")));
    assert_eq!(plain(|job| job.tres.per_job = list("gres:gpu:1")), Some(format!("--gpus=1 {whole}")));
    assert!(plain(|job| job.tres.per_task = list("gres:gpu:1")).unwrap().starts_with("--gpus-per-task=1 "));
    assert!(plain(|job| job.tres.per_socket = list("gres/gpu=1")).is_some());
    let exclusive = plain(|job| job.exclusive = true).unwrap();
    assert!(
        exclusive.starts_with("an exclusive job gets every GPU of its nodes as a whole: "),
        "{exclusive}"
    );
    let none = |job: &mut Submission| {
        job.request = list("v1 iso=none typed=1");
        job.tres.per_node = list("gres:gpu:1");
    };
    assert_eq!(plain(none), Some(format!("--gres=gpu:1 {whole}")));
    // A share of 30 GB, for who may have 20; a whole GPU has 40.
    let of_lab = |job: &mut Submission| {
        job.account = list("lab");
        job.partitions = vec!["debug".to_owned()];
    };
    let shards = |n: u32| {
        plain(|job| {
            of_lab(job);
            job.tres.per_node = Some(format!("gres:shard:{n}"));
        })
    };
    assert_eq!(
        shards(30).unwrap(),
        "--gres=shard:30 asks for an MPS share: --gpu-mem=30.0 GB is too much for account lab: at most 20.0 GB"
    );
    assert_eq!(shards(20), None);
    let capitals = plain(|job| {
        of_lab(job);
        job.account = list("LAB");
        job.tres.per_node = list("gres:shard:30");
    });
    assert!(capitals.is_some(), "Slurm makes the account `lab` of it, after this");
    let gpu = plain(|job| {
        of_lab(job);
        job.tres.per_node = list("gres:gpu:1");
    });
    assert_eq!(
        gpu.unwrap(),
        "--gres=gpu:1 asks for whole GPUs: a whole GPU (a100-40gb, 40.0 GB) is too much for account lab: at most 20.0 GB"
    );
    let by_tasks = plain(|job| job.tres.tasks_per_gpu = Some(2)).unwrap();
    assert_eq!(by_tasks, format!("--ntasks-per-gpu=2 {whole}"));
    // Who asks for no GPU, and whom no limit concerns, is left alone.
    assert_eq!(plain(|_| {}), None);
    assert_eq!(plain(|job| job.tres.per_node = list("gres:nic:1")), None);
    assert_eq!(plain(|job| job.tres.per_node = list("gres:gpu:0")), None);
    let elsewhere = |job: &mut Submission| {
        job.partitions = vec!["debug".to_owned()];
        job.tres.per_node = list("gres:gpu:8");
        job.exclusive = true;
    };
    assert_eq!(plain(elsewhere), None);
}

#[test]
fn auto_and_moldable_jobs_stay_within_limits() {
    let limit = "[[limits]]\npartition = \"debug\"\nmax_mem = \"20G\"\n";
    let meant = |request: &str, limit: &str| match verdict(request, None, limit) {
        Ruling::Accepted { request, .. } => encode_request(&request),
        other => panic!("{request}: {other:?}"),
    };
    // Never a whole GPU of 40 GB, nor the sizes above 20.
    assert_eq!(meant("v1 iso=auto mem=9537", limit), "v1 iso=mig mem=9537");
    let sizes = "v1 iso=mig times=1g:60,3g:20,7g:10";
    assert_eq!(meant(sizes, limit), "v1 iso=mig times=1g:60,3g:20");
    let by_name = limit.replace("max_mem = \"20G\"", "isolation = [\"mig:3g.20gb\"]");
    assert_eq!(meant(sizes, &by_name), "v1 iso=mig times=3g:20");
    assert_eq!(meant(sizes, &limit.replace("max_mem = \"20G\"", "max_slices = 2")), "v1 iso=mig times=1g:60");
    assert!(refusal("v1 iso=whole typed=1", Some("gres:gpu:1"), limit).contains("a whole GPU (a100-40gb"));
    // The limit is named, not that no such instance is left.
    let slices = limit.replace("max_mem = \"20G\"", "max_slices = 3");
    assert!(refusal("v1 iso=mig threads=100", None, &slices).contains("it needs 7 slices"));
}

#[test]
fn shards_are_counted_per_node_or_not_at_all() {
    let said = |change: &dyn Fn(&mut Submission)| {
        let nodes = Arc::new([String::from("n1")].into());
        let mut job = Submission { partition_nodes: Some(nodes), ..Submission::default() };
        change(&mut job);
        match judge(&job, Some(&site(""))) {
            Ruling::Refused(why) => why.text,
            other => format!("{other:?}"),
        }
    };
    let list = |text: &str| Some(text.to_owned());
    let per_node = "a share is counted per node here: use --gres=shard:N";
    assert_eq!(
        said(&|job| job.tres.per_task = list("gres:shard:10")),
        format!("--tres-per-task=shard:10: {per_node}")
    );
    assert_eq!(
        said(&|job| job.tres.per_job = list("gres/shard:9")),
        format!("TresPerJob=shard:9: {per_node}")
    );
    assert!(said(&|job| job.tres.per_socket = list("gres:shard:9")).starts_with("TresPerSocket=shard:9: "));
    assert_eq!(said(&|job| job.tres.per_node = list("gres:shard:10")), "Untouched");
    let elsewhere = |job: &mut Submission| {
        job.tres.per_task = list("gres:shard:10");
        job.partition_nodes = Some(Arc::new(["n1", "x1"].map(str::to_owned).into()));
    };
    assert_eq!(said(&elsewhere), "Untouched", "of a node that we do not manage, Slurm says what it gives");
}

#[test]
fn shards_that_no_gpu_gives_are_refused_with_the_reason() {
    let said = |lines: &str, shards: u32, reached: &[&str]| {
        let text = format!("[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n{lines}");
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, [], "{text}");
        let job = Submission {
            tres: Tres { per_node: Some(format!("gres:shard:{shards}")), ..Tres::default() },
            partition_nodes: Some(Arc::new(reached.iter().map(|name| (*name).to_owned()).collect())),
            ..Submission::default()
        };
        match judge(&job, config.as_ref()) {
            Ruling::Refused(why) => Some(why.text),
            Ruling::Untouched => None,
            other @ Ruling::Accepted { .. } => panic!("{other:?}"),
        }
    };
    let whole = "gpu_use = { \"0-1\" = \"whole\" }\n";
    assert_eq!(
        said(whole, 10, &["n1"]).unwrap(),
        "--gres=shard:10 asks for a share, and no GPU that this job may use could ever give it: the node's a100-40gb are for \
         whole jobs only (gpu_use); use --gpu-isolation=whole"
    );
    let cut = "static = { \"0\" = [\"1g.5gb@0\"], \"1\" = [\"2g.10gb@0\"] }\n";
    assert!(said(cut, 20, &["n1"]).unwrap().contains("use --gpu-mem="));
    let aside =
        "[[nodes]]\nnames = \"n2\"\ngpu = \"a100-40gb\"\ncount = 2\ngpu_use = { \"0-1\" = \"whole\" }\n";
    assert!(said(&format!("{whole}{aside}"), 10, &["n1", "n2"]).is_some(), "both are Tessera's");
    for (lines, shards, reached) in [
        (cut, 10, &["n1"][..]),
        ("", 40, &["n1"]),
        // One GPU gives them, one is Slurm's, no GPU has so many, and a node that is not ours.
        ("gpu_use = { \"0\" = \"whole\" }\n", 10, &["n1"]),
        ("gpu_use = { \"0\" = \"whole\", \"1\" = \"slurm\" }\n", 10, &["n1"]),
        (whole, 50, &["n1"]),
        (whole, 10, &["n1", "other"]),
    ] {
        assert_eq!(said(lines, shards, reached), None, "{lines}");
    }
}

#[test]
fn each_refusal_has_its_kind_of_reason() {
    let reason = |request: &str, limits: &str| match verdict(request, None, limits) {
        Ruling::Refused(refusal) => refusal.reason,
        other => panic!("{request}: {other:?}"),
    };
    let limit = "[[limits]]\npartition = \"debug\"\nmax_mem = \"5G\"\n";
    assert_eq!(reason("v1 iso=mig:3g.20gb", limit), Reason::Limit);
    assert_eq!(reason("v1 iso=mig:4g.24gb", ""), Reason::Impossible);
    assert_eq!(reason("nonsense", ""), Reason::Options);
    let job = Submission { request: Some("v1 iso=whole gpus=1".to_owned()), ..Submission::default() };
    assert!(matches!(judge(&job, None), Ruling::Refused(why) if why.reason == Reason::Config));
}
