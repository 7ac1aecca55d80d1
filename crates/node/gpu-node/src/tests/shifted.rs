//! A GPU that vanishes moves the numbers of those after it: whatever the journal says of a GPU is found by its UUID.

use serde_json::Value;

use super::*;
use crate::Fault;
use job_sample::{TrafficWanted, sample};
use job_usage::energy_of;
use node_driver::nvml::Nvml;
use node_journal::{Journal, Phase};

/// Takes a GPU out of the driver, as a driver that is loaded again without it; the answer puts it back with [`put_back`].
fn take_out(node: &TestNode, gpu: usize) -> [Value; 2] {
    let mut gone = [Value::Null, Value::Null];
    edit(node, |lists| gone = lists.map(|list| list.remove(gpu)));
    gone
}

fn put_back(node: &TestNode, gpu: usize, gone: [Value; 2]) {
    edit(node, |lists| lists.into_iter().zip(gone).for_each(|(list, of)| list.insert(gpu, of)));
}

/// The node as the site describes it without its first GPU.
fn without_first(node: &TestNode) -> TestNode {
    let mut settings = node.settings.clone();
    settings.gpus.remove(0);
    TestNode { dir: node.dir.clone(), settings }
}

/// Changes the simulated driver's record of its GPUs: their properties and their present state.
fn edit(node: &TestNode, change: impl FnOnce([&mut Vec<Value>; 2])) {
    let file = node.dir.join("state.sim");
    let text = std::fs::read_to_string(&file).unwrap();
    let (header, json) = text.split_once('\n').unwrap();
    let (format, generation) = header.rsplit_once(' ').unwrap();
    let generation = u64::from_str_radix(generation, 16).unwrap() + 1;
    let mut state: Value = serde_json::from_str(json).unwrap();
    let mut specs = state["node"]["gpus"].take().as_array().unwrap().clone();
    let mut states = state["gpus"].take().as_array().unwrap().clone();
    change([&mut specs, &mut states]);
    (state["node"]["gpus"], state["gpus"]) = (specs.into(), states.into());
    std::fs::write(&file, format!("{format} {generation:016x}\n{state}")).unwrap();
}

/// The limits by NVML's numbers of now, W.
fn limits(node: &TestNode) -> Vec<u32> {
    let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
    let all = 0..nvml.count().unwrap();
    all.map(|gpu| nvml.power_limit_mw(NvmlIndex(gpu)).unwrap() / 1000).collect()
}

fn start(node: &TestNode, (job, uid): (u32, u32), gpu: u16, watts: u16) {
    let job = JobContext { cap_w: Some(watts), ..node.job(job, uid, whole(&[gpu])) };
    crate::realise(&node.settings, &job).unwrap();
}

#[test]
fn an_epilog_puts_back_the_limit_of_its_own_gpu() {
    on_node("tests::shifted::an_epilog_puts_back_the_limit_of_its_own_gpu", |node| {
        node.reconcile(&[]);
        start(node, (1, ALICE), 1, 200);
        start(node, (2, BOB), 2, 300);
        take_out(node, 0);
        assert_eq!(limits(node), [200, 300]);
        node.release(1);
        assert_eq!(limits(node), [400, 300], "the first job's own GPU, not the second job's");
        node.release(2);
        assert_eq!(limits(node), [400, 700]);
    });
}

#[test]
fn the_limit_of_a_gpu_that_is_gone_is_put_back_when_it_is_back() {
    on_node("tests::shifted::the_limit_of_a_gpu_that_is_gone_is_put_back_when_it_is_back", |node| {
        node.reconcile(&[]);
        start(node, (1, ALICE), 0, 200);
        start(node, (2, BOB), 1, 150);
        let gone = take_out(node, 0);
        let released = crate::release(&node.settings, JobId(1)).unwrap();
        let [said] = &released.problems[..] else { panic!("{released:?}") };
        let ends = "was 400 W and is not put back: \
                    GPU-{}: the driver shows no GPU with this UUID: no such object (NVML 6); once it is back, \
                    `tessera node reconcile` does that";
        let uuid = gone[0]["uuid"].as_str().unwrap();
        assert_eq!(*said, format!("the power limit of {uuid} {}", ends.replace("GPU-{}", uuid)));
        assert_eq!(limits(node), [150, 700], "others' limits stay");
        let report = node.reconcile(&[2]);
        assert_eq!((report.limits.len(), limits(node)), (0, vec![150, 700]));
        put_back(node, 0, gone);
        assert_eq!(limits(node), [200, 150, 700]);
        assert_eq!(node.reconcile(&[2]).limits, [NvmlIndex(0)]);
        assert_eq!(limits(node), [400, 150, 700]);
        node.release(2);
        assert!(
            Journal::open(&node.settings.node.state_dir).unwrap().caps().unwrap().into_parts().0.is_empty()
        );
        node.assert_clean(&[]);
    });
}

/// Job 1 has what is GPU 0 now, and was GPU 1 when it was started.
#[test]
fn nobody_gets_a_gpu_that_a_job_has_by_another_number() {
    on_node("tests::shifted::nobody_gets_a_gpu_that_a_job_has_by_another_number", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, whole(&[1])).unwrap();
        let gone = take_out(node, 0);
        let refused = without_first(node).realise(2, BOB, whole(&[0])).unwrap_err();
        let RealiseError::JobFailed(Fault::Held { gpu, holder, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((gpu, holder), (NvmlIndex(0), JobId(1)));
        let entry = Journal::open(&node.settings.node.state_dir).unwrap().job(JobId(2)).unwrap().unwrap();
        assert!(matches!(entry.phase, Phase::Failed(_)));
        node.release(2);
        // Its node is the one of its GPU's number now.
        node.reconcile(&[1]);
        assert_eq!((node.access("nvidia0"), node.access("nvidia1")), ((ALICE, 0o600), (0, 0o600)));
        put_back(node, 0, gone);
        node.reconcile(&[1]);
        assert_eq!((node.access("nvidia0"), node.access("nvidia1")), ((0, 0o600), (ALICE, 0o600)));
        node.assert_clean(&[1]);
        node.release(1);
        node.assert_clean(&[]);
    });
}

/// A reset loses GPU 0, so that the number of the GPU behind it means that of another job.
#[test]
fn a_prolog_does_nothing_to_a_gpu_that_a_reset_has_moved_to_its_own_ones_number() {
    on_node(
        "tests::shifted::a_prolog_does_nothing_to_a_gpu_that_a_reset_has_moved_to_its_own_ones_number",
        |node| {
            node.reconcile(&[]);
            let reset = node.settings.node.gpu_reset_command.join(" ");
            let sim = format!(
                "{} --state {}",
                node.dir.join("sim/nvml-sim").display(),
                node.dir.join("state.sim").display()
            );
            let script = format!("{reset} && {sim} fault add --kind hidden --gpu 0");
            let mut settings = node.settings.clone();
            settings.node.gpu_reset_command = vec!["/bin/sh".into(), "-c".into(), script];
            let refused =
                crate::realise(&settings, &node.job(1, ALICE, mig(&[(0, "1g.5gb", 0)]))).unwrap_err();
            assert!(refused.to_string().contains("its number means another GPU since a reset"), "{refused}");
            let shown: Value = serde_json::from_str(&node.sim(&["show", "--json"])).unwrap();
            let instances = |gpu: usize| shown["gpus"][gpu]["instances"].as_array().unwrap().len();
            assert_eq!([instances(0), instances(1), instances(2)], [0; 3], "{shown}");
            let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
            let mode = nvml.mig_mode(NvmlIndex(0)).unwrap();
            assert!(!mode.current && !mode.pending, "another GPU has it: {mode:?}");
        },
    );
}

/// Jobs 1 and 2 are journalled with one minor number, of two GPUs.
#[test]
fn an_epilog_leaves_the_node_that_is_another_jobs_now() {
    on_node("tests::shifted::an_epilog_leaves_the_node_that_is_another_jobs_now", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, mig(&[(1, "1g.5gb", 0)])).unwrap();
        take_out(node, 0);
        let node = without_first(node);
        node.realise(2, BOB, whole(&[1])).unwrap();
        assert_eq!(node.access("nvidia1"), (BOB, 0o600));
        node.release(1);
        assert_eq!(node.access("nvidia1"), (BOB, 0o600));
    });
}

#[test]
fn energy_and_utilisation_are_those_of_the_jobs_own_gpu() {
    on_node("tests::shifted::energy_and_utilisation_are_those_of_the_jobs_own_gpu", |node| {
        node.reconcile(&[]);
        let settings = Settings { energy: true, ..node.settings.clone() };
        for (job, gpu) in [(1, 0), (2, 1), (3, 2)] {
            crate::realise(&settings, &node.job(job, ALICE, whole(&[gpu]))).unwrap();
        }
        let pid = std::process::id().to_string();
        node.sim(&["proc", "add", "--pid", &pid, "--memory-mib", "3000", "--gpu", "2"]);
        std::thread::sleep(Duration::from_millis(300));
        let used = |job| energy_of(&places(&settings), JobId(job));
        let busy = |job| {
            sample(&places(&settings), JobId(job), TrafficWanted::default()).unwrap().unwrap().busy_percent
        };
        assert_eq!((busy(2), busy(3)), (Some(0), Some(100)));
        take_out(node, 0);
        assert_eq!((busy(2), busy(3)), (Some(0), Some(100)));
        // The simulated counters stay where they are, so only which one is asked can be told.
        assert!(used(2).is_ok() && used(3).is_ok());
        assert!(used(1).unwrap_err().to_string().contains("the driver shows no GPU with this UUID"));
    });
}
