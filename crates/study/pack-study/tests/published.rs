//! MFI and GRMU on a few jobs, worked out by hand from the text of the papers.
#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::Model;
use node_state::{Gpu, MigPolicy, Node, Policy};
use pack_study::stream::{Rule, StreamEvent, StreamJob, StreamNode, StreamSite, StreamSummary, simulate};
use protocol::{Grant, Isolation, Request};
use topology::HardwareGraph;

/// Makes a node with so many A100 of 40 GB.
fn site(gpus: usize) -> StreamSite {
    let gpu = Gpu::new(Model::find("a100-40gb").unwrap(), MigPolicy::Dynamic);
    let node = Node::new(vec![gpu; gpus], HardwareGraph::uniform(gpus, 1.0));
    let spec = StreamNode { name: "n1".to_owned(), node, cpus: 64, mem_mib: 1024 };
    StreamSite { nodes: vec![spec], policy: Policy::default() }
}

/// A job that asks for an instance, or for `whole` GPUs. Times in minutes.
fn job(ask: &str, submit: u64, run: u64) -> StreamJob {
    let request = match ask.strip_prefix("whole:") {
        Some(gpus) => Request { gpus: gpus.parse().ok(), ..Request::new(Isolation::Whole) },
        None => Request::new(Isolation::Mig(Some(ask.to_owned()))),
    };
    let (submit_ms, run_ms) = (submit * 60_000, run * 60_000);
    StreamJob { id: String::new(), submit_ms, run_ms, cpus: 1, mem_mib: 0, nodes: 1, request, plain: false }
}

/// Runs without a queue. For each start: the job, its GPU, and the slice at which its instance begins (0 for whole GPUs).
fn run(rule: &str, gpus: usize, jobs: &[StreamJob]) -> (StreamSummary, Vec<(usize, u16, u8)>) {
    let mut starts = Vec::new();
    let summary = simulate(&site(gpus), jobs, (Rule::named(rule).unwrap(), false, 0), &mut |event| {
        if let StreamEvent::Start { job, parts, .. } = event {
            starts.push(match &parts[0].1 {
                Grant::Mig(specs) => (*job, specs[0].gpu.0, specs[0].start.0),
                Grant::Whole(gpus) => (*job, gpus[0].0, 0),
                other => panic!("{other:?}"),
            });
        }
    });
    (summary, starts)
}

/// The score of a GPU adds, for each profile that is not larger than what is free, its size times its places that are not free.
/// An A100 has 1g (size 1, at 0 to 6), 1g.10gb (2, at 0, 2, 4, 6), 2g (2, at 0, 2, 4), 3g (4, at 0 and 4), 4g (4, at 0), 7g (8, at 0).
///
/// - Empty: 0. With 1g at 6: 1 + 2 + 0 + 4 + 0 = 7. At 0 it would be 1 + 2 + 2 + 4 + 4 = 13.
/// - Next 1g. Beside the first, at 4 or 5: 2 + 4 + 2 + 4 + 0 = 12, which is 5 more; on the empty GPU 7 more.
/// - Then 3g. Beside both, at 0: two units are left, 6 + 8 + 6 = 20, which is 8 more. On the empty GPU at 4:
///   3 + 4 + 2 + 4 + 0 = 13 more.
/// - Last 3g. The first GPU has no place left; on the other, 4 gives 13 and 0 gives 4 + 4 + 4 + 4 + 4 = 20.
#[test]
fn mfi_takes_the_place_at_which_the_score_grows_least() {
    let jobs = [job("1g.5gb", 0, 60), job("1g.5gb", 1, 60), job("3g.20gb", 2, 60), job("3g.20gb", 3, 60)];
    assert_eq!(run("mfi", 2, &jobs).1, [(0, 0, 6), (1, 0, 4), (2, 0, 0), (3, 1, 4)]);
}

/// Three of ten GPUs may be heavy: the fourth job for a whole GPU finds none, though seven are free.
#[test]
fn grmu_keeps_most_gpus_for_small_instances() {
    let whole: Vec<StreamJob> = (0..4).map(|at| job("whole:1", at, 60)).collect();
    assert_eq!(run("grmu", 10, &whole).0.accepted, 3);
    assert_eq!(run("first-fit", 10, &whole).0.accepted, 4);
    // An instance as large as a GPU is heavy, too.
    let full: Vec<StreamJob> = (0..4).map(|at| job("7g.40gb", at, 60)).collect();
    assert_eq!(run("grmu", 10, &full).0.accepted, 3);
    // Of four GPUs, one is heavy and three are light.
    let light: Vec<StreamJob> = (0..4).map(|at| job("4g.20gb", at, 60)).collect();
    assert_eq!(run("grmu", 4, &light).0.accepted, 3);
}

/// A GPU whose jobs have ended is nobody's again, so that a light GPU becomes a heavy one. Two of eight may be heavy.
#[test]
fn grmu_gives_empty_gpus_back_to_the_pool() {
    let mut jobs: Vec<StreamJob> = (0..6).map(|at| job("4g.20gb", at, 30 - at)).collect();
    jobs.extend([job("whole:2", 20, 60), job("whole:2", 40, 60)]);
    let (summary, starts) = run("grmu", 8, &jobs);
    assert_eq!(summary.accepted, 7, "two GPUs are heavy at 20, and no third and fourth at 40");
    assert_eq!(starts[6], (6, 6, 0));
    let later = [&jobs[..6], &[job("whole:2", 40, 60)]].concat();
    assert_eq!(run("grmu", 8, &later).1[6], (6, 0, 0), "the first GPUs, which were light");
}

/// Seven jobs fill a light GPU. Those that stay lie on slices 0 and 4, so that neither 3g nor 4g has a place. GRMU moves them
/// together, and the job starts; their time begins again.
#[test]
fn grmu_moves_small_instances_together_for_a_job_without_a_place() {
    let fill: Vec<StreamJob> = (0..7).map(|at| job("1g.5gb", at, 10)).collect();
    let at: Vec<u8> = run("most-placements", 1, &fill).1.into_iter().map(|(.., start)| start).collect();
    let stays = |job: usize| [0, 4].contains(&at[job]);
    let long = |(at, one): (usize, StreamJob)| StreamJob {
        run_ms: if stays(at) { 6_000_000 } else { one.run_ms },
        ..one
    };
    let mut jobs: Vec<StreamJob> = fill.into_iter().enumerate().map(long).collect();
    jobs.push(job("4g.20gb", 30, 10));
    assert_eq!(run("most-placements", 1, &jobs).0.accepted, 7);
    let (summary, starts) = run("grmu", 1, &jobs);
    assert_eq!(summary.accepted, 8);
    assert_eq!(*starts.last().unwrap(), (7, 0, 0));
    let moved = &starts[7..starts.len() - 1];
    assert_eq!(summary.moved, moved.len());
    assert!(
        !moved.is_empty() && moved.iter().all(|(job, _, start)| stays(*job) && *start >= 4),
        "{starts:?}"
    );
}

/// Two 3g share the first light GPU, a third has the second one. When one of the first two ends, two GPUs are half used: at
/// the next hour they become one.
#[test]
fn grmu_makes_one_gpu_of_two_that_are_half_used() {
    let mut jobs = vec![job("3g.20gb", 0, 10), job("3g.20gb", 1, 600), job("3g.20gb", 2, 600)];
    jobs.extend([job("1g.5gb", 30, 1), job("1g.5gb", 90, 1)]);
    let (summary, starts) = run("grmu", 4, &jobs);
    assert_eq!(starts[..3].iter().map(|(_, gpu, _)| *gpu).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(summary.moved, 1);
    let (job, gpu, _) = starts[4];
    assert!((job, gpu) == (2, 0) || (job, gpu) == (1, 1), "{starts:?}");
    assert_eq!(run("first-fit", 4, &jobs).0.moved, 0);
}
