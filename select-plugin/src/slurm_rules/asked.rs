//! A job's GRES entries, the nodes that it can reach, and Slurm's counts of a node's GPUs.

use protocol::node_word::UNFIT;
use site_limits::NodeGres;

use crate::view::{GresKind, GresRequest};

/// Finds the kind of a GRES by its name; `None`: it does not concern us.
pub(crate) fn kind_of(name: &str) -> Option<GresKind> {
    match name {
        "gpu" => Some(GresKind::Gpu),
        "shard" => Some(GresKind::Shard),
        _ => None,
    }
}

/// Tells whether Slurm can give a job no more than one node, by its record. A job with one task has one node unless it asks for more.
pub(crate) fn gets_one_node(max_nodes: u32, min_nodes: u32, tasks: u32) -> bool {
    max_nodes == 1 || min_nodes <= 1 && tasks <= 1
}

/// Numbers of one entry of a job's GRES request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedNumbers {
    pub(crate) per_job: u64,
    pub(crate) per_node: u64,
    pub(crate) per_socket: u64,
    pub(crate) per_task: u64,
}

impl AskedNumbers {
    /// Tells whether the entry asks for GPUs at all: one that `--cpus-per-gpu` alone has made does not (22.05; later series refuse it).
    pub(crate) fn asks_for_any(self) -> bool {
        self != Self::default()
    }

    /// Gives the request of an entry. A job that runs on `one_node` asks of that node what it asks per job.
    fn request(self, kind: GresKind, one_node: bool) -> GresRequest {
        let per_node = match self.per_node {
            0 if one_node && kind == GresKind::Gpu => self.per_job,
            per_node => per_node,
        };
        GresRequest { kind, per_node, per_socket: self.per_socket > 0 }
    }
}

/// Gives the requests of a job's entries, and the most GPUs that Slurm may choose for them on one of several nodes: see
/// [`JobView::most_gpus`](crate::view::JobView::most_gpus).
pub(crate) fn requests(
    asked: impl Iterator<Item = (GresKind, AskedNumbers)>,
    one_node: bool,
) -> (Vec<GresRequest>, u64) {
    let (mut all, mut most) = (Vec::new(), 0_u64);
    for (kind, numbers) in asked {
        let request = numbers.request(kind, one_node);
        if kind == GresKind::Gpu && request.per_node == 0 {
            most = most.saturating_add(if numbers.per_job > 0 { numbers.per_job } else { u64::MAX });
        }
        all.push(request);
    }
    (all, most)
}

/// Keeps the names of the nodes that a job may run on: those that it insists on, if it insists on any. Each name comes with whether it
/// does.
pub(crate) fn within_reach(nodes: Vec<(String, bool)>) -> Vec<String> {
    let insists = nodes.iter().any(|(_, required)| *required);
    nodes.into_iter().filter(|(_, required)| *required || !insists).map(|(name, _)| name).collect()
}

/// Tells whether a node says in its `extra` that its GPUs are not those that the site describes.
pub(crate) fn says_unfit(extra: &[u8]) -> bool {
    extra.starts_with(UNFIT.as_bytes())
}

/// GRES entry of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedEntry {
    /// Name of the GRES.
    pub(crate) name: String,
    /// Number that the node has by its configuration.
    pub(crate) count: u64,
    /// Jobs do not take it from each other.
    pub(crate) no_consume: bool,
}

/// Counts a node's GPUs by its GRES entries.
pub(crate) fn count_gpus(entries: &[CountedEntry]) -> NodeGres {
    let mut counted = NodeGres::default();
    for entry in entries {
        match kind_of(&entry.name) {
            None => counted.mps |= entry.name == "mps" && entry.count > 0,
            Some(kind) => {
                counted.no_consume |= entry.no_consume;
                if kind == GresKind::Gpu {
                    counted.gpus = Some(entry.count);
                }
            }
        }
    }
    counted
}

/// CPUs that so many of a node's cores are: the same part of all of them.
pub(crate) fn cpus(of_node: u32, cores_of_node: usize, cores: usize) -> u32 {
    let all = u64::try_from(cores_of_node.max(1)).unwrap_or(u64::MAX);
    let cpus = u64::from(of_node) * u64::try_from(cores).unwrap_or(u64::MAX) / all;
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// CPUs per node of a job that asks for so many on at least so many nodes, rounded up.
pub(crate) fn cpus_per_node(cpus: u32, min_nodes: u32) -> u32 {
    if cpus == slurm_numbers::NO_VAL { 0 } else { cpus.div_ceil(min_nodes.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_per_gpu_alone_ask_for_no_gpu() {
        assert!(!AskedNumbers::default().asks_for_any());
        assert!(AskedNumbers { per_task: 1, ..AskedNumbers::default() }.asks_for_any());
    }

    #[test]
    fn a_number_per_job_is_per_node_only_on_one_node_and_for_whole_gpus() {
        let asked = AskedNumbers { per_job: 4, ..AskedNumbers::default() };
        let per_node = |kind, one_node| asked.request(kind, one_node).per_node;
        assert_eq!(per_node(GresKind::Gpu, true), 4);
        assert_eq!(per_node(GresKind::Gpu, false), 0);
        assert_eq!(per_node(GresKind::Shard, true), 0);
        let gpu = |asked| requests([(GresKind::Gpu, asked)].into_iter(), false).1;
        let by_task = AskedNumbers { per_task: 1, ..AskedNumbers::default() };
        assert_eq!((gpu(asked), gpu(by_task)), (4, u64::MAX));
        let both = AskedNumbers { per_node: 2, per_socket: 1, ..asked };
        assert_eq!(gpu(both), 0);
        let request = both.request(GresKind::Gpu, true);
        assert!(request.per_node == 2 && request.per_socket);
    }

    #[test]
    fn a_job_that_insists_on_nodes_reaches_no_other() {
        let reached =
            |all: &[(&str, bool)]| within_reach(all.iter().map(|(n, r)| ((*n).to_owned(), *r)).collect());
        assert_eq!(reached(&[("n1", false), ("n2", false)]), ["n1", "n2"]);
        assert_eq!(reached(&[("n1", false), ("n2", true)]), ["n2"]);
    }

    #[test]
    fn a_node_says_at_the_beginning_of_its_extra_that_it_is_unfit() {
        let says = ["tessera unfit: GPU 0 is another", "rack 7, tessera unfit: x", "tessera gpu0=free", ""];
        assert_eq!(says.map(|extra| says_unfit(extra.as_bytes())), [true, false, false, false]);
    }

    #[test]
    fn gres_of_another_name_count_only_as_mps() {
        let entry = |name: &str, count, no_consume| CountedEntry { name: name.to_owned(), count, no_consume };
        let gpus = entry("gpu", 8, false);
        let counted = count_gpus(&[gpus.clone(), entry("nic", 2, true), entry("mps", 0, false)]);
        assert_eq!(counted, NodeGres { gpus: Some(8), ..NodeGres::default() });
        assert!(count_gpus(&[gpus.clone(), entry("mps", 100, true)]).mps);
        assert!(count_gpus(&[gpus, entry("shard", 4, true)]).no_consume);
        assert_eq!(count_gpus(&[]).gpus, None);
    }
}
