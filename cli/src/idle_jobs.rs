//! Jobs that hold GPUs without using them, by the words of their nodes.

use std::collections::HashMap;

use geometry::{JobId, Model};
use gpu_idle::{FRESH_S, Stretch, stretch};
use protocol::{IdleJob, IdleWord};
use site_config::hostlist;

use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, slices_of_gpu};
use crate::gpu_pieces::{Piece, Share};
use crate::slurm::squeue::QueuedJob;

/// A job that does not use all that it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleHeld {
    pub(crate) job: QueuedJob,
    /// The nodes that say so, in their order.
    pub(crate) nodes: Vec<String>,
    /// Since when none of its idle devices is in use, seconds since 1970.
    pub(crate) since: u64,
    /// Idle devices on these nodes, and all of its devices there.
    pub(crate) idle: u64,
    pub(crate) of: u64,
    /// All devices on all nodes are idle.
    pub(crate) wholly: bool,
    /// Most memory that it was seen to hold on one device, MiB.
    pub(crate) most_mib: u64,
    /// Memory of its smallest device, MiB, where that is known.
    pub(crate) holds_mib: Option<u64>,
    /// Compute slices of the idle devices, hundredths.
    pub(crate) slices_c: u64,
}

impl IdleHeld {
    /// How long it is idle, seconds.
    pub(crate) fn idle_s(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    /// Slice hours, hundredths.
    pub(crate) fn hours_c(&self, now: u64) -> u64 {
        self.slices_c.saturating_mul(self.idle_s(now)) / 3600
    }

    /// How many of its devices are idle: `2 of 2`; `1 of 2, job in use`.
    pub(crate) fn part(&self) -> String {
        format!("{} of {}{}", self.idle, self.of, if self.wholly { "" } else { ", job in use" })
    }
}

/// Everything that is known of idle jobs.
pub(crate) struct IdleSeen {
    /// Jobs, the longest idle first.
    pub(crate) held: Vec<IdleHeld>,
    /// Nodes that take jobs, should look at theirs, and have not said anything for an hour.
    pub(crate) silent: Vec<String>,
}

/// A node that has no idle job says so once an hour.
const SILENT_S: u64 = 3600 + FRESH_S;

impl IdleSeen {
    /// Reads the words of the nodes; `None`: the site does not want to know.
    pub(crate) fn of(seen: &ClusterSnapshot) -> Option<Self> {
        let words = seen.idle_words.as_ref()?;
        let says =
            |node: &str| words.get(node).is_some_and(|word| seen.at.saturating_sub(word.at) <= SILENT_S);
        let silent = seen.nodes.iter().filter(|node| node.takes_jobs && !says(&node.name));
        let silent = silent.map(|node| node.name.clone()).collect();
        Some(Self { held: held(&seen.jobs, &seen.nodes, words, seen.at), silent })
    }
}

/// Hundredths as `2.5`, rounded.
pub(crate) fn tenths(hundredths: u64) -> String {
    let tenths = hundredths.saturating_add(5) / 10;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The nodes of a job; `None` if squeue has cut the list.
pub(crate) fn nodes_of(job: &QueuedJob) -> Option<Vec<String>> {
    let nodes = hostlist::expand(&job.nodes).ok()?;
    (!nodes.is_empty() && job.n_nodes.parse() == Ok(nodes.len())).then_some(nodes)
}

/// Use of a job's GPUs, as far as its nodes tell.
pub(crate) fn stretch_of(job: &QueuedJob, words: &HashMap<String, IdleWord>, now: u64) -> Stretch {
    let Some(nodes) = nodes_of(job) else { return Stretch::Unknown };
    stretch(JobId(job.id), nodes.iter().map(|node| words.get(node)), now)
}

fn held(
    jobs: &[QueuedJob],
    nodes: &[NodeSeen],
    words: &HashMap<String, IdleWord>,
    now: u64,
) -> Vec<IdleHeld> {
    let fresh = words.iter().filter(|(_, word)| now.saturating_sub(word.at) <= FRESH_S);
    let mut named: HashMap<u32, Vec<(&str, &IdleJob)>> = HashMap::new();
    for (node, word) in fresh {
        word.jobs.iter().for_each(|idle| named.entry(idle.job.0).or_default().push((node, idle)));
    }
    let one = |job: &QueuedJob| {
        let mut here = named.get(&job.id).filter(|_| !job.ended() && !job.waits())?.clone();
        here.sort_unstable_by_key(|(node, _)| *node);
        let mut held = IdleHeld {
            job: job.clone(),
            wholly: matches!(stretch_of(job, words, now), Stretch::Since(_)),
            ..IdleHeld::default()
        };
        for (node, idle) in here {
            held.add(idle, nodes.iter().find(|seen| seen.name == node));
            held.nodes.push(node.to_owned());
        }
        Some(held)
    };
    let mut all: Vec<IdleHeld> = jobs.iter().filter_map(one).collect();
    all.sort_by_key(|held| (held.since, held.job.id));
    all
}

impl IdleHeld {
    fn add(&mut self, idle: &IdleJob, node: Option<&NodeSeen>) {
        self.since = self.since.max(idle.since);
        self.idle += u64::from(idle.idle);
        self.of += u64::from(idle.of);
        self.most_mib = self.most_mib.max(idle.most_mib);
        let (mut slices_c, mut least_mib) = (0, None);
        for (model, piece) in node.into_iter().flat_map(pieces) {
            for job in piece.jobs.iter().filter(|job| job.id == idle.job) {
                slices_c += slices_of(model, piece, job.share);
                let holds = memory_of(model, piece, job.share);
                least_mib = Some(least_mib.map_or(holds, |least: u64| least.min(holds)));
            }
        }
        self.slices_c += slices_c * u64::from(idle.idle) / u64::from(idle.of.max(1));
        self.holds_mib = match (self.holds_mib, least_mib) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

fn pieces(node: &NodeSeen) -> impl Iterator<Item = (&'static Model, &Piece)> {
    let gpus = node.gpus.iter().flatten();
    gpus.flat_map(|gpu| gpu.pieces.iter().map(|piece| (gpu.model, piece)))
}

/// Compute slices of a job's part of a piece, hundredths.
fn slices_of(model: &Model, piece: &Piece, share: Option<Share>) -> u64 {
    let profile = piece.profile.as_deref().and_then(|name| model.profile(name));
    let slices = profile.map_or(slices_of_gpu(model), |profile| profile.compute_slices.into());
    let whole = 100 * u64::from(slices);
    match share {
        None => whole,
        Some(Share::Mps(_, threads)) => whole * u64::from(threads) / 100,
        Some(Share::Compute(slices, _)) => 100 * u64::from(slices),
        // What its seats are worth depends on the tasks of the others.
        Some(Share::Seats(_)) => whole / u64::try_from(piece.jobs.len().max(1)).unwrap_or(1),
    }
}

fn memory_of(model: &Model, piece: &Piece, share: Option<Share>) -> u64 {
    let profile = piece.profile.as_deref().and_then(|name| model.profile(name));
    match share {
        Some(Share::Mps(mib, _) | Share::Compute(_, mib)) => mib,
        _ => profile.map_or(model.total_memory_mib, geometry::Profile::nominal_mib),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cluster_snapshot;

    /// The made-up cluster, whose jobs 11 and 13 are idle for two hours and for one, the second in part.
    pub(crate) fn seen() -> ClusterSnapshot {
        let mut seen = cluster_snapshot::tests::seen();
        let one = |(node, job, since, idle, of, most_mib): (&str, u32, u64, u16, u16, u64)| {
            let job = IdleJob { job: JobId(job), since, idle, of, most_mib };
            (node.to_owned(), IdleWord { at: 9_990, jobs: vec![job] })
        };
        let words = [("n1", 11, 2_800, 1, 1, 3_174), ("n2", 13, 6_400, 1, 2, 0)].map(one);
        seen.idle_words = Some(words.into());
        for (job, nodes, n) in [(11, "n1", "1"), (13, "n[2,4]", "2")] {
            let job = seen.jobs.iter_mut().find(|one| one.id == job).unwrap();
            (job.nodes, job.n_nodes) = (nodes.to_owned(), n.to_owned());
        }
        seen
    }

    #[test]
    fn what_is_held_idle_is_counted_in_slices() {
        let idle = IdleSeen::of(&seen()).unwrap();
        let [first, second] = &idle.held[..] else { panic!("{:?}", idle.held) };
        assert_eq!((first.job.id, first.wholly, first.slices_c, first.hours_c(10_000)), (11, true, 300, 600));
        assert_eq!((first.holds_mib, first.part().as_str()), (Some(19_074), "1 of 1"));
        // Half of a whole A100; its other node says nothing.
        assert_eq!((second.job.id, second.wholly, second.slices_c), (13, false, 350));
        assert_eq!(second.part(), "1 of 2, job in use");
        // n3 takes no jobs.
        assert_eq!(idle.silent, ["n4"]);
        assert!(IdleSeen::of(&cluster_snapshot::tests::seen()).is_none());
    }

    #[test]
    fn a_list_of_nodes_that_was_cut_says_nothing() {
        let of = |nodes: &str, n: &str| {
            nodes_of(&QueuedJob { nodes: nodes.to_owned(), n_nodes: n.to_owned(), ..QueuedJob::default() })
        };
        assert_eq!(of("n[1-2]", "2").unwrap().len(), 2);
        assert_eq!((of("n1,n", "3"), of("n[1-", "3"), of("", "0")), (None, None, None));
    }
}
