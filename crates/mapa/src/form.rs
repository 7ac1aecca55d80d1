//! Patterns by the search that is exact for them.

use super::fit::Ladder;
use super::form_sums::FormSums;
use super::general::{Aim, Budget, FEW_STEPS, GraphPattern, MOST_STEPS, best, good_sum};
use super::model::equation_2;
use super::number::{Byte, Number, Scale, Weights};
use super::path::{self, PathTable};
use super::policy::NoChoice;
use super::ranks::RANKS;
use super::ringtree::RingTree;
use super::space::{Space, bits, count, subsets};
use super::tables::Tables;
use super::tree::{self, TreeShape};
use super::wanted;
use topology::{Edge, LinkClass, Pattern};

/// A pattern as the searches take it. Rank `i` is on the `i`th vertex of an order.
pub(super) enum Form {
    /// No edges.
    Empty,
    /// Ring or chain.
    Path { closed: bool },
    /// All with the first.
    Star,
    /// All with all.
    All,
    /// A tree.
    Tree(TreeShape),
    /// NCCL's ring and tree, over four ranks or more.
    RingTree(Vec<Edge>),
    /// Anything else.
    Graph(GraphPattern),
}

impl Form {
    pub(super) fn new(pattern: &Pattern, edges: &[Edge], n: usize) -> Self {
        if edges.is_empty() {
            return Self::Empty;
        }
        match pattern {
            Pattern::Ring => Self::Path { closed: true },
            // Up to three ranks the tree is part of the ring.
            Pattern::RingTree if edges.len() == n => Self::Path { closed: true },
            Pattern::RingTree => Self::RingTree(edges.to_vec()),
            Pattern::Chain => Self::Path { closed: false },
            Pattern::Star => Self::Star,
            Pattern::All => Self::All,
            _ => {
                TreeShape::new(edges, n).map_or_else(|| Self::Graph(GraphPattern::new(edges, n)), Self::Tree)
            }
        }
    }

    /// For each set of `n`, the level of the slowest edge of a star or of all links.
    pub(super) fn slowest(&self, space: &Space, n: usize) -> Vec<u8> {
        let level = |mask: u32, v: usize| bits(mask ^ 1 << v).map(|u| space.level[v][u]).min().unwrap_or(0);
        let of = |mask: u32| {
            let each = bits(mask).map(|v| level(mask, v));
            if matches!(self, Self::Star) { each.max() } else { each.min() }
        };
        subsets(space.len(), n).map(|mask| of(mask).unwrap_or(0)).collect()
    }

    /// For each set of `n`, whether it fits on links of at least this level: paths, trees, ring+tree.
    pub(super) fn fits(&self, space: &Space, level: usize, n: usize) -> Vec<bool> {
        match self {
            Self::Tree(shape) => tree::feasible(shape, &space.adjacent(level)),
            Self::Path { closed } => {
                let found = path::feasible(space, level, n, *closed);
                subsets(space.len(), n).map(|mask| found[mask as usize]).collect()
            }
            _ => ring_tree_fits(space, level, n),
        }
    }

    /// The level of the slowest edge of the best match of all vertices.
    fn slowest_of_all(&self, space: &Space, budget: &mut Budget) -> usize {
        let m = space.len();
        let Some(pattern) = self.graph(m) else { return 0 };
        let mut ladder = Ladder::new(&pattern, space).with_tables(Some(Tables::new(self, space, m)));
        let rung = ladder.fastest((1 << m) - 1, 0..ladder.len(), budget);
        ladder.own_up(budget);
        let mbps = rung.and_then(|rung| ladder.rate(rung)).unwrap_or(0.0);
        space.levels.partition_point(|l| f64::from(*l) < mbps)
    }

    /// The edges over `n` ranks, for searches that take any; `None` for patterns that need none.
    pub(super) fn graph(&self, n: usize) -> Option<GraphPattern> {
        Some(match self {
            Self::Path { closed } => {
                let pattern = if *closed { Pattern::Ring } else { Pattern::Chain };
                GraphPattern::new(&pattern.edges(n).ok()?, n)
            }
            Self::Tree(shape) => GraphPattern::new(&shape.edges(), n),
            Self::RingTree(edges) => GraphPattern::new(edges, n),
            Self::Graph(pattern) => pattern.clone(),
            Self::Empty | Self::Star | Self::All => return None,
        })
    }

    /// For each set of `n`, the largest sum over the edges of a match, thousandths of GB/s.
    pub(super) fn sums(&self, space: &Space, n: usize) -> Vec<i64> {
        let m = space.len();
        match self {
            Self::Path { .. } | Self::Tree(_) | Self::RingTree(_) => {
                let (scale, edges) = (space.scale(), self.edges(n));
                match () {
                    () if scale.fits::<Byte>(edges) => self.sums_in::<Byte>(space, n, &scale),
                    () if scale.fits::<i16>(edges) => self.sums_in::<i16>(space, n, &scale),
                    () => self.sums_in::<i32>(space, n, &scale),
                }
            }
            Self::Star => {
                let of = |mask: u32| bits(mask).map(|v| space.to_set(v, mask)).max().unwrap_or(0);
                subsets(m, n).map(|mask| i64::from(of(mask))).collect()
            }
            Self::All => subsets(m, n).map(|mask| i64::from(space.among(mask))).collect(),
            Self::Empty | Self::Graph(_) => subsets(m, n).map(|_| 0).collect(),
        }
    }

    /// Edges over `n` ranks, as far as sums over them are searched for.
    fn edges(&self, n: usize) -> usize {
        match self {
            Self::RingTree(edges) => edges.len(),
            _ => n,
        }
    }

    fn sums_in<T: Number>(&self, space: &Space, n: usize, scale: &Scale) -> Vec<i64> {
        let weights = space.weights::<T>(0, scale);
        match self {
            Self::Path { closed } => {
                let table = PathTable::new(&weights, n, *closed);
                let edges = n - usize::from(!closed);
                let of = |mask| scale.sum_mbps(edges, table.value(&weights, mask));
                subsets(space.len(), n).map(of).collect()
            }
            Self::RingTree(edges) => {
                let (best, sets) = RingTree::best(&weights, n, edges);
                let mut sums = vec![i64::MIN; count(space.len(), n)];
                sets.iter().for_each(|set| sums[RANKS.of(*set)] = scale.sum_mbps(edges.len(), best));
                sums
            }
            Self::Tree(shape) => {
                let values = tree::sums(shape, &weights).values();
                values.into_iter().map(|lacks| scale.sum_mbps(n - 1, lacks)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// For each set of `n`, the largest value of Equation 2; `None` for patterns that [`Form::wanted`] is for.
    pub(super) fn equation_2(&self, space: &Space, n: usize) -> Option<Vec<f64>> {
        let m = space.len();
        Some(match self {
            Self::Star => {
                let worth = |mask: u32, v: usize| of_counts(star_counts(space, mask, v));
                let most = |mask: u32| bits(mask).map(|v| worth(mask, v)).fold(f64::NEG_INFINITY, f64::max);
                subsets(m, n).map(most).collect()
            }
            Self::All => subsets(m, n).map(|mask| of_counts(all_counts(space, mask))).collect(),
            Self::Empty => subsets(m, n).map(|_| 0.0).collect(),
            Self::Path { .. } | Self::Tree(_) | Self::RingTree(_) | Self::Graph(_) => return None,
        })
    }

    /// The best match under Equation 2 among these sets of `n`, the first of those that have it.
    pub(super) fn wanted(
        &self,
        space: &Space,
        n: usize,
        sets: &[u32],
        budget: &mut Budget,
    ) -> Result<wanted::Best, NoChoice> {
        let pattern = self.graph(n).ok_or(NoChoice::NotWithMapa2021)?;
        let sums = FormSums { form: self, space, n };
        wanted::best(space, &pattern, sets, &sums, budget).ok_or(NoChoice::NotWithMapa2021)
    }

    /// The best order of all vertices of `space` under Equation 2.
    pub(super) fn order_by_equation_2(
        &self,
        space: &Space,
        budget: &mut Budget,
    ) -> Result<Vec<usize>, NoChoice> {
        let m = space.len();
        let all = (1_u32 << m) - 1;
        Ok(match self {
            Self::Star => star_order(m, &|v| of_counts(star_counts(space, all, v))),
            Self::All | Self::Empty => (0..m).collect(),
            _ => self.wanted(space, m, &[all], budget)?.order,
        })
    }

    /// The order with the fastest slowest edge, which may be known; of those the one with the largest sum.
    pub(super) fn order_by_slowest(
        &self,
        space: &Space,
        known_mbps: Option<u32>,
        budget: &mut Budget,
    ) -> Vec<usize> {
        let m = space.len();
        let all = (1_u32 << m) - 1;
        match self {
            Self::Path { .. } | Self::Tree(_) | Self::RingTree(_) => {
                let level = match known_mbps {
                    Some(mbps) => space.levels.partition_point(|l| *l < mbps),
                    None => self.slowest_of_all(space, budget),
                };
                self.order_from(space, level, None)
            }
            Self::Star => star_order(m, &|v| {
                let slowest = bits(all ^ 1 << v).map(|u| space.level[v][u]).min().unwrap_or(0);
                f64::from(slowest) * 1e9 + f64::from(space.to_set(v, all))
            }),
            Self::Graph(pattern) => fastest_order(pattern, space, budget),
            Self::All | Self::Empty => (0..m).collect(),
        }
    }

    /// The order with the largest sum.
    pub(super) fn order_by_sum(
        &self,
        space: &Space,
        known_mbps: Option<i64>,
        budget: &mut Budget,
    ) -> Vec<usize> {
        let m = space.len();
        match self {
            Self::Path { .. } | Self::Tree(_) | Self::RingTree(_) => self.order_from(space, 0, known_mbps),
            Self::Star => star_order(m, &|v| f64::from(space.to_set(v, (1_u32 << m) - 1))),
            Self::Graph(pattern) => {
                let (sum, order) =
                    good_sum(pattern, space, 0).unwrap_or((f64::NEG_INFINITY, (0..m).collect()));
                best(pattern, space, Aim::Sum, (sum, 0.0), budget).map_or(order, |p| p.order)
            }
            Self::All | Self::Empty => (0..m).collect(),
        }
    }

    fn order_from(&self, space: &Space, level: usize, known_mbps: Option<i64>) -> Vec<usize> {
        let scale = space.scale();
        match self.edges(space.len()) {
            m if scale.fits::<Byte>(m) => self.order_in::<Byte>(space, level, &scale, known_mbps),
            m if scale.fits::<i16>(m) => self.order_in::<i16>(space, level, &scale, known_mbps),
            _ => self.order_in::<i32>(space, level, &scale, known_mbps),
        }
    }

    fn order_in<T: Number>(
        &self,
        space: &Space,
        level: usize,
        scale: &Scale,
        known_mbps: Option<i64>,
    ) -> Vec<usize> {
        let m = space.len();
        let all = (1_u32 << m) - 1;
        let weights = space.weights::<T>(level, scale);
        match self {
            Self::Path { closed } => PathTable::new(&weights, m, *closed).order(&weights, all),
            Self::Tree(shape) => {
                let known = known_mbps.and_then(|sum| scale.lacking(m - 1, sum));
                let table = match known {
                    Some(limit) => tree::sums_within(shape, &weights, limit),
                    None => tree::sums(shape, &weights),
                };
                table.order(shape, &weights, all)
            }
            Self::RingTree(edges) => {
                let known = known_mbps.and_then(|sum| scale.lacking(edges.len(), sum));
                RingTree::one(&weights, edges, known).map_or_else(|| (0..m).collect(), |(_, order)| order)
            }
            _ => (0..m).collect(),
        }
    }
}

/// For each set of `n`, whether ring and tree fit on links of at least this level.
fn ring_tree_fits(space: &Space, level: usize, n: usize) -> Vec<bool> {
    let lacks = |there: bool| if there { Byte::ZERO } else { Byte::NONE };
    let adjacent = space.adjacent(level);
    let row = |near: &u32| std::array::from_fn(|v| lacks(near >> v & 1 == 1));
    let weights = Weights::new(adjacent.iter().map(row).collect());
    let mut fits = vec![false; count(space.len(), n)];
    RingTree::perfect(&weights, n).iter().for_each(|set| fits[RANKS.of(*set)] = true);
    fits
}

/// An order of all vertices whose slowest edge is as fast as can be, and of those one with a large sum.
fn fastest_order(pattern: &GraphPattern, space: &Space, budget: &mut Budget) -> Vec<usize> {
    let all = (1_u32 << space.len()) - 1;
    let mut ladder = Ladder::new(pattern, space);
    let rung = ladder.fastest(all, 0..ladder.len(), budget);
    ladder.own_up(budget);
    let found =
        rung.and_then(|rung| Some((ladder.rate(rung)?, ladder.order(rung, all, &mut Budget(MOST_STEPS))?)));
    let Some((slowest, order)) = found else { return (0..space.len()).collect() };
    let sum = pattern.sum(space, &order);
    let level = space.levels.partition_point(|l| f64::from(*l) < slowest);
    let good = good_sum(pattern, space, level).filter(|(good, _)| *good > sum);
    let (sum, order) = good.unwrap_or((sum, order));
    best(pattern, space, Aim::Slowest, (slowest, sum), &mut Budget(FEW_STEPS)).map_or(order, |p| p.order)
}

fn star_order(m: usize, worth: &dyn Fn(usize) -> f64) -> Vec<usize> {
    let centre = (0..m).reduce(|best, v| if worth(v) > worth(best) { v } else { best }).unwrap_or(0);
    std::iter::once(centre).chain((0..m).filter(|v| *v != centre)).collect()
}

fn star_counts(space: &Space, mask: u32, centre: usize) -> [u32; 3] {
    let mut counts = [0; 3];
    bits(mask ^ 1 << centre).for_each(|u| counts[place(space.class[centre][u])] += 1);
    counts
}

fn all_counts(space: &Space, mask: u32) -> [u32; 3] {
    let mut counts = [0; 3];
    for a in bits(mask) {
        bits(mask & !((2 << a) - 1)).for_each(|b| counts[place(space.class[a][b])] += 1);
    }
    counts
}

/// Where Equation 2 counts a class of links.
pub(super) fn place(class: LinkClass) -> usize {
    match class {
        LinkClass::Double => 0,
        LinkClass::Single => 1,
        LinkClass::Pcie => 2,
    }
}

fn of_counts([x, y, z]: [u32; 3]) -> f64 {
    equation_2(x, y, z)
}
