//! Shapes of jobs, and the cost that a choice is expected to have.

use geometry::{GpuIndex, Uid};
use protocol::wire::parse_request;

use super::*;
use crate::view::{GresKind, GresRequest};

fn site() -> SiteConfig {
    let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 4\nmig = \"dynamic\"\n";
    let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    config.unwrap()
}

fn learnt() -> Learnt {
    Learnt::new(&site(), &[(0, 64), (1, 64)])
}

fn job(id: u32, request: Option<&str>, gres: Option<(GresKind, u64)>, cpus: u32) -> JobView {
    JobView {
        id: JobId(id),
        request: request.and_then(|text| parse_request(text).ok()),
        gres: gres
            .into_iter()
            .map(|(kind, per_node)| GresRequest { kind, per_node, per_socket: false })
            .collect(),
        ranked: true,
        cpus,
        ..JobView::of_tests()
    }
}

#[test]
fn shapes_are_those_of_one_node() {
    let learnt = learnt();
    let shape =
        |request, gres| learnt.shape(&job(1, request, gres, 8)).map(|s| (s.gpus, s.milli, s.models.has(0)));
    assert_eq!(shape(None, None), Some((0, 0, true)));
    assert_eq!(shape(None, Some((GresKind::Gpu, 2))), Some((2, 1000, true)));
    assert_eq!(shape(None, Some((GresKind::Gpu, 300))), None);
    let (gpus, milli, fits) = shape(Some("v1 iso=mps mem=10240"), Some((GresKind::Shard, 11))).unwrap();
    assert!(gpus == 1 && (250..260).contains(&milli) && fits, "{milli}");
    let (_, plain, _) = shape(None, Some((GresKind::Shard, 10))).unwrap();
    assert!((230..250).contains(&plain), "{plain}");
    assert_eq!(shape(Some("v1 iso=mig mem=10240"), Some((GresKind::Shard, 11))).map(|s| s.2), Some(false));
    assert_eq!(shape(Some("v1 iso=mps"), None), Some((0, 0, true)), "without GRES it is a job of cores");
}

#[test]
fn a_job_is_met_once_and_memory_is_bounded() {
    let mut learnt = learnt();
    let whole = |id| job(id, None, Some((GresKind::Gpu, 1)), 8);
    let mut meets = |id, partition, on: bool| learnt.meets(JobId(id), partition, |_| on);
    assert!(meets(7, 1, true) && !meets(7, 1, true) && !meets(7, 2, true));
    assert!(!meets(8, 1, false) && meets(8, 2, true), "its first partition has none of the site's nodes");
    (1..16).for_each(|id| learnt.arrived(&whole(id)));
    learnt.rebuilt();
    assert!(learnt.outlook.tables().is_none(), "fifteen requests are none to learn from");
    for id in 0..140_000 {
        let _new = learnt.meets(JobId(id), 1, |_| true);
        assert!(learnt.met.len() <= Learnt::MOST_MET);
    }
    assert!(!learnt.meets(JobId(139_999), 1, |_| true));
}

#[test]
fn a_gpu_whose_node_has_no_cores_left_for_the_usual_job_is_taken_first() {
    let mut learnt = learnt();
    let node = site_limits::node_of(&site().nodes[0]);
    let one = |learnt: &Learnt, at| learnt.expected(at, &node, Takes::Whole(1), 1).unwrap();
    learnt.cpus.begin(JobId(900), vec![(0, 62)]);
    assert_eq!([one(&learnt, 0), one(&learnt, 1)], [0, 0], "nothing is learnt");
    (1..=40).for_each(|id| learnt.arrived(&job(id, None, Some((GresKind::Gpu, 1)), 8)));
    learnt.rebuilt();
    // Of the GPUs of node 0, the usual job can use none: a job for one core loses nobody anything there.
    assert!(one(&learnt, 0) < one(&learnt, 1), "{} {}", one(&learnt, 0), one(&learnt, 1));
    learnt.cpus.end(JobId(900));
    assert_eq!(one(&learnt, 0), one(&learnt, 1));
    assert_eq!(learnt.expected(1, &node, Takes::Whole(1), 65), None, "more CPUs than there are");
    assert_eq!(learnt.expected(5, &node, Takes::Whole(1), 1), Some(0), "not one of the site's");
    assert_eq!(learnt.expected(0, &node, Takes::Else, 1), Some(0));
    assert_eq!(learnt.expected(0, &node, Takes::Share(99, 1000), 1), None);
}

#[test]
fn a_share_goes_where_the_usual_ones_fill_the_rest() {
    let mut learnt = learnt();
    let share =
        |id, gb| job(id, Some(&format!("v1 iso=mps mem={}", gb * 1024)), Some((GresKind::Shard, gb)), 1);
    // Halves and quarters of a GPU: beside a quarter, another quarter leaves room for a half.
    (1..=40).for_each(|id| learnt.arrived(&share(id, if id % 4 == 0 { 9 } else { 19 })));
    learnt.rebuilt();
    let beside = |mem_gb: u64| {
        let mut node = site_limits::node_of(&site().nodes[0]);
        let on = protocol::ShareOn::Gpu(GpuIndex(0));
        let grant = protocol::Grant::Mps { on, mem_mib: mem_gb * 1024, threads: 10 };
        node.apply(JobId(500), Uid(1000), &grant).unwrap();
        learnt.expected(0, &node, Takes::Share(0, 9 * 1024), 1).unwrap()
    };
    assert!(beside(9) < beside(19), "{} {}", beside(9), beside(19));
}
