//! From prolog to epilog, per kind, when all goes well.

use std::os::unix::process::CommandExt;

use error_chain::Chain;
use geometry::JobId;
use node_state::{GpuState, Holder, MigPolicy};
use protocol::ShareOn;

use super::*;
use crate::{Fault, task_environment, uuids_of_part};
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;
use node_journal::{Journal, Phase};

#[test]
fn instances_are_made_used_again_and_replaced() {
    on_node("tests::life::instances_are_made_used_again_and_replaced", |node| {
        let grant = mig(&[(0, "2g.10gb", 0), (0, "3g.20gb", 4)]);
        let entry = node.realise(1, ALICE, grant.clone()).unwrap().entry;
        assert_eq!(entry.phase, Phase::Ready);
        assert!(node.job(1, ALICE, grant).grant.is_of(&entry));
        assert_eq!(entry.device_nodes.len(), 4);
        for cap in &entry.device_nodes {
            assert_eq!(node.access(cap), (ALICE, 0o400), "{cap}");
        }
        assert_eq!(node.access("nvidia0"), (ALICE, 0o600));
        node.assert_clean_but_closed(&[1]);
        let uuid = |i: usize| entry.instances[i].live.clone().unwrap().uuid;
        assert_ne!(uuid(0), uuid(1));
        assert_eq!(var(&task_environment(&entry, 1, 2), "CUDA_VISIBLE_DEVICES"), uuid(1));
        let both = format!("{},{}", uuid(0), uuid(1));
        assert_eq!(var(&task_environment(&entry, 0, 1), "CUDA_VISIBLE_DEVICES"), both);

        node.release(1);
        for cap in &entry.device_nodes {
            assert_eq!(node.access(cap), (0, 0o400), "{cap}");
        }
        let GpuState::Mig(idle) = &node.inspect().node.gpus[0].state else { panic!("instances are kept") };
        assert!(idle.len() == 2 && idle.iter().all(|i| i.holder == Holder::Idle));

        // Another user gets the idle one as it is; its neighbour goes because a 4g does not fit beside it.
        let again = node.realise(2, BOB, mig(&[(0, "3g.20gb", 4)])).unwrap().entry;
        assert_eq!(again.instances[0].live.clone().unwrap().uuid, uuid(1));
        assert_eq!(node.access(&again.device_nodes[0]), (BOB, 0o400));
        let beside = node.realise(3, ALICE, mig(&[(0, "4g.20gb", 0)])).unwrap().entry;
        assert_eq!(beside.instances[0].size, 4);
        let seen = node.inspect();
        assert_eq!(seen.gpus[0].instances.len(), 2);
        let GpuState::Mig(now) = &seen.node.gpus[0].state else { panic!("still partitioned") };
        assert_eq!(now[0].holder, Holder::Isolated(JobId(3)));
        node.release(2);
        node.release(3);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn whole_gpus_change_mode_and_owner() {
    on_node("tests::life::whole_gpus_change_mode_and_owner", |node| {
        for gpu in [0, 2] {
            node.realise(1, ALICE, mig(&[(gpu, if gpu == 0 { "1g.5gb" } else { "1g.10gb" }, 3)])).unwrap();
            assert!(node.inspect().gpus[usize::from(gpu)].mode.current);
            node.release(1);
        }
        let entry = node.realise(2, BOB, whole(&[2, 0])).unwrap().entry;
        for gpu in [0, 2] {
            assert_eq!(node.access(&format!("nvidia{gpu}")), (BOB, 0o600));
            assert!(!node.inspect().gpus[gpu].mode.current, "MIG is off on GPU {gpu}");
        }
        assert_eq!(node.inspect().node.gpus[0].state, GpuState::Whole(JobId(2)));
        let env = task_environment(&entry, 0, 1);
        let [two, zero] = [&entry.gpus[0].uuid, &entry.gpus[1].uuid];
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), format!("{two},{zero}"), "in the granted order");
        assert_eq!(var(&env, "NVIDIA_VISIBLE_DEVICES"), format!("{two},{zero}"));
        assert_eq!(uuids_of_part(&entry, "0").as_ref(), Some(zero));
        assert_eq!(uuids_of_part(&entry, "0,1"), None, "GPU 1 is not the job's");
        node.release(2);
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn the_sites_mode_is_kept() {
    on_node("tests::life::the_sites_mode_is_kept", |node| {
        let mut settings = node.settings.clone();
        settings.gpus[0].policy = MigPolicy::Off;
        let node = TestNode { dir: node.dir.clone(), settings };
        let error = node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Policy { on: true, .. })), "{error}");
        let journal = Journal::open(&node.settings.node.state_dir).unwrap();
        let entry = journal.job(JobId(1)).unwrap().unwrap();
        assert!(matches!(&entry.phase, Phase::Failed(why) if why.contains("MIG mode")), "{entry:?}");
        // A failed job holds nothing.
        node.realise(2, BOB, whole(&[0])).unwrap();
        node.release(1);
        node.release(2);
    });
}

#[test]
fn a_second_prolog_finds_its_work_done() {
    on_node("tests::life::a_second_prolog_finds_its_work_done", |node| {
        let grant = mig(&[(1, "2g.10gb", 2)]);
        let first = node.realise(1, ALICE, grant.clone()).unwrap().entry;
        let second = node.realise(1, ALICE, grant).unwrap().entry;
        assert_eq!(first, second);
        // Requeued with another grant, and its epilog never ran.
        let mut job = node.job(1, ALICE, whole(&[2]));
        job.restart = 1;
        let requeued = crate::realise(&node.settings, &job).unwrap();
        assert_eq!(requeued.entry.restart, 1);
        assert_eq!(node.access(&first.device_nodes[0]), (0, 0o400));
        node.release(1);
        node.release(1);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn what_a_job_holds_is_only_taken_from_the_dead() {
    on_node("tests::life::what_a_job_holds_is_only_taken_from_the_dead", |node| {
        node.realise(1, ALICE, mig(&[(0, "2g.10gb", 0)])).unwrap();
        for grant in [mig(&[(0, "2g.10gb", 0)]), mig(&[(0, "1g.5gb", 1)]), whole(&[0])] {
            let error = node.realise(2, BOB, grant).unwrap_err();
            let RealiseError::JobFailed(Fault::Held { holder, .. }) = error else { panic!("{error}") };
            assert_eq!(holder, JobId(1));
        }
        let mut job = node.job(2, BOB, mig(&[(0, "1g.5gb", 1)]));
        job.live = Some([JobId(2)].into());
        // Its epilog is at work: it does not count as dead, and gives everything back by itself.
        let deadline = Deadline::after(Duration::from_secs(1));
        let epilog = Locks::for_job(&node.settings.node.state_dir, JobId(1), &[], &[], &deadline).unwrap();
        let error = crate::realise(&node.settings, &job).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Held { .. })), "{error}");
        drop(epilog);
        let realised = crate::realise(&node.settings, &job).unwrap();
        assert_eq!(realised.evicted, [JobId(1)]);
        assert_eq!(node.access(&realised.entry.device_nodes[0]), (BOB, 0o400));
        assert_eq!(node.access("nvidia0"), (BOB, 0o600));
        assert_eq!(node.inspect().entries.len(), 1);
        node.release(2);
        // A dead job whose number has the same lock.
        node.realise(3, ALICE, whole(&[0])).unwrap();
        let mut job = node.job(67, BOB, whole(&[0]));
        job.live = Some([JobId(67)].into());
        assert_eq!(crate::realise(&node.settings, &job).unwrap().evicted, [JobId(3)]);
        node.release(67);
    });
}

#[test]
fn a_gpus_node_is_open_to_its_users_alone() {
    on_node("tests::life::a_gpus_node_is_open_to_its_users_alone", |node| {
        let is = |want: (u32, u32)| {
            assert_eq!(node.access("nvidia0"), want);
            assert!(node.disagreements(&[1, 2, 3]).iter().all(|d| !d.contains("device node nvidia0 ")));
        };
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        is((ALICE, 0o600));
        node.realise(2, ALICE, mig(&[(0, "1g.5gb", 1)])).unwrap();
        is((ALICE, 0o600));
        let share = Grant::Mps { on: ShareOn::Instance(spec(0, "3g.20gb", 4)), mem_mib: 1000, threads: 25 };
        node.realise(3, BOB, share).unwrap();
        is((0, 0o666));
        node.release(1);
        is((0, 0o666));
        node.release(2);
        is((BOB, 0o600));
        std::fs::set_permissions(
            node.settings.node.dev_root.join("nvidia0"),
            PermissionsExt::from_mode(0o666),
        )
        .unwrap();
        let odd = "GPU 0: device node nvidia0 belongs to uid 51002 with mode 0666: should be uid 51002, 0600";
        assert!(node.disagreements(&[3]).iter().any(|d| d == odd));
        node.reconcile(&[3]);
        node.assert_clean(&[3]);
        node.release(3);
        is((0, 0o600));
        assert_eq!(node.inspect().gpus[0].instances.len(), 3, "idle instances stay");
    });
}

#[test]
fn only_root_may() {
    on_node("tests::life::only_root_may", |node| {
        if rustix::process::geteuid().is_root() {
            let name = "tests::life::only_root_may";
            let template = command(name, &node.dir);
            // A copy that the user can reach.
            let exe = node.dir.join("test");
            std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
            let mut as_user = Command::new(&exe);
            as_user.args(template.get_args()).envs(template.get_envs().filter_map(|(k, v)| Some((k, v?))));
            assert_ran(name, &as_user.uid(ALICE).gid(ALICE).output().unwrap());
            return;
        }
        let fault = Fault::NotRoot(ALICE).to_string();
        assert_eq!(
            Chain(&node.realise(1, ALICE, whole(&[0])).unwrap_err()).to_string(),
            format!("this node is unfit for any job: {fault}")
        );
        assert_eq!(crate::release(&node.settings, JobId(1)).unwrap_err().to_string(), fault);
        assert_eq!(
            crate::reconcile(&node.settings, crate::LiveJobs::Unknown).unwrap_err().to_string(),
            fault
        );
        assert!(!node.settings.node.state_dir.exists());
    });
}

impl TestNode {
    /// Clean, but for GPUs that were never touched and still have the driver's default mode.
    #[track_caller]
    fn assert_clean_but_closed(&self, live: &[u32]) {
        let all = self.disagreements(live);
        let odd: Vec<&String> = all.iter().filter(|d| !d.contains("device node nvidia")).collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}
