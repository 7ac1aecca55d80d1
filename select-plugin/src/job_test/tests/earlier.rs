//! An earlier start is looked for where Slurm's has to be moved.

use super::*;

/// The answer that Slurm's first one has become, as effects; empty: it was not asked again.
fn asked_again(
    memory: &mut Memory,
    (ask, may_preempt, view): (Ask, bool, &JobView),
    offered: &Fake,
    chosen: &Fake,
) -> Vec<Effect> {
    let mut test = case(ask, may_preempt, view);
    test.before(memory, offered);
    let may = test.may_look_earlier();
    let first = may.then(|| test.first_answer(&mut memory.engine, chosen, &offered.nodes)).flatten();
    first.map(|first| std::iter::once(first.ask_again()).chain(first.stands()).collect()).unwrap_or_default()
}

/// Nodes `n1` to `n3` that are full until these times; Slurm foretells a start now, on `n1`.
fn full(memory: &mut Memory, ends: [i64; 3]) -> (Fake, Fake) {
    for (job, name) in [(1, "n1"), (2, "n2"), (3, "n3")] {
        occupy(memory, job, name, &[0, 1]);
    }
    let ends = ends.into_iter().zip(1..).map(|(end, job)| (JobId(job), end)).collect();
    let offered = Fake { ends, start_time: 1000, ..Fake::with(&["n1", "n2", "n3"]) };
    let chosen = Fake { nodes: offered.nodes[..1].to_vec(), ..offered.clone() };
    (offered, chosen)
}

#[test]
fn slurm_looks_again_at_the_nodes_that_have_a_place_before() {
    let mut memory = memory();
    let (offered, chosen) = full(&mut memory, [9000, 5000, 9000]);
    let again = |memory: &mut Memory, ask, may_preempt, offered: &Fake| {
        asked_again(memory, (ask, may_preempt, &instance()), offered, &chosen)
    };
    let first = [Effect::Offer(vec![1]), Effect::Offer(vec![0]), Effect::StartAt(1000)];
    assert_eq!(again(&mut memory, Ask::WillRun, false, &offered), first);
    assert_eq!(again(&mut memory, Ask::WillRun, true, &offered), [], "jobs might go for it");
    let mut insists = offered.clone();
    insists.nodes[0].required = true;
    assert_eq!(again(&mut memory, Ask::WillRun, false, &insists), [], "n1 is no better");
    assert_eq!(again(&mut memory, Ask::TestOnly, false, &offered), []);
    let of_reservation = JobView { id: JobId(0), ..instance() };
    let test = (Ask::WillRun, false, &of_reservation);
    assert_eq!(
        asked_again(&mut memory, test, &offered, &chosen),
        [],
        "Slurm keeps the cores of its last test"
    );
}

#[test]
fn slurm_is_asked_once_where_no_node_is_better() {
    for ends in [[5000, 5000, 9000], [5000, 6000, 7000]] {
        let mut memory = memory();
        let (offered, chosen) = full(&mut memory, ends);
        let test = (Ask::WillRun, false, &instance());
        assert_eq!(asked_again(&mut memory, test, &offered, &chosen), [], "{ends:?}");
        // From the end of the jobs on, there is nothing to move.
        let later = Fake { asked_from: 5000, ..chosen };
        assert_eq!(asked_again(&mut memory, test, &offered, &later), [], "{ends:?}");
    }
}

#[test]
fn a_start_that_is_asked_for_from_a_time_on_is_moved_from_there() {
    let mut memory = memory();
    let (offered, chosen) = full(&mut memory, [9000, 5000, 9000]);
    let from = |asked_from| Fake { asked_from, ..chosen.clone() };
    let mut moved =
        |asked_from| succeeds(&mut memory, Ask::WillRun, &instance(), &offered, &from(asked_from)).1;
    assert_eq!(moved(8999), [Effect::StartAt(9000)]);
    assert_eq!(moved(9000), [], "backfill itself moves it there");
}

#[test]
fn a_second_answer_counts_if_it_is_before_the_first() {
    let mut memory = memory();
    let (offered, chosen) = full(&mut memory, [9000, 5000, 9000]);
    let mut test = case(Ask::WillRun, false, &instance());
    test.before(&mut memory, &offered);
    let first = test.first_answer(&mut memory.engine, &chosen, &offered.nodes).unwrap();
    for (start_time, is_before) in [(1000, true), (8999, true), (9000, false)] {
        let second = Fake { nodes: offered.nodes[1..2].to_vec(), start_time, ..offered.clone() };
        assert_eq!(test.is_before(&first, &memory.engine, &second), is_before, "{start_time}");
    }
}

/// A job on several nodes is as late as the last of them.
#[test]
fn enough_nodes_must_have_a_place_before() {
    let mut memory = memory();
    let (offered, _) = full(&mut memory, [9000, 5000, 6000]);
    let chosen = Fake { nodes: offered.nodes[..2].to_vec(), ..offered.clone() };
    for (wanted, early) in [(2, true), (3, false)] {
        let test = Test { ask: Ask::WillRun, min_nodes: wanted, may_preempt: false, record: RECORD };
        let mut test = PendingTest::new(test, instance());
        test.before(&mut memory, &offered);
        let first = test.first_answer(&mut memory.engine, &chosen, &offered.nodes);
        assert_eq!(first.map(|first| first.ask_again()), early.then(|| Effect::Offer(vec![1, 2])));
    }
}

/// `n1` is full of instances, `n2` and `n3` of whole GPUs.
fn parts_on_the_first(memory: &mut Memory) -> Fake {
    let spec = |gpu| MigSpec { gpu: GpuIndex(gpu), profile: geometry::ProfileId(9), start: Slice(0) };
    let instances = Grant::Mig([0, 1].map(spec).to_vec());
    let placement = JobPlacement { job: JobId(1), nodes: vec![("n1".to_owned(), instances.into())] };
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
    occupy(memory, 2, "n2", &[0, 1]);
    occupy(memory, 3, "n3", &[0, 1]);
    let ends = [(1, 9000), (2, 5000), (3, 6000)].map(|(job, end)| (JobId(job), end)).to_vec();
    Fake { ends, start_time: 1000, forgets_shards: true, ..Fake::with(&["n1", "n2", "n3"]) }
}

#[test]
fn a_node_with_parts_is_offered_for_whole_gpus_last_where_slurm_forgets_them() {
    let both = job("v1 iso=whole", GresKind::Gpu, 2);
    let out_of = |ask, nodes: u32, slurm: &dyn Fn(&mut Fake)| -> Vec<usize> {
        let mut memory = memory();
        let mut offered = parts_on_the_first(&mut memory);
        slurm(&mut offered);
        let test = Test { ask, min_nodes: nodes, may_preempt: false, record: RECORD };
        out(PendingTest::new(test, both.clone()).before(&mut memory, &offered))
    };
    assert_eq!(out_of(Ask::WillRun, 1, &|_| {}), [0]);
    assert_eq!(out_of(Ask::WillRun, 2, &|_| {}), [0]);
    assert_eq!(out_of(Ask::WillRun, 3, &|_| {}), [0; 0], "it needs all");
    assert_eq!(out_of(Ask::WillRun, 1, &|slurm| slurm.nodes[0].required = true), [0; 0]);
    assert_eq!(out_of(Ask::WillRun, 1, &|slurm| slurm.forgets_shards = false), [0; 0]);
    assert_eq!(out_of(Ask::TestOnly, 1, &|_| {}), [0; 0]);
    let mut memory = memory();
    let offered = parts_on_the_first(&mut memory);
    for (may_preempt, id) in [(true, JOB), (false, JobId(0))] {
        let view = JobView { id, ..both.clone() };
        let left_out = out(case(Ask::WillRun, may_preempt, &view).before(&mut memory, &offered));
        assert_eq!(left_out, [0; 0], "Slurm is not asked again");
    }
}

#[test]
fn a_node_with_parts_is_offered_where_the_others_do_not_serve_or_are_later() {
    let both = job("v1 iso=whole", GresKind::Gpu, 2);
    let mut memory = memory();
    let offered = parts_on_the_first(&mut memory);
    let mut test = case(Ask::WillRun, false, &both);
    test.before(&mut memory, &offered);
    assert_eq!(test.widened(None, 1000), Some(Effect::Offer(vec![0, 1, 2])), "they may lack cores");
    assert_eq!(test.widened(Some(5000), 1000), None, "a start on the others");
    let mut again = |end: i64| {
        let mut chosen = Fake { nodes: offered.nodes[1..2].to_vec(), start_time: 7000, ..offered.clone() };
        chosen.ends[0].1 = end;
        let first = test.first_answer(&mut memory.engine, &chosen, &offered.nodes);
        first.map(|first| first.ask_again())
    };
    assert_eq!(again(6999), Some(Effect::Offer(vec![0, 1, 2])), "cores of n2 are late, and n1 may have some");
    assert_eq!(again(9000), None);
    // No start can be before the one that is asked for, nor before now.
    for (start_time, asked_from) in [(1000, 7000), (1000, 0)] {
        let mut chosen =
            Fake { nodes: offered.nodes[1..2].to_vec(), start_time, asked_from, ..offered.clone() };
        chosen.ends = vec![(JobId(1), 900), (JobId(2), 900)];
        assert!(test.first_answer(&mut memory.engine, &chosen, &offered.nodes).is_none(), "{asked_from}");
    }
}
