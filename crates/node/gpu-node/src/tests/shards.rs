//! Jobs with shards that Slurm alone has given out, because slurmctld's part of Tessera is off.

use super::*;
use crate::{Fault, task_environment};

/// Shards of these GPUs.
fn shards(node: &TestNode, gpus: &[u16]) -> NvmlGrant {
    Numbering::default().translate(&node.settings, &whole(gpus)).unwrap().as_shards()
}

fn realise(node: &TestNode, job: u32, uid: u32, gpus: &[u16]) -> Result<Realised, RealiseError> {
    crate::realise(&node.settings, &node.job_with(job, uid, shards(node, gpus)))
}

/// Names the job that has the wanted GPU.
#[track_caller]
fn holder(refused: Result<Realised, RealiseError>) -> JobId {
    match refused {
        Err(RealiseError::JobFailed(Fault::Held { holder, .. })) => holder,
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_with_shards_run_beside_each_other() {
    on_node("tests::shards::jobs_with_shards_run_beside_each_other", |node| {
        let open = |gpu: &str| node.access(gpu) == (0, 0o666);
        let first = realise(node, 1, ALICE, &[0]).unwrap().entry;
        assert_eq!(task_environment(&first, 0, 1), [], "Slurm's own variables stay");
        assert!(open("nvidia0"));
        realise(node, 2, BOB, &[0]).unwrap();
        // A prolog may run again.
        realise(node, 2, BOB, &[0]).unwrap();
        assert_eq!(holder(node.realise(3, BOB, whole(&[0]))), JobId(1), "Tessera gives it to nobody else");
        node.realise(4, BOB, whole(&[1])).unwrap();
        assert_eq!(node.access("nvidia1"), (BOB, 0o600));
        node.reconcile(&[1, 2, 4]);
        node.assert_clean(&[1, 2, 4]);
        node.release(1);
        assert!(open("nvidia0"), "the other one still runs");
        node.release(2);
        assert_eq!(node.access("nvidia0"), (0, 0o600));
        node.release(4);
        crate::release(&node.settings, JobId(3)).unwrap();
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_gpu_that_tessera_has_given_stays_its_jobs() {
    on_node("tests::shards::a_gpu_that_tessera_has_given_stays_its_jobs", |node| {
        node.realise(1, ALICE, whole(&[0])).unwrap();
        node.realise(2, ALICE, mig(&[(2, "1g.10gb", 0)])).unwrap();
        assert_eq!(holder(realise(node, 3, BOB, &[0])), JobId(1));
        assert_eq!(holder(realise(node, 4, BOB, &[2])), JobId(2));
        assert_eq!((node.access("nvidia0"), node.access("nvidia2")), ((ALICE, 0o600), (ALICE, 0o600)));
        // An idle instance is in nobody's way.
        node.release(2);
        realise(node, 5, BOB, &[2]).unwrap();
        assert!(!node.inspect().gpus[2].mode.current);
        for job in [1, 5] {
            node.release(job);
        }
    });
}

#[test]
fn what_the_site_keeps_or_fixes_is_left_as_it_is() {
    on_node("tests::shards::what_the_site_keeps_or_fixes_is_left_as_it_is", |node| {
        node.realise(1, ALICE, mig(&[(2, "1g.10gb", 0)])).unwrap();
        node.release(1);
        let mut settings = node.settings.clone();
        settings.gpus[2].policy = MigPolicy::On;
        settings.gpus[1].purpose = node_state::Purpose::Shares;
        for (job, gpu) in [(2, 2), (3, 1)] {
            let grant = Numbering::default().translate(&settings, &whole(&[gpu])).unwrap().as_shards();
            crate::realise(&settings, &node.job_with(job, BOB, grant)).unwrap();
            assert_eq!(node.access(&format!("nvidia{gpu}")), (0, 0o666));
        }
        assert!(node.inspect().gpus[2].mode.current, "the site says that MIG mode stays on");
    });
}
