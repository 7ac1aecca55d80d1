//! Claims of isolated jobs on devices of the pool of GPU tasks.

use geometry::{GpuIndex, JobId, Slice};
use protocol::{Grant, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};

use super::*;
use crate::effect::Layout;

/// Nodes with one A30 each, of which only instances can be had.
fn site() -> Memory {
    let text = "[tasks]\n[[nodes]]\nnames = \"a[1-2]\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"on\"\n";
    Memory::new(Engine::of_tests(text))
}

/// Gives a job one seat on each of these `1g.6gb`, by their starts.
fn seated(memory: &mut Memory, job: u32, name: &str, starts: &[u8]) {
    has_seats(memory, job, name, starts, 1);
}

fn has_seats(memory: &mut Memory, job: u32, name: &str, starts: &[u8], seats: u32) {
    let model = memory.engine.model_of(name, GpuIndex(0)).unwrap();
    let profile = model.profile("1g.6gb").unwrap().id;
    let place = |start: &u8| {
        let spec = MigSpec { gpu: GpuIndex(0), profile, start: Slice(*start) };
        PoolSeats { on: ShareOn::Instance(spec), seats }
    };
    let on = TaskDevices::Pool(starts.iter().map(place).collect());
    let grant = Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true });
    let placement = JobPlacement { job: JobId(job), nodes: vec![(name.to_owned(), grant.into())] };
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
}

fn slurm(names: &[&str], ends: &[(u32, i64)]) -> Fake {
    let ends = ends.iter().map(|(job, end)| (JobId(*job), *end)).collect();
    Fake { ends, pending: vec![JOB], ..Fake::with(names) }
}

fn isolated() -> JobView {
    job("v1 iso=mig:1g.6gb", GresKind::Shard, 6)
}

fn tasks(id: u32) -> JobView {
    JobView { id: JobId(id), ..job("v1 iso=tasks:probes", GresKind::Shard, 1) }
}

/// The effects before Slurm's own test of a start now.
fn before(memory: &mut Memory, slurm: &Fake, view: &JobView) -> Vec<Effect> {
    case(Ask::RunNow, false, view).before(memory, slurm)
}

fn shows(effects: &[Effect], what: &str) -> bool {
    let has = |l: &Layout| l.text.contains(what);
    effects.iter().any(|e| matches!(e, Effect::Layouts(all) if all.iter().any(has)))
}

#[test]
fn an_isolated_job_claims_the_device_that_frees_soonest_and_no_new_job_of_tasks_gets_it() {
    let mut memory = site();
    for (job, start) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        seated(&mut memory, job, "a1", &[start]);
    }
    let slurm = slurm(&["a1"], &[(1, 4000), (2, 2000), (3, 3000), (4, 5000)]);
    let effects = before(&mut memory, &slurm, &isolated());
    assert!(shows(&effects, "1g.6gb@1:tasks[job2*1>job9]"), "{effects:?}");
    assert!(effects.contains(&Effect::RuleOut(vec![0])));
    // The rest of the pool is open, and lists every device but that.
    let chosen = Fake { pending: vec![JOB], ..Fake::with(&["a1"]) }.choosing("a1", 1, 1);
    let mut other = case(Ask::RunNow, false, &tasks(20));
    assert_eq!(other.before(&mut memory, &slurm), [Effect::RuleOut(vec![])]);
    let (_, effects) = other.after(&mut memory, &chosen);
    let placed = "v1 job=20;a1=tasks:0/1g.6gb@0*1,0/1g.6gb@2*0,0/1g.6gb@3*0/probes";
    assert!(effects.contains(&Effect::Placement(Some(placed.to_owned()))), "{effects:?}");
    // Nor may a job open another device in its place once it is empty.
    for job in [1, 2, 3, 4] {
        memory.engine.release(JobId(job));
    }
    for job in 11..15 {
        seated(&mut memory, job, "a1", &[0, 2, 3]);
    }
    let full = JobView {
        gres: vec![GresRequest { kind: GresKind::Shard, per_node: 4, per_socket: false }],
        ..tasks(21)
    };
    assert_eq!(
        before(&mut memory, &slurm, &full),
        [waits_for("seats for GPU tasks"), Effect::RuleOut(vec![0])]
    );
    // The isolated job itself has room now.
    assert_eq!(before(&mut memory, &slurm, &isolated()), [Effect::RuleOut(vec![])]);
}

#[test]
fn the_last_device_is_never_claimed() {
    let mut memory = site();
    seated(&mut memory, 1, "a1", &[0, 1, 2, 3]);
    let slurm = slurm(&["a1"], &[(1, 2000)]);
    let whole = job("v1 iso=mig:4g.24gb", GresKind::Shard, 24);
    assert_eq!(
        before(&mut memory, &slurm, &whole),
        [waits_for("an instance 4g.24gb"), Effect::RuleOut(vec![0])]
    );
    assert!(!memory.engine.has_claims());
    // Half of the pool may be claimed.
    let half = job("v1 iso=mig:2g.12gb", GresKind::Shard, 12);
    assert!(shows(&before(&mut memory, &slurm, &half), ">job9"));
}

#[test]
fn of_several_nodes_the_one_that_frees_soonest_is_claimed() {
    let mut memory = site();
    for (job, name) in [(1, "a1"), (2, "a2")] {
        seated(&mut memory, job, name, &[0, 1, 2, 3]);
    }
    let slurm = slurm(&["a1", "a2"], &[(1, 3000), (2, 2000)]);
    before(&mut memory, &slurm, &isolated());
    let claimed = |memory: &Memory, name: &str| memory.engine.node(name).unwrap().claims.len();
    assert_eq!((claimed(&memory, "a1"), claimed(&memory, "a2")), (0, 1));
    // A job that needs both claims on both.
    let mut both = PendingTest::new(
        Test { ask: Ask::RunNow, min_nodes: 2, may_preempt: false, record: RECORD },
        isolated(),
    );
    both.before(&mut memory, &slurm);
    assert_eq!((claimed(&memory, "a1"), claimed(&memory, "a2")), (1, 1));
}

#[test]
fn what_a_job_claims_in_one_partition_lasts_through_its_tests_in_another() {
    let mut memory = site();
    for (job, name) in [(1, "a1"), (2, "a2")] {
        seated(&mut memory, job, name, &[0, 1, 2, 3]);
    }
    let ends = [(1, 3000), (2, 2000)];
    before(&mut memory, &slurm(&["a1"], &ends), &isolated());
    let claimed = |memory: &Memory| ["a1", "a2"].map(|name| memory.engine.node(name).unwrap().claims.len());
    assert_eq!(claimed(&memory), [1, 0]);
    before(&mut memory, &slurm(&["a2"], &ends), &isolated());
    assert_eq!(claimed(&memory), [1, 0]);
    // Its first partition tests it no more.
    let later = JobView { now: 2000, ..isolated() };
    before(&mut memory, &slurm(&["a2"], &ends), &later);
    assert_eq!(claimed(&memory), [0, 1]);
}

#[test]
fn a_claim_ends_when_its_job_is_not_pending_or_not_tested_any_more() {
    let claims = |pending: bool, now: u64| {
        let mut memory = site();
        seated(&mut memory, 1, "a1", &[0, 1, 2, 3]);
        let mut slurm = slurm(&["a1"], &[(1, 9000)]);
        before(&mut memory, &slurm, &isolated());
        assert!(memory.engine.has_claims());
        slurm.pending.retain(|_| pending);
        let effects = before(&mut memory, &slurm, &JobView { now, ..tasks(20) });
        assert_eq!(memory.engine.has_claims(), !shows(&effects, "gpu0="), "the layout follows");
        memory.engine.has_claims()
    };
    assert!(claims(true, 1100));
    assert!(!claims(false, 1100) && !claims(true, 1200));
}

#[test]
fn a_claim_ends_when_its_job_starts() {
    let mut memory = site();
    seated(&mut memory, 1, "a1", &[0, 1, 2, 3]);
    before(&mut memory, &slurm(&["a1"], &[(1, 9000)]), &isolated());
    memory.engine.release(JobId(1));
    let spec = memory.engine.node("a1").unwrap().claims[0].on;
    let ShareOn::Instance(spec) = spec else { panic!("{spec:?}") };
    let placement = JobPlacement { job: JOB, nodes: vec![("a1".to_owned(), Grant::Mig(vec![spec]).into())] };
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
    assert!(!memory.engine.has_claims() && memory.engine.node("a1").unwrap().claims.is_empty());
}

#[test]
fn nothing_is_claimed_where_another_isolated_job_is_in_the_way_too() {
    let mut memory = site();
    seated(&mut memory, 1, "a1", &[0, 1]);
    let model = memory.engine.model_of("a1", GpuIndex(0)).unwrap();
    let spec = MigSpec { gpu: GpuIndex(0), profile: model.profile("2g.12gb").unwrap().id, start: Slice(2) };
    let placement =
        JobPlacement { job: JobId(2), nodes: vec![("a1".to_owned(), Grant::Mig(vec![spec]).into())] };
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
    let whole = job("v1 iso=mig:4g.24gb", GresKind::Shard, 24);
    before(&mut memory, &slurm(&["a1"], &[(1, 2000), (2, 2000)]), &whole);
    assert!(!memory.engine.has_claims());
}

#[test]
fn will_run_knows_who_gets_the_claimed_device() {
    let mut memory = site();
    for (job, start) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        has_seats(&mut memory, job, "a1", &[start], 4);
    }
    let slurm = Fake { start_time: 1500, ..slurm(&["a1"], &[(1, 4000), (2, 2000), (3, 3000), (4, 5000)]) };
    let slurm = slurm.choosing("a1", 1, 1);
    let starts = |memory: &mut Memory, view: &JobView| {
        let mut test = case(Ask::WillRun, false, view);
        test.before(memory, &slurm);
        let (_, effects) = test.after(memory, &slurm);
        effects.into_iter().find_map(|e| if let Effect::StartAt(at) = e { Some(at) } else { None })
    };
    assert_eq!(starts(&mut memory, &tasks(20)), Some(2000), "before anybody claims it");
    before(&mut memory, &slurm, &isolated());
    assert_eq!(starts(&mut memory, &isolated()), Some(2000));
    // Backfilled or not, a job of GPU tasks gets the next device.
    assert_eq!(starts(&mut memory, &tasks(20)), Some(3000));
}
