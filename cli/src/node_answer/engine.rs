//! Asks the engine about a node, and which jobs must end for more.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use far::Micros;
use geometry::JobId;
use node_state::{Ask, Node, Policy, Purpose};
use placement::{admits_ever, decide};
use protocol::SickGpu;

use super::Verdict;
use crate::layout_line;
use crate::sick_words::sick_list;

/// The node as the engine sees it for this job: GPUs that are left to Slurm are whole GPUs like others for a job without
/// Tessera's options.
pub(crate) fn seen_by<'a>(node: &'a Node, ask: &Ask) -> Cow<'a, Node> {
    if !ask.plain || !leaves_some(node) {
        return Cow::Borrowed(node);
    }
    let mut node = node.clone();
    node.gpus.iter_mut().filter(|g| g.purpose == Purpose::Slurm).for_each(|g| g.purpose = Purpose::Whole);
    Cow::Owned(node)
}

fn leaves_some(node: &Node) -> bool {
    node.gpus.iter().any(|gpu| gpu.purpose == Purpose::Slurm)
}

/// Why Slurm alone finds the plain shards that a job asks for on a node whose other GPUs do not give them; `None`: it asks
/// for something else, or Slurm does not.
fn shards_by_slurm(node: &Node, ask: &Ask) -> Option<&'static str> {
    let shards = ask.plain_shards()?;
    if leaves_some(node) {
        return Some("it counts the shards of the GPUs that are left to it");
    }
    let exceeds = node.gpus.iter().all(|gpu| gpu.model.shards() < shards);
    exceeds.then_some("no GPU has so many shards; some versions of Slurm take them from several")
}

/// The verdict on `ask`. `ends` are the expected ends of running jobs, µs from now.
pub(super) fn verdict(
    node: &Node,
    sick: &[SickGpu],
    ask: &Ask,
    policy: &Policy,
    ends: &HashMap<JobId, Micros>,
) -> Verdict {
    let by_slurm = shards_by_slurm(node, ask);
    let (node, ask) = (&*seen_by(node, ask), &*ask.on(node));
    let decision = decide(node, ask, policy);
    if decision.chosen.is_some() {
        return Verdict::Now(decision.why());
    }
    if let Some(why) = by_slurm {
        return Verdict::Slurm(why.to_owned());
    }
    if let Err(never) = admits_ever(node, &ask.request, policy) {
        return Verdict::Never(never.to_string());
    }
    let fits = |gone: &[JobId]| {
        let mut node = node.clone();
        for job in gone {
            node.release(*job);
        }
        decide(&node, ask, policy).chosen.is_some()
    };
    let mut order: Vec<JobId> = layout_line::holders(node).into_iter().collect();
    order.sort_by_key(|job| (ends.get(job).copied().unwrap_or(Micros::MAX), *job));
    if let Some(sick) = sick_list(sick).filter(|_| !fits(&order)) {
        return Verdict::Unfit(sick);
    }
    let enough = (1..=order.len()).find(|n| fits(&order[..*n])).unwrap_or(order.len());
    order.truncate(enough);
    let mut jobs = needed(order, ends, &fits);
    let within = jobs.iter().map(|job| ends.get(job).copied()).collect::<Option<Vec<_>>>();
    jobs.sort_unstable();
    Verdict::After { jobs, within: within.map(|ends| ends.into_iter().max().unwrap_or(0)) }
}

/// Returns those of `jobs` that must end: the others may run on. The jobs that end last are let off first.
fn needed(
    mut jobs: Vec<JobId>,
    ends: &HashMap<JobId, Micros>,
    fits: &impl Fn(&[JobId]) -> bool,
) -> Vec<JobId> {
    jobs.sort_by_key(|job| Reverse((ends.get(job).copied().unwrap_or(Micros::MAX), *job)));
    for job in jobs.clone() {
        let others: Vec<JobId> = jobs.iter().copied().filter(|other| *other != job).collect();
        if fits(&others) {
            jobs = others;
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::{Model, Uid};
    use node_state::{Gpu, MigPolicy};
    use protocol::{Isolation, Request};
    use topology::HardwareGraph;

    fn node(line: &str) -> Node {
        let model = Model::find("a100-40gb").unwrap();
        let gpus = vec![Gpu::new(model, MigPolicy::Dynamic); 2];
        let mut node =
            Node { gpus, links: HardwareGraph::uniform(2, 10.0).into(), keep_uncut: 0, claims: Vec::new() };
        let layout = layout_line::read(line, &[model; 2]).unwrap();
        layout_line::take_over(&layout, &mut node, &|_| Uid(7));
        node
    }

    fn of(line: &str, profile: &str, ends: &[(u32, u64)]) -> Verdict {
        let ask = Ask::new(JobId(99), Uid(7), Request::new(Isolation::Mig(Some(profile.to_owned()))));
        let ends = ends.iter().map(|(job, end)| (JobId(*job), *end)).collect();
        verdict(
            &node(line),
            &[],
            &ask,
            &site_limits::policy_for(&site_config::of_nodes(Vec::new()), None, &[]),
            &ends,
        )
    }

    const BUSY: &str =
        "tessera gpu0=mig[3g.20gb@0:job1,2g.10gb@4:job2] gpu1=mig[4g.20gb@0:job3,3g.20gb@4:job4]";

    #[test]
    fn only_the_jobs_in_the_way_must_end() {
        let after =
            |jobs: &[u32], within| Verdict::After { jobs: jobs.iter().copied().map(JobId).collect(), within };
        // Job 4 ends first and makes room; nobody else need end.
        assert_eq!(of(BUSY, "3g.20gb", &[(1, 40), (2, 30), (3, 20), (4, 10)]), after(&[4], Some(10)));
        // Job 2 ends before job 4, but does not matter on a GPU where job 1 stays.
        assert_eq!(of(BUSY, "7g.40gb", &[(1, 90), (2, 5), (3, 20), (4, 30)]), after(&[3, 4], Some(30)));
        // What has no known end comes last.
        assert_eq!(of(BUSY, "7g.40gb", &[(3, 20), (2, 5)]), after(&[1, 2], None));
    }

    /// A T4 has 16 shards and less than 16 GB for jobs.
    #[test]
    fn all_plain_shards_of_a_gpu_can_be_had_whatever_ecc_takes_of_its_memory() {
        let model = Model::find("t4-16gb").unwrap();
        let of = |shards: u64, line: &str| {
            let request =
                Request { mem_mib: Some(shards * geometry::SHARD_MIB), ..Request::new(Isolation::Mps) };
            let ask = Ask { plain: true, ..Ask::new(JobId(99), Uid(7), request) };
            let mut node = Node::new(vec![Gpu::new(model, MigPolicy::Off)], HardwareGraph::uniform(1, 10.0));
            let layout = layout_line::read(line, &[model]).unwrap();
            layout_line::take_over(&layout, &mut node, &|_| Uid(7));
            verdict(
                &node,
                &[],
                &ask,
                &site_limits::policy_for(&site_config::of_nodes(Vec::new()), None, &[]),
                &HashMap::new(),
            )
        };
        assert!(matches!(of(16, "tessera gpu0=free"), Verdict::Now(_)));
        let half = format!("tessera gpu0=mps[job1:{}M/50%]", model.shards_mib(8));
        assert!(matches!(of(8, &half), Verdict::Now(_)));
        assert!(matches!(of(9, &half), Verdict::After { .. }));
    }

    #[test]
    fn jobs_that_a_layout_does_not_list_must_end_as_well() {
        let listed: Vec<String> = (1..=8).map(|job| format!("job{job}:1000M/3%")).collect();
        let line = format!("tessera gpu0=mps[{}+4:4000M/12%] gpu1=whole[job9]", listed.join(","));
        let ends: Vec<(u32, u64)> = (1..=9).map(|job| (job, 30)).collect();
        // Job 9 ends before all that are on the other GPU.
        assert!(matches!(of(&line, "7g.40gb", &ends), Verdict::After { within: Some(30), .. }));
        let later = of(&line, "7g.40gb", &ends[..8]);
        let Verdict::After { jobs, within } = later else { panic!("{later:?}") };
        assert_eq!((jobs.first(), jobs.len(), within), (Some(&layout_line::UNLISTED), 9, None));
    }

    #[test]
    fn room_now_and_never() {
        assert!(matches!(of(BUSY, "1g.5gb", &[]), Verdict::Now(_)));
        assert!(matches!(of(BUSY, "3g.40gb", &[]), Verdict::Never(_)));
    }
}
