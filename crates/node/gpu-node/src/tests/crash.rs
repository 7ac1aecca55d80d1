//! `kill -9` at every point of a prolog and an epilog, then reconciliation.

use protocol::ShareOn;

use super::*;

const ACT: &str = "tests::crash::act";

/// The grants that are interrupted. Before each, what was left idle lies in their way.
fn grants() -> Vec<(&'static str, Grant)> {
    vec![
        ("two instances", mig(&[(0, "2g.10gb", 2), (0, "3g.20gb", 4)])),
        ("mode and whole", whole(&[0, 2])),
        ("share", Grant::Mps { on: ShareOn::Gpu(GpuIndex(1)), mem_mib: 1000, threads: 25 }),
        (
            "share of an instance",
            Grant::Mps { on: ShareOn::Instance(spec(0, "4g.20gb", 0)), mem_mib: 1000, threads: 25 },
        ),
        ("compute instance", compute(0, "4c.7g.40gb", 0)),
        (BESIDE, compute(0, "4c.7g.40gb", 0)),
    ]
}

/// The neighbour of this one is in the same GPU instance, and of the same user.
const BESIDE: &str = "compute instance beside another";

fn is_beside(which: usize) -> bool {
    grants()[which].0 == BESIDE
}

fn user(which: usize) -> u32 {
    if is_beside(which) { BOB } else { ALICE }
}

/// Not a test of its own: the prolog or epilog that is killed.
#[test]
#[ignore = "run by other tests"]
fn act() {
    let Some(dir) = std::env::var_os(NODE_DIR) else { return };
    let mut node = TestNode::open(Path::new(&dir));
    if std::env::var_os("ACT_RESET_ORPHANED").is_some() {
        let reset = node.settings.node.gpu_reset_command.join(" ");
        let over = node.dir.join("reset-over").display().to_string();
        let script = format!("rm -f {over}; kill -9 $PPID; sleep 0.5; {reset}; touch {over}");
        node.settings.node.gpu_reset_command = vec!["/bin/sh".into(), "-c".into(), script];
    }
    let which: usize = std::env::var("ACT_GRANT").unwrap().parse().unwrap();
    match std::env::var("ACT").unwrap().as_str() {
        "release" => node.release(7),
        _ => drop(node.realise(7, user(which), grants()[which].1.clone()).unwrap()),
    }
}

/// Leaves idle instances of other shapes, in MIG mode.
fn litter(node: &TestNode, which: usize) {
    if is_beside(which) {
        node.realise(1, BOB, compute(0, "2c.7g.40gb", 2)).unwrap();
        return node.release(1);
    }
    node.realise(1, BOB, mig(&[(0, "1g.5gb", 1), (0, "1g.5gb", 3), (0, "2g.10gb", 4)])).unwrap();
    node.release(1);
}

/// Asserts the state after any crash: the dead job's things are free, a live neighbour's are untouched, and the same job
/// can be started. Every moment is one at which another user could try to open a capability node.
fn assert_closed(node: &TestNode, at: &str) {
    // The driver's own two, for administrators, are nodes 1 and 2.
    for entry in std::fs::read_dir(node.settings.node.dev_root.join("nvidia-caps")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o777;
        assert!(
            mode & 0o077 == 0 || ["nvidia-cap1", "nvidia-cap2"].contains(&&*name),
            "{at}: {name} {mode:o}"
        );
    }
}

fn check(node: &TestNode, neighbour: &node_journal::Entry, which: usize, at: &str) {
    node.reconcile(&[2]);
    assert_eq!(node.disagreements(&[2]), Vec::<String>::new(), "{at}");
    let seen = node.inspect();
    assert_eq!(seen.entries, std::slice::from_ref(neighbour), "{at}");
    assert_eq!(node.access(&neighbour.device_nodes[0]), (BOB, 0o400), "{at}");
    assert_eq!(node.daemons().len(), 0, "{at}");
    assert!(node.reconcile(&[2]).is_clean(), "{at}: a second reconciliation has nothing to do");
    assert_eq!(node.bad_files(), 0);
    node.realise(7, user(which), grants()[which].1.clone()).unwrap_or_else(|e| panic!("{at}: {e}"));
    node.release(7);
}

fn neighbour(node: &TestNode, which: usize) -> node_journal::Entry {
    if is_beside(which) {
        return node.realise(2, BOB, compute(0, "3c.7g.40gb", 4)).unwrap().entry;
    }
    let gpu = if which == 2 { 0 } else { 1 };
    node.realise(2, BOB, mig(&[(gpu, "1g.5gb", 0)])).unwrap().entry
}

fn every_point(node: &TestNode, which: usize) {
    let what = grants()[which].0;
    let neighbour = neighbour(node, which);
    for act in ["realise", "release"] {
        let mut points = 0;
        loop {
            if which != 2 {
                litter(node, which);
            }
            if act == "release" {
                node.realise(7, user(which), grants()[which].1.clone()).unwrap();
            }
            let (at, grant) = (points.to_string(), which.to_string());
            let output =
                rerun(ACT, &node.dir, &[("ACT", act), ("ACT_GRANT", &grant), ("GPU_NODE_CRASH_AT", &at)]);
            let done = output.status.success();
            assert!(done || output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_closed(node, &format!("{what}, {act}, point {points}"));
            check(node, &neighbour, which, &format!("{what}, {act}, point {points}"));
            if done {
                break;
            }
            points += 1;
        }
        eprintln!("{what}, {act}: {points} points");
        assert!(points >= if act == "realise" { 8 } else { 1 }, "{what}, {act}: only {points} points");
    }
}

#[test]
fn instances() {
    on_node("tests::crash::instances", |node| every_point(node, 0));
}

#[test]
fn compute_instance() {
    on_node("tests::crash::compute_instance", |node| every_point(node, 4));
}

#[test]
fn compute_instance_beside_another() {
    on_node("tests::crash::compute_instance_beside_another", |node| every_point(node, 5));
}

#[test]
fn mode_and_whole() {
    on_node("tests::crash::mode_and_whole", |node| every_point(node, 1));
}

#[test]
fn share() {
    on_node("tests::crash::share", |node| every_point(node, 2));
}

#[test]
fn share_of_an_instance() {
    on_node("tests::crash::share_of_an_instance", |node| every_point(node, 3));
}

#[test]
fn a_killed_prolog_can_be_run_again() {
    on_node("tests::crash::a_killed_prolog_can_be_run_again", |node| {
        let neighbour = neighbour(node, 0);
        for (which, (what, grant)) in grants().into_iter().enumerate().filter(|(i, _)| *i != 2) {
            for at in (0..40).step_by(3) {
                litter(node, which);
                let (text, index) = (at.to_string(), which.to_string());
                rerun(
                    ACT,
                    &node.dir,
                    &[("ACT", "realise"), ("ACT_GRANT", &index), ("GPU_NODE_CRASH_AT", &text)],
                );
                // Neither reconciliation nor epilog between.
                node.realise(7, user(which), grant.clone()).unwrap_or_else(|e| panic!("{what} at {at}: {e}"));
                node.reconcile(&[2, 7]);
                assert_eq!(node.disagreements(&[2, 7]), Vec::<String>::new(), "{what} at {at}");
                node.release(7);
            }
        }
        assert_eq!(node.inspect().entries, [neighbour]);
    });
}

#[test]
fn an_epilog_cleans_up_after_a_killed_prolog() {
    on_node("tests::crash::an_epilog_cleans_up_after_a_killed_prolog", |node| {
        let neighbour = neighbour(node, 0);
        node.reconcile(&[2]);
        for which in [0, 1, 3, 4, 5] {
            for at in 0..36 {
                litter(node, which);
                let (text, index) = (at.to_string(), which.to_string());
                rerun(
                    ACT,
                    &node.dir,
                    &[("ACT", "realise"), ("ACT_GRANT", &index), ("GPU_NODE_CRASH_AT", &text)],
                );
                // No reconciliation: slurmd lives on.
                node.release(7);
                let what = grants()[which].0;
                assert_eq!(node.disagreements(&[2]), Vec::<String>::new(), "{what} at {at}");
            }
        }
        assert_eq!(node.inspect().entries, [neighbour]);
    });
}

/// The reset command lives on when its prolog is killed: nobody may settle the GPU's mode before it has ended.
#[test]
fn a_killed_prologs_reset_is_waited_for() {
    on_node("tests::crash::a_killed_prologs_reset_is_waited_for", |node| {
        let neighbour = neighbour(node, 1);
        let prolog_killed = || {
            litter(node, 1);
            let env = [("ACT", "realise"), ("ACT_GRANT", "1"), ("ACT_RESET_ORPHANED", "1")];
            let status = rerun(ACT, &node.dir, &env).status;
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        };
        let over = || assert!(node.dir.join("reset-over").exists(), "the reset command still runs");
        prolog_killed();
        node.reconcile(&[2]);
        over();
        check(node, &neighbour, 1, "reconciled");
        prolog_killed();
        node.release(7);
        over();
        assert_eq!(node.disagreements(&[2]), Vec::<String>::new(), "released");
        prolog_killed();
        node.realise(7, user(1), grants()[1].1.clone()).unwrap();
        over();
        assert_eq!(node.disagreements(&[2, 7]), Vec::<String>::new(), "made again");
        node.release(7);
        check(node, &neighbour, 1, "in the end");
    });
}

/// Also inside the driver's calls, which no point of ours marks.
#[test]
fn killed_at_any_time() {
    on_node("tests::crash::killed_at_any_time", |node| {
        node.sim(&["fault", "add", "--kind", "slow", "--factor", "1"]);
        for round in 0..40_usize {
            let which = [0, 1, 3][round % 3];
            let neighbour = neighbour(node, which);
            litter(node, which);
            let mut child = command(ACT, &node.dir);
            child.env("ACT", "realise").env("ACT_GRANT", which.to_string());
            child.env("NVML_SIM_TIME_SCALE", "0.1");
            let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(5 + (round as u64 * 37) % 180));
            let _ = child.kill();
            let _ = child.wait();
            check(node, &neighbour, which, &format!("round {round}"));
            node.release(2);
        }
    });
}
