//! Tests of one job, one after the other, against a Slurm that is made of answers.

mod claims;
mod counts;
mod earlier;
mod fake;
mod further_gpus;
mod order;
mod power;
mod sick;

use decision_counts::decisions::Reason;
use protocol::{AdminComment, NodeWord, Said};
use std::collections::HashSet;

use geometry::{GpuIndex, JobId, Slice, Uid};
use protocol::wire::JobPlacement;
use protocol::{Grant, MigSpec};

use super::{Opinion, PendingTest};
use crate::effect::Effect;
use crate::engine::{Engine, Heard};
use crate::job_test::Look;
use crate::memory::{JobAddress, Memory};
use crate::slurm::{Ask, Test};
use crate::view::{GresKind, GresRequest, JobView};
use fake::Fake;

const USER: Uid = Uid(1000);
const JOB: JobId = JobId(9);
const RECORD: JobAddress = JobAddress(0x1000);

/// Nodes `n1` to `n3` with two GPUs for instances, `v1` and `v2` with the links of a DGX-1V.
fn memory() -> Memory {
    let text = "[defaults]\ngpu_wait = \"25GB/s,60s\"\n\
                [[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                [[nodes]]\nnames = \"v[1-2]\"\ngpu = \"a100-40gb\"\ncount = 8\ninterconnect = \"dgx-v\"\n";
    Memory::new(Engine::of_tests(text))
}

fn occupy(memory: &mut Memory, job: u32, name: &str, gpus: &[u16]) {
    let grant = Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect());
    let placement = JobPlacement { job: JobId(job), nodes: vec![(name.to_owned(), grant.into())] };
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
}

fn job(request: &str, kind: GresKind, per_node: u64) -> JobView {
    JobView {
        id: JOB,
        uid: USER,
        request: protocol::wire::parse_request(request).ok(),
        gres: vec![GresRequest { kind, per_node, per_socket: false }],
        now: 1000,
        ..JobView::of_tests()
    }
}

fn instance() -> JobView {
    job("v1 iso=mig:7g.40gb", GresKind::Shard, 40)
}

fn pair() -> JobView {
    job("v1 iso=whole bw=sensitive", GresKind::Gpu, 2)
}

fn case(ask: Ask, may_preempt: bool, view: &JobView) -> PendingTest {
    PendingTest::new(Test { ask, min_nodes: 1, may_preempt, record: RECORD }, view.clone())
}

/// Lists the nodes that Slurm is asked to leave out.
fn out(effects: Vec<Effect>) -> Vec<usize> {
    effects.into_iter().find_map(|e| if let Effect::RuleOut(out) = e { Some(out) } else { None }).unwrap()
}

/// Lists the nodes that Slurm is asked to leave out before its own test of a start now, which then fails.
fn left_out(memory: &mut Memory, slurm: &Fake, may_preempt: bool, view: &JobView) -> Vec<usize> {
    let mut case = case(Ask::RunNow, may_preempt, view);
    let effects = case.before(memory, slurm);
    assert_eq!(case.merely_waits(), (Opinion::AsSlurmSays, Vec::new()));
    let rest: Vec<&Effect> = effects.iter().filter(|effect| !matches!(effect, Effect::Comment(_))).collect();
    let [Effect::RuleOut(out)] = &rest[..] else { panic!("{effects:?}") };
    out.clone()
}

/// Message to a job for which the GPUs have no place.
fn waits_for(what: &str) -> Effect {
    Effect::Comment(format!("tessera: waits for slices: no place is free for {what}"))
}

/// Gives the effects of a success of Slurm's own test with the nodes of `chosen`.
fn succeeds(
    memory: &mut Memory,
    ask: Ask,
    view: &JobView,
    offered: &Fake,
    chosen: &Fake,
) -> (Opinion, Vec<Effect>) {
    let mut case = case(ask, true, view);
    case.before(memory, offered);
    let looks = case.look_after() != Look::No;
    let reads = chosen.reads.get();
    let after = case.after(memory, chosen);
    assert!(looks || chosen.reads.get() == reads, "{ask:?} looks at nodes, and would find none");
    after
}

/// The node that has GPUs may lack cores for days, or Slurm may need more nodes than the fewest: the job would be promised nothing.
#[test]
fn a_job_that_cannot_start_now_where_gpus_are_free_is_promised_a_busy_node_too() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    occupy(&mut memory, 2, "v1", &[0]);
    let slurm = Fake::with(&["n1", "n2", "v1"]);
    let both = job("v1 iso=whole", GresKind::Gpu, 2);
    let mut test = case(Ask::WillRun, false, &both);
    assert_eq!(out(test.before(&mut memory, &slurm)), [0], "n1 is busy and n2 is not");
    let all = Some(Effect::Offer(vec![0, 1, 2]));
    assert_eq!(test.widened(None, 1000), all, "Slurm finds no start on the others");
    assert_eq!(test.widened(Some(1001), 1000), all);
    assert_eq!(test.widened(Some(1000), 1000), None, "it starts now, or once the jobs in its way have gone");
    // None is left aside.
    for (ask, nodes) in [(Ask::WillRun, 2), (Ask::RunNow, 1), (Ask::TestOnly, 1)] {
        let mut test = PendingTest::new(
            Test { ask, min_nodes: nodes, may_preempt: false, record: RECORD },
            both.clone(),
        );
        let few = Fake { nodes: slurm.nodes[..2].to_vec(), ..slurm.clone() };
        test.before(&mut memory, &few);
        assert_eq!(test.widened(None, 1000), None, "{ask:?}");
    }
}

/// Of several QOS of a job, each has its own tests.
#[test]
fn what_was_tried_with_one_qos_is_not_tried_with_another() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.victims = vec![JobId(1)];
    let with = |qos: &str| JobView { qos: Some(qos.to_owned()), ..instance() };
    let mut tested = |qos: &str| left_out(&mut memory, &slurm, true, &with(qos));
    assert_eq!([tested("urgent"), tested("normal")], [[0], [0]], "n2 has room");
    assert_eq!([tested("urgent"), tested("normal")], [[0_usize; 0]; 2], "the end of job 1 would free n1");
}

#[test]
fn nodes_are_looked_at_after_a_test_only_where_they_count() {
    let gpus = Fake::with(&["n1", "n2"]);
    for ask in [Ask::RunNow, Ask::WillRun, Ask::TestOnly] {
        succeeds(&mut memory(), ask, &instance(), &gpus, &gpus);
    }
    let looks = |ask| {
        let case = case(ask, true, &instance());
        [case.look_before(), case.look_after()]
    };
    assert_eq!(looks(Ask::RunNow), [Look::Now, Look::Now]);
    assert_eq!(looks(Ask::WillRun), [Look::Lately, Look::Now]);
    assert_eq!(looks(Ask::TestOnly), [Look::Lately, Look::No]);
}

#[test]
fn nodes_that_preemption_could_free_are_offered_in_every_other_test() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    let slurm = Fake { victims: vec![JobId(1)], ..Fake::with(&["n1", "n2"]) };
    let mut out = || left_out(&mut memory, &slurm, true, &instance());
    assert_eq!([out(), out(), out(), out()], [vec![0], vec![], vec![0], vec![]]);
    // A start takes back the mark of its own test.
    let chosen = Fake::with(&["n2"]).choosing("n2", 1, 0b11);
    let (opinion, _) = succeeds(&mut memory, Ask::RunNow, &instance(), &slurm, &chosen);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    assert_eq!(left_out(&mut memory, &slurm, true, &instance()), [0]);
}

#[test]
fn a_plans_node_is_kept_to_in_every_other_test() {
    let mut memory = memory();
    let mut view = job("v1 iso=mig times=1g:60,2g:35", GresKind::Shard, 10);
    view.comment =
        AdminComment::parse("tessera: plan v1 size=2g.10gb place=n2:1@4 end=1790000035 until=2000");
    let slurm = Fake::with(&["n1", "n2", "n3"]);
    let mut out = |view: &JobView| {
        let mut case = case(Ask::RunNow, false, view);
        case.before(&mut memory, &slurm)
    };
    let kept = [Effect::Shards(10), Effect::RuleOut(vec![0, 2])];
    let free = [Effect::Shards(10), Effect::RuleOut(vec![])];
    assert_eq!([out(&view), out(&view), out(&view)], [kept.to_vec(), free.to_vec(), kept.to_vec()]);
    // A plan that no node here can carry out counts as none: then the shards are those of the size asked.
    view.comment = AdminComment::parse("tessera: plan v1 size=2g.12gb until=2000");
    assert_eq!(out(&view), [Effect::Shards(5), Effect::RuleOut(vec![])]);
}

/// Four instances of which two fit on a GPU: Slurm counts those of one GPU.
fn four_instances() -> JobView {
    job("v1 iso=mig:3g.20gb inst=4", GresKind::Shard, 40)
}

#[test]
fn slurm_looks_for_one_gpu_with_room_for_all_instances_in_every_other_test() {
    let mut memory = memory();
    let two = job("v1 iso=mig:3g.20gb inst=2", GresKind::Shard, 40);
    let slurm = Fake::with(&["n1", "n2"]);
    let mut per_gpu = |ask, view: &JobView| {
        let effects = case(ask, false, view).before(&mut memory, &slurm);
        effects.into_iter().find_map(|e| if let Effect::SearchShards(n) = e { Some(n) } else { None })
    };
    assert_eq!([per_gpu(Ask::RunNow, &two), per_gpu(Ask::RunNow, &two)], [Some(40), Some(20)]);
    assert_eq!(per_gpu(Ask::WillRun, &two), Some(20));
    assert_eq!(per_gpu(Ask::TestOnly, &two), None);
    // No GPU has room for four.
    assert_eq!(
        [per_gpu(Ask::RunNow, &four_instances()), per_gpu(Ask::RunNow, &four_instances())],
        [Some(20); 2]
    );
    assert_eq!(per_gpu(Ask::RunNow, &instance()), None, "a single one is found by what it asks");
}

#[test]
fn slurm_searches_for_the_instances_that_a_limit_leaves() {
    let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                [[limits]]\npartition = \"gpu\"\nisolation = [\"mig:2g.10gb\"]\n";
    let mut memory = Memory::new(Engine::of_tests(text));
    let slurm = Fake::with(&["n1"]);
    let two = |partition: &str| JobView {
        partition: Some(partition.to_owned()),
        ..job("v1 iso=mig mem=4769 inst=2", GresKind::Shard, 20)
    };
    let mut searched = |partition: &str| {
        let effects = case(Ask::WillRun, false, &two(partition)).before(&mut memory, &slurm);
        effects.into_iter().find_map(|e| if let Effect::SearchShards(n) = e { Some(n) } else { None })
    };
    // The same request counts for less where nothing keeps the job from the smallest instance.
    assert_eq!([searched("gpu"), searched("debug"), searched("gpu")], [Some(10), Some(5), Some(10)]);
}

#[test]
fn each_gpu_carries_the_same_number_of_a_jobs_instances_on_all_nodes() {
    let mut memory = memory();
    let counted = |memory: &mut Memory, view: &JobView, nodes: &[&str]| {
        let offered = Fake::with(nodes);
        let chosen = nodes.iter().fold(Fake::with(nodes), |fake, node| fake.choosing(node, 1, 0b11));
        let (opinion, effects) = succeeds(memory, Ask::RunNow, view, &offered, &chosen);
        let devices = effects.iter().filter_map(Effect::devices);
        let of = |d: &crate::effect::Devices| (d.devices.clone(), d.shards.unwrap());
        (opinion, devices.map(of).collect::<Vec<_>>())
    };
    let shards = |per_gpu, per_node, of_job| crate::effect::Counted { per_gpu, per_node, of_job };
    let (opinion, both) = counted(&mut memory, &four_instances(), &["n1"]);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    assert_eq!(both, [(vec![(0, 2), (1, 2)], shards(40, 80, 80))]);
    // On n2 one GPU is left with room for one instance: the job takes one per GPU there, and so on n1.
    let two = job("v1 iso=mig:3g.20gb inst=2", GresKind::Shard, 40);
    let spec = |gpu: u16| MigSpec { gpu: GpuIndex(gpu), profile: geometry::ProfileId(9), start: Slice(0) };
    for (id, gpu) in [(5, 0), (6, 1)] {
        let grant = Grant::Mig(vec![spec(gpu)]);
        let placement = JobPlacement { job: JobId(id), nodes: vec![("n2".to_owned(), grant.into())] };
        assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
    }
    let (opinion, both) = counted(&mut memory, &two, &["n1", "n2"]);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    let one_each = (vec![(0, 1), (1, 1)], shards(20, 40, 80));
    assert_eq!(both, [one_each.clone(), one_each]);
}

#[test]
fn nodes_with_the_gpus_that_a_job_waits_for_are_kept_to_in_every_other_test() {
    let mut memory = memory();
    // On v1 GPUs 0 and 6 are free, without a link between them.
    occupy(&mut memory, 1, "v1", &[1, 2, 3, 4, 5, 7]);
    let slurm = Fake::with(&["v1", "v2"]);
    let mut out = || left_out(&mut memory, &slurm, false, &pair());
    assert_eq!([out(), out(), out()], [vec![0], vec![], vec![0]]);
}

#[test]
fn a_start_on_poor_gpus_waits_and_says_so_once() {
    let mut memory = memory();
    occupy(&mut memory, 1, "v1", &[1, 2, 3, 4, 5, 7]);
    let slurm = Fake::with(&["v1"]).choosing("v1", 0b0100_0001, 0b0100_0001);
    let mut test = |view: &JobView, now: u64| {
        let slurm = Fake { now, ..slurm.clone() };
        succeeds(&mut memory, Ask::RunNow, &JobView { now, ..view.clone() }, &slurm, &slurm)
    };
    let mut view = pair();
    let (opinion, effects) = test(&view, 1000);
    assert_eq!(opinion, Opinion::Refused(Reason::BetterGpus));
    let [Effect::Devices(_), Effect::Comment(says), rest @ ..] = &effects[..] else { panic!("{effects:?}") };
    let held = [Effect::JobsChanged, Effect::Placement(None), Effect::Unallocate];
    assert_eq!(rest, held);
    view.comment = AdminComment::parse(says);
    let (opinion, effects) = test(&view, 1059);
    assert_eq!((opinion, &effects[1..]), (Opinion::Refused(Reason::BetterGpus), &held[..]));
    let (opinion, effects) = test(&view, 1060);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    let [
        _,
        Effect::Placement(Some(placement)),
        Effect::Why(Some(why)),
        Effect::Match(Some(_)),
        Effect::Slices(14),
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(placement, "v1 job=9;v1=whole:0,6");
    assert!(why.ends_with(", its wait for more than 25 GB/s is over"), "{why}");
    let pending = memory.pending.as_ref().unwrap();
    assert!(memory.has_decided(RECORD) && !memory.has_decided(JobAddress(1)), "{pending:?}");
}

#[test]
fn backfill_passes_a_waiting_job_over_and_anybody_else_is_told_when() {
    let mut memory = memory();
    occupy(&mut memory, 1, "v1", &[1, 2, 3, 4, 5, 7]);
    let slurm = Fake { start_time: 1000, ends: vec![(JobId(1), 9000)], ..Fake::with(&["v1"]) };
    let backfill = Fake { in_backfill: true, ..slurm.clone() };
    let mut test = |slurm: &Fake| succeeds(&mut memory, Ask::WillRun, &pair(), slurm, slurm);
    let (opinion, effects) = test(&backfill);
    assert_eq!((opinion, effects.len()), (Opinion::Refused(Reason::BetterGpus), 4), "{effects:?}");
    assert_eq!(test(&slurm), (Opinion::AsSlurmSays, vec![Effect::StartAt(1060)]));
    // A start that Slurm itself sees later is not one to refuse.
    let later = Fake { start_time: 1001, ..backfill };
    assert_eq!(test(&later), (Opinion::AsSlurmSays, vec![]));
}

#[test]
fn a_start_is_foretold_for_the_end_of_the_job_in_the_way() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    let slurm = Fake { start_time: 1000, ends: vec![(JobId(1), 5000)], ..Fake::with(&["n1"]) };
    let found = succeeds(&mut memory, Ask::WillRun, &instance(), &slurm, &slurm);
    assert_eq!(found, (Opinion::AsSlurmSays, vec![Effect::StartAt(5000)]));
    // It is not where Slurm means "once these are gone".
    let preempting = Fake { preempted: Some(HashSet::from([JobId(1)])), ..slurm };
    let found = succeeds(&mut memory, Ask::WillRun, &instance(), &preempting, &preempting);
    assert_eq!(found, (Opinion::AsSlurmSays, vec![]));
}

#[test]
fn the_jobs_whose_slices_are_in_the_way_go_first() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0]);
    occupy(&mut memory, 2, "n1", &[1]);
    let mut chosen = Fake::with(&["n1"]).choosing("n1", 1, 0b11);
    chosen.victims = vec![JobId(2), JobId(1)];
    chosen.preempted = Some(HashSet::new());
    let mut test = |slurm: &Fake| succeeds(&mut memory, Ask::RunNow, &instance(), slurm, slurm);
    assert_eq!(
        test(&chosen),
        (Opinion::AsSlurmSays, vec![Effect::Preempt(vec![JobId(2)]), Effect::Placement(None)])
    );
    chosen.victims.clear();
    assert_eq!(test(&chosen), (Opinion::Refused(Reason::NoRoom), Effect::refusal().to_vec()));
}

#[test]
fn slurms_list_is_cut_to_the_fewest_that_make_room() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0]);
    occupy(&mut memory, 2, "n1", &[1]);
    let mut chosen = Fake::with(&["n1"]).choosing("n1", 1, 0b11);
    chosen.victims = vec![JobId(1), JobId(3), JobId(2)];
    chosen.preempted = Some(HashSet::from([JobId(1), JobId(2), JobId(3)]));
    chosen.cores = vec![(JobId(1), 1), (JobId(2), 1), (JobId(3), 4)];
    let mut going = |slurm: &Fake| match &succeeds(&mut memory, Ask::RunNow, &instance(), slurm, slurm).1[..]
    {
        [Effect::Preempt(jobs), Effect::Placement(None)] => jobs.iter().map(|job| job.0).collect(),
        [Effect::Placement(None)] => vec![],
        other => panic!("{other:?}"),
    };
    assert_eq!(going(&chosen), [1]);
    // Slurm's own test may have put them into another order.
    let reordered = Fake { victims: vec![JobId(2), JobId(3), JobId(1)], ..chosen.clone() };
    assert_eq!(going(&reordered), [2]);
    // Somebody must give back the cores as well.
    assert_eq!(going(&Fake { lacks_cores: 4, ..chosen.clone() }), [1, 3]);
    // No more than Slurm's own list gives back.
    let few = Fake { lacks_cores: 4, preempted: Some(HashSet::from([JobId(2)])), ..chosen };
    assert_eq!(going(&few), [1]);
}

#[test]
fn nobody_is_preempted_for_gpus_that_the_job_would_let_pass() {
    let mut memory = memory();
    occupy(&mut memory, 1, "v1", &[0, 6]);
    occupy(&mut memory, 2, "v1", &[1, 2, 3, 4, 5, 7]);
    let mut chosen = Fake::with(&["v1"]).choosing("v1", 0b0100_0001, 0b0100_0001);
    chosen.victims = vec![JobId(1)];
    chosen.preempted = Some(HashSet::from([JobId(1)]));
    let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, &pair(), &chosen, &chosen);
    assert_eq!(opinion, Opinion::Refused(Reason::BetterGpus));
    assert!(
        matches!(
            &effects[..],
            [Effect::Preempt(_), Effect::Placement(None), Effect::Comment(_), Effect::JobsChanged, ..]
        ),
        "{effects:?}"
    );
}

#[test]
fn a_node_that_slurms_accounts_rule_out_is_not_asked_again_until_it_changes() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0]);
    // Slurm has only the full GPU for it.
    let chosen = Fake::with(&["n1"]).choosing("n1", 1, 1);
    let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, &instance(), &chosen, &chosen);
    assert_eq!((opinion, effects), (Opinion::Refused(Reason::NoRoom), Effect::refusal().to_vec()));
    assert_eq!(left_out(&mut memory, &chosen, false, &instance()), [0]);
    occupy(&mut memory, 2, "n1", &[1]);
    memory.engine.release(JobId(2));
    assert_eq!(left_out(&mut memory, &chosen, false, &instance()), [0; 0]);
}

#[test]
fn a_job_waits_for_nodes_that_have_not_registered() {
    let mut memory = memory();
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.nodes.iter_mut().for_each(|node| node.registered = false);
    let mut asked = |ask, min_nodes| {
        let mut case =
            PendingTest::new(Test { ask, min_nodes, may_preempt: false, record: RECORD }, instance());
        case.before(&mut memory, &slurm);
        case.merely_waits()
    };
    assert_eq!(asked(Ask::TestOnly, 1), (Opinion::Possible, vec![Effect::Offer(vec![0])]));
    assert_eq!(asked(Ask::TestOnly, 2), (Opinion::Possible, vec![Effect::Offer(vec![0, 1])]));
    assert_eq!(asked(Ask::TestOnly, 3), (Opinion::AsSlurmSays, vec![]));
    assert_eq!(asked(Ask::RunNow, 1), (Opinion::AsSlurmSays, vec![]));
}

#[test]
fn a_job_on_two_nodes_waits_for_the_one_that_has_not_registered() {
    let mut memory = memory();
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.nodes[1].registered = false;
    let mut asked = |min_nodes| {
        let test = Test { ask: Ask::TestOnly, min_nodes, may_preempt: false, record: RECORD };
        let mut case = PendingTest::new(test, instance());
        case.before(&mut memory, &slurm);
        case.merely_waits()
    };
    assert_eq!(asked(2), (Opinion::Possible, vec![Effect::Offer(vec![1, 0])]));
    assert_eq!(asked(3), (Opinion::AsSlurmSays, vec![]), "no third node");
    slurm.nodes[1].registered = true;
    let test = Test { ask: Ask::TestOnly, min_nodes: 2, may_preempt: false, record: RECORD };
    let mut case = PendingTest::new(test, instance());
    case.before(&mut memory, &slurm);
    assert_eq!(case.merely_waits(), (Opinion::AsSlurmSays, vec![]), "nobody has to register");
}

#[test]
fn an_exclusive_job_waits_for_nodes_that_have_not_registered() {
    let mut memory = memory();
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.nodes[0].registered = false;
    let view = JobView { exclusive: true, ..pair() };
    let mut effects = |ask| {
        let test = Test { ask, min_nodes: 1, may_preempt: false, record: RECORD };
        PendingTest::new(test, view.clone()).before(&mut memory, &slurm)
    };
    assert_eq!(effects(Ask::RunNow), [Effect::RuleOut(vec![0])]);
    assert_eq!(effects(Ask::TestOnly), []);
}

#[test]
fn no_job_with_gpus_starts_where_they_are_not_those_of_the_file() {
    let mut memory = memory();
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.nodes[0].unfit = true;
    let mut effects = |ask, view: &JobView| case(ask, false, view).before(&mut memory, &slurm);
    let out = [Effect::RuleOut(vec![0])];
    let plain = JobView { request: None, ..pair() };
    let shard = GresRequest { kind: GresKind::Shard, per_node: 1, per_socket: false };
    let mixture = JobView { gres: vec![plain.gres[0].clone(), shard], ..plain.clone() };
    let left_to_slurm = JobView { request: protocol::wire::parse_request("v1 iso=none").ok(), ..pair() };
    let exclusive = JobView { exclusive: true, ..plain.clone() };
    // Without `--gres` as well it gets all GPUs of its nodes.
    let bare = JobView { gres: Vec::new(), ..exclusive.clone() };
    for view in [&instance(), &plain, &mixture, &left_to_slurm, &exclusive, &bare] {
        assert_eq!(effects(Ask::RunNow, view), out, "{view:?}");
        assert_eq!(effects(Ask::WillRun, view), out, "{view:?}");
    }
    // It may be mended: no job is told that it can never run. One without GPUs has nothing to do with it.
    for view in [&mixture, &exclusive, &bare] {
        assert_eq!(effects(Ask::TestOnly, view), []);
    }
    let without = JobView { gres: Vec::new(), ..plain };
    assert_eq!(effects(Ask::RunNow, &without), []);
}

#[test]
fn a_placement_and_slices_of_before_go_where_nothing_is_wanted() {
    let mut memory = memory();
    let slurm = Fake::with(&["n1"]);
    let view = JobView { gres: Vec::new(), ..instance() };
    let found = succeeds(&mut memory, Ask::RunNow, &view, &slurm, &slurm);
    assert_eq!(found, (Opinion::AsSlurmSays, vec![Effect::Placement(None), Effect::Slices(0)]));
    assert_eq!(slurm.reads.get(), 1, "the candidates, for the words of their nodes");
    let found = succeeds(&mut memory, Ask::WillRun, &view, &slurm, &slurm);
    assert_eq!(found, (Opinion::AsSlurmSays, vec![]));
}

#[test]
fn nodes_are_read_once_before_and_once_after() {
    let mut memory = memory();
    let slurm = Fake::with(&["n1", "n2"]).choosing("n1", 1, 0b11).choosing("n2", 1, 0b11);
    let mut view = job("v1 iso=mig times=1g:60,2g:35", GresKind::Shard, 10);
    view.comment =
        AdminComment::parse("tessera: plan v1 size=2g.10gb place=n2:1@4 end=1790000035 until=2000");
    let (opinion, _) = succeeds(&mut memory, Ask::RunNow, &view, &slurm, &slurm);
    assert_eq!((opinion, slurm.reads.get()), (Opinion::AsSlurmSays, 2));
}

#[test]
fn of_two_nodes_the_one_with_less_bandwidth_says_why() {
    let mut memory = memory();
    occupy(&mut memory, 1, "v2", &[1, 2, 3, 4, 5, 7]);
    let view = JobView {
        request: protocol::wire::parse_request("v1 iso=whole bw=sensitive wait=none").ok(),
        ..pair()
    };
    let slurm = Fake::with(&["v1", "v2"]).choosing("v1", 0b11, 0xff).choosing("v2", 0b0100_0001, 0b0100_0001);
    let (_, effects) = succeeds(&mut memory, Ask::RunNow, &view, &slurm, &slurm);
    let [.., Effect::Why(Some(why)), Effect::Match(_), Effect::Slices(28)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(why.starts_with("v2: "), "{why}");
}

#[test]
fn a_job_that_a_new_limit_forbids_waits_and_says_why() {
    let text = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                [[limits]]\naccount = \"lab\"\nisolation = [\"mps\"]\n";
    let mut memory = Memory::new(Engine::of_tests(text));
    let slurm = Fake::with(&["n1", "n2"]);
    let of = |account: &str, comment: &str| JobView {
        account: Some(account.to_owned()),
        comment: AdminComment::parse(comment),
        ..instance()
    };
    let mut before = |ask, view: &JobView| case(ask, false, view).before(&mut memory, &slurm);
    let said = "tessera: cannot start: --gpu-isolation=mig:7g.40gb is not allowed for account lab: use mps";
    let out = Effect::RuleOut(vec![0, 1]);
    for ask in [Ask::RunNow, Ask::WillRun] {
        assert_eq!(before(ask, &of("lab", "")), [Effect::Comment(said.to_owned()), out.clone()]);
        assert_eq!(before(ask, &of("lab", said)), std::slice::from_ref(&out), "it is said once");
        assert_eq!(before(ask, &of("lab", "benchmark of June")), std::slice::from_ref(&out));
        // The limit is gone, or the job's account is another one now.
        assert_eq!(
            before(ask, &of("art", said)),
            [Effect::Comment(String::new()), Effect::RuleOut(Vec::new())]
        );
    }
    // Slurm's question whether the job could ever run is not about limits: it must not be held for good.
    assert_eq!(before(Ask::TestOnly, &of("lab", "")), [Effect::RuleOut(Vec::new())]);
    let plain = JobView { request: None, ..of("lab", "") };
    let plain = JobView { gres: pair().gres, ..plain };
    let effects = before(Ask::RunNow, &plain);
    assert!(matches!(&effects[0], Effect::Comment(why) if why.contains("--gres=gpu:2 asks for whole GPUs")));
}

/// Slurm gives a job that could never run priority 0, and only an administrator brings it back.
#[test]
fn a_job_whose_instance_a_new_limit_takes_away_waits_and_says_why() {
    let text = |limits: &str| {
        format!("[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n{limits}")
    };
    let limits = "[[limits]]\npartition = \"gpu\"\nisolation = [\"mig:1g.5gb\"]\n";
    let before = |limits: &str, ask, request: &str| {
        let mut memory = Memory::new(Engine::of_tests(&text(limits)));
        let view = JobView { partition: Some("gpu".to_owned()), ..job(request, GresKind::Shard, 20) };
        case(ask, false, &view).before(&mut memory, &Fake::with(&["n1", "n2"]))
    };
    let large = "v1 iso=mig mem=19073";
    assert_eq!(before(limits, Ask::TestOnly, large), [Effect::RuleOut(Vec::new())]);
    for ask in [Ask::RunNow, Ask::WillRun] {
        let said = "tessera: cannot start: --gpu-mem=20.0GB (taken as --gpu-isolation=mig): no instance that would do is allowed in \
                    partition gpu (line 6 of tessera.toml)";
        let effects = before(limits, ask, large);
        assert_eq!(effects, [Effect::Comment(said.to_owned()), Effect::RuleOut(vec![0, 1])]);
    }
    assert_eq!(before(limits, Ask::RunNow, "v1 iso=mig mem=4000"), [Effect::RuleOut(Vec::new())]);
    // No limit takes away what no node has.
    let huge = "v1 iso=mig mem=190730";
    for limits in ["", limits] {
        assert_eq!(before(limits, Ask::TestOnly, huge), [Effect::RuleOut(vec![0, 1])]);
        assert_eq!(before(limits, Ask::RunNow, huge), [Effect::RuleOut(vec![0, 1])]);
    }
    // A job of two nodes is served by one as little as by none.
    let mixed = text("[[limits]]\npartition = \"gpu\"\nisolation = [\"mig:4g.40gb\"]\n")
        .replace("names = \"n[1-2]\"", "names = \"n1\"")
        + "[[nodes]]\nnames = \"n2\"\ngpu = \"a100-80gb\"\ncount = 2\nmig = \"dynamic\"\n";
    let said = |min_nodes| {
        let mut memory = Memory::new(Engine::of_tests(&mixed));
        let view = JobView { partition: Some("gpu".to_owned()), ..job(large, GresKind::Shard, 20) };
        let test = Test { ask: Ask::RunNow, min_nodes, may_preempt: false, record: RECORD };
        let effects = PendingTest::new(test, view).before(&mut memory, &Fake::with(&["n1", "n2"]));
        effects.iter().any(|e| matches!(e, Effect::Comment(why) if why.contains("no instance that would do")))
    };
    assert_eq!([said(1), said(2)], [false, true]);
    let whole = limits.replace("mig:1g.5gb", "whole");
    assert_eq!(before(&whole, Ask::TestOnly, "v1 iso=auto mem=19073"), [Effect::RuleOut(Vec::new())]);
}

#[test]
fn what_slurm_gives_on_nodes_of_its_own_counts_in_the_test_as_well() {
    let (gpu, shard) = (GresKind::Gpu, GresKind::Shard);
    let counted = |view: &JobView, slurm: &Fake| {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[nodes]]\nnames = \"s1\"\ngpu = \"a100-40gb\"\ncount = 2\n\
                    gpu_use = { \"0-1\" = \"slurm\" }\n";
        let mut memory = Memory::new(Engine::of_tests(text));
        let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, view, slurm, slurm);
        assert_eq!(opinion, Opinion::AsSlurmSays, "{effects:?}");
        effects.into_iter().find_map(|e| if let Effect::Slices(n) = e { Some(n) } else { None })
    };
    let plain = |kind, per_node| JobView { request: None, ..job("", kind, per_node) };
    // Nobody has described x1.
    assert_eq!(counted(&plain(gpu, 8), &Fake::with(&["x1"]).choosing("x1", 0xff, 0xff)), Some(56));
    let both = Fake::with(&["n1", "x1"]).choosing("n1", 1, 0b11).choosing("x1", 1, 0xff);
    assert_eq!(counted(&plain(gpu, 1), &both), Some(14));
    let mut shards = Fake::with(&["s1"]).choosing("s1", 1, 0b11);
    shards.choices[0].entries[0].amount = 20;
    assert_eq!(counted(&plain(shard, 20), &shards), Some(4), "half of a GPU that is Slurm's");
    let all = JobView { exclusive: true, gres: Vec::new(), ..plain(gpu, 1) };
    let x1 = Fake { gpus: vec![("x1".to_owned(), 8)], ..Fake::with(&["x1", "cpu"]) };
    assert_eq!(counted(&all, &x1), Some(56));
    assert_eq!(counted(&all, &Fake::with(&["n1"])), Some(14));
}

#[test]
fn shards_that_are_not_counted_per_node_are_given_on_no_node_of_ours() {
    let mut memory = memory();
    let view = JobView { request: None, ..job("", GresKind::Shard, 0) };
    let before = |memory: &mut Memory, nodes: &[&str]| {
        case(Ask::RunNow, false, &view).before(memory, &Fake::with(nodes))
    };
    let [Effect::Comment(said), Effect::RuleOut(out)] = &before(&mut memory, &["n1", "n2"])[..] else {
        panic!("it starts on less than it was promised");
    };
    assert!(said.contains("--gres=shard:N"), "{said}");
    assert_eq!(out, &[0, 1]);
    // Of a node that nobody has described, Slurm knows what it gives.
    let ruled_out = |effects: &[Effect]| -> Vec<usize> {
        let of = |effect: &Effect| if let Effect::RuleOut(out) = effect { out.clone() } else { Vec::new() };
        effects.iter().flat_map(of).collect()
    };
    let out = ruled_out(&before(&mut memory, &["n1", "x1"]));
    assert!(out.contains(&0) && !out.contains(&1), "{out:?}");
}

#[test]
fn no_job_gets_gpus_whole_by_shards_where_a_limit_forbids_it() {
    let starts = |limits: &str| {
        let text =
            format!("[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n{limits}");
        let mut memory = Memory::new(Engine::of_tests(&text));
        let view = JobView { partition: Some("gpu".to_owned()), ..job("", GresKind::Shard, 50) };
        let view = JobView { request: None, ..view };
        let slurm = Fake::with(&["n1"]).choosing("n1", 0b11, 0b11);
        succeeds(&mut memory, Ask::RunNow, &view, &slurm, &slurm)
    };
    assert_eq!(starts("").0, Opinion::AsSlurmSays);
    let (opinion, effects) = starts("[[limits]]\npartition = \"gpu\"\nisolation = [\"mps\"]\n");
    assert_eq!(opinion, Opinion::Refused(Reason::Limit), "{effects:?}");
    let [Effect::Comment(why), Effect::Placement(None), Effect::Unallocate] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(why.contains("--gpu-isolation=whole is not allowed in partition gpu"), "{why}");
}

#[test]
fn a_job_that_gpus_have_no_place_for_is_told_that_it_waits_for_slices() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    let told = |memory: &mut Memory, view: &JobView, node: &str| {
        let effects = case(Ask::RunNow, false, view).before(memory, &Fake::with(&[node]));
        effects.into_iter().find(|effect| matches!(effect, Effect::Comment(_)))
    };
    let first = told(&mut memory, &instance(), "n1");
    assert_eq!(first, Some(waits_for("an instance 7g.40gb")));
    let Some(Effect::Comment(text)) = first else { panic!("{first:?}") };
    let waits = JobView { comment: AdminComment::parse(&text), ..instance() };
    assert_eq!(told(&mut memory, &waits, "n1"), None, "it has been said");
    let room = told(&mut memory, &waits, "n2");
    assert_eq!(room, Some(Effect::Comment(String::new())), "from now on it waits for something else");
    assert_eq!(told(&mut memory, &instance(), "n2"), None);
    let foreign = JobView { comment: AdminComment::parse("benchmark of June"), ..instance() };
    assert_eq!(told(&mut memory, &foreign, "n1"), None, "somebody else's text stays");
}

/// Says of a node that its slurmd does not load Tessera.
fn silent(memory: &mut Memory, name: &str) {
    memory.engine.hear(name, Heard { word: None, started: 5, ..Heard::default() });
}

#[test]
fn a_job_of_ours_is_kept_off_silent_nodes_and_told_why() {
    let mut memory = memory();
    let mut slurm = Fake::with(&["n1", "n2"]);
    silent(&mut memory, "n1");
    let left_to_slurm = JobView { request: protocol::wire::parse_request("v1 iso=none").ok(), ..pair() };
    let plain = JobView { request: None, ..pair() };
    let exclusive = JobView { exclusive: true, ..pair() };
    let out = |effects: &[Effect]| {
        effects.iter().find_map(|e| if let Effect::RuleOut(out) = e { Some(out.clone()) } else { None })
    };
    for ask in [Ask::RunNow, Ask::WillRun] {
        let mut ruled_out = |view: &JobView| out(&case(ask, false, view).before(&mut memory, &slurm));
        for ours in [&instance(), &exclusive] {
            assert_eq!(ruled_out(ours), Some(vec![0]), "{ours:?}");
        }
        assert!(ruled_out(&pair()).is_some_and(|out| out.contains(&0)), "n2 has no GPUs that it waits for");
        // Slurm alone places these there.
        for slurms in [&left_to_slurm, &plain, &JobView { exclusive: true, ..plain.clone() }] {
            assert!(!ruled_out(slurms).unwrap_or_default().contains(&0), "{slurms:?}");
        }
    }
    // It may be mended: no job is told that it can never run.
    silent(&mut memory, "n2");
    let of_all = case(Ask::TestOnly, false, &instance()).before(&mut memory, &slurm);
    assert_eq!(out(&of_all), Some(Vec::new()));
    let mut waits = case(Ask::RunNow, false, &instance());
    let effects = waits.before(&mut memory, &slurm);
    assert_eq!(out(&effects), Some(vec![0, 1]));
    let said =
        effects.iter().find_map(|e| if let Effect::Comment(text) = e { Some(text.as_str()) } else { None });
    assert!(
        said.is_some_and(|s| s.starts_with("tessera: waits for a node: node n1 does not load")
            && s.contains("(1 node more)")),
        "{said:?}"
    );
    assert_eq!(waits.counts(false, Opinion::AsSlurmSays).unwrap().1, Err(Reason::Config));
    // One that insists on n2 is told of n2.
    memory.engine.hear(
        "n1",
        Heard { word: Some(NodeWord::Says(Said { started: 5, file: 1 })), started: 5, ..Heard::default() },
    );
    slurm.nodes[1].required = true;
    let effects = case(Ask::RunNow, false, &instance()).before(&mut memory, &slurm);
    let told =
        effects.iter().any(|e| matches!(e, Effect::Comment(text) if text.contains("node n2 does not load")));
    assert!(told, "{effects:?}");
}

#[test]
fn an_exclusive_job_is_told_which_nodes_it_waits_for() {
    let (mut memory, mut all_speak, slurm) = (memory(), memory(), Fake::with(&["n1", "n2"]));
    let mut view = JobView { exclusive: true, ..pair() };
    let told = |memory: &mut Memory, slurm: &Fake, view: &JobView| {
        case(Ask::RunNow, false, view).before(memory, slurm).into_iter().find_map(|effect| match effect {
            Effect::Comment(text) => Some(text),
            _ => None,
        })
    };
    silent(&mut memory, "n1");
    assert_eq!(told(&mut memory, &slurm, &view), None, "n2 serves it");
    silent(&mut memory, "n2");
    let said = told(&mut memory, &slurm, &view).unwrap_or_default();
    assert!(
        said.starts_with("tessera: waits for a node: node n1 does not load")
            && said.contains("(1 node more)")
    );
    view.comment = AdminComment::parse(&said);
    assert_eq!(told(&mut memory, &slurm, &view), None, "it is told once");
    let plain = JobView { request: None, comment: AdminComment::default(), ..view.clone() };
    assert_eq!(told(&mut memory, &slurm, &plain), None, "Slurm places it there");
    let without = JobView { exclusive: false, gres: Vec::new(), ..view.clone() };
    assert_eq!(told(&mut memory, &slurm, &without).as_deref(), Some(""), "it no longer gets GPUs");
    assert_eq!(told(&mut all_speak, &slurm, &view).as_deref(), Some(""), "the nodes load Tessera by now");
}

#[test]
fn slurms_choice_on_a_silent_node_is_no_placement_of_ours() {
    let mut memory = memory();
    let slurm = Fake::with(&["n1"]).choosing("n1", 0b1, 0b11);
    silent(&mut memory, "n1");
    let plain = JobView { request: None, ..pair() };
    let mut case = case(Ask::RunNow, false, &plain);
    case.before(&mut memory, &slurm);
    let (opinion, effects) = case.after(&mut memory, &slurm);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    assert!(
        !effects.iter().any(|e| matches!(e, Effect::Devices(_) | Effect::Placement(Some(_)))),
        "{effects:?}"
    );
}

/// A job has as many instances on each of its GPUs, on all nodes: n2 has room for two on each GPU, n1 for four on its only one.
#[test]
fn what_a_job_cannot_have_beside_another_node_is_no_lack_of_the_node() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[1]);
    let model = memory.engine.model_of("n2", GpuIndex(0)).unwrap();
    let profile = model.profile("4g.20gb").unwrap().id;
    let specs = [0, 1].map(|gpu| MigSpec { gpu: GpuIndex(gpu), profile, start: Slice(0) });
    let nodes = vec![("n2".to_owned(), Grant::Mig(specs.to_vec()).into())];
    assert_eq!(memory.engine.commit(USER, &JobPlacement { job: JobId(2), nodes }), Vec::<String>::new());
    let four = job("v1 iso=mig:1g.5gb inst=4", GresKind::Shard, 20);
    let two = Test { ask: Ask::RunNow, min_nodes: 2, may_preempt: false, record: RECORD };
    let mut test = PendingTest::new(two, four.clone());
    let slurm = Fake::with(&["n1", "n2"]).choosing("n1", 1, 0b11).choosing("n2", 1, 0b11);
    let out = test.before(&mut memory, &slurm);
    assert!(out.contains(&Effect::RuleOut(vec![])), "each has room: {out:?}");
    assert!(matches!(test.after(&mut memory, &slurm).0, Opinion::Refused(Reason::NoRoom)));
    let alone = case(Ask::RunNow, false, &four).before(&mut memory, &Fake::with(&["n1"]));
    assert!(alone.contains(&Effect::RuleOut(vec![])), "n1 has room for all four: {alone:?}");
}

/// Slurm takes the same two nodes again as long as nothing has changed, though n2 and n3 would do.
#[test]
fn a_node_that_does_not_go_with_the_others_is_left_out_of_every_other_test() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[1]);
    let model = memory.engine.model_of("n2", GpuIndex(0)).unwrap();
    let profile = model.profile("4g.20gb").unwrap().id;
    let specs =
        || Grant::Mig([0, 1].map(|gpu| MigSpec { gpu: GpuIndex(gpu), profile, start: Slice(0) }).to_vec());
    let nodes = ["n2", "n3"].map(|node| (node.to_owned(), specs().into())).to_vec();
    assert_eq!(memory.engine.commit(USER, &JobPlacement { job: JobId(2), nodes }), Vec::<String>::new());
    let four = job("v1 iso=mig:1g.5gb inst=4", GresKind::Shard, 20);
    let two = Test { ask: Ask::RunNow, min_nodes: 2, may_preempt: false, record: RECORD };
    let all = Fake::with(&["n1", "n2", "n3"]);
    let tested = |memory: &mut Memory, chosen: &[&str]| {
        let mut test = PendingTest::new(two, four.clone());
        let before = test.before(memory, &all);
        let mut slurm = all.clone();
        slurm.nodes.retain(|node| chosen.contains(&&*node.name));
        let slurm = chosen.iter().fold(slurm, |slurm, node| slurm.choosing(node, 1, 0b11));
        (out(before), test.after(memory, &slurm).0)
    };
    let foretold = |memory: &mut Memory, ask, offered: &Fake| {
        out(PendingTest::new(Test { ask, ..two }, four.clone()).before(memory, offered))
    };
    assert_eq!(tested(&mut memory, &["n1", "n2"]), (vec![], Opinion::Refused(Reason::NoRoom)));
    // Backfill starts a job only on the nodes that were foretold.
    for _ in 0..2 {
        assert_eq!(foretold(&mut memory, Ask::WillRun, &all), [0]);
        assert_eq!(foretold(&mut memory, Ask::TestOnly, &all), Vec::<usize>::new());
    }
    let few = Fake { nodes: all.nodes[..2].to_vec(), ..all.clone() };
    assert_eq!(foretold(&mut memory, Ask::WillRun, &few), Vec::<usize>::new(), "no others would do");
    let mut insists = all.clone();
    insists.nodes[0].required = true;
    assert_eq!(foretold(&mut memory, Ask::WillRun, &insists), Vec::<usize>::new(), "the job insists on it");
    assert_eq!(tested(&mut memory, &["n2", "n3"]), (vec![0], Opinion::AsSlurmSays));
    assert_eq!(tested(&mut memory, &["n1", "n2"]).0, Vec::<usize>::new(), "the others are tried again");
}
