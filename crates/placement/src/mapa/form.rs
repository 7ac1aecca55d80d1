//! Patterns by the search that is exact for them.

use super::counts;
use super::general::{Aim, Budget, GraphPattern, best};
use super::link::LinkClass;
use super::model::equation_2;
use super::path::{self, PathTable};
use super::pattern::{AppPattern, Edge};
use super::policy::{NoChoice, path_scores};
use super::space::{Number, Space, bits, exact, subsets};
use super::tree::{self, TreeShape};

/// Most orders that are weighed one by one under Equation 2.
const MOST_ORDERS: u64 = 50_000;

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
    /// Anything else.
    Graph(GraphPattern),
}

impl Form {
    pub(super) fn new(pattern: &AppPattern, edges: &[Edge], n: usize) -> Self {
        if edges.is_empty() {
            return Self::Empty;
        }
        match pattern {
            AppPattern::Ring => Self::Path { closed: true },
            // Up to three ranks the tree is part of the ring.
            AppPattern::RingTree if edges.len() == n => Self::Path { closed: true },
            AppPattern::Chain => Self::Path { closed: false },
            AppPattern::Star => Self::Star,
            AppPattern::All => Self::All,
            _ => {
                TreeShape::new(edges, n).map_or_else(|| Self::Graph(GraphPattern::new(edges, n)), Self::Tree)
            }
        }
    }

    /// For each set of `n`, the level of the slowest edge of its best match.
    pub(super) fn slowest(&self, space: &Space, n: usize) -> Vec<u8> {
        let m = space.len();
        let count = subsets(m, n).count();
        let mut slowest = vec![0_u8; count];
        match self {
            Self::Star | Self::All => {
                let level =
                    |mask: u32, v: usize| bits(mask ^ 1 << v).map(|u| space.level[v][u]).min().unwrap_or(0);
                let of = |mask: u32| {
                    let each = bits(mask).map(|v| level(mask, v));
                    if matches!(self, Self::Star) { each.max() } else { each.min() }
                };
                slowest.iter_mut().zip(subsets(m, n)).for_each(|(s, mask)| *s = of(mask).unwrap_or(0));
            }
            Self::Path { .. } | Self::Tree(_) => {
                for level in (1..space.levels.len()).rev() {
                    let fits: Vec<bool> = match self {
                        Self::Tree(shape) => tree::feasible(shape, &space.adjacent(level)),
                        Self::Path { closed } => {
                            let found = path::feasible(space, level, n, *closed);
                            subsets(m, n).map(|mask| found[mask as usize]).collect()
                        }
                        _ => Vec::new(),
                    };
                    let mark = u8::try_from(level).unwrap_or(u8::MAX);
                    slowest.iter_mut().zip(&fits).for_each(|(s, fits)| {
                        if *fits && *s == 0 {
                            *s = mark;
                        }
                    });
                    if slowest.iter().all(|s| *s > 0) {
                        break;
                    }
                }
            }
            Self::Empty | Self::Graph(_) => {}
        }
        slowest
    }

    /// For each set of `n`, the largest sum over the edges of a match.
    pub(super) fn sums(&self, space: &Space, n: usize) -> Vec<f32> {
        let m = space.len();
        match self {
            Self::Path { .. } | Self::Tree(_) => match space.unit() {
                Some(unit) => self.sums_in::<i16>(space, n, unit),
                None => self.sums_in::<f32>(space, n, 1),
            },
            Self::Star => subsets(m, n)
                .map(|mask| bits(mask).map(|v| exact(space.to_set(v, mask))).fold(0.0, f32::max))
                .collect(),
            Self::All => subsets(m, n).map(|mask| exact(space.among(mask))).collect(),
            Self::Empty | Self::Graph(_) => subsets(m, n).map(|_| 0.0).collect(),
        }
    }

    fn sums_in<T: Number>(&self, space: &Space, n: usize, unit: u32) -> Vec<f32> {
        let weights = space.weights::<T>(0, unit);
        match self {
            Self::Path { closed } => {
                let table = PathTable::new(&weights, n, *closed);
                subsets(space.len(), n).map(|mask| table.value(&weights, mask).mbps(unit)).collect()
            }
            Self::Tree(shape) => {
                tree::sums(shape, &weights).values().into_iter().map(|s| s.mbps(unit)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// For each set of `n`, the largest value of Equation 2.
    pub(super) fn equation_2(
        &self,
        space: &Space,
        n: usize,
        budget: &mut Budget,
    ) -> Result<Vec<f64>, NoChoice> {
        let m = space.len();
        match self {
            Self::Path { closed } => Ok(path_scores(space, n, *closed)),
            Self::Star => {
                let worth = |mask: u32, v: usize| of_counts(star_counts(space, mask, v));
                let most = |mask: u32| bits(mask).map(|v| worth(mask, v)).fold(f64::NEG_INFINITY, f64::max);
                Ok(subsets(m, n).map(most).collect())
            }
            Self::All => Ok(subsets(m, n).map(|mask| of_counts(all_counts(space, mask))).collect()),
            Self::Empty => Ok(subsets(m, n).map(|_| 0.0).collect()),
            Self::Tree(_) | Self::Graph(_) => {
                if GraphPattern::orders(m, n) > MOST_ORDERS {
                    return Err(NoChoice::NotWithMapa2021);
                }
                let Some(pattern) = self.as_graph(n) else { return Err(NoChoice::NotWithMapa2021) };
                let steps = budget.0;
                let worth = subsets(m, n).map(|mask| {
                    budget.0 = u32::MAX;
                    let found = best(&pattern, &space.part(mask), Aim::Equation2, ANY, budget);
                    found.map_or(f64::NEG_INFINITY, |p| p.key.0)
                });
                let worth = worth.collect();
                budget.0 = steps;
                Ok(worth)
            }
        }
    }

    fn as_graph(&self, n: usize) -> Option<GraphPattern> {
        match self {
            Self::Tree(shape) => Some(GraphPattern::new(&shape.edges(), n)),
            Self::Graph(pattern) => Some(pattern.clone()),
            _ => None,
        }
    }

    /// The best order of all vertices of `space` under Equation 2.
    pub(super) fn order_by_equation_2(
        &self,
        space: &Space,
        budget: &mut Budget,
    ) -> Result<Vec<usize>, NoChoice> {
        let m = space.len();
        let as_is = || (0..m).collect::<Vec<_>>();
        Ok(match self {
            Self::Path { closed } => {
                let top = counts::best(space, m, *closed).into_iter().next();
                top.and_then(|r| counts::order(space, *closed, r.x, r.y)).unwrap_or_else(as_is)
            }
            Self::Star => {
                let all = (1_u32 << m) - 1;
                star_order(m, &|v| of_counts(star_counts(space, all, v)))
            }
            Self::All | Self::Empty => as_is(),
            Self::Tree(_) | Self::Graph(_) => {
                let pattern = self.as_graph(m).filter(|_| GraphPattern::orders(m, m) <= MOST_ORDERS);
                let pattern = pattern.ok_or(NoChoice::NotWithMapa2021)?;
                let steps = budget.0;
                budget.0 = u32::MAX;
                let found = best(&pattern, space, Aim::Equation2, ANY, budget);
                budget.0 = steps;
                found.map_or_else(as_is, |p| p.order)
            }
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
            Self::Path { .. } | Self::Tree(_) => {
                let search = || usize::from(self.slowest(space, m).first().copied().unwrap_or(0));
                let level =
                    known_mbps.map_or_else(search, |mbps| space.levels.partition_point(|l| *l < mbps));
                self.order_from(space, level)
            }
            Self::Star => star_order(m, &|v| {
                let slowest = bits(all ^ 1 << v).map(|u| space.level[v][u]).min().unwrap_or(0);
                f64::from(slowest) * 1e9 + f64::from(space.to_set(v, all))
            }),
            Self::Graph(pattern) => {
                best(pattern, space, Aim::Slowest, ANY, budget).map_or_else(|| (0..m).collect(), |p| p.order)
            }
            Self::All | Self::Empty => (0..m).collect(),
        }
    }

    /// The order with the largest sum.
    pub(super) fn order_by_sum(&self, space: &Space, budget: &mut Budget) -> Vec<usize> {
        let m = space.len();
        match self {
            Self::Path { .. } | Self::Tree(_) => self.order_from(space, 0),
            Self::Star => star_order(m, &|v| f64::from(space.to_set(v, (1_u32 << m) - 1))),
            Self::Graph(pattern) => {
                best(pattern, space, Aim::Sum, ANY, budget).map_or_else(|| (0..m).collect(), |p| p.order)
            }
            Self::All | Self::Empty => (0..m).collect(),
        }
    }

    fn order_from(&self, space: &Space, level: usize) -> Vec<usize> {
        match space.unit() {
            Some(unit) => self.order_in::<i16>(space, level, unit),
            None => self.order_in::<f32>(space, level, 1),
        }
    }

    fn order_in<T: Number>(&self, space: &Space, level: usize, unit: u32) -> Vec<usize> {
        let m = space.len();
        let all = (1_u32 << m) - 1;
        let weights = space.weights::<T>(level, unit);
        match self {
            Self::Path { closed } => PathTable::new(&weights, m, *closed).order(&weights, all),
            Self::Tree(shape) => tree::sums(shape, &weights).order(shape, &weights, all),
            _ => (0..m).collect(),
        }
    }
}

/// Any match beats this.
const ANY: ((f64, f64), f64) = ((f64::NEG_INFINITY, f64::NEG_INFINITY), f64::INFINITY);

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

fn place(class: LinkClass) -> usize {
    match class {
        LinkClass::Double => 0,
        LinkClass::Single => 1,
        LinkClass::Pcie => 2,
    }
}

fn of_counts([x, y, z]: [u32; 3]) -> f64 {
    equation_2(x, y, z)
}
