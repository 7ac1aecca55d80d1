//! Rings and chains under Equation 2: which counts of links each set can have.
//!
//! # Problem
//! Equation 2 is not monotone: the best match is not the one with the best links, so every reachable pair of counts
//! (x double, y single links) must be known, for every set.
//!
//! # Algorithm
//! Dynamic programming over subsets as for sums; a state holds, per x, the reachable y as a bit set. Rows for larger
//! x are only added (0, 1, 3, 7, 15) while some count there could still beat the best set found.
//!
//! # Worst case
//! 16 free GPUs, n = 16, rows for every x: 2^16 states of 16 rows, 32 MiB and some 50 ms; the usual case stops at
//! x = 0 or 1.

use std::collections::HashSet;

use super::link::LinkClass;
use super::model::equation_2;
use super::space::{MOST_FREE, Space, bits};

type Row = [u16; MOST_FREE];

/// Counts that a set reaches with the best score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) score: f64,
    pub(super) x: u32,
    pub(super) y: u32,
}

/// Per class, per vertex: all ones in the lanes of the vertices linked so.
struct Lanes {
    double: Vec<Row>,
    single: Vec<Row>,
    pcie: Vec<Row>,
}

impl Lanes {
    fn new(space: &Space) -> Self {
        let m = space.len();
        let of = |class: LinkClass| {
            let lane =
                |a: usize, b: usize| if a != b && b < m && space.class[a][b] == class { u16::MAX } else { 0 };
            (0..m).map(|a| std::array::from_fn(|b| lane(a, b))).collect()
        };
        Self { double: of(LinkClass::Double), single: of(LinkClass::Single), pcie: of(LinkClass::Pcie) }
    }
}

fn any(row: &Row, lanes: &Row) -> u16 {
    let mut all = [0_u16; MOST_FREE];
    for i in 0..MOST_FREE {
        all[i] = row[i] & lanes[i];
    }
    all.iter().fold(0, |a, b| a | b)
}

/// The best score of each set of `n`, sets ascending by their numbers.
pub(super) fn best(space: &Space, n: usize, closed: bool) -> Vec<Reached> {
    let edges = if closed { n } else { n - 1 };
    let mut rows = if n <= 5 || space.len() <= 8 { edges + 1 } else { 1 };
    loop {
        let found = with_rows(space, n, closed, rows);
        let top = found.iter().map(|r| r.score).fold(f64::NEG_INFINITY, f64::max);
        if rows > edges || !better_beyond(space, edges, rows, top) {
            return found;
        }
        rows *= 2;
    }
}

/// Whether some count with `rows` double links or more scores above `top`, as far as the vertices' links allow.
fn better_beyond(space: &Space, edges: usize, rows: usize, top: f64) -> bool {
    let most = |class: LinkClass| {
        let degree = |a: usize| (0..space.len()).filter(|b| *b != a && space.class[a][*b] == class).count();
        edges.min((0..space.len()).map(|a| degree(a).min(2)).sum::<usize>() / 2 + usize::from(edges == 2))
    };
    let (doubles, singles) = (most(LinkClass::Double), most(LinkClass::Single));
    let score = |x: usize, y: usize| equation_2(small(x), small(y), small(edges - x - y));
    (rows..=doubles).any(|x| (0..=singles.min(edges - x)).any(|y| score(x, y) > top))
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn with_rows(space: &Space, n: usize, closed: bool, rows: usize) -> Vec<Reached> {
    let (m, lanes) = (space.len(), Lanes::new(space));
    let mut at = vec![0_usize; 1 << m];
    let mut table: Vec<Row> = Vec::new();
    let mut found = Vec::new();
    let scores = Scores::new(if closed { n } else { n - 1 });
    for mask in 1_u32..1 << m {
        let size = mask.count_ones() as usize;
        if size > n {
            continue;
        }
        let base = table.len();
        at[mask as usize] = base;
        table.resize(base + rows, [0; MOST_FREE]);
        let first = mask.trailing_zeros() as usize;
        if size == 1 {
            table[base][first] = 1;
        } else {
            for v in bits(if closed { mask & (mask - 1) } else { mask }) {
                let before = at[(mask ^ 1 << v) as usize];
                for x in 0..rows {
                    let row = table[before + x];
                    let mut reach = any(&row, &lanes.single[v]) << 1 | any(&row, &lanes.pcie[v]);
                    if x > 0 {
                        reach |= any(&table[before + x - 1], &lanes.double[v]);
                    }
                    table[base + x][v] = reach;
                }
            }
        }
        if size == n {
            found.push(close(&table[base..], &lanes, first, closed, &scores));
        }
    }
    found
}

/// Equation 2 for every count of a fixed number of edges.
struct Scores {
    edges: usize,
    table: Vec<f64>,
}

impl Scores {
    fn new(edges: usize) -> Self {
        let of = |i: usize| {
            let (x, y) = (i / (edges + 1), i % (edges + 1));
            if x + y > edges {
                f64::NEG_INFINITY
            } else {
                equation_2(small(x), small(y), small(edges - x - y))
            }
        };
        Self { edges, table: (0..(edges + 1) * (edges + 1)).map(of).collect() }
    }

    fn offer(&self, best: &mut Reached, x: usize, mut ys: u32) {
        while ys != 0 && x <= self.edges {
            let y = ys.trailing_zeros();
            ys &= ys - 1;
            let score =
                self.table.get(x * (self.edges + 1) + y as usize).copied().unwrap_or(f64::NEG_INFINITY);
            if score > best.score {
                *best = Reached { score, x: small(x), y };
            }
        }
    }
}

fn close(rows: &[Row], lanes: &Lanes, first: usize, closed: bool, scores: &Scores) -> Reached {
    let mut best = Reached { score: f64::NEG_INFINITY, x: 0, y: 0 };
    for (x, row) in rows.iter().enumerate() {
        if closed {
            let pcie = u32::from(any(row, &lanes.pcie[first]));
            scores.offer(&mut best, x, pcie | u32::from(any(row, &lanes.single[first])) << 1);
            scores.offer(&mut best, x + 1, u32::from(any(row, &lanes.double[first])));
        } else {
            scores.offer(&mut best, x, u32::from(row.iter().fold(0, |a, b| a | b)));
        }
    }
    best
}

/// A ring or chain over every vertex of `space` with exactly these counts; `None` if there is none.
pub(super) fn order(space: &Space, closed: bool, x: u32, y: u32) -> Option<Vec<usize>> {
    let edges = space.len() - usize::from(!closed);
    let z = small(edges).checked_sub(x + y)?;
    let mut walk = Walk { space, closed, dead: HashSet::new(), order: Vec::new() };
    let starts = if closed { 1 } else { space.len() };
    (0..starts).find_map(|first| {
        walk.order = vec![first];
        walk.dead.clear();
        walk.go(1 << first, [x, y, z]).then(|| walk.order.clone())
    })
}

struct Walk<'a> {
    space: &'a Space,
    closed: bool,
    /// States that lead nowhere.
    dead: HashSet<(u32, usize, [u32; 3])>,
    order: Vec<usize>,
}

impl Walk<'_> {
    fn go(&mut self, seen: u32, left: [u32; 3]) -> bool {
        let m = self.space.len();
        let (first, last) = (self.order[0], self.order[self.order.len() - 1]);
        let use_up = |a: usize, b: usize| {
            let class = match self.space.class[a][b] {
                LinkClass::Double => 0,
                LinkClass::Single => 1,
                LinkClass::Pcie => 2,
            };
            let mut rest = left;
            rest[class] = rest[class].checked_sub(1)?;
            Some(rest)
        };
        if seen.count_ones() as usize == m {
            return if self.closed { use_up(last, first) == Some([0; 3]) } else { left == [0; 3] };
        }
        if self.dead.contains(&(seen, last, left)) {
            return false;
        }
        let next: Vec<(usize, [u32; 3])> = (0..m)
            .filter(|v| seen & 1 << v == 0)
            .filter_map(|v| use_up(last, v).map(|rest| (v, rest)))
            .collect();
        for (v, rest) in next {
            self.order.push(v);
            if self.go(seen | 1 << v, rest) {
                return true;
            }
            self.order.pop();
        }
        self.dead.insert((seen, last, left));
        false
    }
}
