//! GPUs that Slurm counts otherwise than NVML: a part of them, or in another order.

use site_config::GpuOrder;

use super::*;
use crate::journal::{Journal, Phase};
use crate::numbering::{NumberError, minors_by_bus};
use crate::{Numbers, task_environment, uuids_of_part, uuids_of_task};

/// The device files of these GPUs as gres.conf would list them.
fn files(node: &TestNode, minors: &[u16]) -> Vec<String> {
    minors.iter().map(|m| node.settings.dev_root.join(format!("nvidia{m}")).display().to_string()).collect()
}

fn listed(node: &TestNode, minors: &[u16]) -> GpuOrder {
    GpuOrder::Files(files(node, minors))
}

/// The node as a prolog sees it whose gres.conf lists these.
fn counted(node: &TestNode, minors: &[u16]) -> Settings {
    let numbers = Numbers::of(&node.settings, &listed(node, minors)).unwrap();
    Settings { numbers, ..node.settings.clone() }
}

#[test]
fn a_job_gets_the_gpus_that_slurm_means() {
    on_node("tests::numbers::a_job_gets_the_gpus_that_slurm_means", |node| {
        for (minors, number, index) in [(&[1, 2][..], 0, 1), (&[2, 0, 1], 0, 2), (&[2, 0, 1], 2, 1)] {
            let settings = counted(node, minors);
            let grant = settings.numbers.grant(&whole(&[number])).unwrap();
            assert_eq!(grant, whole(&[index]));
            let entry = crate::realise(&settings, &node.job(1, ALICE, grant)).unwrap().entry;
            let uuid = node.inspect().gpus[usize::from(index)].info.uuid.clone();
            assert_eq!((entry.gpus[0].index, entry.gpus[0].number), (index, number));
            assert_eq!(var(&task_environment(&entry, 0, 1), "CUDA_VISIBLE_DEVICES"), uuid);
            assert_eq!(node.access(&format!("nvidia{index}")), (ALICE, 0o600));
            // Steps are told Slurm's numbers, and read them from the journal.
            let kept = Journal::open(&settings.state_dir).unwrap().job(JobId(1)).unwrap().unwrap();
            assert_eq!((&kept.phase, &kept), (&Phase::Ready, &entry));
            assert_eq!(uuids_of_part(&kept, &number.to_string()).as_ref(), Some(&uuid));
            assert_eq!(uuids_of_part(&kept, &(number + 1).to_string()), None);
            let of_task = uuids_of_task(&kept, &number.to_string(), (0, 1), &|_| true);
            assert_eq!(of_task.as_ref(), Some(&uuid));
            node.release(1);
            assert_eq!(node.access(&format!("nvidia{index}")), (0, 0o600));
        }
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn instances_and_shares_are_made_on_the_gpu_that_slurm_means() {
    on_node("tests::numbers::instances_and_shares_are_made_on_the_gpu_that_slurm_means", |node| {
        let settings = counted(node, &[1, 0, 2]);
        let grant = settings.numbers.grant(&mig(&[(1, "1g.5gb", 3)])).unwrap();
        let entry = crate::realise(&settings, &node.job(1, ALICE, grant)).unwrap().entry;
        assert_eq!((entry.instances[0].gpu, entry.gpus[0].number), (0, 1));
        let on = placement::decision::ShareOn::Gpu;
        let share = |gpu| Grant::Mps { on: on(GpuIndex(gpu)), mem_mib: 1000, threads: 10 };
        assert_eq!(settings.numbers.grant(&share(1)).unwrap(), share(0));
        node.release(1);
    });
}

#[test]
fn a_site_that_describes_what_slurm_counts_describes_those_gpus() {
    on_node("tests::numbers::a_site_that_describes_what_slurm_counts_describes_those_gpus", |node| {
        let key = |settings: &Settings, gpu| settings.gpu(GpuIndex(gpu)).map(|g| g.model.key.clone());
        let part = Settings { gpus: node.settings.gpus[1..].to_vec(), ..counted(node, &[1, 2]) };
        assert_eq!(key(&part, 2).as_deref(), Some("h100-80gb-sxm"));
        assert_eq!(key(&part, 1).as_deref(), Some("a100-40gb"));
        assert_eq!(key(&part, 0), None);
        // Described are all GPUs of the node: by NVML's index.
        assert_eq!(key(&counted(node, &[2]), 2).as_deref(), Some("h100-80gb-sxm"));
    });
}

#[test]
fn what_slurm_means_is_not_guessed() {
    on_node("tests::numbers::what_slurm_means_is_not_guessed", |node| {
        let of = |order| Numbers::of(&node.settings, &order).map_err(|e| e.to_string());
        let perhaps = |minors| of(GpuOrder::IfDrivers(files(node, minors), "AutoDetect sorts them anew"));
        assert!(perhaps(&[0, 1, 2]).is_ok() && perhaps(&[0, 1]).is_ok());
        assert!(perhaps(&[1, 2]).unwrap_err().contains("AutoDetect"));
        let file =
            |name: &str| of(GpuOrder::Files(vec![node.settings.dev_root.join(name).display().to_string()]));
        assert!(file("nvidia7").unwrap_err().contains("cannot be looked at"));
        assert!(file("nvidiactl").unwrap_err().contains("no GPU"));
        assert_eq!(of(GpuOrder::Drivers).unwrap().gpu(GpuIndex(5)).unwrap(), GpuIndex(5));
        let part = of(listed(node, &[1, 2])).unwrap();
        assert!(matches!(part.gpu(GpuIndex(2)), Err(NumberError::Unlisted { listed: 2, .. })));
    });
}

#[test]
fn nvml_counts_by_bus_id() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = |bus: &str, text: &str| {
        std::fs::create_dir(dir.path().join(bus)).unwrap();
        std::fs::write(dir.path().join(bus).join("information"), text).unwrap();
    };
    gpu("0000:47:00.0", "Model: \t\t x\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
    gpu("0000:07:00.0", "Device Minor: \t 1\n");
    gpu("0000:0f:00.0", "Device Minor: \t 2\nGPU Excluded:\t Yes\n");
    assert_eq!(minors_by_bus(dir.path()), Some(vec![1, 0]));
    gpu("0000:90:00.0", "Device Minor: \t x\n");
    assert_eq!(minors_by_bus(dir.path()), None);
    assert_eq!(minors_by_bus(&dir.path().join("none")), None);
}
