//! GPUs that Slurm counts otherwise than NVML: a part of them, or in another order.

use node_state::Purpose;
use slurm_files::GpuOrder;

use super::*;
use crate::{NumberingError, gpus_of_task, task_environment, uuids, uuids_of_part};
use node_journal::{Journal, Phase};

/// The device files of these GPUs as gres.conf would list them.
fn files(node: &TestNode, minors: &[u16]) -> Vec<String> {
    minors
        .iter()
        .map(|m| node.settings.node.dev_root.join(format!("nvidia{m}")).display().to_string())
        .collect()
}

fn listed(node: &TestNode, minors: &[u16]) -> GpuOrder {
    GpuOrder::Files(files(node, minors))
}

/// Gives the numbering of a gres.conf that lists these.
fn counted(node: &TestNode, minors: &[u16]) -> Numbering {
    Numbering::of(&node.settings, &listed(node, minors)).unwrap()
}

#[test]
fn a_job_gets_the_gpus_that_slurm_means() {
    on_node("tests::numbers::a_job_gets_the_gpus_that_slurm_means", |node| {
        for (minors, number, index) in [(&[1, 2][..], 0, 1), (&[2, 0, 1], 0, 2), (&[2, 0, 1], 2, 1)] {
            let mut settings = node.settings.clone();
            if minors.len() == settings.gpus.len() {
                // Then the site describes them in Slurm's order.
                settings.gpus = minors.iter().map(|m| node.settings.gpus[usize::from(*m)].clone()).collect();
            }
            let grant = counted(node, minors).translate(&settings, &whole(&[number])).unwrap();
            let entry = crate::realise(&settings, &node.job_with(1, ALICE, grant)).unwrap().entry;
            let uuid = node.inspect().gpus[usize::from(index)].info.uuid.clone();
            assert_eq!((entry.gpus[0].index, entry.gpus[0].number), (NvmlIndex(index), GpuIndex(number)));
            assert_eq!(var(&task_environment(&entry, 0, 1), "CUDA_VISIBLE_DEVICES"), uuid);
            assert_eq!(node.access(&format!("nvidia{index}")), (ALICE, 0o600));
            // Steps are told Slurm's numbers, and read them from the journal.
            let kept = Journal::open(&node.settings.node.state_dir).unwrap().job(JobId(1)).unwrap().unwrap();
            assert_eq!((&kept.phase, &kept), (&Phase::Ready, &entry));
            assert_eq!(uuids_of_part(&kept, &number.to_string()).as_ref(), Some(&uuid));
            assert_eq!(uuids_of_part(&kept, &(number + 1).to_string()), None);
            let of_task = gpus_of_task(&kept, &number.to_string(), (0, 1), None).unwrap();
            assert_eq!(uuids(&of_task), uuid);
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
        let translated = |grant| counted(node, &[1, 0, 2]).translate(&node.settings, &grant).unwrap();
        let job = node.job_with(1, ALICE, translated(mig(&[(1, "1g.5gb", 3)])));
        let entry = crate::realise(&node.settings, &job).unwrap().entry;
        assert_eq!((entry.instances[0].gpu, entry.gpus[0].number), (NvmlIndex(0), GpuIndex(1)));
        let on = protocol::ShareOn::Gpu;
        let share = Grant::Mps { on: on(GpuIndex(1)), mem_mib: 1000, threads: 10 };
        assert_eq!(translated(share).daemon_keys(), ["gpu0"]);
        node.release(1);
    });
}

#[test]
fn a_site_that_describes_what_slurm_counts_describes_those_gpus() {
    on_node("tests::numbers::a_site_that_describes_what_slurm_counts_describes_those_gpus", |node| {
        let key = |settings: &Settings, minors: &[u16], gpu| {
            let described = counted(node, minors).description(settings, NvmlIndex(gpu));
            described.map(|g| g.model.key.clone())
        };
        let part = Settings { gpus: node.settings.gpus[1..].to_vec(), ..node.settings.clone() };
        assert_eq!(key(&part, &[1, 2], 2).as_deref(), Some("h100-80gb-sxm"));
        assert_eq!(key(&part, &[1, 2], 1).as_deref(), Some("a100-40gb"));
        assert_eq!(key(&part, &[1, 2], 0), None);
        // Described are all GPUs of the node: by NVML's index.
        assert_eq!(key(&node.settings, &[2], 2).as_deref(), Some("h100-80gb-sxm"));
    });
}

#[test]
fn a_gpu_that_is_left_to_slurm_need_not_be_one_that_the_driver_shows() {
    on_node("tests::numbers::a_gpu_that_is_left_to_slurm_need_not_be_one_that_the_driver_shows", |node| {
        let left = |purpose| {
            let model = Model::find("v100-16gb").unwrap();
            let gpu = GpuSettings { model, policy: MigPolicy::Off, purpose, fixed: Vec::new() };
            let mut settings = node.settings.clone();
            settings.gpus.insert(2, gpu);
            settings
        };
        let order = GpuOrder::Files(files(node, &[0, 1, 9, 2]));
        let missing = Numbering::of(&left(Purpose::Whole), &order);
        assert!(matches!(missing, Err(NumberingError::File { .. })), "it is to be there");
        let mut settings = left(Purpose::Slurm);
        settings.numbering = Numbering::of(&settings, &order).unwrap();
        assert_eq!(crate::unlike_described(&settings, &settings.numbering).unwrap(), [""; 0]);
        let numbering = &settings.numbering;
        assert!(numbering.is_unseen(GpuIndex(2)) && !numbering.is_unseen(GpuIndex(3)));
        assert_eq!(numbering.description(&settings, NvmlIndex(2)).unwrap().model.key, "h100-80gb-sxm");
        let translated = |gpus: &[u16]| numbering.translate(&settings, &whole(gpus)).unwrap();
        assert!(translated(&[2]).gpus().is_empty());
        // The others are what they are, and a job with such a GPU as well has them.
        let entry = crate::realise(&settings, &node.job_with(1, ALICE, translated(&[2, 3]))).unwrap().entry;
        assert_eq!(
            (entry.gpus.len(), entry.gpus[0].index, entry.gpus[0].number),
            (1, NvmlIndex(2), GpuIndex(3))
        );
        let inspection = crate::inspect(&settings, None).unwrap();
        // Nobody has closed device nodes before; that a GPU is missing is no disagreement.
        let of_no_gpu = inspection.disagreements.iter().find(|d| d.gpu.is_none());
        assert!(of_no_gpu.is_none(), "{of_no_gpu:?}");
        node.release(1);
        // Without a list of files: the last ones are not there.
        let last = left(Purpose::Slurm);
        let last = Settings { gpus: [&last.gpus[..2], &last.gpus[3..], &last.gpus[2..3]].concat(), ..last };
        assert_eq!(crate::unlike_described(&last, &Numbering::default()).unwrap(), [""; 0]);
    });
}

#[test]
fn what_slurm_means_is_not_guessed() {
    on_node("tests::numbers::what_slurm_means_is_not_guessed", |node| {
        let of = |order| Numbering::of(&node.settings, &order).map_err(|e| e.to_string());
        let perhaps = |minors| of(GpuOrder::IfDrivers(files(node, minors), "AutoDetect sorts them again"));
        assert!(perhaps(&[0, 1, 2]).is_ok() && perhaps(&[0, 1]).is_ok());
        assert!(perhaps(&[1, 2]).unwrap_err().contains("AutoDetect"));
        let file = |name: &str| {
            of(GpuOrder::Files(vec![node.settings.node.dev_root.join(name).display().to_string()]))
        };
        assert!(file("nvidia7").unwrap_err().contains("cannot be looked at"));
        assert!(file("nvidiactl").unwrap_err().contains("no GPU"));
        let translated = |order, gpu| {
            let grant = of(order).unwrap().translate(&node.settings, &whole(&[gpu]));
            grant.map(|grant| (grant.gpus()[0].index, grant.gpus()[0].number))
        };
        assert_eq!(translated(GpuOrder::Drivers, 5).unwrap(), (NvmlIndex(5), GpuIndex(5)));
        assert_eq!(translated(listed(node, &[1, 2]), 1).unwrap(), (NvmlIndex(2), GpuIndex(1)));
        let beyond = translated(listed(node, &[1, 2]), 2);
        assert!(matches!(beyond, Err(NumberingError::Unlisted { listed: 2, .. })));
    });
}
