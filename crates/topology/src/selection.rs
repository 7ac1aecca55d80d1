//! The policies that select a set of GPUs, by name.

/// How a set is selected (MAPA sections 3.5 and 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The lowest GPUs.
    Baseline,
    /// Recursive bi-partitioning along the sockets.
    TopoAware,
    /// Largest AggBW.
    Greedy,
    /// Algorithm 1: largest EffBW for a sensitive job, largest preserved bandwidth for another.
    #[default]
    Preserve,
}

impl Selection {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::TopoAware, Self::Greedy, Self::Preserve];

    /// As options and tables name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::TopoAware => "topo-aware",
            Self::Greedy => "greedy",
            Self::Preserve => "preserve",
        }
    }

    /// The policy of this name; `topoAware`, as MAPA writes it, too.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "topoAware" { "topo-aware" } else { name };
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}
