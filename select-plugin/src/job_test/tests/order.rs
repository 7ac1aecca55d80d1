//! The order in which Slurm is to take nodes.

use super::*;
use crate::learnt::Learnt;

fn ranked(view: JobView) -> JobView {
    JobView { ranked: true, ..view }
}

/// Index and place of each node, as Slurm is told them before its own test.
fn order(memory: &mut Memory, ask: Ask, view: &JobView, nodes: &[&str]) -> Vec<(usize, u32)> {
    let effects = case(ask, false, view).before(memory, &Fake::with(nodes));
    let order = effects.iter().find_map(Effect::order).unwrap_or_default();
    order.iter().map(|placed| (placed.node, placed.place)).collect()
}

fn small() -> JobView {
    ranked(job("v1 iso=mig:1g.5gb", GresKind::Shard, 5))
}

#[test]
fn nodes_in_use_come_before_whole_ones_and_full_ones_are_left_out() {
    let mut memory = memory();
    let all = ["n1", "n2", "n3"];
    assert_eq!(order(&mut memory, Ask::RunNow, &small(), &all), [], "all alike");
    occupy(&mut memory, 1, "n2", &[0]);
    occupy(&mut memory, 2, "n3", &[0, 1]);
    assert_eq!(order(&mut memory, Ask::RunNow, &small(), &all), [(0, 1), (1, 0)]);
    // The same state gives the same order, also from what was kept of it.
    assert_eq!(order(&mut memory, Ask::RunNow, &small(), &all), [(0, 1), (1, 0)]);
    let whole = ranked(job("", GresKind::Gpu, 1));
    assert_eq!(order(&mut memory, Ask::RunNow, &whole, &["n1", "n2"]), [(0, 1), (1, 0)]);
    memory.engine.release(JobId(1));
    for view in [small(), whole] {
        assert_eq!(order(&mut memory, Ask::RunNow, &view, &["n1", "n2"]), [], "what was kept is forgotten");
    }
}

#[test]
fn what_slurm_may_spread_or_no_node_could_serve_keeps_slurms_order() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n2", &[0]);
    let unranked = JobView { ranked: false, ..small() };
    assert_eq!(order(&mut memory, Ask::RunNow, &unranked, &["n1", "n2"]), []);
    assert_eq!(order(&mut memory, Ask::TestOnly, &small(), &["n1", "n2"]), []);
    // GPUs that are asked per job may come from several nodes, although it has one task.
    let per_job = ranked(job("v1 iso=whole", GresKind::Gpu, 0));
    assert_eq!(order(&mut memory, Ask::RunNow, &per_job, &["n1", "n2"]), []);
}

#[test]
fn nodes_that_only_slurm_manages_come_first() {
    let mut memory = memory();
    let plain = ranked(job("", GresKind::Gpu, 1));
    assert_eq!(order(&mut memory, Ask::RunNow, &plain, &["other", "n1"]), [(0, 0), (1, 1)]);
}

#[test]
fn what_a_partition_says_of_sets_is_not_taken_for_anothers() {
    let text = "[[nodes]]\nnames = \"v[1-2]\"\ngpu = \"a100-40gb\"\ncount = 8\ninterconnect = \"dgx-v\"\n\
                [[partitions]]\nname = \"careless\"\nbandwidth = \"insensitive\"\n";
    let mut memory = Memory::new(Engine::of_tests(text));
    // GPUs 0 and 5 of v1 have no link, 0 and 3 of v2 have two. v1 has fewer GPUs left for the careless.
    occupy(&mut memory, 1, "v1", &[1, 2, 3, 4, 6, 7]);
    occupy(&mut memory, 2, "v2", &[1, 2, 4, 6, 7]);
    let mut on = |partition: &str| {
        let pair = job("v1 iso=whole", GresKind::Gpu, 2);
        let view = JobView { partition: Some(partition.to_owned()), ..ranked(pair) };
        order(&mut memory, Ask::RunNow, &view, &["v1", "v2"])
    };
    assert_eq!(on("gpu"), [(0, 1), (1, 0)]);
    assert_eq!(on("careless"), [(0, 0), (1, 1)]);
}

#[test]
fn a_partition_may_keep_slurms_order_or_spread() {
    let text = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                [[partitions]]\nname = \"plain\"\nnode_order = \"slurm\"\n\
                [[partitions]]\nname = \"apart\"\nnode_order = \"spread\"\n";
    let mut memory = Memory::new(Engine::of_tests(text));
    occupy(&mut memory, 1, "n1", &[0]);
    let mut on = |partition: &str| {
        let view = JobView { partition: Some(partition.to_owned()), ..small() };
        order(&mut memory, Ask::RunNow, &view, &["n1", "n2"])
    };
    assert_eq!(on("other"), [(0, 0), (1, 1)]);
    assert_eq!(on("plain"), []);
    assert_eq!(on("apart"), [(0, 1), (1, 0)]);
}

#[test]
fn gpus_without_cores_for_the_usual_job_go_to_a_job_with_fewer() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n1", &[0]);
    occupy(&mut memory, 2, "n2", &[0]);
    let one = |id, cpus| JobView { id: JobId(id), cpus, ..ranked(job("", GresKind::Gpu, 1)) };
    let places = |memory: &mut Memory| order(memory, Ask::RunNow, &one(9, 1), &["n1", "n2"]);
    memory.learnt = Learnt::new(memory.engine.site(), &[(0, 64), (1, 64)]);
    memory.learnt.cpus.begin(JobId(3), vec![(1, 61)]);
    assert_eq!(places(&mut memory), [], "alike, as long as nothing is learnt");
    (100..140).for_each(|id| memory.learnt.arrived(&one(id, 8)));
    memory.learnt.rebuilt();
    assert_eq!(places(&mut memory), [(0, 1), (1, 0)]);
    memory.learnt.cpus.begin(JobId(3), vec![(1, 64)]);
    assert_eq!(places(&mut memory), [(0, 0), (1, 1)], "n2 has no core left");
}

/// The reason that a job gets with its placement on the node that Slurm chose of n1 and n2.
fn why_on(memory: &mut Memory, chosen: &str) -> String {
    why_among(memory, &Fake::with(&["n1", "n2"]), chosen)
}

fn why_among(memory: &mut Memory, offered: &Fake, chosen: &str) -> String {
    let mut slurm = offered.clone().choosing(chosen, 0b10, 0b11);
    slurm.nodes.retain(|node| *node.name == *chosen);
    let (opinion, effects) = succeeds(memory, Ask::RunNow, &small(), offered, &slurm);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    let why = effects.into_iter().find_map(|effect| match effect {
        Effect::Why(why) => why,
        _ => None,
    });
    why.unwrap()
}

#[test]
fn a_job_is_told_why_it_is_on_its_node() {
    let mut memory = memory();
    assert_eq!(why_on(&mut memory, "n1"), "as named; 14 of 108 SMs", "all alike");
    occupy(&mut memory, 1, "n2", &[0]);
    assert_eq!(why_on(&mut memory, "n2"), "as named; 14 of 108 SMs; node: keeps n1 whole");
    assert_eq!(
        why_on(&mut memory, "n1"),
        "as named; 14 of 108 SMs; node: Slurm chose it by cores, memory, features, types of GPU or weight; by its free GPUs n2 comes first"
    );
}

#[test]
fn a_job_on_a_named_node_is_not_told_why_it_is_there() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n2", &[0]);
    for (index, name) in ["n1", "n2"].into_iter().enumerate() {
        let mut offered = Fake::with(&["n1", "n2"]);
        offered.nodes[index].required = true;
        assert_eq!(why_among(&mut memory, &offered, name), "as named; 14 of 108 SMs");
    }
}

#[test]
fn a_job_that_may_get_several_nodes_is_told_how_links_count() {
    let mut memory = memory();
    occupy(&mut memory, 1, "n2", &[0]);
    let gpus = |n| {
        let mut view = ranked(job("", GresKind::Gpu, 0));
        view.most_gpus = n;
        view
    };
    let why = |memory: &mut Memory, view: &JobView| {
        let offered = Fake::with(&["n1", "n2"]);
        let mut slurm = offered.clone().choosing("n1", 0b11, 0b11);
        slurm.nodes.retain(|node| &*node.name == "n1");
        let (_, effects) = succeeds(memory, Ask::RunNow, view, &offered, &slurm);
        effects.into_iter().find_map(|effect| if let Effect::Why(why) = effect { why } else { None }).unwrap()
    };
    let said = why(&mut memory, &gpus(2));
    assert!(
        said.ends_with("node: Slurm chose it without regard to links, because the job may get several nodes; -N1 changes that"),
        "{said}"
    );
    let said = why(&mut memory, &gpus(1));
    assert!(!said.contains("-N1"), "{said}");
}
