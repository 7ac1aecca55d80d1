//! The rules that choose a node and a place there.

use mapa::Memo;
use node_state::{Fill, Node, Policy};
use placement::{NodeCost, decide_with, rank};
use protocol::Grant;

use super::class::{Class, Want};
use super::published::{Prefers, best};

/// Names of the rules, as `--policy` takes them. `quota:N` keeps N nodes for jobs that take a whole one.
pub const RULES: [&str; 9] =
    ["tessera", "slurm", "first-fit", "best-fit", "most-placements", "mfi", "grmu", "quota:N", "learnt"];

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The kernel's [`rank`](placement::rank()), then the fewest free cores; the kernel's choice in the node.
    Tessera,
    /// Tessera without its rank: the fewest free cores that suffice, the kernel's choice in the node.
    Slurm,
    /// The first node, GPU and start.
    FirstFit,
    /// The fullest GPU, or the fullest node for whole GPUs.
    BestFit,
    /// NVIDIA's default: the first GPU with room, the start that leaves most placements. "Configuration capability" in the paper
    /// on GRMU.
    MostPlacements,
    /// Puts an instance where the fragmentation score grows least: Zambianco, Fasol and Doriguzzi-Corin, arXiv:2511.18906.
    Mfi,
    /// Divides GPUs into a light and a heavy basket: Siavashi and Momtazpour, arXiv:2502.01909.
    Grmu,
    /// As `Tessera`, but a job that does not take a whole node opens one only if more than so many nodes stay without such jobs.
    Quota(usize),
    /// A candidate for Tessera's rank: lost placements count by who asks for them, and by how few are left.
    Learnt,
}

/// Key by which a rule compares nodes, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeKey {
    Ranked(NodeCost, u32),
    Number(i64),
}

/// The best place on a node.
#[derive(Clone, Debug)]
pub(crate) struct BestPlace {
    pub(crate) key: NodeKey,
    pub(crate) grant: Grant,
    /// The job would be the first on the node, and leaves some of its GPUs.
    pub(crate) opens_node: bool,
}

impl Rule {
    /// Reads a name of [`RULES`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "tessera" => Self::Tessera,
            "slurm" => Self::Slurm,
            "first-fit" => Self::FirstFit,
            "best-fit" => Self::BestFit,
            "most-placements" => Self::MostPlacements,
            "mfi" => Self::Mfi,
            "grmu" => Self::Grmu,
            "learnt" => Self::Learnt,
            _ => Self::Quota(name.strip_prefix("quota:")?.parse().ok()?),
        })
    }

    fn prefers(self) -> Option<Prefers> {
        Some(match self {
            Self::FirstFit => Prefers::First,
            Self::BestFit => Prefers::Fullest,
            Self::MostPlacements | Self::Grmu => Prefers::MostPlacements,
            Self::Mfi => Prefers::LeastFragmentation,
            Self::Tessera | Self::Slurm | Self::Quota(_) | Self::Learnt => return None,
        })
    }

    /// Chooses a place on one node, which has `cpus` free cores.
    pub(crate) fn place(
        self,
        (node, cpus): (&Node, u32),
        (class, want): (&Class, Want),
        policy: &Policy,
        memo: &mut Memo,
    ) -> Option<BestPlace> {
        if let Some(prefers) = self.prefers().filter(|_| !matches!(want, Want::Other)) {
            let (key, grant) = best(node, &class.ask, want, prefers)?;
            return Some(BestPlace { key: NodeKey::Number(key), grant, opens_node: false });
        }
        let decision = decide_with(node, &class.ask, policy, memo);
        let cost = rank(node, &decision)?.under(Fill::Pack);
        let key = match self {
            Self::Tessera | Self::Quota(_) | Self::Learnt => NodeKey::Ranked(cost, cpus),
            Self::Slurm => NodeKey::Number(i64::from(cpus)),
            _ => NodeKey::Number(0),
        };
        Some(BestPlace { key, grant: decision.chosen?, opens_node: cost.opens_node })
    }
}
