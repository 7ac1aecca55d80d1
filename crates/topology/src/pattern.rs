//! How a job's GPUs talk to each other.

/// How a job's GPUs talk to each other (MAPA section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each with the next, the last with the first.
    Ring,
    /// A binary tree.
    Tree,
    /// Each with the next.
    Chain,
    /// All with the first.
    Star,
    /// All with all.
    All,
    /// Not at all.
    None,
    /// NCCL's ring and tree over the same ranks (MAPA Fig. 8).
    RingTree,
    /// An edge list read at submission.
    Edges(Vec<PatternEdge>),
}

/// One edge of a pattern given as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternEdge {
    /// A rank.
    pub a: u16,
    /// Another.
    pub b: u16,
    /// Its share of the traffic relative to other edges, in thousandths: [`PatternEdge::PLAIN`] where none is said.
    pub milli: u32,
}

impl PatternEdge {
    /// The weight 1.
    pub const PLAIN: u32 = 1000;
    /// The largest weight, 1000.
    pub const MOST: u32 = 1_000_000;

    /// An edge of weight 1.
    #[must_use]
    pub const fn new(a: u16, b: u16) -> Self {
        Self { a, b, milli: Self::PLAIN }
    }

    /// Its ranks, the lower one first.
    #[must_use]
    pub fn ends(&self) -> (u16, u16) {
        (self.a.min(self.b), self.a.max(self.b))
    }
}

impl Pattern {
    /// The patterns that have a name, as users type them.
    pub const NAMED: [(&str, Self); 7] = [
        ("ring", Self::Ring),
        ("tree", Self::Tree),
        ("chain", Self::Chain),
        ("star", Self::Star),
        ("all", Self::All),
        ("none", Self::None),
        ("ring+tree", Self::RingTree),
    ];

    /// What a user may write for a pattern.
    pub const EXPECTED: &str = "expected ring, tree, chain, star, all, none, ring+tree or file:PATH";

    /// The pattern of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, pattern)| pattern)
    }

    /// Its name; `edges` for a list.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Chain => "chain",
            Self::Star => "star",
            Self::All => "all",
            Self::None => "none",
            Self::RingTree => "ring+tree",
            Self::Edges(_) => "edges",
        }
    }
}
