//! The pure half as a whole: site, wants, nodes in; what to rule out and what to write, out.

use std::collections::HashSet;

use geometry::{GpuIndex, JobId, Uid};
use protocol::wire::JobPlacement;
use protocol::{Grant, NodeGrant};
use topology::GpuSet;

use crate::engine::{Engine, Question};
use crate::narrow::{Mode, Narrowed, first_fit, keep_to_plan, narrow};
use crate::place_on_node::{place, unmanaged};
use crate::view::{Allocated, ChosenView, EntryChoice, GresKind, GresRequest, JobView, NodeView, Want};

mod chosen_gpus;
mod ranks;
mod ways_to_ask;

const USER: Uid = Uid(1000);

fn engine() -> Engine {
    let text = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                interconnect = \"matrix\"\nmatrix = [[0, 20], [20, 0]]\n";
    let text = text.replace("interconnect = \"matrix\"\n", "");
    Engine::of_tests(&text)
}

fn want(request: Option<&str>, kind: GresKind, per_node: u64) -> Want {
    let job = JobView {
        uid: USER,
        request: request.and_then(|text| protocol::wire::parse_request(text).ok()),
        gres: vec![GresRequest { kind, per_node, per_socket: false }],
        ..JobView::of_tests()
    };
    job.want().unwrap()
}

fn mig(profile: &str) -> Want {
    want(Some(&format!("v1 iso=mig:{profile}")), GresKind::Shard, 40)
}

fn question(engine: &Engine, want: &Want) -> Question {
    engine.question(&JobView { id: JobId(9), uid: USER, ..JobView::of_tests() }, want)
}

fn node(index: usize, name: &str, config: usize) -> NodeView {
    NodeView {
        index,
        name: name.into(),
        slot: None,
        config,
        completing: false,
        registered: true,
        unfit: false,
        required: false,
    }
}

/// Gives `job` whole GPUs.
fn occupy(engine: &mut Engine, job: u32, name: &str, gpus: &[u16]) {
    let grant = Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect());
    let placement = JobPlacement { job: JobId(job), nodes: vec![(name.to_owned(), grant.into())] };
    assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
}

fn ruled_out(
    engine: &mut Engine,
    want: &Want,
    mode: Mode<'_>,
    min_nodes: u32,
    nodes: &[NodeView],
) -> Vec<usize> {
    let question = question(engine, want);
    let narrowed = narrow(engine, &question, want, mode, min_nodes, nodes);
    [narrowed.out, narrowed.aside].concat()
}

/// With `victims` to preempt: what goes, and whether some of it is only held back.
fn preempting(
    engine: &mut Engine,
    want: &Want,
    victims: &[u32],
    widen: bool,
    nodes: &[NodeView],
) -> Narrowed {
    let question = question(engine, want);
    let victims: HashSet<JobId> = victims.iter().map(|id| JobId(*id)).collect();
    narrow(engine, &question, want, Mode::Preempt { victims: &victims, widen }, 1, nodes)
}

/// A moldable job on nodes of which `n2` is named in its plan, and what becomes of its test.
fn planned(engine: &Engine, place: &str) -> (Want, Vec<usize>) {
    let view = JobView {
        uid: USER,
        request: protocol::wire::parse_request("v1 iso=mig times=1g:60,2g:35").ok(),
        gres: vec![GresRequest { kind: GresKind::Shard, per_node: 10, per_socket: false }],
        comment: protocol::AdminComment::parse(&format!(
            "tessera: plan v1 size=2g.10gb{place} end=1790000035 until=200"
        )),
        ..JobView::of_tests()
    };
    let want = view.want().unwrap();
    let nodes = [node(0, "n1", 7), node(1, "n2", 7), node(2, "n3", 7)];
    let out = keep_to_plan(engine, &question(engine, &want), 1, &nodes);
    (want, out)
}

fn placed_on(engine: &Engine, want: &Want, name: &str) -> (Grant, String) {
    let slurm = ChosenView { name: name.to_owned(), ..choice(&[0], &[0, 1]) };
    let placed = place(engine, question(engine, want), want, &slurm).unwrap().unwrap();
    (placed.grant, placed.why)
}

#[test]
fn a_planned_job_gets_its_place_and_the_reason_says_so() {
    let mut engine = engine();
    let (want, out) = planned(&engine, " place=n2:1@4");
    assert_eq!(out, [0, 2], "the other nodes");
    let at = |gpu: u16, start: u8| {
        let model = geometry::Model::find("a100-40gb").unwrap();
        let profile = model.profile("2g.10gb").unwrap().id;
        Grant::Mig(vec![protocol::MigSpec { gpu: GpuIndex(gpu), profile, start: geometry::Slice(start) }])
    };
    let (grant, why) = placed_on(&engine, &want, "n2");
    assert_eq!(grant, at(1, 4));
    assert_eq!(
        why,
        "2g.10gb chosen by the planner out of 1g, 2g; end expected 2026-09-21T14:13:55Z, at the planned place; 28 \
         of 108 SMs"
    );
    assert_ne!(placed_on(&engine, &want, "n1").0, at(1, 4), "a place is of one node");
    let taken = JobPlacement { job: JobId(1), nodes: vec![("n2".to_owned(), at(1, 4).into())] };
    engine.commit(USER, &taken);
    let (want, out) = planned(&engine, " place=n2:1@4");
    assert_eq!(out, [0; 0], "it does not wait for a place that is taken");
    let (grant, why) = placed_on(&engine, &want, "n2");
    assert!(grant != at(1, 4) && why.contains("the planned place 1@4 is not free"), "{why}");
    assert_eq!(planned(&engine, "").1, [0; 0]);
    assert_eq!(planned(&engine, " place=n9:1@4").1, [0_usize; 0], "a node that the job cannot use");
}

#[test]
fn the_shards_of_a_size_are_those_of_the_node_that_counts_fewest() {
    let mut engine = engine();
    let nodes = ["n1".to_owned(), "n3".to_owned()];
    let (want, _) = planned(&engine, "");
    let question = question(&engine, &want);
    assert_eq!(engine.shards(&want.request, &question, &nodes), Some(10));
    let unplanned = protocol::wire::parse_request("v1 iso=mig times=1g:60,2g:35").unwrap();
    assert_eq!(engine.shards(&unplanned, &question, &nodes), Some(5));
    assert_eq!(engine.shards(&unplanned, &question, &["elsewhere".to_owned()]), None);
}

#[test]
fn run_now_rules_out_what_is_full() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    let nodes = [node(0, "n1", 7), node(1, "n2", 7)];
    let out = ruled_out(&mut engine, &mig("7g.40gb"), Mode::RunNow, 1, &nodes);
    assert_eq!(out, [0]);
    assert_eq!(engine.release(JobId(1)), ["n1"]);
    let out = ruled_out(&mut engine, &mig("7g.40gb"), Mode::RunNow, 1, &nodes);
    assert_eq!(out, [0_usize; 0]);
}

#[test]
fn preemption_comes_after_the_nodes_that_are_free() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    occupy(&mut engine, 2, "n2", &[0, 1]);
    // The nodes need not be alike: Slurm's first pass is without preemption everywhere.
    let nodes = [node(0, "n1", 7), node(1, "n2", 7), node(2, "n3", 8)];
    let mut out = |victims: &[u32], widen, nodes: &[NodeView]| {
        let n = preempting(&mut engine, &mig("7g.40gb"), victims, widen, nodes);
        (n.out, n.held_back)
    };
    assert_eq!(out(&[1], false, &nodes), (vec![0, 1], true));
    // What did not help is widened, but never to a node whose jobs must stay.
    assert_eq!(out(&[1], true, &nodes), (vec![1], false));
    assert_eq!(out(&[1], false, &nodes[..2]), (vec![1], false));
    assert_eq!(out(&[], false, &nodes[..2]), (vec![0, 1], false));
    let insists = [NodeView { required: true, ..node(0, "n1", 7) }, node(2, "n3", 8)];
    assert_eq!(out(&[1], false, &insists), (vec![], false));
}

#[test]
fn no_job_starts_on_a_node_whose_devices_slurm_does_not_know_yet() {
    let mut engine = engine();
    let nodes = [NodeView { registered: false, ..node(0, "n1", 7) }, node(1, "n2", 7)];
    for want in [mig("1g.5gb"), mig("7g.40gb")] {
        let question = question(&engine, &want);
        let mut of = |mode, nodes: &[NodeView]| {
            let n = narrow(&mut engine, &question, &want, mode, 1, nodes);
            (n.out, n.unregistered)
        };
        assert_eq!(of(Mode::RunNow, &nodes), (vec![0], vec![0]));
        // It could serve the job, and must not be told otherwise.
        assert_eq!(of(Mode::TestOnly, &nodes[..1]), (vec![], vec![0]));
        let victims = HashSet::from([JobId(1)]);
        assert_eq!(of(Mode::Preempt { victims: &victims, widen: true }, &nodes), (vec![0], vec![0]));
    }
}

#[test]
fn only_jobs_that_are_in_the_way_are_preempted() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0]);
    occupy(&mut engine, 2, "n1", &[1]);
    let least = |want: &Want, going: &[u32], victims: &[u32]| {
        let ids = |list: &[u32]| list.iter().copied().map(JobId).collect::<Vec<_>>();
        let candidates: Vec<placement::Victim> = ids(victims)
            .into_iter()
            .map(|job| placement::Victim { job, has: placement::HostResources::default() })
            .collect();
        let nothing = placement::HostResources::default();
        engine.least_victims("n1", &question(&engine, want), &ids(going), &candidates, nothing)
    };
    let one = mig("7g.40gb");
    assert_eq!(least(&one, &[], &[7, 2, 1]), Some(vec![JobId(2)]));
    assert_eq!(least(&one, &[1], &[2]), Some(vec![]));
    assert_eq!(least(&one, &[], &[7]), None);
    let both = want(Some("v1 iso=whole gpus=2"), GresKind::Gpu, 2);
    assert_eq!(least(&both, &[], &[2, 1]), Some(vec![JobId(2), JobId(1)]));
    assert_eq!(least(&both, &[], &[1]), None);
}

#[test]
fn a_node_slurm_cannot_use_is_passed_over_until_it_changes() {
    let mut engine = engine();
    let want = mig("7g.40gb");
    let nodes = [node(0, "n1", 7), node(1, "n2", 7)];
    let refused = question(&engine, &want);
    engine.refused("n1", &refused);
    assert_eq!(ruled_out(&mut engine, &want, Mode::RunNow, 1, &nodes), [0]);
    assert_eq!(ruled_out(&mut engine, &want, Mode::TestOnly, 1, &nodes), [0_usize; 0]);
    occupy(&mut engine, 1, "n1", &[0]);
    assert_eq!(ruled_out(&mut engine, &want, Mode::RunNow, 1, &nodes), [0_usize; 0]);
}

#[test]
fn a_completing_node_is_not_free_now() {
    let mut engine = engine();
    let nodes = [NodeView { completing: true, ..node(0, "n1", 7) }];
    assert_eq!(ruled_out(&mut engine, &mig("1g.5gb"), Mode::RunNow, 1, &nodes), [0]);
    assert_eq!(ruled_out(&mut engine, &mig("1g.5gb"), Mode::WillRun, 1, &nodes), [0_usize; 0]);
}

#[test]
fn a_job_that_only_has_to_wait_passes_the_test() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    let nodes = [node(0, "n1", 7)];
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::TestOnly, 1, &nodes), [0_usize; 0]);
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::WillRun, 1, &nodes), [0_usize; 0]);
    assert_eq!(ruled_out(&mut engine, &mig("9g.90gb"), Mode::TestOnly, 1, &nodes), [0]);
}

#[test]
fn backfill_is_led_to_a_free_node_only_among_equals() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    let alike = [node(0, "n1", 7), node(1, "n2", 7)];
    let others = [node(0, "n1", 7), node(1, "n2", 8)];
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::WillRun, 1, &alike), [0]);
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::WillRun, 1, &others), [0_usize; 0]);
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::WillRun, 2, &alike), [0_usize; 0]);
}

#[test]
fn a_job_that_insists_on_a_busy_node_waits_for_it() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    let nodes = [NodeView { required: true, ..node(0, "n1", 7) }, node(1, "n2", 7)];
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::WillRun, 1, &nodes), [0_usize; 0]);
    assert_eq!(ruled_out(&mut engine, &mig("7g.40gb"), Mode::RunNow, 1, &nodes), [0]);
}

#[test]
fn nodes_without_tessera_serve_only_plain_requests() {
    let mut engine = engine();
    let nodes = [node(0, "other", 7)];
    let now = Mode::RunNow;
    assert_eq!(ruled_out(&mut engine, &mig("1g.5gb"), now, 1, &nodes), [0]);
    assert_eq!(ruled_out(&mut engine, &want(None, GresKind::Gpu, 1), now, 1, &nodes), [0_usize; 0]);
}

#[test]
fn a_start_moves_to_the_end_of_the_job_in_the_way() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0]);
    occupy(&mut engine, 2, "n1", &[1]);
    let ends = vec![(300, JobId(2)), (200, JobId(1))];
    let ask = |w: &Want, start| {
        let question = question(&engine, w);
        first_fit(engine.node("n1").unwrap(), &question, ends.clone(), start)
    };
    assert_eq!(ask(&mig("1g.5gb"), 100), Some(200));
    assert_eq!(ask(&want(None, GresKind::Gpu, 2), 100), Some(300));
    assert_eq!(ask(&mig("1g.5gb"), 250), None);
    assert_eq!(ask(&mig("9g.90gb"), 100), None);
}

fn choice(chosen: &[u16], available: &[u16]) -> ChosenView {
    let set = |list: &[u16]| list.iter().map(|g| GpuIndex(*g)).collect::<GpuSet>();
    let entry = EntryChoice { chosen: set(chosen), available: set(available), ..EntryChoice::default() };
    ChosenView { name: "n1".to_owned(), entries: vec![entry], near: GpuSet::from_bits(u64::MAX) }
}

#[test]
fn two_jobs_never_get_one_slice() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0]);
    // Slurm thinks both devices have room.
    let want = mig("7g.40gb");
    let placed = place(&engine, question(&engine, &want), &want, &choice(&[0], &[0, 1])).unwrap().unwrap();
    assert_eq!(placed.devices, [(1, 1)]);
    let veto = place(&engine, question(&engine, &want), &want, &choice(&[0], &[0])).unwrap();
    assert!(veto.is_err());
}

#[test]
fn what_slurm_gave_without_us_is_taken() {
    let mut engine = engine();
    let allocated = |kind, gpus: &[u16], amount| Allocated {
        node: "n1".to_owned(),
        kind,
        gpus: gpus.iter().map(|g| GpuIndex(*g)).collect(),
        amount,
    };
    let given = [allocated(GresKind::Gpu, &[0, 1], 2)];
    let placement = unmanaged(&engine, JobId(5), None, &given);
    assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
    let nodes = [node(0, "n1", 7)];
    assert_eq!(ruled_out(&mut engine, &mig("1g.5gb"), Mode::RunNow, 1, &nodes), [0]);
    // Two types, or a mixture of GRES, are several entries for one node.
    for second in [GresKind::Gpu, GresKind::Shard] {
        let both = [allocated(GresKind::Gpu, &[0], 1), allocated(second, &[1], 1)];
        let nodes = unmanaged(&engine, JobId(7), None, &both).nodes;
        assert!(
            matches!(&nodes[..], [(_, NodeGrant { grant: Grant::Whole(gpus), .. })] if gpus.len() == 2),
            "{nodes:?}"
        );
    }
    // A GPU the configuration does not have is no business of ours.
    let beyond = unmanaged(&engine, JobId(6), None, &[allocated(GresKind::Gpu, &[7], 1)]);
    assert_eq!(beyond.nodes, []);
    let shard = unmanaged(&engine, JobId(6), None, &[allocated(GresKind::Shard, &[1], 10)]);
    assert!(matches!(shard.nodes[0].1.grant, Grant::Mps { mem_mib: 9540, .. }), "{shard:?}");
}

#[test]
fn a_grant_that_no_longer_fits_blocks_its_gpu() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0]);
    let both = Grant::Whole(vec![GpuIndex(0), GpuIndex(1)]);
    let placement = JobPlacement { job: JobId(2), nodes: vec![("n1".to_owned(), both.into())] };
    assert_eq!(engine.commit(USER, &placement).len(), 1);
    assert!(engine.layout("n1").unwrap().contains("gpu0=whole[job1] gpu1=whole[job2]"));
    engine.release(JobId(2));
    assert!(engine.layout("n1").unwrap().contains("gpu1=free"));
}

#[test]
fn a_commit_replaces_what_the_job_had() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    occupy(&mut engine, 1, "n2", &[0]);
    assert!(engine.layout("n1").unwrap().contains("gpu0-1=free"));
    assert!(engine.holds(JobId(1)));
}

#[test]
fn a_node_that_is_left_to_slurm_is_not_managed_any_more() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n2", &[0]);
    engine.leave_unmanaged("n2");
    let nodes = [node(0, "n1", 7), node(1, "n2", 7)];
    // Nothing of Tessera's can be had there; jobs that ask for nothing of it get what Slurm gives.
    assert_eq!(ruled_out(&mut engine, &mig("2g.10gb"), Mode::RunNow, 1, &nodes), [1]);
    let plain = want(None, GresKind::Gpu, 2);
    assert_eq!(ruled_out(&mut engine, &plain, Mode::RunNow, 1, &nodes), [0; 0]);
    let chosen = ChosenView { name: "n2".to_owned(), ..choice(&[1], &[0, 1]) };
    assert_eq!(place(&engine, question(&engine, &plain), &plain, &chosen), None);
    assert!(engine.layout("n2").is_none() && engine.node_names().all(|n| n != "n2"));
    // Its jobs are still known, for the day it is described rightly again.
    assert!(engine.holds(JobId(1)) && engine.model_of("n2", GpuIndex(0)).is_some());
}

#[test]
fn all_shards_of_a_gpu_can_be_had_whatever_ecc_takes_of_its_memory() {
    for model in geometry::Model::all() {
        let text = format!("[[nodes]]\nnames = \"n1\"\ngpu = \"{}\"\ncount = 2\n", model.key);
        let (config, _) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let mut engine = Engine::new(config.unwrap());
        let all = want(None, GresKind::Shard, model.shards().into());
        let nodes = [node(0, "n1", 7)];
        for job in [1, 2] {
            assert_eq!(ruled_out(&mut engine, &all, Mode::RunNow, 1, &nodes), [0; 0], "{}", model.key);
            let placed = place(&engine, question(&engine, &all), &all, &choice(&[0], &[0, 1]));
            let grant = placed.unwrap().unwrap().grant;
            let placement = JobPlacement { job: JobId(job), nodes: vec![("n1".to_owned(), grant.into())] };
            assert_eq!(engine.commit(USER, &placement), Vec::<String>::new(), "{}", model.key);
        }
        assert_eq!(ruled_out(&mut engine, &all, Mode::RunNow, 1, &nodes), [0], "{}", model.key);
        assert_eq!(ruled_out(&mut engine, &all, Mode::TestOnly, 1, &nodes), [0; 0], "{}", model.key);
    }
}

#[test]
fn plain_shards_of_several_devices_need_them_empty_and_stay_slurms_choice() {
    let mut engine = engine();
    let shards = want(None, GresKind::Shard, 57);
    let nodes = [node(0, "n1", 7)];
    for mode in [Mode::RunNow, Mode::TestOnly, Mode::WillRun] {
        assert_eq!(
            ruled_out(&mut engine, &shards, mode, 1, &nodes),
            [0; 0],
            "no device has so many: Slurm's to say"
        );
    }
    let both = || ChosenView { name: "n1".to_owned(), ..choice(&[0, 1], &[0, 1]) };
    assert_eq!(place(&engine, question(&engine, &shards), &shards, &both()), None);
    let shares = Grant::Mps { on: protocol::ShareOn::Gpu(GpuIndex(1)), mem_mib: 100, threads: 1 };
    let placement = JobPlacement { job: JobId(3), nodes: vec![("n1".to_owned(), shares.into())] };
    assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
    assert!(matches!(place(&engine, question(&engine, &shards), &shards, &both()), Some(Err(_))));
}
