//! The application graph: which of a job's ranks talk to each other.

use topology::{Pattern, PatternEdge};

/// An edge between two ranks, in a job of a known size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// A rank, from 0.
    pub a: usize,
    /// The other rank.
    pub b: usize,
    /// Traffic relative to other edges: above 0, and 1 by default.
    pub weight: f64,
}

/// Why an edge list does not fit a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// An edge names a rank that the job does not have.
    #[error("edge {0}-{1} has a rank that a job of {2} GPU{s} does not have", s = if *.2 == 1 { "" } else { "s" })]
    NoSuchRank(usize, usize, usize),
    /// An edge joins a rank to itself, or its weight is not above 0.
    #[error("edge {0}-{1} joins a rank to itself or has no weight above 0")]
    BadEdge(usize, usize),
}

/// The edges of a job with `n` ranks; two ranks in a ring have two edges.
///
/// # Errors
///
/// [`PatternError`] for the first listed edge that does not fit a job of `n`. Patterns with a name always fit.
pub fn edges_of(pattern: &Pattern, n: usize) -> Result<Vec<Edge>, PatternError> {
    let plain = |pairs: Vec<(usize, usize)>| {
        pairs.into_iter().map(|(a, b)| Edge { a, b, weight: 1.0 }).collect::<Vec<_>>()
    };
    let ring = || if n < 2 { Vec::new() } else { (0..n).map(|i| (i, (i + 1) % n)).collect() };
    Ok(match pattern {
        Pattern::Ring => plain(ring()),
        Pattern::Chain => plain((1..n).map(|i| (i - 1, i)).collect()),
        Pattern::Tree => plain(nccl_tree(n)),
        Pattern::Star => plain((1..n).map(|i| (0, i)).collect()),
        Pattern::All => plain((0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()),
        Pattern::None => Vec::new(),
        Pattern::RingTree => {
            let mut pairs = ring();
            let has = |pairs: &[(usize, usize)], (a, b)| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
            let extra: Vec<_> = nccl_tree(n).into_iter().filter(|e| !has(&pairs, *e)).collect();
            pairs.extend(extra);
            plain(pairs)
        }
        Pattern::Edges(edges) => return edges.iter().map(|e| edge_of(e, n)).collect(),
    })
}

/// A listed edge in a job of `n`.
fn edge_of(listed: &PatternEdge, n: usize) -> Result<Edge, PatternError> {
    let (a, b) = (usize::from(listed.a), usize::from(listed.b));
    if a >= n || b >= n {
        return Err(PatternError::NoSuchRank(a, b, n));
    }
    if a == b || listed.milli == 0 {
        return Err(PatternError::BadEdge(a, b));
    }
    Ok(Edge { a, b, weight: f64::from(listed.milli) / f64::from(PatternEdge::PLAIN) })
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

    fn pairs(pattern: &Pattern, n: usize) -> Vec<(usize, usize)> {
        edges_of(pattern, n).unwrap().iter().map(|e| (e.a.min(e.b), e.a.max(e.b))).collect()
    }

    #[test]
    fn each_pattern_has_its_number_of_edges() {
        for n in 0..=16 {
            let count = |name: &str| edges_of(&Pattern::by_name(name).unwrap(), n).unwrap().len();
            assert_eq!(count("ring"), if n < 2 { 0 } else { n });
            assert_eq!(["tree", "chain", "star"].map(count), [n.saturating_sub(1); 3]);
            assert_eq!((count("all"), count("none")), (n * n.saturating_sub(1) / 2, 0));
        }
    }

    #[test]
    fn the_tree_is_a_tree_with_leaves_at_odd_ranks() {
        for n in 1..=16_usize {
            let edges = pairs(&Pattern::Tree, n);
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
        assert_eq!(pairs(&Pattern::RingTree, 5), [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (2, 4)]);
    }

    #[test]
    fn a_listed_edge_must_fit_the_job() {
        let listed = |a, b, milli| Pattern::Edges(vec![PatternEdge { a, b, milli }]);
        assert_eq!(edges_of(&listed(1, 2, 500), 3).unwrap(), [Edge { a: 1, b: 2, weight: 0.5 }]);
        assert_eq!(edges_of(&listed(1, 2, 500), 2), Err(PatternError::NoSuchRank(1, 2, 2)));
        assert_eq!(edges_of(&listed(1, 1, 1000), 2), Err(PatternError::BadEdge(1, 1)));
        assert_eq!(edges_of(&listed(0, 1, 0), 2), Err(PatternError::BadEdge(0, 1)));
    }
}
