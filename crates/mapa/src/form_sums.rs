//! What the searches for sums know of matches when links lack something by their class.

use super::form::{Form, place};
use super::number::{Byte, Number, Weights};
use super::path::PathTable;
use super::ringtree::RingTree;
use super::space::{Space, bits, subsets};
use super::wanted::{Lacks, Sums, Within};
use super::{climb, tree};

/// Matches of one form of `n` vertices.
pub(super) struct FormSums<'a> {
    pub(super) form: &'a Form,
    pub(super) space: &'a Space,
    pub(super) n: usize,
}

impl Sums for FormSums<'_> {
    fn within(&self, set: u32, lacks: Lacks, limit: u32) -> Within {
        let part = self.space.part(set);
        let (weights, limit) = (by_class(&part, lacks), Byte::of(limit));
        let found = |is: bool| if is { Within::Yes } else { Within::No };
        match self.form {
            Form::Path { closed } => {
                let table = PathTable::new(&weights, self.n, *closed);
                found(subsets(part.len(), self.n).any(|set| !limit.ahead(table.value(&weights, set))))
            }
            Form::Tree(shape) => {
                let values = tree::sums_within(shape, &weights, limit).values();
                found(values.into_iter().any(|lacks| !limit.ahead(lacks)))
            }
            Form::RingTree(edges) => match RingTree::within(&weights, edges, self.n, limit) {
                Some((lacks, order)) if !lacks.ahead(limit) => Within::Exactly(among(set, order)),
                any => found(any.is_some()),
            },
            _ => Within::Unknown,
        }
    }

    fn good(&self, set: u32, lacks: Lacks, limit: u32) -> Option<Vec<usize>> {
        let Form::RingTree(edges) = self.form else { return None };
        let (weights, limit) = (by_class(&self.space.part(set), lacks), Byte::of(limit));
        let good = climb::good(&weights, edges, self.n, Some(limit));
        good.filter(|(lacks, _)| lacks.units() == limit.units()).map(|(_, order)| among(set, order))
    }

    fn sets(&self, lacks: Lacks, limit: u32) -> Option<Vec<u32>> {
        let Form::RingTree(edges) = self.form else { return None };
        let (weights, limit) = (by_class(self.space, lacks), Byte::of(limit));
        let below = limit.units().and_then(|units| units.checked_sub(1)).map(Byte::of);
        let good = below.and_then(|below| climb::good(&weights, edges, self.n, Some(below)));
        let is_below = good.is_some_and(|(lacks, _)| lacks.ahead(limit));
        if is_below { None } else { RingTree::sets_at(&weights, self.n, limit) }
    }
}

/// Vertices of a part of the space that has only this set, as the whole numbers them.
fn among(set: u32, order: Vec<usize>) -> Vec<usize> {
    let members: Vec<usize> = bits(set).collect();
    order.into_iter().map(|v| members[v]).collect()
}

/// What the links between vertices lack by their class.
fn by_class(space: &Space, lacks: Lacks) -> Weights<Byte> {
    let m = space.len();
    let of = |a: usize, b: usize| {
        let lacks = lacks[place(space.class[a][b])].filter(|_| a != b && b < m);
        lacks.map_or(Byte::NONE, Byte::of)
    };
    Weights::new((0..m).map(|a| std::array::from_fn(|b| of(a, b))).collect())
}
