//! A job's life beside its tests: it begins, is allocated, loses nodes, ends; and slurmctld reads its configuration anew.

use std::collections::HashSet;

use geometry::JobId;
use node_layout::{ConfigInForce, OFF};
use plugin_rt::log;
use protocol::wire::{JobPlacement, encode_request, parse_placement};
use protocol::{CommentBody, NodeWord, Started};

use crate::effect::{Effect, Layout, Word};
use crate::engine::{Engine, Heard};
use crate::memory::{JobAddress, Memory, Pending};
use crate::place_on_node::{encoded, unmanaged};
use crate::slices;
use crate::view::{Allocated, GresKind, JobView, NodeCounts};
use crate::whole_node::in_order;

/// A job that holds something, as its record shows it.
pub(crate) struct Running {
    pub(crate) record: JobAddress,
    pub(crate) view: JobView,
    /// Devices that Slurm has allocated to it.
    pub(crate) allocated: Vec<Allocated>,
    /// The placement in its SPANK environment.
    pub(crate) placement: Option<String>,
    /// The reason there.
    pub(crate) why: Option<String>,
}

/// Tells whether a job may start without a decision of ours: one that gets a part of a device may not.
///
/// Preemption by suspension starts a job after a test whose success meant "once these are out of the way"; the
/// suspended ones keep their slices.
pub(crate) fn may_begin_undecided(view: &JobView) -> bool {
    view.want().is_none_or(|w| w.kind == GresKind::Gpu)
}

/// Decides what follows when Slurm has allocated a job.
pub(crate) fn allocated(memory: &mut Memory, job: &Running) -> (Vec<Effect>, Vec<Layout>) {
    let pending = memory.pending.take().filter(|p| p.record == job.record);
    let mut effects = Vec::new();
    let placement = match pending {
        Some(Pending { mut placement, planned, low, .. }) => {
            // A task of an array had another number when it claimed anything.
            memory.engine.unclaim(placement.job);
            placement.job = job.view.id;
            effects.push(Effect::Placement(encoded(&memory.engine, &placement)));
            let why = job.why.as_deref();
            effects.extend(explain(&memory.engine, &job.view, &placement, (planned, low), why));
            Some(placement)
        }
        None => saved(&memory.engine, job.view.id, job.placement.as_deref())
            .or_else(|| started_whole(memory, job, &mut effects)),
    };
    let held = slices::held(&memory.engine, &job.view, placement.as_ref(), &job.allocated);
    effects.push(Effect::Slices(held.iter().map(|(_, amount)| amount.slices).sum()));
    (effects, take_over(memory, job, placement))
}

/// Places a job that has every GPU of its nodes.
fn started_whole(memory: &Memory, job: &Running, effects: &mut Vec<Effect>) -> Option<JobPlacement> {
    let whole = in_order(&memory.engine, &job.view, &job.allocated)?;
    let told = explain(&memory.engine, &job.view, &whole.placement, (None, None), Some(&whole.why));
    effects.extend([
        Effect::Why(Some(whole.why)),
        Effect::Match(whole.matched),
        Effect::Placement(encoded(&memory.engine, &whole.placement)),
    ]);
    effects.extend(told);
    Some(whole.placement)
}

/// Shows what a job got, and why, in its AdminComment: for `scontrol show job` and `sacct`.
fn explain(
    engine: &Engine,
    view: &JobView,
    placement: &JobPlacement,
    (planned, low): (Option<(u64, u64)>, Option<u8>),
    why: Option<&str>,
) -> Option<Effect> {
    let (text, why) = (encoded(engine, placement)?, why?.to_owned());
    // Without the version and the job's own number.
    let got = text.split_once(';').map_or("", |(_, nodes)| nodes).to_owned();
    let request = view.request.as_ref();
    // Times are learnt only from jobs that a planner could have given another size.
    let job_profile = request.filter(|r| r.is_moldable()).and_then(|r| r.job_profile.clone());
    let started = CommentBody::Started(Started { got, job_profile, planned, low, why });
    // A requeued job can be planned again, and everybody can see what was asked.
    let asks = request.map(encode_request);
    Effect::comment(&view.comment, started, asks)
}

/// The placement that a job was started with, from its record; not one that was copied from another job.
fn saved(engine: &Engine, job: JobId, text: Option<&str>) -> Option<JobPlacement> {
    // It cannot be read without the nodes' models. The record keeps it until the file is repaired.
    if engine.version() == ConfigInForce::Bad {
        return None;
    }
    match parse_placement(text?, &|node, gpu| engine.model_of(node, gpu)) {
        Ok(placement) => Some(placement).filter(|p| p.job == job),
        Err(e) => {
            log::error(format_args!("job {}: its saved allocation cannot be read: {e}", job.0));
            None
        }
    }
}

/// Makes what a running job has part of the state and shows it.
fn take_over(memory: &mut Memory, job: &Running, placement: Option<JobPlacement>) -> Vec<Layout> {
    memory.running.insert(job.view.id);
    let engine = &mut memory.engine;
    let held = slices::held(engine, &job.view, placement.as_ref(), &job.allocated);
    engine.runs(job.view.id, &job.view.submission(), held);
    let placement = unmanaged(engine, job.view.id, placement, &job.allocated);
    if placement.nodes.is_empty() {
        return Vec::new();
    }
    for refused in engine.commit(job.view.uid, &placement) {
        log::error(format_args!("job {}: {refused}", job.view.id.0));
    }
    let names: Vec<String> = placement.nodes.into_iter().map(|(name, _)| name).collect();
    if memory.rebuilt { layouts(&memory.engine, &names) } else { Vec::new() }
}

/// The layouts of these nodes, where they are managed.
fn layouts(engine: &Engine, names: &[String]) -> Vec<Layout> {
    let layout = |name: &String| Some(Layout { node: name.clone(), text: engine.layout(name)? });
    names.iter().filter_map(layout).collect()
}

/// Decides what follows when a job has begun to end.
pub(crate) fn ended(memory: &mut Memory, job: JobId) -> Vec<Layout> {
    memory.running.remove(&job);
    let names = memory.engine.begin_end(job);
    layouts(&memory.engine, &names)
}

/// Nodes that show jobs as ending although no epilog is still to end there. `completing` names the nodes with such epilogs:
/// it goes through all nodes, so it is asked once, and only where a job is ending.
pub(crate) fn epilogs_over(memory: &mut Memory, completing: impl FnOnce() -> HashSet<String>) -> Vec<Layout> {
    let mut names = memory.engine.with_ending_jobs();
    if names.is_empty() {
        return Vec::new();
    }
    let completing = completing();
    names.retain(|name| !completing.contains(name));
    names.iter().for_each(|name| memory.engine.is_over(name));
    layouts(&memory.engine, &names)
}

/// Judges nodes by what their records show: the words to show, and the layouts of nodes that have just said something. They
/// wrote behind the layout that they had read, which may have changed since.
pub(crate) fn heard(memory: &mut Memory, nodes: Vec<(String, Heard)>) -> (Vec<Word>, Vec<Layout>) {
    let (mut words, mut spoke) = (Vec::new(), Vec::new());
    for (node, heard) in nodes {
        memory.engine.hear(&node, heard.clone());
        let (word, sick) = (memory.engine.word(&node), memory.engine.sick(&node));
        let Some(word) = word.filter(|word| heard.word != Some(*word) || heard.sick != sick) else {
            continue;
        };
        if memory.rebuilt && matches!(heard.word, Some(NodeWord::Says(_))) {
            spoke.push(node.clone());
        }
        words.push(Word { sick: sick.to_owned(), node, word });
    }
    (words, layouts(&memory.engine, &spoke))
}

/// Drops what the state remembers of idle instances on nodes that have booted, which destroys them. `booted` has each node's
/// place in the node table and when it booted, seconds since 1970; `name_of` tells a node's name.
pub(crate) fn after_boots(
    memory: &mut Memory,
    booted: impl Iterator<Item = (usize, u64)>,
    name_of: impl Fn(usize) -> Option<String>,
) -> Vec<Layout> {
    // Before that, what is idle is not read from the layouts yet.
    if !memory.rebuilt {
        return Vec::new();
    }
    let mut names = Vec::new();
    for (node, when) in booted {
        if memory.boots.is_new(node, when) {
            names.extend(name_of(node));
        }
    }
    names.retain(|name| memory.engine.forget_idle(name));
    layouts(&memory.engine, &names)
}

/// Decides what follows when a running job has lost a node. `placement` is the one in its SPANK environment.
pub(crate) fn lost_node(
    memory: &mut Memory,
    job: JobId,
    node: &str,
    placement: Option<&str>,
) -> (Vec<Effect>, Vec<Layout>) {
    let engine = &mut memory.engine;
    engine.runs_on_less(job, node);
    // While slurmctld starts, its record alone says what the job has: the state is rebuilt from that.
    if !engine.release_on(job, node) && memory.begun {
        return (Vec::new(), Vec::new());
    }
    // Or the node would be the job's again after a restart of slurmctld.
    let shorter = saved(engine, job, placement).map(|mut placement| {
        placement.nodes.retain(|(name, _)| name != node);
        Effect::Placement(encoded(engine, &placement))
    });
    (shorter.into_iter().collect(), layouts(engine, &[node.to_owned()]))
}

/// Takes over a job that runs while the state is rebuilt.
pub(crate) fn found_running(memory: &mut Memory, job: &Running) -> Vec<Layout> {
    let placement = saved(&memory.engine, job.view.id, job.placement.as_deref());
    take_over(memory, job, placement)
}

/// Takes over a job that is ending while the state is rebuilt: what it has is shown, and free for others.
pub(crate) fn found_ending(memory: &mut Memory, job: &Running) {
    let placement = saved(&memory.engine, job.view.id, job.placement.as_deref());
    take_over(memory, job, placement);
    memory.running.remove(&job.view.id);
    memory.engine.begin_end(job.view.id);
}

/// The state knows all running jobs. `published` has the text in the `extra` of each node.
pub(crate) fn rebuilt(memory: &mut Memory, published: &[(String, String)]) -> Vec<Layout> {
    memory.rebuilt = true;
    let bad = bad_file_line();
    let mut gone = Vec::new();
    for (node, text) in published {
        memory.engine.remember_idle(node, text);
        if *text == bad && memory.engine.version() != ConfigInForce::Bad {
            gone.push(Layout { node: node.clone(), text: String::new() });
        }
    }
    let names: Vec<String> = memory.engine.node_names().map(str::to_owned).collect();
    gone.extend(layouts(&memory.engine, &names));
    gone
}

/// While the file is bad and no good version is known, every node that Slurm counts GPUs on says so.
pub(crate) fn without_a_file(engine: &Engine, nodes: &[NodeCounts]) -> Vec<Layout> {
    if engine.version() != ConfigInForce::Bad {
        return Vec::new();
    }
    let with_gpus = nodes.iter().filter(|n| n.counted.gpus.is_some_and(|gpus| gpus > 0));
    with_gpus.map(|n| Layout { node: n.node.clone(), text: bad_file_line() }).collect()
}

/// The line of these nodes while placement is off because the running Slurm is not the one that the plugin was built for.
pub(crate) fn off(nodes: Vec<String>) -> Vec<Layout> {
    nodes.into_iter().map(|node| Layout { node, text: OFF.to_owned() }).collect()
}

fn bad_file_line() -> String {
    node_layout::Layout { config: ConfigInForce::Bad, ..node_layout::Layout::default() }.to_string()
}

/// Leaves nodes to Slurm where its GPU numbers may differ from ours, or where its jobs take nothing from each other. Jobs
/// then wait, or run elsewhere, for a reason that nothing but this line tells. Earlier layouts of these nodes go.
pub(crate) fn leave_unmanaged(engine: &mut Engine, nodes: &[NodeCounts]) -> Vec<Layout> {
    let mut left = Vec::new();
    let mut cleared = Vec::new();
    for NodeCounts { node, counted, .. } in nodes {
        let Some(ours) = engine.described_gpus(node) else { continue };
        let Some(why) = counted.left_to_slurm(ours) else { continue };
        engine.leave_unmanaged(node);
        cleared.push(Layout { node: node.clone(), text: String::new() });
        left.push(format!("{node}: {why}"));
    }
    if let Some(first) = left.first() {
        log::error(format_args!(
            "select plugin: {} left to Slurm alone, such as {first}: see `tessera doctor`",
            if left.len() == 1 { "1 node is".to_owned() } else { format!("{} nodes are", left.len()) }
        ));
    }
    cleared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::GresRequest;
    use geometry::GpuIndex;
    use protocol::Grant;
    use site_limits::NodeGres;
    use topology::GpuSet;

    use crate::memory::Boots;

    fn memory() -> Memory {
        let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";
        Memory { rebuilt: true, begun: true, ..Memory::new(Engine::of_tests(text)) }
    }

    /// Job 5 with both GPUs of `n1`.
    fn running() -> Running {
        let gpus: GpuSet = [GpuIndex(0), GpuIndex(1)].into_iter().collect();
        Running {
            record: JobAddress(7),
            view: JobView {
                id: JobId(5),
                gres: vec![GresRequest { kind: GresKind::Gpu, per_node: 2, per_socket: false }],
                ..JobView::of_tests()
            },
            allocated: vec![Allocated { node: "n1".to_owned(), kind: GresKind::Gpu, gpus, amount: 2 }],
            placement: None,
            why: Some("both".to_owned()),
        }
    }

    fn both() -> JobPlacement {
        let grant = Grant::Whole(vec![GpuIndex(1), GpuIndex(0)]);
        JobPlacement { job: JobId(4), nodes: vec![("n1".to_owned(), grant.into())] }
    }

    const TAKEN: &str = "gpu0-1=whole[job5]";

    #[test]
    fn a_decision_is_stamped_with_the_id_that_the_job_has_now() {
        let mut memory = memory();
        memory.pending = Some(Pending { record: JobAddress(7), placement: both(), planned: None, low: None });
        let (effects, layouts) = allocated(&mut memory, &running());
        let [Effect::Placement(Some(placement)), Effect::Comment(comment), Effect::Slices(14)] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(placement, "v1 job=5;n1=whole:1,0");
        assert_eq!(comment, "tessera: n1=whole:1,0: both");
        let [Layout { node, text }] = &layouts[..] else { panic!("{layouts:?}") };
        assert!(node == "n1" && text.contains(TAKEN), "{text}");
        assert!(memory.pending.is_none());
        let shown = &ended(&mut memory, JobId(5))[0].text;
        assert!(shown.starts_with("tessera ending=job5 gpu0-1=whole[job5]"), "{shown}");
        assert!(!memory.engine.holds(JobId(5)), "nobody has to wait for it twice");
        assert_eq!(ended(&mut memory, JobId(5)), []);
        assert_eq!(epilogs_over(&mut memory, || HashSet::from(["n1".to_owned()])), []);
        let another = || HashSet::from(["n2".to_owned()]);
        assert!(epilogs_over(&mut memory, another)[0].text.contains("gpu0-1=free"));
        assert_eq!(epilogs_over(&mut memory, || panic!("no node shows an ending job")), []);
    }

    #[test]
    fn another_jobs_decision_or_placement_is_not_taken() {
        let mut memory = memory();
        memory.pending = Some(Pending { record: JobAddress(8), placement: both(), planned: None, low: None });
        let copied = Running { placement: Some("v1 job=4;n2=whole:0".to_owned()), ..running() };
        let (effects, layouts) = allocated(&mut memory, &copied);
        assert_eq!(effects, [Effect::Slices(14)]);
        // What Slurm gave it counts.
        assert!(matches!(&layouts[..], [on] if on.node == "n1" && on.text.contains(TAKEN)), "{layouts:?}");
    }

    #[test]
    fn an_exclusive_job_gets_an_order_when_it_starts_and_not_at_a_restart() {
        let mut memory = memory();
        let mut job = running();
        job.view.exclusive = true;
        let (effects, _) = allocated(&mut memory, &job);
        assert!(
            matches!(
                &effects[..],
                [
                    Effect::Why(_),
                    Effect::Match(_),
                    Effect::Placement(Some(_)),
                    Effect::Comment(_),
                    Effect::Slices(14)
                ]
            ),
            "{effects:?}"
        );
        let mut restarted = Memory { rebuilt: false, ..self::memory() };
        assert_eq!(found_running(&mut restarted, &job), []);
        assert!(restarted.engine.holds(JobId(5)));
    }

    #[test]
    fn a_job_is_known_to_run_from_its_start_to_its_end() {
        let runs = |memory: &Memory| memory.running.contains(&JobId(5));
        let mut memory = memory();
        allocated(&mut memory, &running());
        assert!(runs(&memory));
        ended(&mut memory, JobId(5));
        assert!(!runs(&memory));
        found_running(&mut memory, &running());
        assert!(runs(&memory));
        found_ending(&mut memory, &running());
        assert!(!runs(&memory));
    }

    #[test]
    fn a_node_that_a_job_lost_is_not_its_own_after_a_restart() {
        let mut memory = memory();
        let saved = "v1 job=5;n1=whole:0;n2=whole:1";
        let job = Running { placement: Some(saved.to_owned()), allocated: Vec::new(), ..running() };
        assert_eq!(found_running(&mut memory, &job).len(), 2);
        let (effects, layouts) = lost_node(&mut memory, JobId(5), "n1", Some(saved));
        assert_eq!(effects, [Effect::Placement(Some("v1 job=5;n2=whole:1".to_owned()))]);
        assert_eq!(layouts.len(), 1);
        assert_eq!(lost_node(&mut memory, JobId(5), "n1", Some(saved)), (vec![], vec![]));
        // slurmctld's start finds the node down before the state is rebuilt.
        let mut starting = Memory { rebuilt: false, begun: false, ..self::memory() };
        let (effects, _) = lost_node(&mut starting, JobId(5), "n1", Some(saved));
        assert_eq!(effects, [Effect::Placement(Some("v1 job=5;n2=whole:1".to_owned()))]);
    }

    #[test]
    fn what_stood_idle_is_gone_after_a_boot_and_what_jobs_hold_stays() {
        let mut memory = memory();
        let published = [
            ("n1".to_owned(), "tessera gpu0=mig[2g.10gb@0:idle,1g.5gb@4:idle]".to_owned()),
            ("n2".to_owned(), "tessera gpu0=free gpu1=mig[3g.20gb@4:idle]".to_owned()),
        ];
        rebuilt(&mut memory, &published);
        let held = "v1 job=5;n1=mig:0/1g.5gb@6";
        let job = Running { placement: Some(held.to_owned()), allocated: Vec::new(), ..running() };
        found_running(&mut memory, &job);
        let before = memory.engine.layout("n1").unwrap();
        assert_eq!(before.matches("idle").count(), 2, "{before}");
        memory.boots = Boots::at(1000, &[(0, 500), (1, 500)]);
        let name = |node: usize| Some(format!("n{}", node + 1));
        let mut boots = |times: [u64; 2]| after_boots(&mut memory, times.into_iter().enumerate(), name);
        assert_eq!(boots([500, 501]), []);
        let shown = boots([2000, 0]);
        let [Layout { node, text }] = &shown[..] else { panic!("{shown:?}") };
        assert!(node == "n1" && text.contains("1g.5gb@6") && !text.contains("idle"), "{text}");
        assert_eq!(boots([2001, 0]), [], "told once");
        let shown = boots([2001, 3000]);
        assert_eq!(shown, [Layout { node: "n2".to_owned(), text: "tessera gpu0-1=free".to_owned() }]);
    }

    #[test]
    fn nodes_that_slurm_counts_otherwise_are_left_to_it() {
        let mut memory = memory();
        let on = |node: &str, gpus, no_consume| NodeCounts {
            place: 0,
            node: node.to_owned(),
            counted: NodeGres { gpus, no_consume, mps: false },
            cpus: 8,
        };
        let nodes = [on("n1", Some(2), false), on("n2", Some(3), false), on("other", Some(9), true)];
        let cleared = leave_unmanaged(&mut memory.engine, &nodes);
        assert_eq!(cleared, [Layout { node: "n2".to_owned(), text: String::new() }]);
        assert_eq!(memory.engine.node_names().collect::<Vec<_>>(), ["n1"]);
        let mut with_mps = self::memory();
        let with_mps_on = |node: &str| NodeCounts {
            counted: NodeGres { gpus: Some(2), mps: true, ..NodeGres::default() },
            ..on(node, None, false)
        };
        let cleared = leave_unmanaged(&mut with_mps.engine, &[with_mps_on("n1")]);
        assert_eq!((cleared.len(), with_mps.engine.node_names().collect::<Vec<_>>()), (1, vec!["n2"]));
        let cleared = leave_unmanaged(&mut memory.engine, &[on("n1", Some(2), true)]);
        assert_eq!(cleared.len(), 1);
        assert_eq!(rebuilt(&mut memory, &[]), []);
    }
}
