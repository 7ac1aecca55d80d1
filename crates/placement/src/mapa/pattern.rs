//! The application graph: which of a job's GPUs talk to which.

use crate::request::{Pattern, PatternEdge};

/// One edge: two ranks, and how much of the traffic it carries relative to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// A rank.
    pub a: usize,
    /// Another.
    pub b: usize,
    /// Above 0; 1 where nothing else is said.
    pub weight: f64,
}

/// How a job's GPUs talk to each other (MAPA section 3.1, Fig. 8).
#[derive(Clone, Debug, PartialEq)]
pub enum AppPattern {
    /// Each with the next, the last with the first. Two GPUs use their link twice, as NCCL's ring and MAPA count.
    Ring,
    /// NCCL's binary tree.
    Tree,
    /// Each with the next.
    Chain,
    /// All with the first.
    Star,
    /// All with all.
    All,
    /// Not at all.
    None,
    /// NCCL's ring and tree over the same ranks; an edge that both have counts once.
    RingTree,
    /// Edges of one's own.
    Edges(Vec<Edge>),
}

/// Edges that cannot be those of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// An edge names a rank that the job does not have.
    #[error("edge {0}-{1} has a rank that a job of {2} GPUs does not have")]
    NoSuchRank(usize, usize, usize),
    /// An edge joins a rank to itself, or its weight is not above 0.
    #[error("edge {0}-{1} joins a rank to itself or has no weight above 0")]
    BadEdge(usize, usize),
    /// A name that is none of [`AppPattern::NAMES`].
    #[error("expected ring, tree, chain, star, all, none, ring+tree or file:PATH")]
    UnknownName,
    /// A line of an edge list.
    #[error("line {0}: expected two ranks and, at will, a weight")]
    BadLine(usize),
}

impl AppPattern {
    /// The patterns that have a name.
    pub const NAMES: [&'static str; 7] = ["ring", "tree", "chain", "star", "all", "none", "ring+tree"];

    /// The pattern of this name.
    ///
    /// # Errors
    ///
    /// [`PatternError::UnknownName`].
    pub fn parse(name: &str) -> Result<Self, PatternError> {
        Ok(match name {
            "ring" => Self::Ring,
            "tree" => Self::Tree,
            "chain" => Self::Chain,
            "star" => Self::Star,
            "all" => Self::All,
            "none" => Self::None,
            "ring+tree" => Self::RingTree,
            _ => return Err(PatternError::UnknownName),
        })
    }

    /// Reads an edge list: `RANK RANK [WEIGHT]` per line, ranks from 0, `#` begins a comment.
    ///
    /// # Errors
    ///
    /// [`PatternError::BadLine`].
    pub fn parse_edges(text: &str) -> Result<Self, PatternError> {
        let mut edges = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let bad = || PatternError::BadLine(at + 1);
            let words: Vec<&str> = line.split([' ', '\t', ',']).filter(|w| !w.is_empty()).collect();
            let (a, b, weight) = match words[..] {
                [] => continue,
                [a, b] => (a, b, "1"),
                [a, b, w] => (a, b, w),
                _ => return Err(bad()),
            };
            let rank = |w: &str| w.parse::<usize>().map_err(|_| bad());
            let weight: f64 = weight.parse().ok().filter(|w: &f64| w.is_finite()).ok_or_else(bad)?;
            edges.push(Edge { a: rank(a)?, b: rank(b)?, weight });
        }
        Ok(Self::Edges(edges))
    }

    /// The edges among `n` ranks.
    ///
    /// # Errors
    ///
    /// An edge of one's own that does not fit a job of `n`.
    pub fn edges(&self, n: usize) -> Result<Vec<Edge>, PatternError> {
        let plain = |pairs: Vec<(usize, usize)>| {
            pairs.into_iter().map(|(a, b)| Edge { a, b, weight: 1.0 }).collect::<Vec<_>>()
        };
        let ring = || if n < 2 { Vec::new() } else { (0..n).map(|i| (i, (i + 1) % n)).collect() };
        Ok(match self {
            Self::Ring => plain(ring()),
            Self::Chain => plain((1..n).map(|i| (i - 1, i)).collect()),
            Self::Tree => plain(nccl_tree(n)),
            Self::Star => plain((1..n).map(|i| (0, i)).collect()),
            Self::All => plain((0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()),
            Self::None => Vec::new(),
            Self::RingTree => {
                let mut pairs = ring();
                let has =
                    |pairs: &[(usize, usize)], (a, b)| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
                let extra: Vec<_> = nccl_tree(n).into_iter().filter(|e| !has(&pairs, *e)).collect();
                pairs.extend(extra);
                plain(pairs)
            }
            Self::Edges(edges) => {
                for e in edges {
                    if e.a >= n || e.b >= n {
                        return Err(PatternError::NoSuchRank(e.a, e.b, n));
                    }
                    if e.a == e.b || e.weight <= 0.0 {
                        return Err(PatternError::BadEdge(e.a, e.b));
                    }
                }
                edges.clone()
            }
        })
    }

    /// Its name; `edges` for a list of one's own.
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

impl From<&Pattern> for AppPattern {
    fn from(pattern: &Pattern) -> Self {
        let edge = |e: &PatternEdge| Edge {
            a: usize::from(e.a),
            b: usize::from(e.b),
            weight: f64::from(e.milli) / f64::from(PatternEdge::PLAIN),
        };
        match pattern {
            Pattern::Ring => Self::Ring,
            Pattern::Tree => Self::Tree,
            Pattern::Chain => Self::Chain,
            Pattern::Star => Self::Star,
            Pattern::All => Self::All,
            Pattern::None => Self::None,
            Pattern::RingTree => Self::RingTree,
            Pattern::Edges(edges) => Self::Edges(edges.iter().map(edge).collect()),
        }
    }
}

/// NCCL's binary tree: a rank's parent is the rank with its lowest set bit cleared and the next one set, or, where
/// the job has no such rank, only cleared. Rank 0 is the root and has one child; odd ranks are leaves.
fn nccl_tree(n: usize) -> Vec<(usize, usize)> {
    let parent = |rank: usize| {
        let low = rank & rank.wrapping_neg();
        let up = (rank ^ low) | (low << 1);
        if up < n { up } else { rank ^ low }
    };
    (1..n).map(|rank| (parent(rank), rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pattern: &AppPattern, n: usize) -> Vec<(usize, usize)> {
        pattern.edges(n).unwrap().iter().map(|e| (e.a.min(e.b), e.a.max(e.b))).collect()
    }

    #[test]
    fn numbers_of_edges() {
        for n in 0..=16 {
            let count = |name: &str| AppPattern::parse(name).unwrap().edges(n).unwrap().len();
            assert_eq!(count("ring"), if n < 2 { 0 } else { n });
            assert_eq!(["tree", "chain", "star"].map(count), [n.saturating_sub(1); 3]);
            assert_eq!((count("all"), count("none")), (n * n.saturating_sub(1) / 2, 0));
        }
    }

    #[test]
    fn the_tree_is_a_tree_with_leaves_at_odd_ranks() {
        for n in 1..=16_usize {
            let edges = pairs(&AppPattern::Tree, n);
            let mut reached = vec![false; n];
            reached[0] = true;
            for _ in 0..n {
                for (a, b) in &edges {
                    let any = reached[*a] || reached[*b];
                    (reached[*a], reached[*b]) = (any, any);
                }
            }
            assert!(reached.iter().all(|r| *r));
            let degree = |v: usize| edges.iter().filter(|(a, b)| *a == v || *b == v).count();
            assert!((0..n).all(|v| degree(v) <= 3 && (v % 2 == 0 || degree(v) == 1)), "{n}: {edges:?}");
        }
    }

    #[test]
    fn ring_and_tree_share_edges() {
        assert_eq!(pairs(&AppPattern::RingTree, 5), [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (2, 4)]);
    }

    #[test]
    fn edge_lists() {
        let read = AppPattern::parse_edges("0 1\n1,2 0.5 # slow\n\n").unwrap();
        assert_eq!(read.edges(3).unwrap()[1], Edge { a: 1, b: 2, weight: 0.5 });
        assert_eq!(read.edges(2), Err(PatternError::NoSuchRank(1, 2, 2)));
        assert_eq!(AppPattern::parse_edges("0\n"), Err(PatternError::BadLine(1)));
        assert_eq!(AppPattern::parse_edges("1 1").unwrap().edges(2), Err(PatternError::BadEdge(1, 1)));
        assert_eq!(AppPattern::parse_edges("0 1 -2").unwrap().edges(2), Err(PatternError::BadEdge(0, 1)));
    }
}
