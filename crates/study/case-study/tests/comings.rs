//! A pool whose devices, contexts and limits come and go while tasks live: what the broker does and the simulator does not.

#![allow(clippy::unwrap_used, reason = "tests")]

use case_study::policy;
use task_sched::{
    Among, Answer, Ask, Bytes, Device, DeviceId, Need, Order, Pool, Refusal, Scheduler, TaskId, WorkerId,
};

const MEM: Bytes = Bytes(1000);
const SMALL: Device = Device { mem: MEM, sms: 10, warps_per_sm: 64, blocks_per_sm: 32, max_workers: Some(2) };

fn ask(task: u64, job: u64, mem: u64) -> Ask {
    let need = Need::new(Bytes(mem), 1, 32).unwrap();
    Ask {
        task: TaskId(task),
        job: WorkerId(job),
        need,
        job_mem: Bytes(mem),
        bound: None,
        among: Among::ALL,
        isolated: false,
        holds: false,
    }
}

fn scheduler(name: &str, devices: usize) -> Scheduler {
    let mut it = Scheduler::new(Pool::new(&[]), policy::by_name(name).unwrap(), Order::Arrival);
    for at in 0..devices {
        assert_eq!(it.add(SMALL), DeviceId(at));
    }
    it
}

const POLICIES: [&str; 3] = ["tessera", "alg3", "alg2"];

#[test]
fn a_context_is_paid_once_per_job_and_stays_until_it_leaves() {
    for name in POLICIES {
        let mut it = scheduler(name, 1);
        it.set_context(DeviceId(0), Bytes(100));
        assert_eq!(it.begin(ask(1, 1, 300)), Answer::Granted(DeviceId(0)));
        assert_eq!(it.pool().get(DeviceId(0)).unwrap().free(), Bytes(600));
        assert_eq!(it.begin(ask(2, 1, 300)), Answer::Granted(DeviceId(0)));
        // 300 are free, of which a context takes 100.
        assert_eq!(it.begin(ask(3, 2, 201)), Answer::Waits, "{name}");
        it.free(TaskId(1)).unwrap();
        it.free(TaskId(2)).unwrap();
        assert_eq!(it.pool().get(DeviceId(0)).unwrap().free(), Bytes(900));
        assert_eq!(it.retry().len(), 1);
        assert!(!it.remove(DeviceId(0)), "jobs have contexts there");
        it.leave(WorkerId(1));
        it.leave(WorkerId(2));
        assert_eq!(it.pool().get(DeviceId(0)).unwrap().guests(), 1, "a job with a live task does not leave");
        it.free(TaskId(3)).unwrap();
        it.leave(WorkerId(2));
        assert!(it.remove(DeviceId(0)));
    }
}

#[test]
fn a_task_above_its_own_devices_is_refused_though_others_hold_it() {
    for name in POLICIES {
        let mut it = scheduler(name, 1);
        let big = it.add(Device { mem: Bytes(5000), ..SMALL });
        it.set_context(DeviceId(0), Bytes(100));
        let only = Among::of([DeviceId(0)]);
        let answer = it.begin(Ask { among: only, ..ask(1, 1, 950) });
        let (need, largest) = (Bytes(950), Bytes(900));
        let expected = match name {
            "alg3" => Refusal::NotBelow { need, largest },
            _ => Refusal::TooLarge { need, largest },
        };
        assert_eq!(answer, Answer::Refused(expected));
        assert_eq!(it.begin(ask(1, 1, 950)), Answer::Granted(big));
    }
}

#[test]
fn nobody_comes_to_a_kept_closed_full_or_withheld_device() {
    for name in POLICIES {
        let mut it = scheduler(name, 1);
        let zero = DeviceId(0);
        it.keep(WorkerId(7), zero, true);
        assert_eq!(it.begin(ask(1, 1, 10)), Answer::Waits);
        assert_eq!(it.begin(ask(2, 7, 10)), Answer::Granted(zero));
        it.unkeep(WorkerId(7));
        it.set_closed(zero, true);
        assert!(it.retry().is_empty());
        it.set_closed(zero, false);
        it.withhold(zero, Bytes(5000));
        assert!(it.retry().is_empty(), "more is withheld than is there");
        it.withhold(zero, Bytes(0));
        assert_eq!(it.retry().len(), 1);
        assert_eq!(it.begin(ask(3, 3, 10)), Answer::Waits, "two workers are the most");
    }
}

#[test]
fn a_number_is_used_again_by_another_device() {
    for name in POLICIES {
        let mut it = scheduler(name, 2);
        assert!(it.remove(DeviceId(0)));
        assert_eq!(it.begin(ask(1, 1, 10)), Answer::Granted(DeviceId(1)));
        let big = Device { mem: Bytes(9000), sms: 80, ..SMALL };
        assert_eq!(it.add(big), DeviceId(0));
        let wide = Need::new(Bytes(2000), 2000, 32).unwrap();
        assert_eq!(it.begin(Ask { need: wide, ..ask(2, 2, 2000) }), Answer::Granted(DeviceId(0)), "{name}");
    }
}

/// Under Algorithm 2, a job that holds could wait for SMs that its own tasks hold. It waits for memory alone.
#[test]
fn alg2_lets_a_job_that_holds_wait_for_memory_alone() {
    let mut it = scheduler("alg2", 1);
    let zero = DeviceId(0);
    let wide = |task, job, mem, holds| Ask {
        need: Need::new(Bytes(mem), 320, 64).unwrap(),
        job_mem: Bytes(mem),
        holds,
        ..ask(task, job, mem)
    };
    assert_eq!(it.begin(wide(1, 1, 300, false)), Answer::Granted(zero), "all the SMs");
    assert_eq!(it.begin(wide(2, 2, 300, false)), Answer::Waits);
    assert_eq!(it.begin(wide(3, 1, 300, false)), Answer::Waits);
    assert_eq!(it.begin(wide(4, 1, 300, true)), Answer::Granted(zero));
    assert_eq!(it.begin(wide(5, 1, 500, true)), Answer::Waits, "memory is hard");
    it.free(TaskId(5)).unwrap();
    it.free(TaskId(1)).unwrap();
    assert_eq!(
        it.retry().iter().map(|grant| grant.task).collect::<Vec<_>>(),
        [TaskId(2)],
        "its SMs are free again"
    );
}

/// A scheduler that is started again knows the SMs of what lived, however its tasks had got their device.
#[test]
fn alg2_deals_again_what_it_restores() {
    let mut it = scheduler("alg2", 1);
    let zero = DeviceId(0);
    let of = |task, blocks| Ask { need: Need::new(Bytes(100), blocks, 64).unwrap(), ..ask(task, 1, 100) };
    assert!(it.restore(&of(1, 200), zero) && it.restore(&of(2, 200), zero), "more than the SMs hold");
    assert_eq!(it.begin(Ask { job: WorkerId(2), ..of(3, 200) }), Answer::Waits);
    it.free(TaskId(1)).unwrap();
    assert_eq!(it.retry().len(), 1);
    let mut alone = scheduler("alg2", 1);
    assert!(alone.restore(&of(1, 10_000), zero));
    assert_eq!(
        alone.begin(Ask { job: WorkerId(2), ..of(2, 1) }),
        Answer::Waits,
        "beside a task above any device"
    );
}
