//! A driver that shows fewer GPUs than the site describes.

use super::*;
use crate::{Fault, missing_in_proc, unlike_described};

const TOO_FEW: &str = "tessera.toml describes 3 GPUs, the driver shows 2: correct the file or the node";

#[test]
fn no_job_starts_where_nvml_shows_fewer_gpus() {
    on_node("tests::vanished::no_job_starts_where_nvml_shows_fewer_gpus", |node| {
        // Behind the missing one, NVML's numbers mean other GPUs. In front of it they do not, but the node is not whole.
        for gpu in ["0", "2"] {
            node.sim(&["fault", "add", "--gpu", gpu, "--kind", "hidden"]);
            let Err(RealiseError::JobFailed(fault @ Fault::FewerGpus { described: 3, shown: 2 })) =
                node.realise(1, ALICE, whole(&[1]))
            else {
                panic!("it is there")
            };
            assert!(fault.blocks_gpu_jobs() && fault.to_string() == TOO_FEW, "{fault}");
            let wrong = unlike_described(&node.settings, &node.settings.numbering).unwrap();
            assert!(wrong.contains(&TOO_FEW.to_owned()), "{wrong:?}");
            node.sim(&["fault", "clear"]);
        }
        assert_eq!(unlike_described(&node.settings, &node.settings.numbering).unwrap(), [""; 0]);
        node.realise(1, ALICE, whole(&[1])).unwrap();
        node.release(1);
    });
}

#[test]
fn the_kernels_list_is_enough_to_see_that_a_gpu_is_missing() {
    on_node("tests::vanished::the_kernels_list_is_enough_to_see_that_a_gpu_is_missing", |node| {
        assert_eq!(missing_in_proc(&node.settings), None);
        let list = node.settings.node.proc_root.join("driver/nvidia/gpus");
        let gpu = std::fs::read_dir(&list).unwrap().next().unwrap().unwrap().path();
        std::fs::remove_dir_all(gpu).unwrap();
        assert_eq!(missing_in_proc(&node.settings).as_deref(), Some(TOO_FEW));
        let left = GpuSettings { purpose: node_state::Purpose::Slurm, ..node.settings.gpus[2].clone() };
        let gpus = [&node.settings.gpus[..2], &[left]].concat();
        assert_eq!(missing_in_proc(&Settings { gpus, ..node.settings.clone() }), None, "it is Slurm's");
        std::fs::remove_dir_all(list).unwrap();
        assert_eq!(missing_in_proc(&node.settings), None, "the list cannot be read");
    });
}
