//! How long an assignment of tasks to places must take: chains of places that contain one another.
//!
//! Tasks at a place and at the places above and below it follow one another whatever the order, so the longest chain
//! decides. Two measures of one GPU, both from its loads (µs of tasks per place):
//! - [`estimate`]: the makespan a timing will find, near enough to steer a search, for either [`VisitOrder`];
//! - [`lower`]: what no schedule beats that creates an instance at each place at most once, on an empty GPU.

use super::problem::Micros;
use super::table::{Places, SearchTable, members};
use super::timing::VisitOrder;
use super::tree::MAX_NODES;

/// When each place of a GPU that is not empty can first be used.
#[derive(Clone)]
pub(super) struct Releases {
    /// Per place: when nothing that exists now is in its way any more.
    at: [Micros; MAX_NODES],
    /// Places where an instance is already.
    there: Places,
    any: bool,
}

impl Releases {
    pub(super) fn new(table: &SearchTable<'_>, gpu: usize) -> Self {
        let mut releases = Self { at: [0; MAX_NODES], there: 0, any: false };
        for (node, until) in table.problem.gpus[gpu].held.iter().filter_map(|h| Some((h.node, h.until?))) {
            releases.any = true;
            releases.there |= 1 << node;
            for p in members(table.place(node).overlap) {
                let gone = if p == node { until } else { until + table.place(node).destroy };
                releases.at[p] = releases.at[p].max(gone);
            }
        }
        let blocked = table.problem.gpus[gpu].blocked.iter().filter_map(|b| Some((b.mask, b.until?)));
        for (mask, until) in blocked {
            releases.any = true;
            for (p, node) in table.problem.tree.nodes.iter().enumerate() {
                if node.mask & mask != 0 {
                    releases.at[p] = releases.at[p].max(until);
                }
            }
        }
        releases
    }

    /// When the chain of places that ends in each leaf could end if no other chain were in its way, written to `ends`
    /// for the leaves of `gpu`. After other jobs this takes the part of a slice's end in FAR's refinement.
    pub(super) fn chain_ends(
        &self,
        table: &SearchTable<'_>,
        gpu: usize,
        loads: &[Micros],
        ends: &mut [Micros],
    ) {
        let base = table.base(gpu);
        for leaf in (0..table.places).filter(|&p| table.place(p).children == 0) {
            let mut length = 0;
            let mut place = Some(leaf);
            while let Some(p) = place {
                if loads[base + p] > 0 {
                    let between = if length > 0 { table.place(p).destroy } else { 0 };
                    length += table.place(p).create + loads[base + p] + between;
                }
                place = table.place(p).parent;
            }
            ends[base + leaf] = self.at[leaf] + length;
        }
    }
}

/// The makespan to expect of one GPU.
pub(super) fn estimate(
    table: &SearchTable<'_>,
    releases: &Releases,
    loads: &[Micros],
    order: VisitOrder,
) -> Micros {
    match order {
        VisitOrder::Down => down(table, releases, loads),
        VisitOrder::Up => up(table, releases, loads),
    }
}

fn down(table: &SearchTable<'_>, releases: &Releases, loads: &[Micros]) -> Micros {
    let mut tail = [0; MAX_NODES];
    let mut first = [0; MAX_NODES];
    for p in (0..table.places).rev() {
        let place = table.place(p);
        let (behind, begin) = staggered(place.children, &tail, &first);
        let load = loads[p];
        if load == 0 {
            (tail[p], first[p]) = (behind, begin);
        } else {
            let create = if releases.there >> p & 1 == 1 { 0 } else { place.create };
            let after = if behind > 0 { place.destroy + behind } else { 0 };
            (tail[p], first[p]) = (create + load + after, create);
        }
    }
    if !releases.any {
        return roots(table).map(|r| tail[r]).max().unwrap_or(0);
    }
    // Only the topmost places that are used wait for what exists now; the others wait for them.
    let mut latest = 0;
    let mut covered: Places = 0;
    for p in (0..table.places).filter(|&p| loads[p] > 0) {
        if table.place(p).overlap & covered & ((1 << p) - 1) == 0 {
            latest = latest.max(releases.at[p] + tail[p]);
        }
        covered |= 1 << p;
    }
    latest
}

/// The children of a place begin one after another; the best of both orders, child by child.
fn staggered(children: Places, tail: &[Micros; MAX_NODES], first: &[Micros; MAX_NODES]) -> (Micros, Micros) {
    let (mut length, mut begin) = (0, 0);
    for c in members(children).filter(|&c| tail[c] > 0) {
        let before = length.max(tail[c] + begin);
        let after = tail[c].max(length + first[c]);
        length = if begin == 0 { tail[c] } else { before.min(after) };
        begin += first[c];
    }
    (length, begin)
}

fn up(table: &SearchTable<'_>, releases: &Releases, loads: &[Micros]) -> Micros {
    // Per place: when the tasks in it and below end, and when the place is clear of the instances they ran on.
    let mut end = [0; MAX_NODES];
    let mut clear = [0; MAX_NODES];
    let mut stagger = 0;
    for p in (0..table.places).rev() {
        let place = table.place(p);
        let below = members(place.children).map(|c| end[c]).max().unwrap_or(0);
        let cleared = members(place.children).map(|c| clear[c]).max().unwrap_or(0);
        if loads[p] == 0 {
            (end[p], clear[p]) = (below, cleared);
            continue;
        }
        let create = if releases.there >> p & 1 == 1 && below == 0 { 0 } else { place.create };
        if below == 0 {
            stagger += create;
        }
        end[p] = cleared.max(releases.at[p]) + create + loads[p];
        clear[p] = end[p] + place.destroy;
    }
    // The first creations follow one another; how much of that shows depends on which chain is longest.
    roots(table).map(|r| end[r]).max().unwrap_or(0) + stagger / 4
}

fn roots<'a>(table: &'a SearchTable<'a>) -> impl Iterator<Item = usize> + 'a {
    (0..table.places).filter(|&p| table.place(p).parent.is_none())
}

/// The lower bound of one empty GPU. `destroy` is the shortest destruction of any size.
///
/// A chain of k places that are used takes their loads, k creations and at least k - 1 destructions, in any order of
/// the places. Parts of the GPU that share no unit begin one after another, because each begins with a creation; which
/// first is the best case (one machine, longest remainder first). That holds below a used place too: whether it runs
/// before, after or between its parts, two parts that both have work begin at different times.
///
/// With tasks still to be added, `create` must be the shortest creation of any size: a smaller place may yet begin a part.
pub(super) fn lower(
    table: &SearchTable<'_>,
    loads: &[Micros],
    destroy: Micros,
    create: Option<Micros>,
) -> Micros {
    let mut length = [0; MAX_NODES];
    let mut first = [Micros::MAX; MAX_NODES];
    for p in (0..table.places).rev() {
        let place = table.place(p);
        let (behind, least) = one_machine(place.children, &length, &first);
        if loads[p] == 0 {
            (length[p], first[p]) = (behind, least);
        } else {
            let after = if behind > 0 { destroy + behind } else { 0 };
            (length[p], first[p]) =
                (place.create + loads[p] + after, create.unwrap_or(place.create.min(least)));
        }
    }
    let all = roots(table).map(|r| 1 << r).sum();
    one_machine(all, &length, &first).0
}

/// Shortest time for parts that each take `length` in all and begin with an operation of at least `first`, one after
/// another; and the shortest first operation.
fn one_machine(parts: Places, length: &[Micros; MAX_NODES], first: &[Micros; MAX_NODES]) -> (Micros, Micros) {
    let mut used: Places = members(parts).filter(|&p| length[p] > 0).map(|p| 1 << p).sum();
    let (mut begin, mut latest, mut least) = (0, 0, Micros::MAX);
    while used != 0 {
        let longest = members(used).max_by_key(|&p| length[p] - first[p]).unwrap_or(0);
        latest = latest.max(begin + length[longest]);
        begin += first[longest];
        least = least.min(first[longest]);
        used &= !(1 << longest);
    }
    (latest, least)
}
