use geometry::{GpuIndex, JobId, Uid};
use protocol::wire::JobPlacement;
use protocol::{AdminComment, CommentBody, Grant, Turn};

use super::*;
use crate::view::{GresKind, GresRequest};

const USER: Uid = Uid(1000);

/// Two nodes with the links of a DGX-1V, and one without NVLink.
fn engine() -> Engine {
    let text = "[[partitions]]\nname = \"hurried\"\ngpu_wait = \"none\"\n[defaults]\ngpu_wait = \"25GB/s,60s\"\n\
                [[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 8\ninterconnect = \"dgx-v\"\n\
                [[nodes]]\nnames = \"slow\"\ngpu = \"a100-40gb\"\ncount = 8\n";
    Engine::of_tests(text)
}

fn occupy(engine: &mut Engine, job: u32, name: &str, gpus: &[u16]) {
    let grant = Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect());
    let placement = JobPlacement { job: JobId(job), nodes: vec![(name.to_owned(), grant.into())] };
    assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
}

fn job(request: Option<&str>, gpus: u64, comment: &str) -> JobView {
    JobView {
        uid: USER,
        request: request.and_then(|text| protocol::wire::parse_request(text).ok()),
        gres: vec![GresRequest { kind: GresKind::Gpu, per_node: gpus, per_socket: false }],
        comment: AdminComment::parse(comment),
        now: 1000,
        ..JobView::of_tests()
    }
}

fn asked(engine: &Engine, view: &JobView) -> (Question, Option<Patient>) {
    let question = engine.question(view, &view.want().unwrap());
    let patient = Patient::of(&question, view);
    (question, patient)
}

fn node(index: usize, name: &str) -> NodeView {
    NodeView {
        index,
        name: name.into(),
        slot: None,
        config: 7,
        completing: false,
        registered: true,
        unfit: false,
        required: false,
    }
}

#[test]
fn a_job_waits_by_its_own_threshold_or_the_sites() {
    let engine = engine();
    let waits = |view: &JobView| asked(&engine, view).1.map(|p| (p.wait.wire(), p.until));
    let site = Some(("25:60".to_owned(), None));
    assert_eq!(waits(&job(None, 2, "")), site);
    assert_eq!(waits(&job(Some("v1 iso=whole wait=40:5"), 2, "")), Some(("40:5".to_owned(), None)));
    assert_eq!(waits(&job(Some("v1 iso=whole wait=none"), 2, "")), None);
    assert_eq!(waits(&job(Some("v1 iso=whole bw=insensitive"), 2, "")), None);
    assert_eq!(waits(&job(None, 1, "")), None, "one GPU has no link");
    assert_eq!(waits(&job(None, 0, "")), None, "how many per node is not known");
    assert_eq!(waits(&JobView { partition: Some("hurried".to_owned()), ..job(None, 2, "") }), None);
    let comment = |until: u64| {
        AdminComment::from(CommentBody::Waits(
            SetWait::parse("25GB/s,60s").unwrap().begins(until, 10.0, "n1"),
        ))
        .to_string()
    };
    assert_eq!(waits(&job(None, 2, &comment(1001))), Some(("25:60".to_owned(), Some(1001))));
    assert_eq!(waits(&job(None, 2, &comment(1000))), None, "its time is over");
    assert_eq!(waits(&job(None, 2, "somebody's own")), None, "nowhere to keep it");
}

#[test]
fn nodes_with_good_gpus_come_before_others() {
    let mut engine = engine();
    // On n1 GPUs 0 and 6 are free, without a link between them; on n2 2 and 3, with two.
    occupy(&mut engine, 1, "n1", &[1, 2, 3, 4, 5, 7]);
    occupy(&mut engine, 2, "n2", &[0, 1, 4, 5, 6, 7]);
    let view = job(None, 2, "");
    let (question, patient) = asked(&engine, &view);
    let patient = patient.unwrap();
    let nodes = [node(0, "n1"), node(1, "n2"), node(2, "slow"), node(3, "unmanaged")];
    let split = patient.split(&mut engine, &question, &nodes);
    assert_eq!(split, Split { good: 2, poor: vec![0, 2], insists_on_poor: false });
    assert_eq!([1, 2, 3].map(|min_nodes| split.has_good(min_nodes)), [true, true, false]);
    let all: Vec<&str> = nodes.iter().map(|n| &*n.name).collect();
    assert_eq!(patient.poorest(&mut engine, &question, &nodes), Some(("n1", 10.0)), "{all:?}");
    assert_eq!(patient.poorest(&mut engine, &question, &nodes[1..2]), None);
    // A node in its epilog, or without room, is neither.
    let completing = NodeView { completing: true, ..node(1, "n2") };
    occupy(&mut engine, 3, "n1", &[0]);
    let split = patient.split(&mut engine, &question, &[node(0, "n1"), completing]);
    assert_eq!(split, Split::default());
    assert_eq!(patient.poorest(&mut engine, &question, &nodes[..1]), None, "it does not fit");
    // What ended is seen.
    engine.release(JobId(1));
    assert_eq!(patient.split(&mut engine, &question, &[node(0, "n1")]).good, 1);
}

#[test]
fn what_no_node_in_reach_could_give_is_not_waited_for() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[1, 2, 3, 4, 5, 7]);
    let view = job(None, 2, "");
    let (question, patient) = asked(&engine, &view);
    let mut turn = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        patient.unwrap().turn(10.0, engine.best_ever(&names, &question), &view)
    };
    assert_eq!(turn(&["n1", "slow"]), Turn::Wait { until: 1060, begins: true });
    assert_eq!(turn(&["slow"]), Turn::Take);
    assert_eq!(turn(&["unmanaged"]), Turn::Take);
}

#[test]
fn a_start_is_foretold_for_the_better_set_or_the_end_of_the_wait() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[1, 2, 4, 5, 7]);
    occupy(&mut engine, 2, "n1", &[3]);
    let view = job(None, 2, "");
    let (question, patient) = asked(&engine, &view);
    let node = engine.node("n1").unwrap();
    let patient = patient.unwrap();
    let within = |mut searches, patient: Patient, end_of_3, start| {
        let ends = vec![(9000, JobId(1)), (end_of_3, JobId(2))];
        patient.start(node, &question, ends, start, &mut searches)
    };
    let start = |patient, end_of_3, start| within(SEARCHES, patient, end_of_3, start);
    assert_eq!(within(2, patient, 1030, 1000), 1030, "one for now, one for each end");
    assert_eq!(
        [0, 1].map(|searches| within(searches, patient, 1030, 1000)),
        [1060; 2],
        "the end of the wait"
    );
    assert_eq!(start(patient, 1030, 1000), 1030, "0 and 3 have two links");
    assert_eq!(start(patient, 1060, 1000), 1060);
    assert_eq!(start(patient, 5000, 1000), 1060, "then it takes 0 and 6");
    assert_eq!(start(patient, 990, 1000), 1000, "gone by then");
    assert_eq!(start(Patient { until: Some(1010), ..patient }, 1030, 1000), 1010);
    assert_eq!(start(Patient { until: Some(1010), ..patient }, 5000, 2000), 2000);
}

#[test]
fn searches_of_one_test_are_bounded_and_go_on_in_the_next() {
    let text = "[defaults]\ngpu_wait = \"25GB/s,60s\"\n[[nodes]]\nnames = \"n[1-70]\"\ngpu = \"a100-40gb\"\ncount = 8\n\
                interconnect = \"dgx-v\"\n";
    let (config, _) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    let mut engine = Engine::new(config.unwrap());
    let view = job(None, 2, "");
    let (question, patient) = asked(&engine, &view);
    let nodes: Vec<NodeView> = (0..70).map(|i| node(i, &format!("n{}", i + 1))).collect();
    let mut good = || patient.unwrap().split(&mut engine, &question, &nodes).good;
    assert_eq!((good(), good()), (64, 70));
}

#[test]
fn good_gpus_elsewhere_do_not_help_a_job_that_insists_on_a_node() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[1, 2, 3, 4, 5, 7]);
    let (question, patient) = asked(&engine, &job(None, 2, ""));
    let mut nodes = [node(0, "n1"), node(1, "n2")];
    assert!(patient.unwrap().split(&mut engine, &question, &nodes).has_good(1));
    nodes[0].required = true;
    assert!(!patient.unwrap().split(&mut engine, &question, &nodes).has_good(1));
}

#[test]
fn nobody_is_preempted_for_gpus_that_the_job_would_let_pass() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 6]);
    occupy(&mut engine, 2, "n1", &[1, 2, 4, 5, 7]);
    occupy(&mut engine, 3, "n1", &[3]);
    let (question, patient) = asked(&engine, &job(None, 2, ""));
    let nodes = [node(0, "n1")];
    let without = |gone: &[u32]| {
        let gone = gone.iter().map(|id| JobId(*id)).collect();
        patient.unwrap().poorest_without(&engine, &question, &nodes, &gone)
    };
    assert_eq!(without(&[1]), Some(("n1", 10.0)));
    assert_eq!(without(&[1, 3]), None, "GPUs 0 and 3 have two links");
    assert_eq!(without(&[]), None, "there is no room for it yet");
}

#[test]
fn a_deadline_ends_the_wait_in_time_for_both_schedulers() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[1, 2, 3, 4, 5, 7]);
    let waits = |starts_by: u64| {
        let view = JobView { starts_by: Some(starts_by), ..job(None, 2, "") };
        let (question, patient) = asked(&engine, &view);
        let patient = patient?;
        let node = engine.node("n1").unwrap();
        Some((patient.turn(10.0, 50.0, &view), patient.start(node, &question, Vec::new(), 1000, &mut 9)))
    };
    let until = |until: u64| Some((Turn::Wait { until, begins: true }, i64::try_from(until).unwrap()));
    assert_eq!(waits(9000), until(1060));
    assert_eq!(waits(1150), until(1030));
    assert_eq!(waits(1120), None);
}
