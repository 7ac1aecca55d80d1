//! What is counted of a test, with Slurm's answer and ours.

use decision_counts::decisions::Ask as Asked;

use super::*;

/// Gives the answer that is counted where Slurm says no to what is left of the nodes.
fn no(memory: &mut Memory, ask: Ask, view: &JobView) -> Option<(Asked, Result<(), Reason>)> {
    let mut case = case(ask, false, view);
    case.before(memory, &Fake::with(&["n1"]));
    case.counts(false, Opinion::AsSlurmSays)
}

#[test]
fn a_no_is_counted_by_what_is_missing() {
    let mut memory = memory();
    let large = job("v1 iso=mig:4g.24gb", GresKind::Shard, 24);
    assert_eq!(no(&mut memory, Ask::RunNow, &instance()), Some((Asked::RunNow, Err(Reason::Slurm))));
    assert_eq!(no(&mut memory, Ask::TestOnly, &large), Some((Asked::TestOnly, Err(Reason::Impossible))));
    occupy(&mut memory, 1, "n1", &[0, 1]);
    assert_eq!(no(&mut memory, Ask::RunNow, &instance()), Some((Asked::RunNow, Err(Reason::NoRoom))));
    assert_eq!(no(&mut memory, Ask::WillRun, &instance()), Some((Asked::WillRun, Err(Reason::Slurm))));
    assert_eq!(no(&mut memory, Ask::TestOnly, &instance()), Some((Asked::TestOnly, Err(Reason::Slurm))));
}

#[test]
fn room_on_another_node_is_none_for_a_job_that_insists_on_a_full_one() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0, 1]);
    let mut slurm = Fake::with(&["n1", "n2"]);
    slurm.nodes[0].required = true;
    let mut case = case(Ask::RunNow, false, &instance());
    case.before(&mut memory, &slurm);
    let counted = case.counts(false, Opinion::AsSlurmSays);
    assert_eq!(counted, Some((Asked::RunNow, Err(Reason::NoRoom))));
}

#[test]
fn jobs_that_ask_nothing_of_ours_are_not_counted() {
    let mut memory = memory();
    let plain = JobView { request: None, gres: Vec::new(), ..instance() };
    assert_eq!(no(&mut memory, Ask::RunNow, &plain), None);
    assert_eq!(case(Ask::RunNow, false, &plain).counts(true, Opinion::AsSlurmSays), None);
}

#[test]
fn what_is_counted_is_what_the_metric_names() {
    let case = case(Ask::RunNow, false, &instance());
    assert_eq!(case.counts(true, Opinion::AsSlurmSays), Some((Asked::RunNow, Ok(()))));
    for why in [Reason::Power, Reason::BetterGpus, Reason::NoRoom, Reason::Failure] {
        assert_eq!(case.counts(true, Opinion::Refused(why)), Some((Asked::RunNow, Err(why))));
        assert!(decision_pages::words::reasons(Asked::RunNow).contains(&why));
    }
}
