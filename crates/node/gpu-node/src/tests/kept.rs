//! GPUs that the site keeps for something: its own instances stay, and what is left to Slurm is not touched.

use node_state::Purpose;

use super::*;
use crate::{Fault, LiveJobs};
use node_driver::nvml::Nvml;

/// The node with these GPUs kept, after somebody has made these instances.
fn kept(node: &TestNode, gpus: &[(usize, Purpose)], made: &[(u16, &str, u8)]) -> TestNode {
    for (job, one) in (90..).zip(made) {
        node.realise(job, ALICE, mig(&[*one])).unwrap();
    }
    (90..).zip(made).for_each(|(job, _)| node.release(job));
    let mut settings = node.settings.clone();
    for (gpu, purpose) in gpus {
        let here = made.iter().filter(|(on, ..)| usize::from(*on) == *gpu);
        let fixed: Vec<_> = here.map(|(_, p, s)| (spec(0, p, *s).profile, Slice(*s))).collect();
        let model = settings.gpus[*gpu].model;
        let policy = purpose.policy(model, MigPolicy::Dynamic);
        settings.gpus[*gpu] = GpuSettings { model, policy, purpose: *purpose, fixed };
    }
    TestNode { dir: node.dir.clone(), settings }
}

fn uuids(node: &TestNode, gpu: usize) -> Vec<String> {
    let instances = node.inspect().gpus[gpu].instances.clone();
    instances.iter().flat_map(|i| i.compute.iter().map(|c| c.uuid.clone())).collect()
}

#[test]
fn the_sites_own_instances_are_used_and_stay() {
    on_node("tests::kept::the_sites_own_instances_are_used_and_stay", |node| {
        let made = [(0, "3g.20gb", 0), (0, "3g.20gb", 4)];
        let node = kept(node, &[(0, Purpose::Static)], &made);
        let before = uuids(&node, 0);
        assert_eq!(before.len(), 2);
        let entry = node.realise(1, BOB, mig(&[(0, "3g.20gb", 4)])).unwrap().entry;
        assert_eq!(entry.instances[0].live.clone().unwrap().uuid, before[1]);
        assert_eq!(node.access(&entry.device_nodes[0]), (BOB, 0o400));
        node.release(1);
        // Whatever is granted in error: nothing is made, destroyed or switched.
        let fault = |grant: Grant| match node.realise(2, BOB, grant).unwrap_err() {
            RealiseError::JobFailed(fault) => fault,
            other => panic!("the node is fit: {other}"),
        };
        assert!(matches!(fault(whole(&[1, 0])), Fault::Kept { purpose: Purpose::Static, .. }));
        let no = fault(mig(&[(0, "1g.5gb", 0)])).to_string();
        assert_eq!(
            no,
            "GPU 0: tessera.toml says that it is cut by the site, but there is no 1g.5gb at 0 now"
        );
        node.release(2);
        node.reconcile(&[]);
        assert_eq!(uuids(&node, 0), before);
        node.assert_clean(&[]);
    });
}

#[test]
fn where_nobody_describes_the_gpus_a_half_made_instance_stays() {
    on_node("tests::kept::where_nobody_describes_the_gpus_a_half_made_instance_stays", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        let half = {
            let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
            let profile = spec(0, "1g.5gb", 6).profile;
            let all = nvml.placements(NvmlIndex(0), profile).unwrap();
            let at = all.into_iter().find(|p| p.start.0 == 6).unwrap();
            nvml.create_gpu_instance(NvmlIndex(0), profile, at).unwrap().id
        };
        let is_there = || node.inspect().gpus[0].instances.iter().any(|i| i.id == half);
        // Its prolog was killed, and the node taken out of the file before its epilog.
        let interrupted = |settings: &Settings| {
            let journal = node_journal::Journal::open(&settings.node.state_dir).unwrap();
            journal
                .store(&node_journal::Entry { phase: node_journal::Phase::Intent, ..entry.clone() })
                .unwrap();
            crate::release(settings, JobId(1)).unwrap().problems
        };
        let taken_out = Settings { gpus: Vec::new(), ..node.settings.clone() };
        let said = interrupted(&taken_out);
        assert!(is_there(), "{said:?}");
        assert!(said.iter().any(|line| line.contains("describes it no more")), "{said:?}");
        // Where the file says that it is ours to cut, it goes.
        assert_eq!(interrupted(&node.settings), [""; 0]);
        assert!(!is_there());
    });
}

#[test]
fn a_missing_or_further_instance_of_the_sites_own_is_reported() {
    on_node("tests::kept::a_missing_or_further_instance_of_the_sites_own_is_reported", |node| {
        let mut node = kept(node, &[(0, Purpose::Static)], &[(0, "2g.10gb", 0)]);
        node.settings.gpus[0].fixed = vec![(spec(0, "2g.10gb", 2).profile, Slice(2))];
        node.reconcile(&[]);
        assert_eq!(
            node.disagreements(&[]),
            [
                "GPU 0: the site says that it has 2g.10gb@2 (static), the driver shows none",
                "GPU 0: has 2g.10gb@0, which the site does not describe (static)",
            ]
        );
        assert_eq!(uuids(&node, 0).len(), 1);
    });
}

#[test]
fn what_is_left_to_slurm_is_not_touched() {
    on_node("tests::kept::what_is_left_to_slurm_is_not_touched", |node| {
        let node = kept(node, &[(1, Purpose::Slurm)], &[(1, "3g.20gb", 0)]);
        let cap = {
            let settings = TestNode::open(&node.dir).settings;
            let devices = crate::access::Devices::open(&settings).unwrap();
            let [gi, _] =
                devices.caps(node_driver::GpuMinor(1), node.inspect().gpus[1].instances[0].id, 0).unwrap();
            gi
        };
        let open = |name: &str| {
            let path = node.settings.node.dev_root.join(name);
            let mode = PermissionsExt::from_mode(0o666);
            std::fs::set_permissions(path, mode).unwrap();
        };
        open("nvidia1");
        open(&cap);
        // Somebody is about to make a further instance there.
        let half = {
            let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
            let profile = spec(1, "1g.5gb", 6).profile;
            let all = nvml.placements(NvmlIndex(1), profile).unwrap();
            let at = all.into_iter().find(|p| p.start.0 == 6).unwrap();
            nvml.create_gpu_instance(NvmlIndex(1), profile, at).unwrap().id
        };
        let before = uuids(&node, 1);
        let untouched = |at: &str| {
            assert!(node.inspect().gpus[1].instances.iter().any(|i| i.id == half), "{at}");
            assert_eq!(node.access("nvidia1"), (0, 0o666), "{at}");
            assert_eq!(node.access(&cap), (0, 0o666), "{at}");
            assert_eq!(uuids(&node, 1), before, "{at}");
        };
        // A plain job has it beside one that is ours.
        node.realise(1, ALICE, whole(&[0, 1])).unwrap();
        assert_eq!(node.access("nvidia0"), (ALICE, 0o600));
        untouched("a plain job has it");
        crate::reconcile(&node.settings, LiveJobs::Unknown).unwrap();
        untouched("reconciled");
        node.release(1);
        node.reconcile(&[]);
        untouched("given back");
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        for grant in [
            mig(&[(1, "3g.20gb", 0)]),
            Grant::Mps { on: protocol::ShareOn::Gpu(GpuIndex(1)), mem_mib: 100, threads: 10 },
        ] {
            assert!(matches!(node.realise(2, BOB, grant), Err(RealiseError::JobFailed(Fault::Kept { .. }))));
            node.release(2);
        }
        node.assert_clean(&[]);
    });
}

#[test]
fn gpus_that_neither_slurm_nor_the_site_counts_are_not_touched() {
    on_node("tests::kept::gpus_that_neither_slurm_nor_the_site_counts_are_not_touched", |node| {
        let mut node = kept(node, &[], &[(1, "3g.20gb", 0)]);
        let files = |n: u16| node.settings.node.dev_root.join(format!("nvidia{n}")).display().to_string();
        let order = slurm_files::GpuOrder::Files(vec![files(2), files(0)]);
        node.settings.gpus = vec![node.settings.gpus[2].clone(), node.settings.gpus[0].clone()];
        node.settings.numbering = Numbering::of(&node.settings, &order).unwrap();
        let path = node.settings.node.dev_root.join("nvidia1");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        let before = uuids(&node, 1);
        node.reconcile(&[]);
        assert_eq!((node.access("nvidia1"), uuids(&node, 1)), ((0, 0o666), before));
        assert_eq!(node.access("nvidia0"), (0, 0o600));
    });
}

#[test]
fn handing_over_leaves_the_sites_instances_and_what_is_slurms() {
    on_node("tests::kept::handing_over_leaves_the_sites_instances_and_what_is_slurms", |node| {
        let node = kept(
            node,
            &[(0, Purpose::Static), (1, Purpose::Slurm)],
            &[(0, "3g.20gb", 0), (1, "3g.20gb", 0), (2, "1g.10gb", 0)],
        );
        node.reconcile(&[]);
        let restricted = PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(node.settings.node.dev_root.join("nvidia1"), restricted).unwrap();
        let cap = {
            let devices = crate::access::Devices::open(&node.settings).unwrap();
            let site = &node.inspect().gpus[0].instances[0];
            devices.caps(node_driver::GpuMinor(0), site.id, site.compute[0].id).unwrap()
        };
        let before = [0, 1].map(|gpu| uuids(&node, gpu));
        assert!(before.iter().all(|gpu| gpu.len() == 1));
        let done = crate::hand_over(&node.settings).unwrap();
        assert_eq!((done.busy, done.gpus), (vec![], vec![NvmlIndex(0), NvmlIndex(2)]));
        assert_eq!(done.problems, [""; 0]);
        assert_eq!(([0, 1].map(|gpu| uuids(&node, gpu)), uuids(&node, 2).len()), (before, 0));
        assert_eq!(node.access("nvidia1"), (0, 0o640));
        assert_eq!([0, 2].map(|n| node.access(&format!("nvidia{n}"))), [(0, 0o666); 2]);
        assert_eq!(cap.map(|name| node.access(&name)), [(0, 0o444); 2]);
    });
}

/// A site may describe the GPUs that Slurm counts, in Slurm's order: the second of NVML's is then its first.
#[test]
fn handing_over_asks_for_the_mode_of_the_gpu_that_slurm_means() {
    on_node("tests::kept::handing_over_asks_for_the_mode_of_the_gpu_that_slurm_means", |node| {
        let mut node = kept(node, &[], &[(0, "3g.20gb", 0), (1, "3g.20gb", 0)]);
        let file = |n: u16| node.settings.node.dev_root.join(format!("nvidia{n}")).display().to_string();
        let order = slurm_files::GpuOrder::Files([1, 0, 2].map(file).to_vec());
        node.settings.gpus[0].policy = MigPolicy::On;
        node.settings.numbering = Numbering::of(&node.settings, &order).unwrap();
        assert_eq!(crate::hand_over(&node.settings).unwrap().problems, [""; 0]);
        let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
        let is_on = |gpu| nvml.mig_mode(NvmlIndex(gpu)).unwrap().current;
        assert_eq!([is_on(0), is_on(1)], [false, true]);
    });
}
