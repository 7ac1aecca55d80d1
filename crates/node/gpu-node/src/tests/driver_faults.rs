//! Faults of the driver: which of them drain a node, which fail a job, and which are waited out.

use std::time::Instant;

use error_chain::Chain;

use super::*;
use crate::{Fault, unlike_described};
use node_driver::nvml::{Code, Nvml};
use node_journal::{Journal, Phase};

fn idle_instance(node: &TestNode) {
    node.realise(1, ALICE, mig(&[(0, "3g.20gb", 0)])).unwrap();
    node.release(1);
}

#[test]
fn a_destroy_that_is_busy_for_5_s_is_waited_out() {
    on_node("tests::driver_faults::a_destroy_that_is_busy_for_5_s_is_waited_out", |node| {
        idle_instance(node);
        let mut settings = node.settings.clone();
        settings.node.operation_timeout_ms = 300_000;
        let started = Instant::now();
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "busy-destroy", "--for", "5s"]);
        crate::realise(&settings, &node.job(2, BOB, mig(&[(0, "1g.5gb", 1)]))).unwrap();
        let took = started.elapsed();
        // Not all the time that there is.
        assert!(took > Duration::from_millis(4900) && took < Duration::from_secs(150), "{took:?}");
        // The epilog does not notice: it destroys nothing.
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "busy-destroy"]);
        node.release(2);
    });
}

#[test]
fn a_destroy_that_stays_busy_fails_the_job_alone() {
    on_node("tests::driver_faults::a_destroy_that_stays_busy_fails_the_job_alone", |node| {
        idle_instance(node);
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "busy-destroy"]);
        let mut settings = node.settings.clone();
        settings.node.operation_timeout_ms = 500;
        let job = node.job(2, BOB, mig(&[(0, "7g.40gb", 0)]));
        let error = crate::realise(&settings, &job).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Busy { .. })), "{error}");
        let entry = Journal::open(&settings.node.state_dir).unwrap().job(JobId(2)).unwrap().unwrap();
        assert!(matches!(entry.phase, Phase::Failed(why) if why.contains("in use after 500 ms")));
        node.sim(&["fault", "clear"]);
        node.release(2);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn out_of_resources_is_tried_again_once() {
    on_node("tests::driver_faults::out_of_resources_is_tried_again_once", |node| {
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "out-of-resources", "--count", "1"]);
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "out-of-resources"]);
        let error = node.realise(2, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap_err();
        let RealiseError::JobFailed(Fault::Nvml(e)) = &error else { panic!("{error}") };
        assert_eq!(e.code(), Some(Code::INSUFFICIENT_RESOURCES));
        assert_eq!(
            error.to_string(),
            "GPU 0: cannot create profile 19 at 1: not enough free slices (NVML 23)"
        );
    });
}

#[test]
fn a_broken_node_is_drained() {
    on_node("tests::driver_faults::a_broken_node_is_drained", |node| {
        // A right that this process lacks, though it asks for one GPU only, and a driver that answers for no GPU.
        for (kind, gpus, words) in [
            ("no-permission", &["0"][..], "no permission"),
            ("gpu-lost", &["0", "1", "2"], "the GPU is lost"),
        ] {
            for gpu in gpus {
                node.sim(&["fault", "add", "--gpu", gpu, "--kind", kind]);
            }
            let error = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap_err();
            assert!(matches!(error, RealiseError::NodeUnfit(_)), "{error}");
            assert!(Chain(&error).to_string().contains(words), "{error}");
            node.sim(&["fault", "clear"]);
            node.release(1);
        }
        let mut settings = node.settings.clone();
        settings.node.nvml_library = "/nonexistent/libnvidia-ml.so.1".into();
        let error = crate::realise(&settings, &node.job(1, ALICE, whole(&[0]))).unwrap_err();
        assert!(matches!(error, RealiseError::NodeUnfit(_)), "{error}");
        let error = node.realise(1, ALICE, whole(&[7])).unwrap_err();
        let RealiseError::JobFailed(fault @ Fault::NoSuchGpu { count: 3, .. }) = error else {
            panic!("{error}")
        };
        assert!(fault.blocks_gpu_jobs(), "jobs without GPUs may run");
        node.release(1);
        // Another GPU is no worse for it.
        node.realise(2, BOB, mig(&[(1, "1g.5gb", 0)])).unwrap();
    });
}

#[test]
fn one_lost_gpu_fails_its_own_job_and_leaves_the_node_to_others() {
    on_node("tests::driver_faults::one_lost_gpu_fails_its_own_job_and_leaves_the_node_to_others", |node| {
        node.sim(&["fault", "add", "--gpu", "1", "--kind", "gpu-lost"]);
        for (job, grant) in (1..).zip([whole(&[1]), whole(&[0, 1]), mig(&[(1, "1g.5gb", 0)])]) {
            let error = node.realise(job, ALICE, grant).unwrap_err();
            let RealiseError::JobFailed(fault) = error else { panic!("{error}") };
            let lost = "the GPU is lost (NVML 15)".to_owned();
            assert_eq!(fault.unwell_gpu(), Some((NvmlIndex(1), lost)), "{fault}");
            assert!(!fault.drains_node() && !fault.blocks_gpu_jobs(), "{fault}");
            node.release(job);
        }
        node.realise(4, BOB, whole(&[0, 2])).unwrap();
        node.release(4);
    });
}

#[test]
fn a_driver_that_reopens_device_nodes_is_told() {
    on_node("tests::driver_faults::a_driver_that_reopens_device_nodes_is_told", |node| {
        node.reconcile(&[]);
        node.assert_clean(&[]);
        let params = node.settings.node.proc_root.join("driver/nvidia/params");
        let text = std::fs::read_to_string(&params).unwrap();
        std::fs::write(&params, text.replace("ModifyDeviceFiles: 0", "ModifyDeviceFiles: 1")).unwrap();
        let told = format!(
            "{}: ModifyDeviceFiles is 1: any user can reopen device nodes; load the driver with \
             NVreg_ModifyDeviceFiles=0",
            params.display()
        );
        assert_eq!(node.disagreements(&[]), std::slice::from_ref(&told));
        assert_eq!(node.reconcile(&[]).problems, [told]);
    });
}

#[test]
fn a_slow_driver_is_waited_for() {
    let takes_time = format!("time_scale = 0.5\n{NODE}");
    on_node_of("tests::driver_faults::a_slow_driver_is_waited_for", &takes_time, |node| {
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "slow", "--factor", "10"]);
        node.reconcile(&[]);
        let started = Instant::now();
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0), (0, "1g.5gb", 1)])).unwrap().entry;
        let took = started.elapsed();
        // The driver takes 0.16 s for such an instance, here five times that, and makes one after the other.
        assert!(took >= Duration::from_millis(1600), "{took:?}");
        assert!(entry.phase == Phase::Ready && entry.instances.iter().all(|i| i.live.is_some()), "{entry:?}");
        node.assert_clean(&[1]);
        node.release(1);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_half_made_instance_gives_way() {
    on_node("tests::driver_faults::a_half_made_instance_gives_way", |node| {
        idle_instance(node);
        let nvml = Nvml::load(&node.settings.node.nvml_library).unwrap();
        let gpu = NvmlIndex(0);
        let profile = spec(0, "2g.10gb", 4);
        let at = nvml.placements(gpu, profile.profile).unwrap().into_iter().find(|p| p.start.0 == 4).unwrap();
        let remnant = nvml.create_gpu_instance(gpu, profile.profile, at).unwrap();
        assert!(remnant.compute.is_empty());
        assert_eq!(node.disagreements(&[]).iter().filter(|d| d.contains("no compute instance")).count(), 1);
        // Of the right shape and at the right place, but not whole.
        let entry = node.realise(2, BOB, mig(&[(0, "2g.10gb", 4)])).unwrap().entry;
        assert!(entry.instances[0].live.is_some());
        node.release(2);
        let elsewhere = nvml.placements(gpu, spec(0, "1g.5gb", 6).profile).unwrap();
        let at = elsewhere.into_iter().find(|p| p.start.0 == 6).unwrap();
        nvml.create_gpu_instance(gpu, spec(0, "1g.5gb", 6).profile, at).unwrap();
        assert_eq!(node.reconcile(&[]).destroyed.len(), 1);
        node.assert_clean(&[]);
    });
}

#[test]
fn what_the_driver_does_not_list_is_not_half_made() {
    on_node("tests::driver_faults::what_the_driver_does_not_list_is_not_half_made", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "2g.10gb", 4)])).unwrap().entry;
        // An idle one that is whole, in the way of the next.
        node.realise(2, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.release(2);
        let gpu = NvmlIndex(0);
        let fresh = || Nvml::load(&node.settings.node.nvml_library).unwrap();
        let asked_before = fresh();
        let all = asked_before.instances(gpu).unwrap();
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "list-timeout"]);
        for nvml in [&fresh(), &asked_before] {
            let error = nvml.instances(gpu).unwrap_err();
            let words = "GPU 0: cannot list the compute instances of GPU instance ";
            assert!(error.to_string().starts_with(words), "{error}");
            assert_eq!(error.code(), Some(Code(10)));
            assert_eq!(nvml.destroy(gpu, &all[0]).unwrap_err().code(), Some(Code(10)));
        }
        let report = node.reconcile(&[1]);
        assert_eq!(report.destroyed, []);
        assert!(report.problems.iter().any(|p| p.contains("cannot list the compute")), "{report:?}");
        let error = node.realise(3, BOB, mig(&[(0, "3g.20gb", 0)])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Nvml(_))), "{error}");
        node.sim(&["fault", "clear"]);
        assert_eq!(fresh().instances(gpu).unwrap(), all);
        assert_eq!(asked_before.instances(gpu).unwrap(), all);
        // No driver is asked for it.
        assert_eq!(node.access(&entry.device_nodes[0]), (ALICE, 0o400));
        node.release(1);
        node.release(3);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_missing_capability_node_is_made() {
    on_node("tests::driver_faults::a_missing_capability_node_is_made", |node| {
        let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
        node.release(1);
        let path = node.settings.node.dev_root.join(&entry.device_nodes[0]);
        std::fs::remove_file(&path).unwrap();
        node.realise(2, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap();
        assert_eq!(node.access(&entry.device_nodes[0]), (BOB, 0o400));
        node.release(2);
        // Not a device: refused, and what it points to is left alone.
        let victim = node.dir.join("victim");
        std::fs::write(&victim, "").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = node.realise(3, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap_err();
        assert!(Chain(&error).to_string().contains("is not the character device"), "{error}");
        assert_eq!(std::fs::metadata(&victim).unwrap().uid(), 0);
    });
}

/// A driver that is loaded again may have another major number, and the nodes of the last one stay.
#[test]
fn a_capability_node_of_an_earlier_load_of_the_driver_is_made_again() {
    on_node(
        "tests::driver_faults::a_capability_node_of_an_earlier_load_of_the_driver_is_made_again",
        |node| {
            let entry = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap().entry;
            node.release(1);
            let path = node.settings.node.dev_root.join(&entry.device_nodes[0]);
            let major_now = || rustix::fs::major(std::fs::symlink_metadata(&path).unwrap().rdev());
            let loaded = |major: u32| {
                let table = format!(
                    "Character devices:\n195 nvidia\n{major} nvidia-caps\n{} nvidia-caps-imex-channels\n",
                    major + 1
                );
                std::fs::write(node.settings.node.proc_root.join("devices"), table).unwrap();
            };
            let first = major_now();
            node.reconcile(&[]);
            loaded(first);
            node.assert_clean(&[]);
            loaded(first + 7);
            assert!(
                node.disagreements(&[]).iter().any(|d| d.contains("nvidia-cap") && d.contains("is missing"))
            );
            node.realise(2, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap();
            assert_eq!((major_now(), node.access(&entry.device_nodes[0])), (first + 7, (BOB, 0o400)));
            node.release(2);
            loaded(first + 9);
            assert!(!node.reconcile(&[]).device_nodes.is_empty());
            assert_eq!((major_now(), node.access(&entry.device_nodes[0])), (first + 9, (0, 0o400)));
            node.assert_clean(&[]);
        },
    );
}

#[test]
fn an_idle_instance_gives_up_the_media_engines() {
    on_node("tests::driver_faults::an_idle_instance_gives_up_the_media_engines", |node| {
        let shapes = || -> Vec<(String, u8)> {
            let seen = node.inspect();
            let node_state::GpuState::Mig(list) = &seen.node.gpus[0].state else { return Vec::new() };
            let name = |i: &node_state::Instance| {
                let profile = seen.node.gpus[0].model.profile_by_id(i.profile).unwrap();
                (profile.name.clone(), i.start.0)
            };
            list.iter().map(name).collect()
        };
        node.realise(1, ALICE, mig(&[(0, "1g.5gb+me", 0), (0, "1g.5gb", 1)])).unwrap();
        node.release(1);
        // There are media engines for one such instance, and the idle one has them.
        node.realise(2, BOB, mig(&[(0, "1g.5gb+me", 4)])).unwrap();
        let left = [("1g.5gb".to_owned(), 1), ("1g.5gb+me".to_owned(), 4)];
        assert_eq!(shapes(), left, "the other idle instance stays");
        // What a job holds stays its own.
        let refused = node.realise(3, ALICE, mig(&[(0, "1g.5gb+me", 0)])).unwrap_err();
        assert!(matches!(refused, RealiseError::JobFailed(Fault::Nvml(_))), "{refused}");
        assert_eq!(shapes(), left[1..]);
        node.release(2);
    });
}

#[test]
fn a_lost_gpu_is_not_taken_for_its_neighbour() {
    on_node("tests::driver_faults::a_lost_gpu_is_not_taken_for_its_neighbour", |node| {
        node.realise(1, ALICE, whole(&[0])).unwrap();
        node.realise(2, BOB, whole(&[1])).unwrap();
        node.sim(&["fault", "add", "--gpu", "0", "--kind", "gpu-lost"]);
        let seen = node.inspect();
        assert!(
            seen.disagreements.iter().any(|d| d.to_string().contains("GPU 0: ")),
            "{:?}",
            seen.disagreements
        );
        assert_eq!(seen.node.gpus.len(), 0, "GPU 1 is not GPU 0");
        assert_eq!(seen.gpus[0].info.index, NvmlIndex(1));
        // Its job's epilog needs no driver.
        node.release(1);
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        assert_eq!(node.access("nvidia1"), (BOB, 0o600));
        // The other GPUs' nodes are set right, whoever is on them.
        assert!(node.reconcile(&[2]).problems.iter().all(|p| p.contains("GPU 0: ")));
        assert_eq!(node.access("nvidia1"), (BOB, 0o600));
        assert_eq!(node.access("nvidia2"), (0, 0o600));
    });
}

#[test]
fn administrators_nodes_are_left_alone_where_they_are_not_known() {
    on_node("tests::driver_faults::administrators_nodes_are_left_alone_where_they_are_not_known", |node| {
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.release(1);
        let table = node.settings.node.proc_root.join("driver/nvidia-caps/mig-minors");
        let text = std::fs::read_to_string(&table).unwrap();
        let minor = text.lines().find_map(|line| line.strip_prefix("monitor ")).unwrap();
        let monitor = format!("nvidia-caps/nvidia-cap{minor}");
        let path = node.settings.node.dev_root.join(&monitor);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
        node.reconcile(&[]);
        assert_eq!(node.access(&monitor), (0, 0o444));
        // Reading it is an error, as it would be with too many files open.
        std::fs::remove_file(&table).unwrap();
        std::fs::create_dir(&table).unwrap();
        let report = node.reconcile(&[]);
        assert!(report.problems.iter().any(|p| p.contains("mig-minors: cannot read it")), "{report:?}");
        assert_eq!(node.access(&monitor), (0, 0o444));
        std::fs::remove_dir(&table).unwrap();
        std::fs::write(&table, text).unwrap();
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn no_job_starts_on_less_than_the_site_describes() {
    on_node("tests::driver_faults::no_job_starts_on_less_than_the_site_describes", |node| {
        let mut settings = node.settings.clone();
        let numbering = Numbering::default();
        assert_eq!(unlike_described(&settings, &numbering).unwrap(), [""; 0]);
        settings.gpus[0].model = Model::find("a100-80gb").unwrap();
        for grant in [whole(&[0]), mig(&[(0, "1g.5gb", 0)])] {
            let grant = numbering.translate(&settings, &grant).unwrap();
            let job = JobContext { grant, ..node.job(1, ALICE, whole(&[0])) };
            let error = crate::realise(&settings, &job).unwrap_err();
            let RealiseError::JobFailed(fault @ Fault::NotAsDescribed { .. }) = error else {
                panic!("{error}")
            };
            assert!(fault.blocks_gpu_jobs() && fault.to_string().contains("describes a100-80gb"), "{fault}");
            node.release(1);
        }
        settings.gpus.push(settings.gpus[1].clone());
        let wrong = unlike_described(&settings, &numbering).unwrap();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("GPU 0 is NVIDIA A100-SXM4-40GB with 40"), "{wrong:?}");
        assert_eq!(
            wrong[1],
            "tessera.toml describes 4 GPUs, the driver shows 3: correct the file or the node"
        );
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}
