//! What a job's devices hold and do.

use std::process::Child;

use super::*;
use job_sample::{BothWays, nvlink_bytes};
use job_sample::{Sample, TrafficWanted, has_devices, sample};
use node_driver::nvml::Nvml;
use node_driver::process;

/// A process on a GPU with 3000 MiB, of a job as its environment says; killed when dropped.
struct Process(Child);

impl Process {
    fn of(node: &TestNode, job: u32, place: &[&str]) -> Self {
        let child = Command::new("sleep").arg("600").env("SLURM_JOB_ID", job.to_string()).spawn().unwrap();
        // Its environment is there a moment after the process.
        assert!((0..30_000).any(|_| process::variable(child.id(), "SLURM_JOB_ID").is_some()));
        let pid = child.id().to_string();
        node.sim(&[&["proc", "add", "--pid", &pid, "--memory-mib", "3000"], place].concat());
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn seen(node: &TestNode, job: u32) -> Option<Sample> {
    sample(&places(&node.settings), JobId(job), TrafficWanted::default()).unwrap()
}

const MIB: u64 = 1 << 20;

#[test]
fn each_job_has_what_is_on_its_own_devices() {
    on_node("tests::usage::each_job_has_what_is_on_its_own_devices", |node| {
        let cut = node.realise(1, ALICE, mig(&[(0, "3g.20gb", 4), (0, "2g.10gb", 0)])).unwrap().entry;
        node.realise(2, BOB, whole(&[1, 2])).unwrap();
        let gi = cut.instances[0].live.as_ref().unwrap().gi.to_string();
        let _first = Process::of(node, 1, &["--gpu", "0", "--gi", &gi, "--ci", "0"]);
        let _both = [Process::of(node, 2, &["--gpu", "1"]), Process::of(node, 2, &["--gpu", "1"])];
        let memory = vec![3000 * MIB, 0];
        assert_eq!(
            seen(node, 1),
            Some(Sample { memory, busy_percent: None, ..Sample::default() }),
            "an A100 does not count for instances"
        );
        let memory = vec![6000 * MIB, 0];
        assert_eq!(
            seen(node, 2),
            Some(Sample { memory, busy_percent: Some(50), ..Sample::default() }),
            "one of two is busy"
        );
        assert_eq!(seen(node, 3), None);
        assert!(
            has_devices(&places(&node.settings), JobId(1)).unwrap()
                && !has_devices(&places(&node.settings), JobId(3)).unwrap()
        );
    });
}

#[test]
fn on_a_shared_device_a_process_is_the_jobs_that_its_environment_names() {
    on_node("tests::usage::on_a_shared_device_a_process_is_the_jobs_that_its_environment_names", |node| {
        let share = || Grant::Mps { on: protocol::ShareOn::Gpu(GpuIndex(1)), mem_mib: 4000, threads: 25 };
        for job in [1, 2, 4] {
            node.realise(job, ALICE, share()).unwrap();
        }
        let place = ["--gpu", "1", "--mps"];
        let _all = [Process::of(node, 1, &place), Process::of(node, 2, &place), Process::of(node, 2, &place)];
        let of = |job| seen(node, job).unwrap();
        assert_eq!([of(1).memory, of(2).memory, of(4).memory], [[3000 * MIB], [6000 * MIB], [0]]);
        assert_eq!(of(1).busy_percent, None, "whose it is, is not told");
        node.release(2);
        assert_eq!(seen(node, 2), None, "it has ended");
    });
}

/// GPU 2 is an H100: its driver counts for each GPU instance, but not for parts of one.
#[test]
fn instances_of_a_hopper_tell_how_busy_they_are() {
    on_node("tests::usage::instances_of_a_hopper_tell_how_busy_they_are", |node| {
        let own = node.realise(1, ALICE, mig(&[(2, "3g.40gb", 4), (2, "1g.10gb", 0)])).unwrap().entry;
        node.realise(2, BOB, mig(&[(2, "1g.10gb", 1)])).unwrap();
        let gi = own.instances[0].live.as_ref().unwrap().gi.to_string();
        let idle = |job| seen(node, job).unwrap().busy_percent;
        assert_eq!([idle(1), idle(2)], [Some(0), Some(0)]);
        let program = Process::of(node, 1, &["--gpu", "2", "--gi", &gi, "--ci", "0"]);
        let sample = Sample { memory: vec![3000 * MIB, 0], busy_percent: Some(50), ..Sample::default() };
        assert_eq!(seen(node, 1), Some(sample), "one of two is busy");
        assert_eq!(
            seen(node, 2),
            Some(Sample { memory: vec![0], busy_percent: Some(0), ..Sample::default() })
        );
        drop(program);
        assert_eq!(seen(node, 1).unwrap().busy_percent, Some(0));
    });
}

#[test]
fn nobody_tells_how_busy_one_job_keeps_what_others_use_as_well() {
    on_node("tests::usage::nobody_tells_how_busy_one_job_keeps_what_others_use_as_well", |node| {
        let share =
            Grant::Mps { on: protocol::ShareOn::Instance(spec(2, "3g.40gb", 4)), mem_mib: 4000, threads: 25 };
        node.realise(1, ALICE, share).unwrap();
        node.realise(2, BOB, compute(2, "1c.3g.40gb", 0)).unwrap();
        for job in [1, 2] {
            assert_eq!(
                seen(node, job),
                Some(Sample { memory: vec![0], busy_percent: None, ..Sample::default() })
            );
        }
    });
}

#[test]
fn a_gpu_without_active_nvlinks_sends_nothing_over_them() {
    on_node("tests::usage::a_gpu_without_active_nvlinks_sends_nothing_over_them", |node| {
        let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
        assert_eq!(nvlink_bytes(&nvml, NvmlIndex(0)), Some(BothWays::default()));
    });
}
