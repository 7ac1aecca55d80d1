//! The core against an oracle that keeps its own books from what processes are told.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use task_broker::core::{Core, Effect, Key, Opened, Process, Record, Sample, Seen};
use task_control::status::TaskState;
use task_control::{Device, Job};
use task_sched::Bytes;
use task_wire::{Begin, Code, Reply, Text};

const MIB: u64 = 1 << 20;
const CONTEXT: u64 = 100 * MIB;

fn device(at: usize, group: usize) -> Device {
    Device {
        uuid: format!("GPU-{at}"),
        group: format!("g{group}"),
        mps_pipe: None,
        memory_mib: 4000,
        sms: 80,
        workers: 4,
    }
}

fn opened(devices: &[Device], free_mib: u64) -> Vec<Opened> {
    devices.iter().map(|d| Opened { uuid: d.uuid.clone(), free: free_mib * MIB, used: 7 * MIB }).collect()
}

fn job(job: u32, devices: &[Device], gpu_mem_mib: Option<u64>) -> Job {
    Job { job, uid: 1000 + job, seats: 4, gpu_mem_mib, devices: devices.to_vec() }
}

fn process(pid: u32) -> Process {
    Process { pid, start: 5 }
}

fn begin(nonce: u64, mib: u64) -> Begin {
    let (mem, bound) = (mib * MIB, Text::EMPTY);
    Begin { image: 1, nonce, mem, managed: 0, blocks: 10, threads: 64, whole: false, sticky: false, bound }
}

/// The lines of the log among these effects.
fn lines(effects: &[Effect]) -> String {
    let logged = effects.iter().filter_map(|e| if let Effect::Log(line) = e { Some(line) } else { None });
    logged.map(|line| format!("{line}\n")).collect()
}

/// A core with these devices and jobs 1 and 2 that may use all of them.
fn core(policy: &str, devices: &[Device], free_mib: u64) -> Core {
    let mut core = Core::new(policy, Bytes(CONTEXT)).unwrap();
    core.add_job(&job(1, devices, None), &opened(devices, free_mib), 0.0).unwrap();
    core.add_job(&job(2, devices, Some(500)), &[], 0.0).unwrap();
    core
}

fn replies(effects: &[Effect]) -> Vec<Reply> {
    effects.iter().filter_map(|e| if let Effect::Reply(_, reply) = e { Some(*reply) } else { None }).collect()
}

fn granted_on(effects: &[Effect]) -> Vec<(u64, String)> {
    let on =
        |r: Reply| if let Reply::Granted(g) = r { Some((g.nonce, g.uuid.as_str().to_owned())) } else { None };
    replies(effects).into_iter().filter_map(on).collect()
}

fn refusals(effects: &[Effect]) -> Vec<(u64, Code)> {
    let of = |r: Reply| if let Reply::Refused(r) = r { Some((r.nonce, r.code)) } else { None };
    replies(effects).into_iter().filter_map(of).collect()
}

const NOBODY: Sample = Sample { used: 7 * MIB, processes: Vec::new() };

fn image(pid: u32) -> task_broker::core::Image {
    task_broker::core::Image { process: process(pid), image: 1 }
}

#[test]
fn a_task_gets_rounded_memory_once_and_the_same_answer_again() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    let first = core.begin(1, process(10), &begin(7, 3), 1.0);
    let [Reply::Granted(grant)] = replies(&first)[..] else { panic!("{first:?}") };
    assert_eq!((grant.mem, grant.visible.as_str(), grant.ordinal), (4 * MIB, "GPU-0", 0));
    let again = core.begin(1, process(10), &begin(7, 3), 2.0);
    assert_eq!(again, [Effect::Reply(process(10), Reply::Granted(grant))]);
    assert_eq!(core.status(2.0).devices[0].leased_mib, 4);
    // Freed once; a second time, or by somebody else, nothing changes.
    assert!(core.free(image(11), 7, 3.0).is_empty());
    assert_eq!(replies(&core.free(image(10), 7, 3.0)), [Reply::Freed { nonce: 7 }]);
    assert_eq!(refusals(&core.free(image(10), 7, 3.0)), [(7, Code::Unknown)]);
    let status = core.status(3.0);
    assert_eq!((status.devices[0].leased_mib, status.devices[0].overhead_mib), (0, 100));
}

#[test]
fn a_core_whose_log_nobody_reads_decides_alike() {
    let devices = [device(0, 0), device(1, 1)];
    let [mut logged, mut silent] = [core("tessera", &devices, 1000), core("tessera", &devices, 1000)];
    silent.stop_log();
    type Step<'a> = &'a dyn Fn(&mut Core) -> Vec<Effect>;
    let steps: [Step<'_>; 6] = [
        &|core| core.begin(1, process(10), &begin(1, 600), 1.0),
        &|core| core.begin(1, process(11), &begin(1, 600), 1.0),
        &|core| core.begin(2, process(12), &begin(1, 600), 1.0),
        &|core| core.free(image(10), 1, 2.0),
        &|core| core.process_ended(process(11), 3.0),
        &|core| core.end_job(2, 4.0),
    ];
    let is_line = |effect: &Effect| matches!(effect, Effect::Log(_));
    let mut lines = 0;
    for step in steps {
        let (lined, effects): (Vec<Effect>, Vec<Effect>) = step(&mut logged).into_iter().partition(is_line);
        lines += lined.len();
        assert_eq!(step(&mut silent), effects);
    }
    assert!(lines > 6, "{lines}");
    assert_eq!(silent.status(5.0), logged.status(5.0));
}

#[test]
fn what_no_device_can_hold_is_refused_at_once_naming_both() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    for (mem, need) in [(901 * MIB, 902 * MIB), (1 << 63, 1 << 63), (u64::MAX, u64::MAX)] {
        let effects = core.begin(1, process(10), &Begin { mem, ..begin(1, 0) }, 0.0);
        let [Reply::Refused(refused)] = replies(&effects)[..] else { panic!("{effects:?}") };
        assert_eq!((refused.code, refused.need, refused.most), (Code::TooLarge, need, 900 * MIB));
        assert!(refused.why.as_str().contains(&need.to_string()), "{refused:?}");
    }
    for (blocks, threads) in [(0, 32), (1, 0), (1, 1025)] {
        let effects = core.begin(1, process(10), &Begin { blocks, threads, ..begin(1, 1) }, 0.0);
        assert_eq!(refusals(&effects), [(1, Code::BadLaunch)]);
    }
    assert_eq!(core.status(0.0).jobs[0].tasks, []);
    assert!(!core.knows(process(10)), "a process without tasks leaves nothing behind");
}

#[test]
fn of_two_that_hold_and_ask_for_more_one_waits_and_one_is_refused() {
    for policy in ["tessera", "alg3"] {
        let mut core = core(policy, &[device(0, 0)], 1000);
        core.begin(1, process(10), &begin(1, 300), 0.0);
        core.begin(1, process(11), &begin(1, 300), 0.0);
        assert!(replies(&core.begin(1, process(10), &begin(2, 290), 0.0)).is_empty(), "waits first");
        assert_eq!(refusals(&core.begin(1, process(11), &begin(2, 290), 0.0)), [(2, Code::Growth)]);
        // A third process waits behind the one that holds, although 200 MiB would fit now.
        assert!(replies(&core.begin(1, process(12), &begin(1, 90), 0.0)).is_empty());
        let grants = granted_on(&core.free(image(11), 1, 1.0));
        assert_eq!(grants[0].0, 2, "the one that holds comes first");
        assert_eq!(grants.len(), 2);
    }
}

#[test]
fn who_asks_for_more_than_is_left_beside_its_own_is_refused() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 500), 0.0);
    assert_eq!(refusals(&core.begin(1, process(10), &begin(2, 402), 0.0)), [(2, Code::Growth)]);
    assert_eq!(granted_on(&core.begin(1, process(10), &begin(3, 400), 0.0)).len(), 1);
}

#[test]
fn a_process_stays_in_its_first_group_and_sees_all_of_it() {
    let devices = [device(0, 0), device(1, 1), device(2, 1)];
    let mut core = core("tessera", &devices, 1000);
    core.begin(1, process(1), &begin(1, 10), 0.0);
    let effects = core.begin(1, process(10), &begin(1, 800), 0.0);
    let [Reply::Granted(grant)] = replies(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((grant.visible.as_str(), grant.uuid.as_str()), ("GPU-1,GPU-2", "GPU-1"));
    // GPU 0 has room; this process cannot go there.
    assert_eq!(granted_on(&core.begin(1, process(10), &begin(2, 800), 0.0))[0].1, "GPU-2");
    assert_eq!(refusals(&core.begin(1, process(10), &begin(3, 500), 0.0)), [(3, Code::Growth)]);
    // One that CUDA bound before its first task.
    let bound = Begin { bound: Text::cut("GPU-2"), ..begin(1, 90) };
    assert_eq!(granted_on(&core.begin(1, process(11), &bound, 0.0)), []);
    let foreign = Begin { bound: Text::cut("GPU-9"), ..begin(1, 90) };
    assert_eq!(refusals(&core.begin(1, process(12), &foreign, 0.0)), [(1, Code::NotItsDevice)]);
}

#[test]
fn memory_of_the_dead_is_quarantined_until_nvml_shows_them_gone() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 500), 0.0);
    core.begin(1, process(11), &begin(1, 500), 0.0);
    core.process_ended(process(10), 1.0);
    let status = core.status(1.0);
    assert_eq!((status.devices[0].quarantined_mib, status.devices[0].leased_mib), (500, 0));
    assert_eq!(status.jobs[0].tasks[0].state, TaskState::Quarantined);
    let id = core.uuids().next().unwrap().0;
    let still = Seen { process: process(10), used: Some(600 * MIB), is_server: false };
    assert!(
        granted_on(&core.sampled(id, &Sample { used: 607 * MIB, processes: vec![still] }, 2.0)).is_empty()
    );
    // Gone from the list, but the driver has not freed its memory yet; a process with the same pid is another.
    let reused = Seen { process: Process { pid: 10, start: 6 }, used: Some(0), is_server: false };
    assert!(
        granted_on(&core.sampled(id, &Sample { used: 607 * MIB, processes: vec![reused] }, 3.0)).is_empty()
    );
    assert_eq!(core.status(3.0).devices[0].overhead_mib, 600);
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 4.0)).len(), 1);
}

/// A server's end is a fault only under a process that was seen beside it: a server makes room for another user's once its last
/// client is gone, and the next may have its grant already.
#[test]
fn a_server_that_ends_under_a_process_closes_its_devices_until_that_is_gone() {
    let with_daemon = |at| Device { mps_pipe: Some("/pipe".into()), ..device(at, 0) };
    let server = Seen { process: process(90), used: Some(30 * MIB), is_server: true };
    let client = Seen { process: process(10), used: Some(400 * MIB), is_server: false };
    let sample = |processes: &[Seen]| Sample { used: 437 * MIB, processes: processes.to_vec() };
    for is_seen in [true, false] {
        let mut core = core("tessera", &[with_daemon(0), with_daemon(1)], 1000);
        let granted = granted_on(&core.begin(1, process(10), &begin(1, 300), 0.0));
        let id = core.uuids().find(|(_, uuid)| *uuid == granted[0].1).unwrap().0;
        let shown = if is_seen { vec![server, client] } else { vec![server] };
        core.sampled(id, &sample(&shown), 1.0);
        core.sampled(id, &sample(&[client]), 2.0);
        let held = core.status(2.0).devices.iter().filter(|d| d.held.is_some()).count();
        assert_eq!(held, if is_seen { 2 } else { 0 }, "all that the daemon serves, or nothing");
        if !is_seen {
            continue;
        }
        assert_eq!(refusals(&core.begin(1, process(10), &begin(2, 10), 3.0)), [(2, Code::DeviceLost)]);
        assert_eq!(granted_on(&core.begin(1, process(11), &begin(1, 10), 3.0)), []);
        core.mps_runs("/pipe", false, 4.0);
        assert!(core.status(4.0).devices.iter().all(|d| d.held.is_some()), "its client is still there");
        core.process_ended(process(10), 5.0);
        core.sampled(id, &NOBODY, 6.0);
        assert_eq!(granted_on(&core.mps_runs("/pipe", false, 7.0)).len(), 1);
    }
}

/// The server comes with the first client and stays: a process that wants a device alone must still fit beside it.
#[test]
fn a_server_that_stays_keeps_nobody_from_a_device_alone() {
    let mut core = core("tessera", &[Device { mps_pipe: Some("/pipe".into()), ..device(0, 0) }], 1000);
    let id = core.uuids().next().unwrap().0;
    let server = Seen { process: process(90), used: Some(66 * MIB), is_server: true };
    for pid in [10, 11] {
        let whole = Begin { whole: true, ..begin(1, 0) };
        assert_eq!(granted_on(&core.begin(1, process(pid), &whole, 0.0)).len(), 1, "process {pid}");
        core.process_ended(process(pid), 1.0);
        core.sampled(id, &Sample { used: (7 + 66) * MIB, processes: vec![server] }, 2.0);
    }
}

#[test]
fn who_uses_more_than_it_was_promised_is_charged() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 300), 0.0);
    let id = core.uuids().next().unwrap().0;
    let seen = |pid, mib: u64| Seen { process: process(pid), used: Some(mib * MIB), is_server: false };
    let sample = Sample { used: (7 + 450 + 200) * MIB, processes: vec![seen(10, 450), seen(99, 200)] };
    let overuse = |effects: &[Effect]| -> Vec<(u32, u64, bool)> {
        let of = |e: &Effect| {
            if let Effect::Overuse { process, excess, lasts, .. } = e {
                Some((process.pid, excess / MIB, *lasts))
            } else {
                None
            }
        };
        effects.iter().filter_map(of).collect()
    };
    assert_eq!(overuse(&core.sampled(id, &sample, 1.0)), [(10, 50, false), (99, 200, false)]);
    assert_eq!(overuse(&core.sampled(id, &sample, 1.0)), [(10, 50, true), (99, 200, true)]);
    // 1000 - 300 - 100 for the context - 250 charged.
    assert!(granted_on(&core.begin(1, process(12), &begin(1, 252), 2.0)).is_empty());
    assert_eq!(
        granted_on(&core.sampled(id, &Sample { used: 407 * MIB, processes: vec![seen(10, 400)] }, 3.0)).len(),
        1
    );
}

#[test]
fn a_device_has_the_memory_that_others_have_left_since_it_was_opened() {
    let shown = [Opened { uuid: "GPU-0".to_owned(), free: 700 * MIB, used: 307 * MIB }];
    let new = || {
        let mut core = Core::new("tessera", Bytes(CONTEXT)).unwrap();
        let added = core.add_job(&job(1, &[device(0, 0)], None), &shown, 0.0).unwrap();
        (core, lines(&added))
    };
    let (mut core, mut log) = new();
    let id = core.uuids().next().unwrap().0;
    let refused = core.begin(1, process(10), &begin(1, 800), 0.0);
    assert_eq!(refusals(&refused), [(1, Code::TooLarge)]);
    log += &lines(&refused);
    let looked = lines(&core.sampled(id, &NOBODY, 1.0));
    assert!(looked.contains(r#""ev":"node""#), "{looked}");
    log += &looked;
    assert_eq!(lines(&core.sampled(id, &NOBODY, 1.0)), "", "nothing changed");
    let granted = core.begin(1, process(10), &begin(2, 800), 2.0);
    assert_eq!(granted_on(&granted).len(), 1);
    log += &lines(&granted);
    let saved: Vec<_> =
        granted.iter().filter_map(|e| if let Effect::Save(r) = e { Some(*r) } else { None }).collect();
    // Others are back: that is charged, and not promised again.
    let own = Seen { process: process(10), used: Some(900 * MIB), is_server: false };
    let full = Sample { used: 1007 * MIB, processes: vec![own] };
    core.sampled(id, &full, 3.0);
    assert_eq!(core.status(3.0).devices[0].overhead_mib, 200, "a context and what others have");
    assert_eq!(granted_on(&core.begin(1, process(11), &begin(3, 2), 4.0)), []);
    // A broker that knows only what was there at first keeps the lease, and promises nothing that is in use.
    let (mut again, _) = new();
    let restored = lines(&again.restore(&saved, 5.0));
    let last = restored.lines().rfind(|line| line.contains(r#""ev":"node""#)).unwrap();
    assert!(last.contains(&format!(r#""mem":{}"#, 700 * MIB)), "{last}");
    log += &restored;
    again.sampled(id, &full, 6.0);
    assert_eq!(again.status(6.0).devices[0].leased_mib, 800);
    assert_eq!(granted_on(&again.begin(1, process(11), &begin(3, 2), 7.0)), []);
    assert_eq!(granted_on(&again.free(image(10), 2, 8.0)).len(), 1);
    let account = case_study::audit::daemon(&log);
    assert_eq!((account.violations, account.granted), (vec![], 1), "{log}");
}

#[test]
fn a_context_that_is_a_little_larger_or_came_before_the_first_task_is_charged_and_not_named() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 300), 0.0);
    let id = core.uuids().next().unwrap().0;
    let seen = |pid, mib: u64| Seen { process: process(pid), used: Some(mib * MIB), is_server: false };
    let names = |effects: &[Effect]| effects.iter().filter(|e| matches!(e, Effect::Overuse { .. })).count();
    // The first was promised 400, context included; the second has no task yet, the third a context and a byte.
    let allowed = vec![seen(10, 412), seen(98, 100)];
    let named = vec![seen(10, 413), Seen { used: Some(100 * MIB + 1), ..seen(99, 0) }];
    for (number, (processes, used, count)) in [(allowed, 512, 0), (named, 514, 2)].into_iter().enumerate() {
        let sample = Sample { used: (7 + used) * MIB, processes };
        for _ in 0..2 {
            assert_eq!(names(&core.sampled(id, &sample, 1.0)), count, "{number}");
        }
        // 1000 less 300, two contexts of 100, and what is charged.
        let rest = 1000 - 300 - 100 - (used - 400) - 100;
        assert!(granted_on(&core.begin(1, process(12), &begin(9, rest + 1), 2.0)).is_empty());
        core.process_ended(process(12), 2.0);
    }
}

#[test]
fn a_larger_context_is_measured() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 0), 0.0);
    let id = core.uuids().next().unwrap().0;
    let seen = Seen { process: process(10), used: Some(150 * MIB), is_server: false };
    core.sampled(id, &Sample { used: 157 * MIB, processes: vec![seen] }, 1.0);
    core.begin(1, process(11), &begin(1, 0), 2.0);
    // The first one's 100 and what is charged for it, and the second one's.
    assert_eq!(core.status(2.0).devices[0].overhead_mib, 100 + 50 + 150);
}

#[test]
fn a_program_that_says_nothing_gets_what_its_job_declared_or_a_device_alone() {
    let mut core = core("tessera", &[device(0, 0), device(1, 0)], 1000);
    let whole = Begin { whole: true, ..begin(1, 0) };
    let effects = core.begin(2, process(20), &whole, 0.0);
    let [Reply::Granted(grant)] = replies(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((grant.mem, grant.visible.as_str()), (500 * MIB, "GPU-0"));
    let effects = core.begin(1, process(10), &whole, 0.0);
    let [Reply::Granted(grant)] = replies(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((grant.mem, grant.uuid.as_str()), (900 * MIB, "GPU-1"));
    assert!(granted_on(&core.begin(1, process(11), &begin(1, 500), 0.0)).is_empty(), "it is alone there");
    assert_eq!(granted_on(&core.begin(1, process(12), &begin(1, 200), 0.0))[0].1, "GPU-0");
}

#[test]
fn a_process_with_something_outside_its_tasks_stays_on_one_device() {
    let mut core = core("tessera", &[device(0, 0), device(1, 0)], 1000);
    let sticky = |nonce| Begin { sticky: true, ..begin(nonce, 100) };
    core.begin(1, process(10), &begin(1, 100), 0.0);
    assert_eq!(granted_on(&core.begin(1, process(10), &sticky(2), 0.0))[0].1, "GPU-0");
    assert_eq!(granted_on(&core.begin(1, process(10), &begin(3, 100), 0.0))[0].1, "GPU-0", "from now on");
    assert_eq!(granted_on(&core.begin(1, process(11), &begin(1, 100), 0.0))[0].1, "GPU-1");
}

#[test]
fn exec_and_fork_make_other_workers() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.begin(1, process(10), &begin(1, 500), 0.0);
    // The forked child has the image, and another pid.
    assert_eq!(granted_on(&core.begin(1, process(11), &begin(1, 200), 0.0)).len(), 1);
    // Exec: the same process, another image. Its old memory is quarantined.
    core.begin(1, process(10), &Begin { image: 2, ..begin(1, 700) }, 1.0);
    assert_eq!(core.status(1.0).devices[0].quarantined_mib, 500);
    core.free(image(11), 1, 1.0);
    core.process_ended(process(11), 1.0);
    let id = core.uuids().next().unwrap().0;
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 2.0)), [(1, "GPU-0".to_owned())]);
}

/// Counts the grants of a round of looks. NVML does not answer for devices without a sample.
fn granted_in_round(core: &mut Core, round: &[(task_sched::DeviceId, Option<&Sample>)]) -> usize {
    let mut effects = Vec::new();
    for (id, sample) in round {
        match sample {
            Some(sample) => effects.extend(core.sampled(*id, sample, 4.0)),
            None => core.lost(*id, "GPU is lost"),
        }
    }
    effects.extend(core.looked(4.0));
    granted_on(&effects).len()
}

#[test]
fn a_program_after_exec_waits_for_rounds_however_many_devices_there_are_or_answer() {
    for answers in [true, false] {
        let mut core = core("tessera", &[device(0, 0), device(1, 0)], 1000);
        let ids: Vec<_> = core.uuids().map(|(id, _)| id).collect();
        core.begin(1, process(10), &begin(1, 600), 0.0);
        if answers {
            core.begin(1, process(10), &begin(2, 600), 0.0);
        }
        core.begin(1, process(10), &Begin { image: 2, ..begin(3, 100) }, 1.0);
        let still = Seen { process: process(10), used: Some(700 * MIB), is_server: false };
        let shown = Sample { used: 707 * MIB, processes: vec![still] };
        let round = if answers {
            [(ids[0], Some(&shown)), (ids[1], Some(&shown))]
        } else {
            [(ids[0], None), (ids[1], Some(&NOBODY))]
        };
        let rounds: Vec<usize> = (0..9).map(|_| granted_in_round(&mut core, &round)).collect();
        assert_eq!(rounds, [0, 0, 0, 0, 0, 0, 0, 1, 0], "{answers}");
    }
}

/// NVML shows the process as soon as its new program has a context: what the old one had would stay quarantined for ever.
#[test]
fn a_program_after_exec_waits_until_nvml_does_not_show_its_process() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    let id = core.uuids().next().unwrap().0;
    core.begin(1, process(10), &begin(1, 500), 0.0);
    let after = |image, nonce| Begin { image, ..begin(nonce, 100) };
    assert_eq!(replies(&core.begin(1, process(10), &after(2, 2), 1.0)), [], "although there is room");
    assert!(core.awaits_ends());
    let still = Seen { process: process(10), used: Some(600 * MIB), is_server: false };
    let sample = Sample { used: 607 * MIB, processes: vec![still] };
    assert_eq!(replies(&core.sampled(id, &sample, 2.0)), []);
    // The driver has not freed it yet: that is charged before anything is granted.
    let late = Sample { used: 907 * MIB, processes: Vec::new() };
    assert_eq!(replies(&core.sampled(id, &late, 3.0)), []);
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 4.0)), [(2, "GPU-0".to_owned())]);
    // If NVML goes on to show the process, that is not for what the old program had.
    let again = core.begin(1, process(10), &after(4, 4), 4.0);
    assert_eq!(granted_on(&again), []);
    let looks: Vec<usize> = (0..9).map(|_| granted_in_round(&mut core, &[(id, Some(&sample))])).collect();
    assert_eq!(looks, [0, 0, 0, 0, 0, 0, 0, 1, 0]);
    // One that had made its context before it asked would wait for itself.
    let bound = Begin { bound: Text::cut("GPU-0"), ..after(3, 3) };
    assert_eq!(granted_on(&core.begin(1, process(10), &bound, 5.0)), [(3, "GPU-0".to_owned())]);
}

#[test]
fn a_job_that_ended_gives_back_what_nvml_shows_free() {
    let devices = [device(0, 0)];
    let mut core = core("tessera", &devices, 1000);
    core.begin(1, process(10), &begin(1, 500), 0.0);
    core.begin(2, process(20), &begin(1, 500), 0.0);
    assert!(granted_on(&core.end_job(1, 1.0)).is_empty());
    assert_eq!((core.left(1).left, core.left(1).jobs), (1, 1));
    assert_eq!(refusals(&core.begin(1, process(10), &begin(3, 1), 1.0)), [(3, Code::JobEnded)]);
    assert_eq!(refusals(&core.free(image(10), 1, 1.0)), [(1, Code::Unknown)], "NVML says when it is free");
    assert_eq!(
        refusals(&core.begin(1, process(10), &begin(1, 500), 1.0)),
        [(1, Code::JobEnded)],
        "no silence"
    );
    assert_eq!(core.status(1.0).devices[0].quarantined_mib, 500);
    let id = core.uuids().next().unwrap().0;
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 2.0)).len(), 1);
    core.end_job(2, 3.0);
    core.sampled(id, &NOBODY, 4.0);
    assert_eq!((core.left(2).left, core.left(2).jobs), (0, 0));
    assert_eq!(core.status(4.0).devices, [], "nobody names the device any more");
}

/// Process 10 waits until 11 or 12 ends. Process 13, which has nothing here yet, was overtaken so often that the device is kept for
/// it as well. It cannot come before 10, so 11 and 12 must not wait for it.
#[test]
fn those_whose_end_is_waited_for_go_on_before_a_task_that_was_overtaken() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    for pid in [10, 11, 12] {
        core.begin(1, process(pid), &begin(1, 1), 0.0);
        core.free(image(pid), 1, 0.0);
    }
    assert_eq!(granted_on(&core.begin(1, process(11), &begin(2, 650), 1.0)).len(), 1);
    assert!(replies(&core.begin(1, process(13), &begin(1, 500), 1.0)).is_empty(), "waits for 11's task");
    for nonce in 2..2 + u64::from(task_sched::policy::OVERTAKEN_AT_MOST) {
        assert_eq!(granted_on(&core.begin(1, process(12), &begin(nonce, 10), 2.0)).len(), 1);
        core.free(image(12), nonce, 2.0);
    }
    assert!(replies(&core.begin(1, process(10), &begin(2, 750), 3.0)).is_empty(), "waits for an end");
    assert_eq!(replies(&core.free(image(11), 2, 4.0)), [Reply::Freed { nonce: 2 }]);
    for pid in [11, 12] {
        let granted = core.begin(1, process(pid), &begin(100, 100), 5.0);
        assert_eq!(granted_on(&granted).len(), 1, "process {pid} waits, and 10 for its end: {granted:?}");
    }
    core.process_ended(process(11), 6.0);
    core.process_ended(process(12), 6.0);
    let id = core.uuids().next().unwrap().0;
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 7.0)).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2]);
    let left = core.free(image(10), 2, 8.0);
    assert_eq!(granted_on(&left).iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [1], "then 13");
}

#[test]
fn a_device_that_is_held_back_or_lost_grants_nothing() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    core.hold("GPU-0", Some("MPS daemon died"), 0.0).unwrap();
    assert!(granted_on(&core.begin(1, process(10), &begin(1, 1), 0.0)).is_empty());
    let id = core.uuids().next().unwrap().0;
    assert!(granted_on(&core.sampled(id, &NOBODY, 1.0)).is_empty());
    core.lost(id, "GPU is lost");
    assert!(granted_on(&core.hold("GPU-0", None, 2.0).unwrap()).is_empty());
    assert_eq!(core.status(2.0).devices[0].held.as_deref(), Some("GPU is lost"));
    assert_eq!(granted_on(&core.sampled(id, &NOBODY, 3.0)).len(), 1);
    assert!(core.hold("GPU-7", None, 3.0).is_none());
}

#[test]
fn jobs_are_checked_against_those_that_are_there() {
    let devices = [device(0, 0)];
    let mut core = core("tessera", &devices, 1000);
    let add =
        |core: &mut Core, j: &Job| core.add_job(j, &[], 0.0).map(|e| e.len()).map_err(|e| e.to_string());
    assert_eq!(add(&mut core, &job(1, &devices, None)), Ok(0), "again");
    assert!(
        add(&mut core, &Job { uid: 0, ..job(1, &devices, None) })
            .unwrap_err()
            .contains("job 1 is here already")
    );
    assert!(
        add(&mut core, &job(3, &[device(0, 1)], None))
            .unwrap_err()
            .contains("is in group g0; job 3 has it in group g1")
    );
    assert!(add(&mut core, &job(3, &[device(5, 1)], None)).unwrap_err().contains("NVML does not show it"));
    assert!(add(&mut core, &job(3, &[], None)).is_err());
}

#[test]
fn a_full_table_is_an_answer() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    for nonce in 0..1024 {
        core.begin(1, process(10), &begin(nonce, 0), 0.0);
    }
    assert_eq!(refusals(&core.begin(1, process(11), &begin(1, 0), 0.0)), [(1, Code::TableFull)]);
    assert_eq!(granted_on(&core.begin(2, process(12), &begin(1, 0), 0.0)).len(), 1, "other jobs go on");
}

#[test]
fn one_user_leaves_room_in_the_table_for_others() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    for id in 10..15 {
        let own = Job { uid: 7, ..job(id, &[device(0, 0)], None) };
        core.add_job(&own, &opened(&[device(0, 0)], 1000), 0.0).unwrap();
    }
    let mut asked = (0..5 * 1024_u64).map(|n| {
        let job = 10 + u32::try_from(n / 1024).unwrap();
        refusals(&core.begin(job, process(job), &begin(n, 0), 0.0))
    });
    assert!(asked.by_ref().take(4 * 1024).all(|refused| refused.is_empty()));
    let beyond: Vec<_> = asked.by_ref().take(2).collect();
    assert!(beyond.iter().all(|refused| matches!(refused[..], [(_, Code::TableFull)])), "{beyond:?}");
    drop(asked);
    assert!(refusals(&core.begin(1, process(99), &begin(1, 0), 0.0)).is_empty(), "another user goes on");
}

#[test]
fn a_broker_that_starts_again_grants_nothing_before_its_first_look() {
    let mut before = core("tessera", &[device(0, 0)], 1000);
    let waits = begin(2, 700);
    let mut saved = Vec::new();
    for effects in
        [before.begin(1, process(10), &begin(1, 200), 0.0), before.begin(2, process(11), &waits, 1.0)]
    {
        saved.extend(effects.iter().filter_map(|e| if let Effect::Save(r) = e { Some(*r) } else { None }));
    }
    let mut again = core("tessera", &[device(0, 0)], 1000);
    let id = again.uuids().next().unwrap().0;
    // The first process ended while the old broker ran, which saw it gone; the driver has not freed its memory yet.
    saved.retain(|record| record.image.process.pid == 11);
    assert!(granted_on(&again.restore(&saved, 2.0)).is_empty());
    let late = Sample { used: 307 * MIB, processes: Vec::new() };
    assert!(granted_on(&again.sampled(id, &late, 3.0)).is_empty(), "700 and a context do not fit beside 300");
    assert_eq!(granted_on(&again.sampled(id, &NOBODY, 4.0)), [(2, "GPU-0".to_owned())]);
}

#[test]
fn managed_memory_counts_like_any_other_where_the_policy_says_so() {
    let managed = |nonce, mib| Begin { managed: mib * MIB, ..begin(nonce, 0) };
    for policy in ["alg2", "alg3"] {
        let mut core = core(policy, &[device(0, 0)], 1000);
        let effects = core.begin(1, process(10), &managed(1, 500), 0.0);
        let saved: Vec<_> =
            effects.iter().filter_map(|e| if let Effect::Save(r) = e { Some(*r) } else { None }).collect();
        // It would wait for itself.
        assert_eq!(refusals(&core.begin(1, process(10), &managed(2, 420), 0.0)), [(2, Code::Growth)]);
        assert_eq!(granted_on(&core.begin(1, process(11), &managed(3, 200), 0.0)).len(), 1, "{policy}");
        let mut again = self::core(policy, &[device(0, 0)], 1000);
        again.restore(&saved, 1.0);
        let seen = Seen { process: process(10), used: Some(110 * MIB), is_server: false };
        let id = again.uuids().next().unwrap().0;
        again.sampled(id, &Sample { used: 117 * MIB, processes: vec![seen] }, 2.0);
        assert_eq!(granted_on(&again.begin(1, process(11), &managed(3, 320), 3.0)), [], "{policy}");
        assert_eq!(again.status(3.0).devices[0].leased_mib, 500);
    }
}

#[test]
fn no_size_of_managed_memory_ends_the_broker() {
    let mut core = core("tessera", &[device(0, 0)], 1000);
    let id = core.uuids().next().unwrap().0;
    let mut saved = Vec::new();
    for nonce in 1..=3 {
        let effects = core.begin(1, process(10), &Begin { managed: u64::MAX, ..begin(nonce, 100) }, 0.0);
        assert_eq!(granted_on(&effects), [(nonce, "GPU-0".to_owned())]);
        saved.extend(effects.iter().filter_map(|e| if let Effect::Save(r) = e { Some(*r) } else { None }));
    }
    let seen = Seen { process: process(10), used: Some(u64::MAX), is_server: false };
    let sample = Sample { used: u64::MAX, processes: vec![seen, Seen { process: process(11), ..seen }] };
    core.sampled(id, &sample, 1.0);
    // Nor one that a broker before had taken up.
    let mut again = self::core("tessera", &[device(0, 0)], 1000);
    again.restore(&saved, 2.0);
    again.sampled(id, &sample, 3.0);
    assert_eq!(again.status(3.0).devices[0].leased_mib, 300);
}

/// A step of a random run; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Begin { pid: u32, mib: u64, managed_mib: u64 },
    Free { at: usize },
    Kill { pid: u32 },
    Look,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..8u32, prop_oneof![0..300u64, 300..950u64], prop_oneof![Just(0), 0..500u64])
            .prop_map(|(pid, mib, managed_mib)| Step::Begin { pid, mib, managed_mib }),
        4 => (0..64usize).prop_map(|at| Step::Free { at }),
        1 => (1..8u32).prop_map(|pid| Step::Kill { pid }),
        1 => Just(Step::Look),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// The oracle's books.
#[derive(Default)]
struct Books {
    /// Task by process and nonce: memory that it may have to wait for, and its device once it is granted.
    tasks: BTreeMap<(u32, u64), (u64, Option<usize>)>,
    /// What ended processes held, until NVML is looked at.
    dead: Vec<(u32, usize, u64)>,
    /// Contexts.
    contexts: Vec<(u32, usize)>,
}

impl Books {
    fn holds(&self, pid: u32) -> bool {
        self.tasks.iter().any(|((p, _), (_, on))| *p == pid && on.is_some())
    }

    fn waits(&self, pid: u32) -> bool {
        self.tasks.iter().any(|((p, _), (_, on))| *p == pid && on.is_none())
    }
}

struct Run {
    core: Core,
    devices: Vec<Device>,
    books: Books,
    table: BTreeMap<Key, Record>,
    policy: &'static str,
    next_nonce: u64,
    /// A pid is a new process after each death.
    lives: BTreeMap<u32, u64>,
    t: f64,
}

impl Run {
    fn new(policy: &'static str, groups: &[usize]) -> Run {
        let devices: Vec<Device> = groups.iter().enumerate().map(|(at, group)| device(at, *group)).collect();
        let core = core(policy, &devices, 1000);
        let (books, table, lives) = (Books::default(), BTreeMap::new(), BTreeMap::new());
        Run { core, devices, books, table, policy, next_nonce: 1, lives, t: 0.0 }
    }

    fn process(&self, pid: u32) -> Process {
        Process { pid, start: self.lives.get(&pid).copied().unwrap_or(0) }
    }

    fn image(&self, pid: u32) -> task_broker::core::Image {
        task_broker::core::Image { process: self.process(pid), image: 1 }
    }

    /// Books what processes are told. Nonces are unique in a run, so that they name the process.
    fn see(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Save(record) => {
                    self.table.insert(record.key(), *record);
                }
                Effect::Erase(key) => {
                    self.table.remove(key);
                }
                Effect::Reply(_, Reply::Granted(grant)) => {
                    let key =
                        *self.books.tasks.keys().find(|(_, nonce)| *nonce == grant.nonce).expect("asked for");
                    let at = self.devices.iter().position(|d| d.uuid == grant.uuid.as_str()).unwrap();
                    let task = self.books.tasks.get_mut(&key).unwrap();
                    assert!(task.1.is_none_or(|on| on == at), "granted twice, elsewhere");
                    task.1 = Some(at);
                    if !self.books.contexts.contains(&(key.0, at)) {
                        self.books.contexts.push((key.0, at));
                    }
                }
                Effect::Reply(_, Reply::Refused(refused)) => {
                    let key = *self
                        .books
                        .tasks
                        .keys()
                        .find(|(_, nonce)| *nonce == refused.nonce)
                        .expect("asked for");
                    let (mem, _) = self.books.tasks.remove(&key).unwrap();
                    match refused.code {
                        Code::TooLarge => assert!(mem >= 900 * MIB, "{refused:?}"),
                        Code::Growth => {
                            let is_present = self.books.contexts.iter().any(|(pid, _)| *pid == key.0);
                            let is_big = mem >= 600 * MIB && is_present;
                            assert!(
                                self.books.holds(key.0) || is_big,
                                "who holds nothing waits: {refused:?}"
                            );
                        }
                        _ => panic!("{refused:?}"),
                    }
                }
                _ => {}
            }
        }
        self.check();
    }

    fn check(&self) {
        for at in 0..self.devices.len() {
            let live =
                self.books.tasks.values().filter(|(_, on)| *on == Some(at)).map(|(mem, _)| mem).sum::<u64>();
            let dead =
                self.books.dead.iter().filter(|(_, on, _)| *on == at).map(|(_, _, mem)| mem).sum::<u64>();
            let contexts = self.books.contexts.iter().filter(|(_, on)| *on == at).count() as u64 * CONTEXT;
            assert!(live + dead + contexts <= 1000 * MIB, "device {at}: {live} + {dead} + {contexts}");
            let (status, mib) = (&self.core.status(self.t).devices[at], |bytes: u64| bytes / MIB);
            assert_eq!((status.leased_mib, status.quarantined_mib), (mib(live), mib(dead)));
            assert_eq!(status.overhead_mib, mib(contexts));
            assert!(self.books.contexts.iter().filter(|(_, on)| *on == at).count() <= 4, "workers");
        }
        // Nobody waits in a circle: of those that wait, at most one per group holds.
        let pids: Vec<u32> = (1..8).filter(|pid| self.books.holds(*pid) && self.books.waits(*pid)).collect();
        let group = |pid: &u32| {
            let (_, on) = self.books.contexts.iter().find(|(p, _)| p == pid).unwrap();
            self.devices[*on].group.clone()
        };
        let mut groups: Vec<String> = pids.iter().map(group).collect();
        groups.dedup();
        assert_eq!(groups.len(), pids.len(), "two of one group hold and wait: {pids:?}");
    }

    fn step(&mut self, step: &Step) {
        self.t += 1.0;
        match step {
            Step::Begin { pid, mib, managed_mib } => {
                let (nonce, process) = (self.next_nonce, self.process(*pid));
                self.next_nonce += 1;
                let asked = Begin { managed: managed_mib * MIB, ..begin(nonce, *mib) };
                let hard = if self.policy == "tessera" { 0 } else { asked.managed };
                self.books.tasks.insert((*pid, nonce), (asked.mem.next_multiple_of(2 * MIB) + hard, None));
                let effects = self.core.begin(1 + pid % 2, process, &asked, self.t);
                self.see(&effects);
            }
            Step::Free { at } => {
                let Some(key) = self.books.tasks.keys().nth(at % self.books.tasks.len().max(1)).copied()
                else {
                    return;
                };
                self.free(key);
            }
            Step::Kill { pid } => {
                let process = self.process(*pid);
                self.lives.insert(*pid, process.start + 1);
                let all = std::mem::take(&mut self.books.tasks);
                let (gone, stay): (Vec<_>, Vec<_>) = all.into_iter().partition(|((p, _), _)| p == pid);
                self.books.tasks = stay.into_iter().collect();
                self.books
                    .dead
                    .extend(gone.into_iter().filter_map(|((p, _), (mem, on))| Some((p, on?, mem))));
                // Its contexts are those of a dead process now: pids from 100 on stand for these.
                for context in self.books.contexts.iter_mut().filter(|(p, _)| p == pid) {
                    context.0 += 100;
                }
                let effects = self.core.process_ended(process, self.t);
                self.see(&effects);
            }
            Step::Look => {
                self.books.dead.clear();
                self.books.contexts.retain(|(pid, _)| *pid < 100);
                let ids: Vec<_> = self.core.uuids().map(|(id, _)| id).collect();
                // The first looks free what is on one device; the books know only the last.
                let effects: Vec<Effect> =
                    ids.iter().flat_map(|id| self.core.sampled(*id, &NOBODY, self.t)).collect();
                self.see(&effects);
            }
            Step::Restart => {
                let mut core = core(self.policy, &self.devices, 1000);
                let records: Vec<Record> = self.table.values().copied().collect();
                let effects = core.restore(&records, self.t);
                self.core = core;
                self.see(&effects);
                // The shell finds out who ended meanwhile.
                let ended: Vec<Process> =
                    self.core.processes().into_iter().filter(|p| *p != self.process(p.pid)).collect();
                for process in ended {
                    let effects = self.core.process_ended(process, self.t);
                    self.see(&effects);
                }
            }
        }
    }

    fn free(&mut self, key: (u32, u64)) {
        self.books.tasks.remove(&key);
        let effects = self.core.free(self.image(key.0), key.1, self.t);
        assert!(replies(&effects).contains(&Reply::Freed { nonce: key.1 }));
        self.see(&effects);
    }

    /// Everybody who does not wait goes on and frees what it holds: then nobody is left waiting.
    fn drain(&mut self) {
        self.step(&Step::Look);
        while self.books.tasks.values().any(|(_, on)| on.is_none()) {
            let able =
                self.books.tasks.iter().filter(|((pid, _), (_, on))| on.is_some() && !self.books.waits(*pid));
            let able: Vec<(u32, u64)> = able.map(|(key, _)| *key).collect();
            match able.first() {
                Some(key) => self.free(*key),
                None => {
                    // Contexts of processes that hold nothing leave when these end.
                    let idle = (1..8).find(|pid| {
                        let has = self.books.contexts.iter().any(|(p, _)| p == pid);
                        has && !self.books.holds(*pid) && !self.books.waits(*pid)
                    });
                    let pid = idle.unwrap_or_else(|| panic!("all wait: {:?}", self.books.tasks));
                    self.step(&Step::Kill { pid });
                    self.step(&Step::Look);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_promised_twice_and_nobody_waits_for_ever(steps in steps(), layout in 0..3usize, is_alg3: bool) {
        let groups: &[usize] = [&[0][..], &[0, 0], &[0, 1, 1]][layout];
        let mut run = Run::new(if is_alg3 { "alg3" } else { "tessera" }, groups);
        for step in &steps {
            run.step(step);
        }
        run.drain();
    }
}
