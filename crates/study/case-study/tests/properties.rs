//! Any begins and frees, in any order, on any pool: the audit finds nothing, and everything comes back.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use case_study::RunEvent;
use case_study::audit::audit;
use case_study::devices::V100;
use case_study::policy::{self, OVERTAKEN_AT_MOST};
use proptest::prelude::*;
use task_sched::{
    Among, Answer, Ask, Bytes, Device, DeviceId, Event as Sched, Gpus, Instance, Need, Order, Pool, Refusal,
    Scheduler, TaskId, WorkerId,
};

/// Policies that place tasks of jobs without a device of their own.
const SHARING: [&str; 5] = ["alg2", "alg3", "case-mig", "schedgpu", "tessera"];

fn device() -> impl Strategy<Value = Device> {
    (1u64..40, 1u32..6, prop::option::of(1u32..4)).prop_map(|(mem, sms, max_workers)| Device {
        mem: Bytes(mem),
        sms,
        max_workers,
        ..V100
    })
}

#[derive(Clone, Debug)]
enum Op {
    Begin { task: u64, job: u64, mem: u64, blocks: u64, threads: u64 },
    Free(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u64..24, 0u64..6, 0u64..45, 1u64..300, 1u64..=1024)
            .prop_map(|(task, job, mem, blocks, threads)| Op::Begin { task, job, mem, blocks, threads }),
        2 => (0u64..24).prop_map(Op::Free),
    ]
}

fn ask(task: u64, job: u64, need: Need) -> Ask {
    Ask {
        task: TaskId(task),
        job: WorkerId(job),
        need,
        job_mem: need.mem(),
        bound: None,
        among: Among::ALL,
        isolated: false,
        holds: false,
    }
}

/// A scheduler, and the events of what was done with it.
struct Log {
    scheduler: Scheduler,
    events: Vec<RunEvent>,
}

impl Log {
    fn new(name: &str, order: Order, devices: &[Device]) -> Log {
        Log::on(name, order, Pool::new(devices))
    }

    fn on(name: &str, order: Order, pool: Pool) -> Log {
        let policy = policy::by_name(name).unwrap();
        let node = RunEvent::node(policy.name(), order, &pool, None);
        Log { scheduler: Scheduler::new(pool, policy, order), events: vec![node] }
    }

    fn begin(&mut self, ask: Ask) -> Answer {
        let (t, task) = (0.0, ask.task);
        let answer = self.scheduler.begin(ask);
        if matches!(answer, Answer::Refused(Refusal::Begun(_))) {
            return answer;
        }
        self.note_layout();
        self.events.push(RunEvent::Begin { t, task, job: ask.job, need: ask.need });
        self.events.push(match answer {
            Answer::Granted(dev) => RunEvent::Sched(Sched::Grant { t, task, dev }),
            Answer::Waits => RunEvent::Sched(Sched::Wait { t, task }),
            Answer::Refused(why) => RunEvent::Sched(Sched::Refuse { t, task, why: why.to_string() }),
            Answer::Crashed => RunEvent::Crash { t, task },
        });
        answer
    }

    /// Instances are made before what they were made for.
    fn note_layout(&mut self) {
        if self.scheduler.take_remade() {
            self.events.push(RunEvent::layout(0.0, self.scheduler.pool()));
        }
    }

    fn free(&mut self, task: u64) {
        if self.scheduler.free(TaskId(task)).is_err() {
            return;
        }
        self.events.push(RunEvent::Sched(Sched::Free { t: 0.0, task: TaskId(task) }));
        let grants = self.scheduler.retry();
        self.note_layout();
        for grant in grants {
            self.events.push(RunEvent::Sched(Sched::Grant { t: 0.0, task: grant.task, dev: grant.device }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_run_is_legal_and_everything_comes_back(
        devices in prop::collection::vec(device(), 1..5),
        ops in prop::collection::vec(op(), 0..80),
        which in 0..SHARING.len(),
        largest in any::<bool>(),
    ) {
        let order = if largest { Order::Largest } else { Order::Arrival };
        let mut log = Log::new(SHARING[which], order, &devices);
        for op in ops {
            match op {
                Op::Begin { task, job, mem, blocks, threads } => {
                    let need = Need::new(Bytes(mem), blocks, threads).unwrap();
                    log.begin(ask(task, job, need.with_managed(Bytes(blocks % 3))));
                }
                Op::Free(task) => log.free(task),
            }
        }
        prop_assert_eq!(audit(&log.events), []);
        for task in 0..24 {
            log.free(task);
        }
        prop_assert!(log.scheduler.waiting().is_empty());
        prop_assert_eq!(audit(&log.events), []);
        for (held, device) in log.scheduler.pool().devices().zip(&devices) {
            prop_assert_eq!((held.free(), held.warps().0, held.tasks()), (device.mem, 0, 0));
        }
    }
}

const GB: u64 = 1_000_000_000;

fn gpus(model: &str, count: usize) -> Pool {
    Pool::of_gpus(Gpus::new(geometry::Model::find(model).unwrap(), count))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// On GPUs whose instances come and go, too.
    #[test]
    fn instances_are_legal_and_nobody_waits_in_vain(
        count in 1usize..3,
        ops in prop::collection::vec(op(), 0..120),
        largest in any::<bool>(),
    ) {
        let order = if largest { Order::Largest } else { Order::Arrival };
        let mut log = Log::on("tessera", order, gpus("a100-40gb", count));
        for op in ops {
            match op {
                Op::Begin { task, job, mem, blocks, threads } => {
                    let need = Need::new(Bytes(mem * GB), blocks, threads).unwrap();
                    log.begin(ask(task, job, need.with_managed(Bytes(blocks % 3 * 4 * GB))));
                }
                Op::Free(task) => log.free(task),
            }
        }
        (0..24).for_each(|task| log.free(task));
        prop_assert_eq!(audit(&log.events), []);
        prop_assert!(log.scheduler.waiting().is_empty());
        prop_assert!(log.scheduler.pool().devices().all(|held| held.is_idle()));
    }
}

#[test]
fn instances_are_made_where_they_leave_the_most_places() {
    let mut log = Log::on("tessera", Order::Arrival, gpus("a100-40gb", 1));
    let made = |log: &Log| -> Vec<String> {
        let instances = log.scheduler.pool().devices().filter_map(|held| held.instance());
        instances.map(|i| format!("{}@{}", i.profile.name, i.start.0)).collect()
    };
    assert_eq!(log.begin(ask(1, 1, need(8 * GB))), Answer::Granted(DeviceId(4)));
    assert_eq!(made(&log), ["2g.10gb@4"], "4g.20gb can still be made at 0");
    assert_eq!(log.begin(ask(2, 2, need(2 * GB))), Answer::Granted(DeviceId(4)), "beside the first task");
    assert_eq!(log.begin(ask(3, 3, need(20 * GB))), Answer::Granted(DeviceId(0)));
    assert_eq!(made(&log), ["4g.20gb@0", "2g.10gb@4"]);
    assert_eq!(log.begin(ask(4, 4, need(21 * GB))), Answer::Waits, "it needs the whole GPU");
    let Answer::Refused(why) = log.begin(ask(5, 5, need(41 * GB))) else { panic!("not refused") };
    assert_eq!(why.to_string(), "the task needs 41000000000 bytes; the largest device has 40000000000 bytes");
    (1..4).for_each(|task| log.free(task));
    assert_eq!(made(&log), ["7g.40gb@0"], "idle instances went for the one that waited");
    assert_eq!(audit(&log.events), []);
}

/// Small tasks come and go on small instances, so that no place for the large one is ever free on its own.
#[test]
fn a_place_is_kept_for_a_large_task() {
    let mut log = Log::on("tessera", Order::Arrival, gpus("a100-40gb", 1));
    (0..7).for_each(|task| {
        let _ = log.begin(ask(task, task, need(5 * GB)));
    });
    assert_eq!(log.begin(ask(1000, 1000, need(9 * GB))), Answer::Waits);
    let mut granted_after = None;
    for task in 7..200 {
        log.free(task - 7);
        if log.scheduler.waiting().iter().all(|w| w.task != TaskId(1000)) {
            granted_after = Some(task - 7);
            break;
        }
        log.begin(ask(task, task, need(5 * GB)));
    }
    assert!(granted_after.is_some_and(|n| n <= u64::from(OVERTAKEN_AT_MOST) + 7), "{granted_after:?}");
    assert_eq!(audit(&log.events), []);
}

#[test]
fn the_audit_sees_bad_layouts() {
    let a100 = geometry::Model::find("a100-40gb").unwrap();
    let node = RunEvent::node("tessera", Order::Arrival, &gpus("a100-40gb", 1), None);
    let instance = |name: &str, start| {
        let profile = a100.profile(name).unwrap();
        let place = Instance { gpu: 0, profile, start: geometry::Slice(start) };
        (DeviceId(start.into()), Device::instance("a100-40gb", name).unwrap(), place)
    };
    let layout = |of: &[(&str, u8)]| RunEvent::Layout {
        t: 0.0,
        devices: of.iter().map(|(name, start)| instance(name, *start)).collect(),
    };
    let begin = RunEvent::Begin { t: 0.0, task: TaskId(1), job: WorkerId(1), need: need(GB) };
    let grant = RunEvent::Sched(Sched::Grant { t: 0.0, task: TaskId(1), dev: DeviceId(0) });
    let wait = RunEvent::Sched(Sched::Wait { t: 0.0, task: TaskId(1) });
    let finds = |events: &[RunEvent], word: &str| {
        let found = audit(&[std::slice::from_ref(&node), events].concat());
        assert!(found.iter().any(|v| v.what.contains(word)), "{word}: {found:?}");
    };
    finds(&[layout(&[("3g.20gb", 0), ("1g.5gb", 3)])], "not alone in its place");
    finds(&[layout(&[("1g.5gb", 7)])], "cannot exist");
    finds(
        &[layout(&[("1g.5gb", 0)]), begin.clone(), grant.clone(), layout(&[("2g.10gb", 0)])],
        "while in use",
    );
    finds(&[layout(&[("1g.5gb", 0)]), begin.clone(), grant.clone(), layout(&[])], "while in use");
    finds(&[begin.clone(), wait], "waits although");
    finds(&[begin, grant], "does not exist");
    let refuse = RunEvent::Sched(Sched::Refuse { t: 0.0, task: TaskId(1), why: String::new() });
    finds(
        &[RunEvent::Begin { t: 0.0, task: TaskId(1), job: WorkerId(1), need: need(39 * GB) }, refuse],
        "refused although",
    );
    let fine = audit(&[node.clone(), layout(&[("3g.20gb", 0), ("3g.20gb", 4)])]);
    assert_eq!(fine, []);
}

fn need(mem: u64) -> Need {
    Need::new(Bytes(mem), 1, 32).unwrap()
}

#[test]
fn bad_begins_and_frees_change_nothing() {
    let device = Device { mem: Bytes(10), ..V100 };
    for name in SHARING {
        let mut log = Log::new(name, Order::Arrival, &[device; 2]);
        assert!(matches!(log.begin(ask(1, 1, need(4))), Answer::Granted(_)), "{name}");
        let before = format!("{:?}", log.scheduler.pool());
        let huge = Need::new(Bytes(1 << 63), 1 << 31, 1024).unwrap();
        assert!(matches!(log.begin(ask(2, 1, huge)), Answer::Refused(_)), "{name}");
        assert_eq!(log.begin(ask(1, 1, need(1))), Answer::Refused(Refusal::Begun(1)), "{name}");
        assert!(log.scheduler.free(TaskId(7)).is_err(), "{name}");
        assert_eq!(format!("{:?}", log.scheduler.pool()), before, "{name}");
        assert!(log.scheduler.free(TaskId(1)).is_ok() && log.scheduler.free(TaskId(1)).is_err(), "{name}");
        assert!(matches!(log.begin(ask(1, 1, need(4))), Answer::Granted(_)), "{name}: an id comes again");
    }
}

#[test]
fn only_alg3_leaves_memory_free() {
    let device = Device { mem: Bytes(10), ..V100 };
    for (name, fits) in
        [("alg2", true), ("tessera", true), ("schedgpu", true), ("alg3", false), ("case-mig", false)]
    {
        let mut log = Log::new(name, Order::Arrival, &[device]);
        let answer = log.begin(ask(1, 1, need(10)));
        assert_eq!(answer == Answer::Granted(DeviceId(0)), fits, "{name}");
        if let Answer::Refused(why) = answer {
            assert!(why.to_string().matches("10 bytes").count() == 2, "{why}");
        }
    }
}

/// The driver keeps managed memory on the host while a device has no room for it; the papers do not know it.
#[test]
fn managed_memory_is_soft_for_tessera_alone() {
    let device = Device { mem: Bytes(10), ..V100 };
    let managed = |mem, managed| need(mem).with_managed(Bytes(managed));
    let mut log = Log::new("tessera", Order::Arrival, &[device; 2]);
    assert_eq!(log.begin(ask(1, 1, managed(2, 6))), Answer::Granted(DeviceId(0)));
    assert_eq!(log.begin(ask(2, 2, managed(2, 8))), Answer::Granted(DeviceId(1)));
    assert_eq!(log.begin(ask(3, 3, managed(1, 1))), Answer::Granted(DeviceId(0)), "with room for all");
    assert_eq!(
        log.begin(ask(4, 4, managed(3, 0))),
        Answer::Granted(DeviceId(1)),
        "less loaded, equally full"
    );
    assert_eq!(log.begin(ask(5, 5, managed(1, 1000))), Answer::Granted(DeviceId(0)), "it runs nevertheless");
    assert_eq!(log.begin(ask(6, 6, managed(9, 0))), Answer::Waits, "the rest is hard");
    assert_eq!(audit(&log.events), []);
    for name in ["alg2", "alg3", "case-mig", "schedgpu"] {
        let mut log = Log::new(name, Order::Arrival, &[device; 2]);
        assert!(matches!(log.begin(ask(1, 1, managed(5, 6))), Answer::Refused(_)), "{name}");
        assert_eq!(log.begin(ask(2, 2, managed(4, 5))), Answer::Granted(DeviceId(0)), "{name}");
        assert_eq!(log.scheduler.pool().get(DeviceId(0)).unwrap().free(), Bytes(1), "{name}");
        assert_eq!(audit(&log.events), [], "{name}");
    }
}

/// A new instance has room for managed memory if it can.
#[test]
fn instances_are_made_for_managed_memory_too() {
    let mut log = Log::on("tessera", Order::Arrival, gpus("a100-40gb", 1));
    let managed = |gb: u64, managed: u64| need(gb * GB).with_managed(Bytes(managed * GB));
    let size = |log: &Log, id| log.scheduler.pool().get(DeviceId(id)).unwrap().device().mem.0 / GB;
    assert_eq!(log.begin(ask(1, 1, managed(1, 18))), Answer::Granted(DeviceId(0)));
    assert_eq!(size(&log, 0), 20);
    assert_eq!(
        log.begin(ask(2, 2, managed(2, 99))),
        Answer::Granted(DeviceId(0)),
        "beside it: none is large enough"
    );
    let third = log.begin(ask(3, 3, managed(19, 99)));
    assert_eq!(third, Answer::Granted(DeviceId(4)), "an instance without room for all is better than none");
    assert_eq!(audit(&log.events), []);
}

/// `schedgpu` uses one device, which need not be the largest.
#[test]
fn a_refusal_names_the_device_that_counts() {
    let device = |mem| Device { mem: Bytes(mem), ..V100 };
    let mut log = Log::new("schedgpu", Order::Arrival, &[device(5), device(10)]);
    let Answer::Refused(why) = log.begin(ask(1, 1, need(6))) else { panic!("not refused") };
    assert_eq!(why.to_string(), "the task needs 6 bytes; its device has 5 bytes");
}

#[test]
fn alg3_takes_the_fewest_warps_and_the_first_of_equals() {
    let mut log = Log::new("alg3", Order::Arrival, &[V100; 3]);
    let wide = Need::new(Bytes(1), 100, 1024).unwrap();
    let to = |log: &mut Log, task, need| log.begin(ask(task, task, need));
    assert_eq!(to(&mut log, 1, wide), Answer::Granted(DeviceId(0)));
    assert_eq!(to(&mut log, 2, need(1)), Answer::Granted(DeviceId(1)));
    assert_eq!(to(&mut log, 3, need(1)), Answer::Granted(DeviceId(2)));
    assert_eq!(to(&mut log, 4, need(1)), Answer::Granted(DeviceId(1)));
    assert_eq!(to(&mut log, 5, need(1)), Answer::Granted(DeviceId(2)));
}

#[test]
fn alg2_gives_a_task_above_any_device_one_of_its_own() {
    let mut log = Log::new("alg2", Order::Arrival, &[V100; 2]);
    let above = Need::new(Bytes(1), 1_000_000, 128).unwrap();
    assert_eq!(log.begin(ask(1, 1, need(1))), Answer::Granted(DeviceId(0)));
    assert_eq!(log.begin(ask(2, 2, above)), Answer::Granted(DeviceId(1)));
    assert_eq!(log.begin(ask(3, 3, above)), Answer::Waits);
    assert_eq!(log.begin(ask(4, 4, need(1))), Answer::Granted(DeviceId(0)));
    log.free(2);
    assert_eq!(log.scheduler.pool().get(DeviceId(1)).unwrap().tasks(), 1, "the waiting one moved in");
    assert_eq!(audit(&log.events), []);
}

/// Small tasks come and go in pairs, so that the large one never finds both halves free on its own.
#[test]
fn tessera_lets_nobody_starve() {
    let device = Device { mem: Bytes(10), ..V100 };
    for (name, most) in [("tessera", Some(OVERTAKEN_AT_MOST + 4)), ("alg3", None)] {
        let mut log = Log::new(name, Order::Arrival, &[device; 2]);
        for task in 0..4 {
            log.begin(ask(task, task, need(4)));
        }
        assert_eq!(log.begin(ask(1000, 1000, need(9))), Answer::Waits);
        let mut granted_after = None;
        for task in 4..200 {
            log.free(task - 4);
            if log.scheduler.waiting().iter().all(|w| w.task != TaskId(1000)) {
                granted_after = Some(task - 4);
                break;
            }
            log.begin(ask(task, task, need(4)));
        }
        match most {
            Some(most) => assert!(granted_after.is_some_and(|n| n <= u64::from(most)), "{granted_after:?}"),
            None => assert_eq!(granted_after, None, "alg3 starves it: the test is real"),
        }
        assert_eq!(audit(&log.events), []);
    }
}

/// The audit must not be blind: each broken log has a finding.
#[test]
fn the_audit_sees_what_is_wrong() {
    let node = |policy| RunEvent::node(policy, Order::Arrival, &Pool::new(&[V100; 2]), None);
    let begin =
        |task: u64, mem| RunEvent::Begin { t: 0.0, task: TaskId(task), job: WorkerId(task), need: need(mem) };
    let grant =
        |task: u64, dev| RunEvent::Sched(Sched::Grant { t: 0.0, task: TaskId(task), dev: DeviceId(dev) });
    let wait = |task| RunEvent::Sched(Sched::Wait { t: 0.0, task: TaskId(task) });
    let free = |task| RunEvent::Sched(Sched::Free { t: 0.0, task: TaskId(task) });
    let half = V100.mem.0 / 2 + 1;
    let finds = |events: Vec<RunEvent>, word: &str| {
        let found = audit(&events);
        assert!(found.iter().any(|v| v.what.contains(word)), "{word}: {found:?}");
    };
    finds(vec![node("tessera"), begin(1, half), grant(1, 0), begin(2, half), grant(2, 0)], "promises");
    finds(vec![node("alg3"), begin(1, 1), grant(1, 1)], "names 0");
    finds(vec![node("alg3"), begin(1, 1), grant(1, 0), grant(1, 0)], "twice");
    finds(vec![node("alg2"), begin(1, 1), wait(1)], "waits although");
    finds(vec![node("alg2"), begin(1, 1), grant(1, 0), free(1), free(1)], "not begun");
    finds(vec![node("alg3"), begin(1, 1), RunEvent::Crash { t: 0.0, task: TaskId(1) }], "only cg");
    let refuse = RunEvent::Sched(Sched::Refuse { t: 0.0, task: TaskId(1), why: String::new() });
    finds(vec![node("alg3"), begin(1, 1), refuse], "refused although");
    let mut starve = vec![node("tessera"), begin(1, half), grant(1, 0), begin(2, half), grant(2, 1)];
    starve.extend([begin(3, half), wait(3)]);
    for (task, dev) in (4..40).zip([0, 1].into_iter().cycle()) {
        starve.extend([begin(task, 1), grant(task, dev), free(task)]);
    }
    finds(starve, "passed on every device");
}

#[test]
fn tessera_compares_devices_by_share() {
    let small = Device { sms: 14, ..V100 };
    let mut log = Log::new("tessera", Order::Arrival, &[small, V100]);
    let warps = |n| Need::new(Bytes(1), n, 32).unwrap();
    assert_eq!(log.begin(ask(1, 1, warps(100))), Answer::Granted(DeviceId(0)), "the first of two idle ones");
    assert_eq!(log.begin(ask(2, 2, warps(200))), Answer::Granted(DeviceId(1)));
    // 100 of 896 warps are more than 200 of 5,120.
    assert_eq!(log.begin(ask(3, 3, warps(1))), Answer::Granted(DeviceId(1)));
}

#[test]
fn alg2_deals_on_from_the_last_block() {
    let device = Device { sms: 2, warps_per_sm: 48, ..V100 };
    let block = |warps: u64| Need::new(Bytes(1), 1, warps * 32).unwrap();
    let mut log = Log::new("alg2", Order::Arrival, &[device]);
    assert_eq!(log.begin(ask(1, 1, block(24))), Answer::Granted(DeviceId(0)));
    assert_eq!(log.begin(ask(2, 2, block(24))), Answer::Granted(DeviceId(0)));
    assert_eq!(log.begin(ask(3, 3, block(32))), Answer::Waits, "each SM has 24 warps left, none has 48");
    assert_eq!(audit(&log.events), []);
}

#[test]
fn case_mig_keeps_jobs_in_their_class() {
    let device = |mem| Device { mem: Bytes(mem), ..V100 };
    let mut log = Log::new("case-mig", Order::Arrival, &[device(10), device(5)]);
    assert_eq!(log.begin(ask(1, 1, need(4))), Answer::Granted(DeviceId(1)));
    assert_eq!(
        log.begin(ask(2, 2, need(4))),
        Answer::Waits,
        "the larger device is idle, but of another class"
    );
    assert_eq!(log.begin(ask(3, 3, need(5))), Answer::Granted(DeviceId(0)), "5 is not below 5");
    log.free(1);
    assert!(log.scheduler.waiting().is_empty());
}
