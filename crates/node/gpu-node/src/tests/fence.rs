//! A share's limits in its control group, from prolog to epilog, on a tree of plain files. `fence::tests` has the kernel's rules.

use std::fs;

use protocol::ShareOn;

use super::*;
use crate::renew_fence;
use node_journal::Entry;

fn share(gpu: u16, mem_mib: u64) -> Grant {
    Grant::Mps { on: ShareOn::Gpu(GpuIndex(gpu)), mem_mib, threads: 25 }
}

/// Name of a job's control group as Slurm 26.05 gives it.
const SLUID: &str = "s0AVJ3WCXM2T00";

/// The tree of a kernel that has a region for GPU 0 alone; jobs 1 to 4 have a group, as the kernel makes one with its files.
fn tree(node: &TestNode) -> String {
    let nvml = node_driver::nvml::Nvml::load(&node.settings.node.nvml_library).unwrap();
    let bus = nvml.info(NvmlIndex(0)).unwrap().pci_bus_id;
    let region =
        format!("nvidia/{}/vidmem", bus.strip_prefix("0000").unwrap().trim_end_matches(".0").to_lowercase());
    let (root, scope) = (&node.settings.node.cgroup_root, "system.slice/slurmstepd.scope");
    fs::create_dir_all(root.join(scope)).unwrap();
    fs::write(root.join("dmem.capacity"), format!("{region} 42949672960\n")).unwrap();
    for dir in ["", "system.slice", scope] {
        fs::write(root.join(dir).join("cgroup.subtree_control"), "cpu memory").unwrap();
    }
    for name in ["job_1", "job_2", "job_3", "job_4", SLUID] {
        let dir = root.join(scope).join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("dmem.max"), format!("{region} max\n")).unwrap();
    }
    region
}

fn max(node: &TestNode, job: u32) -> String {
    max_of(node, &format!("job_{job}"))
}

fn max_of(node: &TestNode, group: &str) -> String {
    let dir = format!("system.slice/slurmstepd.scope/{group}/dmem.max");
    fs::read_to_string(node.settings.node.cgroup_root.join(dir)).unwrap()
}

/// Asks a task of the job about its share.
fn share_said(node: &TestNode, entry: &Entry) -> String {
    let mut entry = entry.clone();
    let own = node.settings.node.proc_root.join("self");
    fs::create_dir_all(&own).unwrap();
    let text = format!("0::/system.slice/slurmstepd.scope/{}/step_0/slurm\n", entry.group_name());
    fs::write(own.join("cgroup"), text).unwrap();
    assert_eq!(renew_fence(&node.settings.node.cgroup_root, &node.settings.node.proc_root, &mut entry), None);
    var(&crate::task_environment(&entry, 0, 1), "TESSERA_GPU_SHARE").to_owned()
}

#[test]
fn the_kernel_holds_a_share_from_prolog_to_epilog() {
    on_node("tests::fence::the_kernel_holds_a_share_from_prolog_to_epilog", |node| {
        let region = tree(node);
        let done = node.realise(1, ALICE, share(0, 2862)).unwrap();
        assert_eq!(done.notes, Vec::<String>::new());
        assert_eq!(max(node, 1), format!("{region} {}\n", 2862_u64 << 20));
        let control =
            fs::read_to_string(node.settings.node.cgroup_root.join("system.slice/cgroup.subtree_control"));
        assert_eq!(control.unwrap(), "+dmem");
        assert_eq!(share_said(node, &done.entry), "3.0 GB (kernel), 25% of SMs");

        // A second share on the GPU; one on a GPU without a region, and a whole GPU are held as before.
        node.realise(2, ALICE, share(0, 1000)).unwrap();
        assert_eq!(max(node, 2), format!("{region} {}\n", 1000_u64 << 20));
        let other = node.realise(3, ALICE, share(1, 2862)).unwrap();
        assert_eq!((max(node, 3), &other.entry.fence), (format!("{region} max\n"), &None));
        assert_eq!(share_said(node, &other.entry), "3.0 GB (MPS, cooperative), 25% of SMs");
        assert_eq!(node.realise(4, BOB, whole(&[2])).unwrap().entry.fence, None);

        // A limit that somebody has raised is told. The journal's is the one that counts.
        let dir = node.settings.node.cgroup_root.join("system.slice/slurmstepd.scope/job_2");
        fs::write(dir.join("dmem.max"), format!("{region} max\n")).unwrap();
        let told = node.disagreements(&[1, 2, 3, 4]);
        let taken = format!("its control group may take all of {region}, and 1.0 GB is counted for it");
        assert_eq!(told, [format!("job 2: {taken}: the kernel does not hold it")]);
        for job in 1..5 {
            node.release(job);
            assert_eq!(max(node, job), format!("{region} max\n"));
        }
        node.assert_clean(&[]);
    });
}

#[test]
fn the_kernel_holds_a_share_in_a_group_that_is_named_by_its_sluid() {
    on_node("tests::fence::the_kernel_holds_a_share_in_a_group_that_is_named_by_its_sluid", |node| {
        let region = tree(node);
        let job = JobContext { group: Some(SLUID.to_owned()), ..node.job(1, ALICE, share(0, 2862)) };
        let done = crate::realise(&node.settings, &job).unwrap();
        assert_eq!(max_of(node, SLUID), format!("{region} {}\n", 2862_u64 << 20));
        assert_eq!(max(node, 1), format!("{region} max\n"));
        assert_eq!(share_said(node, &done.entry), "3.0 GB (kernel), 25% of SMs");
        node.release(1);
        assert_eq!(max_of(node, SLUID), format!("{region} max\n"));
    });
}

#[test]
fn a_job_that_fails_leaves_no_limit() {
    on_node("tests::fence::a_job_that_fails_leaves_no_limit", |node| {
        let region = tree(node);
        let mut settings = node.settings.clone();
        settings.node.mps_control = node.dir.join("none");
        let failed = crate::realise(&settings, &node.job(1, ALICE, share(0, 2862)));
        assert!(failed.is_err());
        assert_eq!(max(node, 1), format!("{region} max\n"));
        node.release(1);
        // A dead job's is taken back by the next reconciliation.
        node.realise(2, ALICE, share(0, 2862)).unwrap();
        node.reconcile(&[]);
        assert_eq!(max(node, 2), format!("{region} max\n"));
    });
}
