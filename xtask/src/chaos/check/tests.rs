//! Each rule finds a forged violation, and nothing in a healthy state.

use super::*;
use crate::chaos::plan::{KINDS, OrderKind};
use crate::chaos::seen::report::{Moment, Report};
use crate::chaos::seen::{
    Access, BrokerProcess, Holder, Instance, Job, JournalEntry, MpsDaemon, Part, Place, Seen, SeenGpu,
    SeenNode, StepDaemon, Task,
};

const ALICE: u32 = 1001;
const BOB: u32 = 1002;
const OPEN: Access = Access { uid: 0, mode: 0o444 };

/// Job 1 of Alice has an instance on GPU 0, job 2 of Bob has GPU 1 whole, job 3 of Bob a share of GPU 2.
fn healthy() -> Seen {
    let access = |uid, mode| Access { uid, mode };
    let gpu = |index, uid| SeenGpu {
        index,
        uuid: format!("GPU-{index}"),
        access: access(uid, 0o600),
        ..SeenGpu::default()
    };
    let instance = |id, uuid: &str, uid| Instance {
        id,
        profile: "1g.5gb".to_owned(),
        start: id,
        parts: vec![Part { id: 0, uuid: uuid.to_owned(), access: Some(access(uid, 0o400)) }],
        access: Some(access(uid, 0o400)),
    };
    let mut first = gpu(0, ALICE);
    first.processes = vec![101];
    first.instances = vec![instance(4, "MIG-a", ALICE), instance(5, "MIG-idle", 0)];
    let place = |gpu, instance: Option<u32>, holder| Place {
        gpu,
        instance: instance.map(|start| ("1g.5gb".to_owned(), start)),
        holder,
    };
    let entry = |job, uid, gpu: &str, instances: &[&str]| JournalEntry {
        job,
        uid,
        phase: "ready".to_owned(),
        gpus: vec![gpu.to_owned()],
        instances: instances.iter().map(|uuid| (*uuid).to_owned()).collect(),
        pipe_dirs: Vec::new(),
        has_seats: false,
    };
    let job = |id, uid| Job {
        id,
        order: Some(id),
        uid,
        state: "RUNNING".to_owned(),
        nodes: vec!["n1".to_owned()],
        ..Job::default()
    };
    let task = |job, uid, device: &str| Task {
        pid: 100 + i32::try_from(job).unwrap(),
        since: 1,
        seen: 2,
        uid,
        job,
        order: Some(job),
        node: "n1".to_owned(),
        devices: vec![device.to_owned()],
        is_script: true,
        mps: None,
        has_seats: false,
    };
    let share = Task { mps: Some("/pipe".to_owned()), ..task(3, BOB, "GPU-2") };
    let node = SeenNode {
        name: "n1".to_owned(),
        state: "mixed".to_owned(),
        reason: "none".to_owned(),
        reason_since: "Unknown".to_owned(),
        takes_no_gpu_jobs: false,
        left_out: Vec::new(),
        layout: vec![
            place(0, Some(4), Holder::Job(1)),
            place(0, Some(5), Holder::Idle),
            place(1, None, Holder::Job(2)),
            place(2, None, Holder::Shared(vec![3])),
        ],
        gpus: vec![first, gpu(1, BOB), gpu(2, BOB), gpu(3, 0)],
        journal: vec![
            entry(1, ALICE, "GPU-0", &["MIG-a"]),
            entry(2, BOB, "GPU-1", &[]),
            JournalEntry { pipe_dirs: vec!["/pipe".to_owned()], ..entry(3, BOB, "GPU-2", &[]) },
        ],
        journal_rest: Vec::new(),
        brokers: Vec::new(),
        mps: vec![MpsDaemon { pid: 50, uid: BOB, node: Some("n1".to_owned()), pipe_dir: "/pipe".to_owned() }],
        steps: vec![StepDaemon { pid: 60, job: 1, node: Some("n1".to_owned()) }],
    };
    Seen {
        nodes: vec![node],
        jobs: vec![job(1, ALICE), job(2, BOB), job(3, BOB)],
        tasks: vec![task(1, ALICE, "MIG-a"), task(2, BOB, "GPU-1"), share],
    }
}

fn devices(seen: &Seen) -> Devices {
    let mut devices = Devices::default();
    devices.learn(seen);
    devices
}

/// The rules that a state breaks after `harm`; names are those of the healthy state.
fn broken(harm: impl FnOnce(&mut Seen)) -> Vec<&'static str> {
    let mut seen = healthy();
    let devices = devices(&seen);
    harm(&mut seen);
    let mut found = disagreements(&seen, &devices);
    found.extend(two_owners(&seen.tasks, &devices));
    let mut rules: Vec<&str> = found.into_iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

#[test]
fn a_healthy_state_breaks_no_rule() {
    assert_eq!(broken(|_| {}), Vec::<&str>::new());
}

#[test]
fn two_jobs_with_one_device_are_found() {
    let other = |device: &str| Task {
        job: 9,
        order: Some(9),
        devices: vec![device.to_owned()],
        ..healthy().tasks[1].clone()
    };
    for device in ["GPU-1", "1", "MIG-a", "GPU-0", "GPU-2"] {
        let rules = broken(|seen| seen.tasks.push(other(device)));
        assert!(rules.contains(&"two owners"), "{device}: {rules:?}");
    }
    let free = broken(|seen| seen.tasks.push(other("GPU-3")));
    assert!(!free.contains(&"two owners"), "{free:?}");
    // One user's jobs may share a device through one daemon, another user's may not.
    let share = |uid| {
        broken(|seen| {
            let mut task = seen.tasks[2].clone();
            (task.job, task.order, task.uid) = (9, Some(9), uid);
            seen.tasks.push(task);
        })
    };
    assert!(!share(BOB).contains(&"two owners"));
    assert!(share(ALICE).contains(&"two owners"));
    // One had ended when the other began; one has ended since, but they had lived together.
    let times = |since, seen| {
        broken(|seen_all| {
            let task = Task { since, seen, ..other("GPU-1") };
            seen_all.tasks.push(task);
        })
    };
    assert!(!times(2, 9).contains(&"two owners"));
    assert!(times(1, 9).contains(&"two owners"));
    // A slurmctld that was killed gives a job id twice.
    let again = broken(|seen| {
        let mut task = seen.tasks[1].clone();
        task.order = Some(77);
        seen.tasks.push(task);
    });
    assert!(again.contains(&"two owners"), "{again:?}");
}

#[test]
fn each_disagreement_is_found() {
    type Harm = fn(&mut Seen);
    let cases: [(&str, Harm); 16] = [
        ("journal without a job", |seen| seen.jobs[0].state = "COMPLETED".to_owned()),
        ("layout without a job", |seen| seen.jobs.truncate(2)),
        ("left process", |seen| seen.jobs.clear()),
        ("device not journalled", |seen| drop(seen.nodes[0].journal.remove(0))),
        ("device not journalled", |seen| seen.nodes[0].journal[0].instances.clear()),
        ("device not in the layout", |seen| seen.nodes[0].layout[0].holder = Holder::Idle),
        ("device not in the layout", |seen| {
            seen.nodes[0].layout[0].instance = Some(("2g.10gb".to_owned(), 4))
        }),
        ("device not in the driver", |seen| drop(seen.nodes[0].gpus[0].instances.remove(0))),
        ("device node", |seen| seen.nodes[0].gpus[3].access.uid = ALICE),
        ("device node", |seen| seen.nodes[0].gpus[0].access = Access { uid: 0, mode: 0o666 }),
        ("capability node", |seen| seen.nodes[0].gpus[0].instances[1].access = Some(OPEN)),
        ("half-made instance", |seen| seen.nodes[0].gpus[0].instances[1].parts.clear()),
        ("daemon without a job", |seen| {
            seen.tasks.truncate(2);
            seen.nodes[0].journal.truncate(2);
        }),
        ("stranger's process", |seen| seen.nodes[0].gpus[0].processes.push(102)),
        ("stranger's process", |seen| seen.nodes[0].gpus[3].processes.push(4)),
        ("share without a daemon", |seen| seen.nodes[0].mps.clear()),
    ];
    for (rule, harm) in cases {
        let rules = broken(harm);
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
    let step = broken(|seen| seen.nodes[0].steps[0].job = 99);
    assert_eq!(step, ["daemon without a job"]);
}

/// Jobs 1 of Alice and 4 of `uid` have a compute instance each in one GPU instance of 40 GB.
fn parts(uid: u32) -> Seen {
    let mut seen = healthy();
    let instance = &mut seen.nodes[0].gpus[0].instances[0];
    instance.profile = "7g.40gb".to_owned();
    let access = Some(Access { uid, mode: 0o400 });
    instance.parts.push(Part { id: 1, uuid: "MIG-d".to_owned(), access });
    seen.nodes[0].layout[0] =
        Place { gpu: 0, instance: Some(("7g.40gb".to_owned(), 4)), holder: Holder::Shared(vec![1, 4]) };
    let entry =
        JournalEntry { job: 4, uid, instances: vec!["MIG-d".to_owned()], ..seen.nodes[0].journal[0].clone() };
    seen.nodes[0].journal.push(entry);
    seen.jobs.push(Job { id: 4, order: Some(4), uid, ..seen.jobs[0].clone() });
    let task = Task {
        pid: 104,
        job: 4,
        order: Some(4),
        uid,
        devices: vec!["MIG-d".to_owned()],
        ..seen.tasks[0].clone()
    };
    seen.tasks.push(task);
    seen
}

fn rules(seen: &Seen) -> Vec<&'static str> {
    let devices = devices(seen);
    let mut found = disagreements(seen, &devices);
    found.extend(two_owners(&seen.tasks, &devices));
    found.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn one_users_jobs_may_be_in_one_gpu_instance() {
    assert_eq!(rules(&parts(ALICE)), Vec::<&str>::new());
    let two_users = rules(&parts(BOB));
    assert!(two_users.contains(&"two owners"), "{two_users:?}");
    // The instance of one is gone, and another has its id.
    let mut later = parts(BOB);
    later.nodes[0].gpus[0].instances[0].parts.truncate(1);
    let mut devices = devices(&parts(BOB));
    devices.learn(&later);
    assert_eq!(two_owners(&later.tasks, &devices), []);
    let mut open = parts(ALICE);
    open.nodes[0].gpus[0].instances[0].parts[1].access = Some(Access { uid: BOB, mode: 0o400 });
    assert_eq!(rules(&open), ["capability node"]);
}

#[test]
fn no_more_memory_is_stated_than_there_is() {
    let seen = parts(ALICE);
    let devices = devices(&seen);
    let found = |first, second| {
        let stated = move |order| match order {
            1 => Some(first),
            4 => Some(second),
            _ => None,
        };
        crowded(&seen.tasks, &devices, stated).len()
    };
    assert_eq!(found(20, 20), 0);
    assert_eq!(found(20, 25), 1);
}

#[test]
fn seats_are_shared_by_one_users_jobs_and_need_a_broker() {
    let seated = |uid| {
        let mut seen = healthy();
        seen.nodes[0].journal[2].has_seats = true;
        seen.tasks[2].has_seats = true;
        let other = Task { pid: 109, uid, mps: Some("/pipe/b".to_owned()), ..seen.tasks[2].clone() };
        seen.tasks.push(Task { job: 9, order: Some(9), ..other });
        seen
    };
    let owners = |seen: &Seen| two_owners(&seen.tasks, &devices(seen)).len();
    assert_eq!((owners(&seated(BOB)), owners(&seated(ALICE))), (0, 1));
    let mut mixed = seated(BOB);
    mixed.tasks[3].has_seats = false;
    assert_eq!(owners(&mixed), 1, "a share beside seats");

    let mut seen = seated(BOB);
    seen.tasks.truncate(3);
    let broker = |pid| BrokerProcess { pid, parent: 1, node: Some("n1".to_owned()) };
    for (pids, expected) in [
        (&[][..], &["seats without a broker"][..]),
        (&[7, 8], &[]),
        (&[7], &[]),
        (&[7, 8, 9], &["broker twice"]),
    ] {
        seen.nodes[0].brokers = pids.iter().map(|pid| broker(*pid)).collect();
        assert_eq!(rules(&seen), expected, "{pids:?}");
    }
    let mut idle = healthy();
    idle.nodes[0].brokers.push(broker(7));
    assert_eq!(rules(&idle), ["broker without a job"]);
    assert!(leftovers(&idle).iter().any(|finding| finding.subject == "n1: broker 7"));
}

#[test]
fn everything_that_jobs_leave_is_found_at_rest() {
    let mut seen = healthy();
    seen.nodes[0].journal_rest = vec!["bad/7.json".to_owned()];
    let mut rules: Vec<&str> = leftovers(&seen).into_iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    assert_eq!(rules, ["left daemon", "left in the journal", "left in the layout", "left process"]);
    let mut empty =
        Seen { nodes: vec![SeenNode { name: "n1".to_owned(), ..SeenNode::default() }], ..Seen::default() };
    empty.nodes[0].layout =
        vec![Place { gpu: 0, instance: Some(("1g.5gb".to_owned(), 5)), holder: Holder::Idle }];
    assert_eq!(leftovers(&empty), []);
}

fn kind(name: &str) -> &'static OrderKind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

fn report(devices: &[&str], profile: Option<&str>) -> Report {
    let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
    Report {
        moment: Moment::Begin,
        task: "batch".to_owned(),
        visible: devices.iter().map(|name| (name.clone(), profile.map(str::to_owned))).collect(),
        devices,
        ..Report::default()
    }
}

fn is_broken(name: &str, report: &Report) -> bool {
    broken_promise(report, kind(name), Reality { gpus: 8, driver_is_ill: false }).is_some()
}

#[test]
fn less_or_more_than_promised_is_found() {
    let mig = |devices: &[&str], profile| report(devices, Some(profile));
    assert!(!is_broken("mig:2g.10gb", &mig(&["MIG-a"], "2g.10gb")));
    assert!(is_broken("mig:2g.10gb", &mig(&["MIG-a"], "1g.5gb")), "less");
    assert!(is_broken("mig:2g.10gb", &mig(&["MIG-a"], "3g.20gb")), "more");
    assert!(is_broken("mig:2g.10gb", &mig(&["MIG-a", "MIG-b"], "2g.10gb")), "one too many");
    assert!(is_broken("mig:2g.10gb", &mig(&[], "2g.10gb")), "none");
    assert!(is_broken("mig:2g.10gb", &report(&["GPU-a"], None)), "a GPU");
    assert!(!is_broken("mig of 4 GB", &mig(&["MIG-a"], "1g.5gb")));
    assert!(is_broken("mig of 15 GB", &mig(&["MIG-a"], "2g.10gb")));
    assert!(!is_broken("a moldable job", &mig(&["MIG-a"], "2g.20gb")));
    assert!(is_broken("a moldable job", &mig(&["MIG-a"], "4g.20gb")));
    assert!(!is_broken("two whole GPUs", &report(&["GPU-a", "GPU-b"], None)));
    assert!(is_broken("two whole GPUs", &report(&["GPU-a"], None)));
    assert!(is_broken("one whole GPU", &mig(&["MIG-a"], "7g.40gb")));
    assert!(!is_broken("--gres=gpu:1", &report(&["0"], None)), "Slurm's own numbers");
    assert!(is_broken("no GPU", &report(&["GPU-a"], None)));
    assert!(is_broken("--exclusive", &report(&["GPU-a"], None)));
    assert!(is_broken("auto of 30 GB", &mig(&["MIG-a"], "3g.20gb")));
}

#[test]
fn a_share_has_exactly_its_limits() {
    let share = |mem_mib, threads| Report {
        mps: Some("/pipe".to_owned()),
        mem_mib,
        threads,
        ..report(&["GPU-a"], None)
    };
    assert!(!is_broken("mps of 3 GB", &share(Some(2862), Some(25))));
    assert!(is_broken("mps of 3 GB", &share(Some(9999), Some(25))));
    assert!(is_broken("mps of 3 GB", &share(Some(2862), Some(50))));
    let on_instance = |threads| Report {
        mps: Some("/pipe".to_owned()),
        mem_mib: Some(2862),
        threads: Some(threads),
        ..report(&["MIG-a"], Some("3g.20gb"))
    };
    assert!(!is_broken("mps of 3 GB", &on_instance(59)), "25 % of the GPU");
    let on_two_of_an_h100 =
        Report { visible: report(&["MIG-a"], Some("2g.20gb")).visible, ..on_instance(100) };
    assert!(!is_broken("mps of 3 GB", &on_two_of_an_h100));
    assert!([25, 45, 70, 100].iter().all(|percent| is_broken("mps of 3 GB", &on_instance(*percent))));
    assert!(is_broken("mps of 3 GB", &share(None, None)));
    assert!(is_broken("mps of 3 GB", &report(&["GPU-a"], None)));
    assert!(is_broken("one whole GPU", &share(Some(2862), Some(25))));
    assert!(is_broken("auto of 10 GB", &share(Some(2862), Some(25))));
    assert!(!is_broken("auto of 10 GB", &share(Some(9537), Some(25))));
}

#[test]
fn compute_instances_and_seats_are_what_was_promised() {
    assert!(!is_broken("mig:4c.7g.40gb", &report(&["MIG-a"], Some("4c.7g.40gb"))));
    assert!(is_broken("mig:4c.7g.40gb", &report(&["MIG-a"], Some("7g.40gb"))), "all of the GPU instance");
    let seats = Report {
        job: 17,
        mps: Some("/pipe".to_owned()),
        node: "n1".to_owned(),
        socket: Some("/x/nodes/n1/run/tasks/17.sock".to_owned()),
        preload: Some("/lib/libtessera_task.so".to_owned()),
        ..report(&["GPU-a"], None)
    };
    assert!(!is_broken("tasks of 3 GB", &seats));
    assert!(is_broken("tasks:probes", &seats), "a library that was not asked for");
    assert!(is_broken("tasks of 3 GB", &Report { job: 18, ..seats.clone() }), "another job's socket");
    assert!(is_broken("tasks of 3 GB", &Report { node: "n2".to_owned(), ..seats.clone() }), "another node's");
    assert!(is_broken("tasks of 3 GB", &Report { mps: None, ..seats.clone() }));
    assert!(is_broken("tasks of 3 GB", &Report { preload: None, ..seats.clone() }));
    assert!(is_broken("one whole GPU", &seats));

    let ended = |name: &str, status, words: &str| {
        let report = Report { work: Some((status, words.to_owned())), ..seats.clone() };
        failed_work(&report, kind(name)).is_some()
    };
    assert!(!ended("tasks of 3 GB", 0, "had 2432 MiB on 00"));
    assert!(ended("tasks of 3 GB", 1, "cuMemAlloc of what it was promised: 2"));
    assert!(!ended("tasks of 3 GB", 143, ""), "it was told to end");
    assert!(ended("tasks of 3 GB", 139, ""));
    assert!(!ended("tasks:probes", 0, "4711 0 3 0"), "growth may be refused");
    assert!(ended("tasks:probes", 0, "4711 1 0 0"), "memory ran out");
    assert!(ended("tasks:probes", 0, "4711 0 0 1"), "another refusal");
    assert!(failed_work(&seats, kind("tasks:probes")).is_none(), "nothing has run yet");
}

#[test]
fn a_device_that_a_running_job_has_lost_is_found() {
    let mut lost = report(&["MIG-a"], Some("1g.5gb"));
    lost.moment = Moment::End;
    assert!(!is_broken("mig:1g.5gb", &lost));
    lost.visible.clear();
    assert!(is_broken("mig:1g.5gb", &lost));
    let ill = Reality { gpus: 8, driver_is_ill: true };
    assert_eq!(broken_promise(&lost, kind("mig:1g.5gb"), ill), None, "the driver does not say");
}

#[test]
fn each_task_of_a_step_has_its_own_promise() {
    let task = |devices: &[&str]| Report { task: "1".to_owned(), ..report(devices, Some("1g.5gb")) };
    assert!(!is_broken("three instances, a task each", &task(&["MIG-a"])));
    assert!(is_broken("three instances, a task each", &task(&["MIG-a", "MIG-b", "MIG-c"])));
}

#[test]
fn only_what_stays_is_wrong() {
    let finding = |subject: &str, seen: &str| Finding::new("rule", subject, seen);
    let mut patience = Patience::default();
    assert_eq!(patience.look(vec![finding("a", "1"), finding("b", "1")]).len(), 2);
    let left: Vec<String> = patience
        .look(vec![finding("b", "2"), finding("c", "1")])
        .into_iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(left, ["rule: b: 2"]);
    assert!(patience.look(vec![finding("a", "3"), finding("c", "1")]).is_empty());
    assert!(patience.look(vec![finding("b", "1")]).is_empty(), "it was away");
}

#[test]
fn a_power_limit_that_stays_is_found() {
    let as_found = "0, 400.00 W, 400.00 W\n1, 400.00 W, 400.00 W\n";
    assert!(changed_limits("n1", as_found).is_empty());
    let left = changed_limits("n1", "0, 400.00 W, 400.00 W\n1, 220.00 W, 400.00 W\n");
    assert_eq!(left.len(), 1);
    assert!(left[0].to_string().contains("GPU 1"), "{}", left[0]);
    for nothing in ["", "0, [GPU is lost], [GPU is lost]\n", "No devices were found\n"] {
        assert_eq!(changed_limits("n1", nothing).len(), 1, "{nothing:?}");
    }
}

/// Job 1 was on GPU 0 of n1 when it became unhealthy, job 2 on GPU 1. slurmctld knew it in second 1,000, 50 s after the boot.
fn sick(requeues: bool, harm: impl FnOnce(&mut Seen, &mut LeftOut)) -> Vec<&'static str> {
    let mut seen = healthy();
    let devices = devices(&seen);
    let mut out = LeftOut::new(&seen, &devices, "n1", 0, requeues).unwrap();
    out.is_known(1_000, 5_000);
    seen.nodes[0].left_out = vec![0];
    harm(&mut seen, &mut out);
    out.note(&seen.tasks, &devices);
    sick_gpu(&seen, &out).into_iter().map(|finding| finding.rule).collect()
}

/// Job 9 was placed in second `placed`, and its process began on the device 56 s after the boot, in second 1,006.
fn begins(seen: &mut Seen, device: &str, placed: u64) {
    let task = Task {
        job: 9,
        order: Some(9),
        since: 5_600,
        devices: vec![device.to_owned()],
        ..seen.tasks[1].clone()
    };
    seen.tasks.push(task);
    seen.jobs.push(Job { id: 9, order: Some(9), start: Some(placed), ..seen.jobs[1].clone() });
}

#[test]
fn a_new_job_on_an_unhealthy_gpu_is_found() {
    assert_eq!(sick(false, |_, _| {}), Vec::<&str>::new());
    for device in ["GPU-0", "MIG-idle", "0"] {
        assert_eq!(sick(false, |seen, _| begins(seen, device, 1_005)), ["sick GPU used"], "{device}");
        assert_eq!(sick(false, |seen, _| begins(seen, device, 1_000)), Vec::<&str>::new(), "placed before");
        assert_eq!(
            sick(false, |seen, _| begins(seen, device, 1_020)),
            Vec::<&str>::new(),
            "placed again since"
        );
    }
    assert_eq!(sick(false, |seen, _| begins(seen, "GPU-3", 1_005)), Vec::<&str>::new(), "another GPU");
    assert_eq!(sick(false, |seen, _| seen.nodes[0].left_out.clear()), ["sick GPU not left out"]);
    assert_eq!(sick(false, |seen, _| seen.nodes[0].takes_no_gpu_jobs = true), ["node unfit for a sick GPU"]);
}

#[test]
fn jobs_of_an_unhealthy_gpu_stay_or_are_requeued_as_the_rule_says() {
    let requeue = |job: usize| {
        move |seen: &mut Seen, _: &mut LeftOut| {
            seen.jobs[job].restarts += 1;
            seen.jobs[job].state = "PENDING".to_owned();
        }
    };
    assert_eq!(sick(false, requeue(0)), ["job requeued for nothing"]);
    assert_eq!(sick(true, requeue(0)), Vec::<&str>::new());
    assert_eq!(sick(true, |_, _| {}), ["job stays on a lost GPU"]);
    let other = sick(true, |seen, out| {
        requeue(0)(seen, out);
        requeue(1)(seen, out);
    });
    assert_eq!(other, ["job requeued for nothing"]);
    let disturbed = sick(false, |seen, out| {
        requeue(1)(seen, out);
        out.is_disturbed = true;
    });
    assert_eq!(disturbed, Vec::<&str>::new(), "a fault before this one may have done it");
    assert_eq!(
        sick(true, |seen, _| seen.jobs[0].state = "COMPLETING".to_owned()),
        Vec::<&str>::new(),
        "it ended by itself"
    );
}

#[test]
fn slices_that_no_job_has_are_told() {
    let shown = |used| format!("LicenseName=slice Total=1000000 Used={used} Free=9 Reserved=0 Remote=no\n");
    assert_eq!(counted_slices(&shown(0)), None);
    assert!(counted_slices(&shown(10)).is_some_and(|found| found.seen.contains("Used=10")));
    assert!(counted_slices("").is_some(), "no such license");
}
