//! Communication patterns of a job's GPUs.

/// Pattern in which a job's GPUs talk to each other (MAPA section 3.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Each rank talks to the next, and the last to the first.
    Ring,
    /// NCCL's binary tree.
    Tree,
    /// Each rank talks to the next.
    Chain,
    /// All ranks talk to rank 0.
    Star,
    /// All ranks talk to all others.
    All,
    /// The ranks do not talk to each other.
    None,
    /// NCCL's ring and tree over the same ranks (MAPA Fig. 8).
    RingTree,
    /// An edge list read at submission.
    Edges(Vec<PatternEdge>),
}

/// An edge of a pattern given as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatternEdge {
    /// A rank, at most [`MAX_RANK`](crate::MAX_RANK) when read from text.
    pub a: u16,
    /// The other rank.
    pub b: u16,
    /// Traffic relative to other edges, in thousandths: 1 to [`PatternEdge::MOST`], [`PatternEdge::PLAIN`] by default.
    pub milli: u32,
}

impl PatternEdge {
    /// The default weight: 1.
    pub const PLAIN: u32 = 1000;
    /// The largest weight, 1000.
    pub const MOST: u32 = 1_000_000;

    /// An edge of weight 1.
    #[must_use]
    pub const fn new(a: u16, b: u16) -> Self {
        Self { a, b, milli: Self::PLAIN }
    }

    /// The two ranks, the lower one first.
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

    /// List of the patterns that a user may write: the end of an error message.
    pub const EXPECTED: &str = "expected ring, tree, chain, star, all, none, ring+tree or file:PATH";

    /// The pattern with this name; `None` for edge lists and unknown names.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, pattern)| pattern)
    }

    /// Name; `edges` for a list.
    #[must_use]
    pub fn name(&self) -> &'static str {
        Self::NAMED.iter().find(|(_, pattern)| pattern == self).map_or("edges", |(name, _)| *name)
    }
}
