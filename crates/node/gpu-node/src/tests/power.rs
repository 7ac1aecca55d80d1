//! Power limits: set before the job has its GPU, and as they were found after the last job, whoever is killed when.

use super::*;
use crate::Fault;
use node_driver::nvml::Nvml;
use node_journal::Journal;

const ACT: &str = "tests::power::act";

/// A job with a cap.
fn capped(node: &TestNode, job: u32, grant: Grant, watts: u16) -> JobContext {
    JobContext { cap_w: Some(watts), ..node.job(job, ALICE, grant) }
}

fn start(node: &TestNode, job: u32, grant: Grant, watts: u16) -> Realised {
    crate::realise(&node.settings, &capped(node, job, grant, watts)).unwrap()
}

fn limits(node: &TestNode) -> Vec<u32> {
    let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
    (0..3).map(|gpu| nvml.power_limit_mw(NvmlIndex(gpu)).unwrap() / 1000).collect()
}

fn admin_sets(node: &TestNode, gpu: u32, watts: u32) {
    node.sim(&["power", "--gpu", &gpu.to_string(), "--limit", &watts.to_string()]);
}

fn fault(node: &TestNode, gpu: u32, args: &str) {
    let args: Vec<&str> = args.split(' ').collect();
    node.sim(&[&["fault", "add", "--gpu", &gpu.to_string(), "--kind"], &args[..]].concat());
}

fn is_journalled(node: &TestNode) -> bool {
    !Journal::open(&node.settings.node.state_dir).unwrap().caps().unwrap().into_parts().0.is_empty()
}

fn small(at: u8) -> Grant {
    mig(&[(0, "1g.5gb", at)])
}

#[test]
fn the_highest_cap_counts_and_the_limit_found_comes_back() {
    on_node("tests::power::the_highest_cap_counts_and_the_limit_found_comes_back", |node| {
        node.reconcile(&[]);
        admin_sets(node, 0, 350);
        let entry = start(node, 1, small(0), 200).entry;
        // The A100 was reset for MIG on the way, which loses the limit.
        assert_eq!((limits(node)[0], entry.cap_w, entry.cap_problem), (200, Some(200), None));
        start(node, 2, small(1), 250);
        assert_eq!(limits(node)[0], 250);
        start(node, 3, small(2), 380);
        assert_eq!(limits(node)[0], 350, "a cap is never above the limit found");
        node.release(3);
        assert_eq!(limits(node)[0], 250);
        // A stranger without a cap is not slowed.
        node.realise(4, BOB, small(2)).unwrap();
        assert_eq!(limits(node)[0], 350);
        node.release(4);
        assert_eq!(limits(node)[0], 250);
        node.release(2);
        assert_eq!(limits(node)[0], 200);
        node.release(1);
        assert_eq!(limits(node), [350, 400, 700]);
        assert!(!is_journalled(node));
        node.assert_clean(&[]);
    });
}

#[test]
fn each_of_a_jobs_gpus_is_limited() {
    on_node("tests::power::each_of_a_jobs_gpus_is_limited", |node| {
        start(node, 1, whole(&[0, 2]), 300);
        assert_eq!(limits(node), [300, 400, 300]);
        node.release(1);
        assert_eq!(limits(node), [400, 400, 700]);
    });
}

/// A reset for MIG loses the administrator's limit, without any cap.
#[test]
fn a_reset_keeps_the_administrators_limit() {
    on_node("tests::power::a_reset_keeps_the_administrators_limit", |node| {
        admin_sets(node, 0, 310);
        node.realise(1, ALICE, small(0)).unwrap();
        assert_eq!(limits(node)[0], 310);
        node.release(1);
        node.realise(2, ALICE, whole(&[0])).unwrap();
        assert_eq!((limits(node)[0], is_journalled(node)), (310, false));
    });
}

#[test]
fn somebody_elses_limit_stays_and_is_reported() {
    on_node("tests::power::somebody_elses_limit_stays_and_is_reported", |node| {
        node.reconcile(&[]);
        start(node, 1, whole(&[1]), 200);
        admin_sets(node, 1, 150);
        assert_eq!(
            node.disagreements(&[1]),
            [
                "GPU 1: its power limit is 150 W, not the 200 W that was set for jobs: another program changed it"
            ]
        );
        let released = crate::release(&node.settings, JobId(1)).unwrap();
        assert_eq!((released.problems.len(), limits(node)[1]), (0, 150));
        assert_eq!(
            released.notes,
            [
                "GPU 1: its power limit is 150 W, not the 200 W that was set for jobs: another program changed it, and it stays"
            ]
        );
        // The next job finds it, and gives it back.
        start(node, 2, whole(&[1]), 120);
        assert_eq!(limits(node)[1], 120);
        node.release(2);
        assert_eq!((limits(node)[1], is_journalled(node)), (150, false));
    });
}

/// A driver without persistence mode forgets it as soon as no program has the GPU open.
#[test]
fn a_cap_that_the_driver_has_lost_is_reported() {
    on_node("tests::power::a_cap_that_the_driver_has_lost_is_reported", |node| {
        node.reconcile(&[]);
        start(node, 1, whole(&[1]), 200);
        admin_sets(node, 1, 400);
        assert_eq!(
            node.disagreements(&[1]),
            [
                "GPU 1: its power limit is 400 W, not the 200 W of its jobs: the driver has lost the limit, or another program changed it"
            ]
        );
        node.release(1);
        assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
    });
}

#[test]
fn a_cap_that_cannot_be_set_is_said_and_the_job_runs() {
    on_node("tests::power::a_cap_that_cannot_be_set_is_said_and_the_job_runs", |node| {
        let problem = |watts| start(node, 1, whole(&[1]), watts).entry.cap_problem.unwrap_or_default();
        let ends_clean = |expected: u32| {
            node.release(1);
            assert_eq!((limits(node)[1], is_journalled(node)), (expected, false));
            node.assert_clean(&[]);
        };
        node.reconcile(&[]);
        let stays = "GPU 1: its power stays limited to";
        assert_eq!(
            problem(50),
            format!("{stays} 400 W: 50 W is not a limit of this GPU: it takes 100 to 400 W")
        );
        ends_clean(400);
        fault(node, 1, "limit-refused --count 1");
        assert_eq!(
            problem(200),
            format!(
                "{stays} 400 W: GPU 1: cannot limit power to 200000 mW: not supported in this mode or on this GPU (NVML 3)"
            )
        );
        ends_clean(400);
        fault(node, 1, "limit-ignored --count 1");
        assert_eq!(problem(200), format!("{stays} 400 W: the driver accepts 200 W and keeps the old limit"));
        ends_clean(400);
        fault(node, 1, "limit-changed --watts 170 --count 1");
        assert_eq!(
            problem(200),
            format!("{stays} 170 W: 200 W were set, and another program set 170 W at once")
        );
        // That is the administrator's now, and the last job leaves it.
        ends_clean(170);
        admin_sets(node, 1, 400);
        // Out of band nothing can be done about it: ours is set, and theirs is lower.
        fault(node, 1, "limit-enforced-lower --watts 160");
        assert_eq!((problem(200), limits(node)[1]), (String::new(), 200));
        ends_clean(400);
    });
}

#[test]
fn a_limit_that_cannot_be_put_back_is_put_back_later() {
    on_node("tests::power::a_limit_that_cannot_be_put_back_is_put_back_later", |node| {
        node.reconcile(&[]);
        start(node, 1, whole(&[1]), 200);
        fault(node, 1, "limit-refused --count 1");
        let released = crate::release(&node.settings, JobId(1)).unwrap();
        assert_eq!(
            released.problems,
            [
                "GPU 1: its power limit was 400 W and is not put back: GPU 1: cannot limit power to 400000 mW: not supported in this mode or on this GPU (NVML 3)"
            ]
        );
        assert_eq!(
            node.disagreements(&[]),
            ["GPU 1: its power is limited to 200 W, and no job asks for that: it was 400 W"]
        );
        assert_eq!(node.reconcile(&[]).limits, [NvmlIndex(1)]);
        assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
        node.assert_clean(&[]);
    });
}

#[test]
fn a_reboot_forgets() {
    on_node("tests::power::a_reboot_forgets", |node| {
        start(node, 1, whole(&[1]), 200);
        // The driver starts with its default, and the journal is of another boot.
        for file in ["jobs", "caps"].map(|dir| node.settings.node.state_dir.join(dir)) {
            for entry in std::fs::read_dir(file).unwrap().flatten() {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let boot = Journal::open(&node.settings.node.state_dir).unwrap().boot().to_owned();
                std::fs::write(entry.path(), text.replace(&boot, "another")).unwrap();
            }
        }
        admin_sets(node, 1, 330);
        assert!(node.reconcile(&[]).problems.is_empty());
        assert_eq!((limits(node)[1], is_journalled(node)), (330, false));
    });
}

/// Not a test of its own: the prolog or epilog that is killed.
#[test]
#[ignore = "run by other tests"]
fn act() {
    let Some(dir) = std::env::var_os(NODE_DIR) else { return };
    let node = TestNode::open(Path::new(&dir));
    match std::env::var("ACT").unwrap().as_str() {
        "release" => drop(crate::release(&node.settings, JobId(7)).unwrap()),
        "lower" => drop(start(&node, 7, whole(&[1]), 180)),
        "any" => any(&node, &std::env::var("ACT_ANY").unwrap()),
        _ => drop(start(&node, 7, small(3), 250)),
    }
}

/// Kills `act` at each of its points. `prepare` comes before, `check` after; the answer is the number of points.
fn at_every_point(node: &TestNode, act: &str, prepare: impl Fn(), check: impl Fn(&str)) -> usize {
    for point in 0.. {
        prepare();
        let at = point.to_string();
        let output = rerun(ACT, &node.dir, &[("ACT", act), ("GPU_NODE_CRASH_AT", &at)]);
        let done = output.status.success();
        assert!(done || output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
        check(&format!("{act}, point {point}"));
        if done {
            return point;
        }
    }
    unreachable!("a range without an end")
}

/// The A100 is reset for MIG, limited by a neighbour, and has an administrator's limit.
#[test]
fn kill_9_at_every_point_of_a_prolog_beside_others() {
    on_node("tests::power::kill_9_at_every_point_of_a_prolog_beside_others", |node| {
        admin_sets(node, 0, 350);
        start(node, 2, small(0), 200);
        let points = at_every_point(
            node,
            "start",
            || {},
            |at| {
                assert!([200, 250].contains(&limits(node)[0]), "{at}");
                node.reconcile(&[2]);
                assert_eq!(limits(node)[0], 200, "{at}");
                node.assert_clean(&[2]);
            },
        );
        assert!(points >= 8, "{points}");
        let points = at_every_point(
            node,
            "release",
            || drop(start(node, 7, small(3), 250)),
            |at| {
                // slurmd lives on: the epilog runs again, or a reconciliation comes.
                crate::release(&node.settings, JobId(7)).unwrap();
                assert_eq!(limits(node)[0], 200, "{at}");
                node.reconcile(&[2]);
                node.assert_clean(&[2]);
            },
        );
        assert!(points >= 4, "{points}");
        node.release(2);
        assert_eq!((limits(node)[0], is_journalled(node)), (350, false));
    });
}

#[test]
fn kill_9_at_every_point_of_a_prolog_alone() {
    on_node("tests::power::kill_9_at_every_point_of_a_prolog_alone", |node| {
        for (act, gpu) in [("start", 0), ("lower", 1)] {
            let points = at_every_point(
                node,
                act,
                || {
                    // MIG mode off, so that a reset is on the way.
                    node.realise(9, BOB, whole(&[gpu])).unwrap();
                    node.release(9);
                    admin_sets(node, u32::from(gpu), 350);
                },
                |at| {
                    let report = node.reconcile(&[]);
                    assert_eq!(report.problems, Vec::<String>::new(), "{at}");
                    assert_eq!((limits(node)[usize::from(gpu)], is_journalled(node)), (350, false), "{at}");
                    node.assert_clean(&[]);
                },
            );
            assert!(points >= 6, "{points}");
        }
    });
}

/// The prolog is killed, and the epilog of the job runs, or its prolog again: no reconciliation.
#[test]
fn an_epilog_after_a_killed_prolog_puts_the_limit_back() {
    on_node("tests::power::an_epilog_after_a_killed_prolog_puts_the_limit_back", |node| {
        for again in [false, true] {
            at_every_point(
                node,
                "lower",
                || admin_sets(node, 1, 350),
                |at| {
                    if again {
                        start(node, 7, whole(&[1]), 180);
                        assert_eq!(limits(node)[1], 180, "{at}");
                    }
                    node.release(7);
                    assert_eq!((limits(node)[1], is_journalled(node)), (350, false), "{at}");
                },
            );
        }
    });
}

/// Under a budget nobody may draw more than was counted for him.
#[test]
fn under_a_budget_a_job_whose_cap_cannot_be_set_does_not_start() {
    on_node("tests::power::under_a_budget_a_job_whose_cap_cannot_be_set_does_not_start", |node| {
        node.reconcile(&[]);
        let settings = Settings { in_power_budget: true, ..node.settings.clone() };
        for kind in ["limit-refused", "limit-ignored"] {
            fault(node, 1, &format!("{kind} --count 1"));
            let refused = crate::realise(&settings, &capped(node, 1, whole(&[1]), 200)).unwrap_err();
            assert!(matches!(refused, RealiseError::JobFailed(Fault::NotCapped(_))), "{refused:?}");
            node.release(1);
            assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
            node.assert_clean(&[]);
        }
        // A limit found below the cap is enough.
        admin_sets(node, 1, 150);
        fault(node, 1, "limit-refused --count 1");
        crate::realise(&settings, &capped(node, 1, whole(&[1]), 200)).unwrap();
        node.release(1);
        assert_eq!(limits(node)[1], 150);
        node.assert_clean(&[]);
    });
}

/// Beside a higher cap nobody sees it: alone, the GPU would stay limited to that.
#[test]
fn a_cap_that_the_gpu_does_not_take_is_no_cap_beside_others_either() {
    on_node("tests::power::a_cap_that_the_gpu_does_not_take_is_no_cap_beside_others_either", |node| {
        node.reconcile(&[]);
        let settings = Settings { in_power_budget: true, ..node.settings.clone() };
        let slice = |start| mig(&[(1, "1g.5gb", start)]);
        crate::realise(&settings, &capped(node, 1, slice(0), 250)).unwrap();
        let refused = crate::realise(&settings, &capped(node, 2, slice(1), 1)).unwrap_err();
        assert!(refused.to_string().contains("1 W is not a limit of this GPU"), "{refused}");
        node.release(2);
        node.release(1);
        assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
        node.assert_clean(&[]);
    });
}

/// The ledger has what the driver's counter has, however jobs come and go, and forgets who is gone.
#[test]
fn a_gpus_energy_is_charged_to_the_jobs_that_have_it() {
    on_node("tests::power::a_gpus_energy_is_charged_to_the_jobs_that_have_it", |node| {
        node.reconcile(&[]);
        let settings = Settings { energy: true, ..node.settings.clone() };
        let nvml = Nvml::load(&settings.node.nvml_library).unwrap();
        let used = |job| job_usage::energy_of(&places(&settings), JobId(job)).unwrap();
        let start = |job, grant| crate::realise(&settings, &node.job(job, ALICE, grant)).unwrap();
        let wait = || std::thread::sleep(Duration::from_millis(300));
        start(1, whole(&[1]));
        let before = nvml.energy_mj(NvmlIndex(1)).unwrap();
        wait();
        let (alone, after) = (used(1), nvml.energy_mj(NvmlIndex(1)).unwrap());
        assert_eq!(alone.estimated_mj, 0);
        assert!(
            (1..=after).contains(&alone.exact_mj) && alone.exact_mj + 1000 >= after - before,
            "{alone:?}"
        );
        // Two instances of one GPU share by slices.
        start(2, mig(&[(0, "1g.5gb", 0)]));
        wait();
        start(3, mig(&[(0, "2g.10gb", 2)]));
        let (own, other) = (used(2), used(3));
        wait();
        let (later, others) = (used(2), used(3));
        assert!(own.exact_mj > 0 && later.exact_mj >= own.exact_mj, "{own:?} {later:?}");
        let (one, two) = (later.estimated_mj - own.estimated_mj, others.estimated_mj - other.estimated_mj);
        assert!(one > 0 && two.abs_diff(2 * one) <= 2 * one / 2, "{one} beside {two}");
        crate::release(&settings, JobId(3)).unwrap();
        assert_eq!(used(3), job_usage::Used::default());
        assert!(used(2).estimated_mj >= later.estimated_mj);
        // Whoever was killed: the next one that starts or ends finds who is gone.
        for job in [1, 2] {
            crate::release(&settings, JobId(job)).unwrap();
        }
        let journal = Journal::open(&settings.node.state_dir).unwrap();
        let record = journal.energy(&nvml.uuid(NvmlIndex(0)).unwrap()).unwrap().unwrap();
        assert_eq!(record.jobs, []);
        node.assert_clean(&[]);
    });
}

/// A record of energy that cannot be written, as on a full disk, keeps no job's GPUs from others.
#[test]
fn a_job_gives_back_what_it_has_though_its_energy_cannot_be_noted() {
    on_node("tests::power::a_job_gives_back_what_it_has_though_its_energy_cannot_be_noted", |node| {
        node.reconcile(&[]);
        let settings = Settings { energy: true, ..node.settings.clone() };
        crate::realise(&settings, &node.job(1, ALICE, mig(&[(0, "1g.5gb", 0)]))).unwrap();
        let records = std::fs::read_dir(settings.node.state_dir.join("energy")).unwrap().flatten();
        let records: Vec<_> = records.map(|record| record.path()).collect();
        let [record] = &records[..] else { panic!("{records:?}") };
        std::fs::remove_file(record).unwrap();
        std::fs::create_dir(record).unwrap();
        let released = crate::release(&settings, JobId(1)).unwrap();
        assert!(released.problems.iter().any(|why| why.contains("energy")), "{:?}", released.problems);
        std::fs::remove_dir(record).unwrap();
        node.assert_clean(&[]);
    });
}

/// Acts as one of many prologs or epilogs: `start JOB KIND WATTS`, or `end JOB`.
fn any(node: &TestNode, what: &str) {
    let words: Vec<&str> = what.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    if words[0] == "end" {
        return drop(crate::release(&node.settings, JobId(number(1))).unwrap());
    }
    let grant = match number(2) {
        0 => small(u8::try_from(number(1) % 7).unwrap()),
        1 => whole(&[1]),
        _ => whole(&[2]),
    };
    // It may find its GPU taken: then nothing is made for it.
    drop(crate::realise(&node.settings, &capped(node, number(1), grant, u16::try_from(number(3)).unwrap())));
}

/// The figure of docs/figures/power.md: 100 prologs and epilogs of seven jobs with caps on three GPUs, each killed at a point of
/// its own choice; now and then the node is reconciled, as by a slurmd that starts. In the end every limit is as it was found.
#[test]
fn after_a_hundred_killed_prologs_and_epilogs_every_limit_is_as_found() {
    on_node("tests::power::after_a_hundred_killed_prologs_and_epilogs_every_limit_is_as_found", |node| {
        node.reconcile(&[]);
        let found = [350, 310, 600];
        (0..3).for_each(|gpu| admin_sets(node, gpu, found[gpu as usize]));
        let mut numbers = 20_241_u64;
        let mut below = |n: u64| {
            numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (numbers >> 33) % n
        };
        let (mut killed, mut lowered) = (0, 0);
        let mut runs = 0;
        while killed < 100 {
            let job = 1 + below(7);
            let what = match below(3) {
                0 => format!("end {job}"),
                _ => format!("start {job} {} {}", job % 3, 150 + 10 * below(15)),
            };
            let at = below(12).to_string();
            let output =
                rerun(ACT, &node.dir, &[("ACT", "any"), ("ACT_ANY", &what), ("GPU_NODE_CRASH_AT", &at)]);
            let was_killed = output.status.code().is_none();
            assert!(
                was_killed || output.status.success(),
                "{what}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            killed += usize::from(was_killed);
            let now = limits(node);
            lowered += usize::from(now != found);
            assert!(now.iter().zip(found).all(|(now, found)| *now <= found.max(400)), "{what}: {now:?}");
            runs += 1;
            if below(10) == 0 {
                // slurmd has started: whoever it does not know is dead.
                let report = node.reconcile(&[]);
                assert_eq!(report.problems, Vec::<String>::new(), "{what}");
                assert_eq!((limits(node), is_journalled(node)), (found.to_vec(), false), "{what}");
            }
        }
        node.reconcile(&[]);
        eprintln!("{runs} prologs and epilogs, {killed} killed, a limit lowered after {lowered}");
        assert!(lowered > 20, "{lowered}");
        assert_eq!((limits(node), is_journalled(node)), (found.to_vec(), false));
        node.assert_clean(&[]);
    });
}

/// A GPU that falls off the bus cannot be limited back; when it returns, it is.
#[test]
fn a_gpu_that_was_lost_gets_its_limit_back_when_it_returns() {
    on_node("tests::power::a_gpu_that_was_lost_gets_its_limit_back_when_it_returns", |node| {
        node.reconcile(&[]);
        admin_sets(node, 1, 350);
        start(node, 1, whole(&[1]), 200);
        fault(node, 1, "gpu-lost");
        let released = crate::release(&node.settings, JobId(1)).unwrap();
        assert!(!released.problems.is_empty());
        assert!(is_journalled(node), "it is not forgotten");
        node.sim(&["fault", "clear"]);
        assert_eq!(node.reconcile(&[]).limits, [NvmlIndex(1)]);
        assert_eq!((limits(node)[1], is_journalled(node)), (350, false));
        node.assert_clean(&[]);
    });
}

/// A driver that is loaded again begins with its own limits: what was found is gone with it, and is not invented anew.
#[test]
fn after_a_driver_was_loaded_again_its_limit_stays() {
    on_node("tests::power::after_a_driver_was_loaded_again_its_limit_stays", |node| {
        node.reconcile(&[]);
        admin_sets(node, 1, 350);
        start(node, 1, whole(&[1]), 200);
        admin_sets(node, 1, 400);
        let released = crate::release(&node.settings, JobId(1)).unwrap();
        assert_eq!((released.problems.len(), released.notes.len()), (0, 1), "{released:?}");
        assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
        node.assert_clean(&[]);
    });
}

/// The GPU is gone when the prolog comes: whatever becomes of the job, nothing of its cap is left.
#[test]
fn a_gpu_that_is_lost_when_its_job_starts_has_no_cap_later() {
    on_node("tests::power::a_gpu_that_is_lost_when_its_job_starts_has_no_cap_later", |node| {
        node.reconcile(&[]);
        admin_sets(node, 1, 350);
        for settings in [node.settings.clone(), Settings { in_power_budget: true, ..node.settings.clone() }] {
            fault(node, 1, "gpu-lost");
            assert!(crate::realise(&settings, &capped(node, 1, whole(&[1]), 200)).is_err());
            drop(crate::release(&settings, JobId(1)));
            node.sim(&["fault", "clear"]);
            node.reconcile(&[]);
            assert_eq!((limits(node)[1], is_journalled(node)), (350, false));
            start(node, 2, whole(&[1]), 200);
            node.release(2);
            assert_eq!(limits(node)[1], 350);
            node.assert_clean(&[]);
        }
    });
}

/// Somebody limits the board by its management controller, below the cap.
#[test]
fn out_of_band_limits_are_shown_and_not_fought() {
    on_node("tests::power::out_of_band_limits_are_shown_and_not_fought", |node| {
        node.reconcile(&[]);
        start(node, 1, whole(&[1]), 200);
        fault(node, 1, "limit-enforced-lower --watts 160");
        let power = crate::power_status(&node.settings).unwrap()[1].power.clone().unwrap();
        assert_eq!((power.found_mw, power.set_mw, power.enforced_mw), (400_000, 200_000, 160_000));
        assert_eq!(node.disagreements(&[1]), [""; 0], "ours is set");
        let report = node.reconcile(&[1]);
        assert_eq!((report.problems.len(), report.limits.len()), (0, 0));
        node.release(1);
        assert_eq!((limits(node)[1], is_journalled(node)), (400, false));
        node.sim(&["fault", "clear"]);
        node.assert_clean(&[]);
    });
}
