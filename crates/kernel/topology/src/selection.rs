//! The policies that select a set of GPUs, by name.

/// Rule by which one set is better than another (MAPA sections 3.5 and 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The lowest free GPUs.
    Baseline,
    /// Recursive bi-partitioning along the CPU sockets.
    TopoAware,
    /// Largest AggBW.
    Greedy,
    /// Algorithm 1: largest EffBW for a job that is sensitive to bandwidth, largest preserved bandwidth for any other.
    #[default]
    Preserve,
}

impl Selection {
    /// Every policy, in the order of help texts.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::TopoAware, Self::Greedy, Self::Preserve];

    /// The name in options and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::TopoAware => "topo-aware",
            Self::Greedy => "greedy",
            Self::Preserve => "preserve",
        }
    }

    /// The policy with this name; accepts MAPA's spelling `topoAware`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "topoAware" { "topo-aware" } else { name };
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}
