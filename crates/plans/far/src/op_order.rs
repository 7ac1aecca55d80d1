//! The best order of reconfigurations for one assignment on one empty GPU, by trying all of them.
//!
//! Places are visited once each; the next operation is the creation of a pending place that nothing is in the way of, or
//! the destruction of an instance that is in the way of one, each as early as it can be. A partial order is dropped when
//! what is left cannot end before the limit:
//! - the pending places over one leaf follow one another, after whatever instance is there now;
//! - creations follow one another, and each is followed by its own tasks.

use super::problem::Micros;
use super::schedule::OpKind;
use super::steps::Steps;
use super::table::{Places, SearchTable, members};
use super::tree::MAX_NODES;

/// Operations in order.
pub(super) type OpSequence = Vec<(OpKind, usize)>;

/// The shortest makespan below `limit` of any order for `loads` (µs of tasks per place), and the order; `Ok(None)` if
/// none is below, `Err` when the steps are spent.
pub(super) fn shortest(
    table: &SearchTable<'_>,
    loads: &[Micros],
    limit: Micros,
    steps: &mut Steps,
) -> Result<Option<(Micros, OpSequence)>, OutOfSteps> {
    let pending = (0..table.places).filter(|&p| loads[p] > 0).map(|p| 1 << p).sum();
    let mut search = OrderSearch {
        table,
        loads,
        limit,
        steps,
        destroy: table.problem.costs.destroy.iter().copied().min().unwrap_or(0),
        sequence: Vec::new(),
        best: None,
    };
    let state = VisitState { now: 0, pending, alive: 0, end: 0, free: [0; MAX_NODES] };
    search.branch(&state)?;
    let (limit, best) = (search.limit, search.best);
    Ok(best.map(|sequence| (limit, sequence)))
}

/// The budget ended before the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfSteps;

#[derive(Clone)]
struct VisitState {
    /// End of the last operation.
    now: Micros,
    /// Places still to be visited.
    pending: Places,
    /// Places where an instance is.
    alive: Places,
    /// End of the last task so far.
    end: Micros,
    /// Per place where an instance is: when it has no more tasks.
    free: [Micros; MAX_NODES],
}

struct OrderSearch<'a, 'b> {
    table: &'a SearchTable<'a>,
    loads: &'a [Micros],
    limit: Micros,
    steps: &'b mut Steps,
    /// The shortest destruction.
    destroy: Micros,
    sequence: OpSequence,
    best: Option<OpSequence>,
}

impl OrderSearch<'_, '_> {
    fn branch(&mut self, state: &VisitState) -> Result<(), OutOfSteps> {
        if state.pending == 0 {
            if state.end < self.limit {
                self.limit = state.end;
                self.best = Some(self.sequence.clone());
            }
            return Ok(());
        }
        if !self.steps.take(2) {
            return Err(OutOfSteps);
        }
        if self.bound(state) >= self.limit {
            return Ok(());
        }
        let mut choices = [(0, OpKind::Create, 0); MAX_NODES];
        let mut count = 0;
        let mut choose = |choice| {
            choices[count] = choice;
            count += 1;
        };
        for p in members(state.pending) {
            if self.table.place(p).overlap & state.alive == 0 {
                // Whatever was in the way has been destroyed by `now`.
                choose((state.now, OpKind::Create, p));
            }
        }
        for p in members(state.alive).filter(|&p| self.table.place(p).overlap & state.pending != 0) {
            choose((state.now.max(state.free[p]), OpKind::Destroy, p));
        }
        // What can begin first, and of that what is followed by most: good orders early make the limit tight.
        choices[..count].sort_unstable_by_key(|&(begin, _, p)| (begin, Micros::MAX - self.loads[p]));
        for &(begin, kind, p) in &choices[..count] {
            let next = self.after(state, begin, kind, p);
            if next.end < self.limit {
                self.sequence.push((kind, p));
                self.branch(&next)?;
                self.sequence.pop();
            }
        }
        Ok(())
    }

    fn after(&self, state: &VisitState, begin: Micros, kind: OpKind, p: usize) -> VisitState {
        let place = self.table.place(p);
        let mut next = state.clone();
        if kind == OpKind::Create {
            next.now = begin + place.create;
            next.pending &= !(1 << p);
            next.alive |= 1 << p;
            next.free[p] = next.now + self.loads[p];
            next.end = next.end.max(next.free[p]);
        } else {
            next.now = begin + place.destroy;
            next.alive &= !(1 << p);
        }
        next
    }

    /// No order that continues `state` ends before.
    fn bound(&self, state: &VisitState) -> Micros {
        let mut least = state.end;
        // From the root down: what is pending over a place, and from when on.
        let mut chain = [0; MAX_NODES];
        let mut from = [state.now; MAX_NODES];
        for p in 0..self.table.places {
            let place = self.table.place(p);
            if let Some(parent) = place.parent {
                (chain[p], from[p]) = (chain[parent], from[parent]);
            }
            if state.alive >> p & 1 == 1 {
                from[p] = from[p].max(state.free[p]) + place.destroy;
            }
            if state.pending >> p & 1 == 1 {
                let between = if chain[p] > 0 { self.destroy } else { 0 };
                chain[p] += between + place.create + self.loads[p];
            }
            if place.children == 0 && chain[p] > 0 {
                least = least.max(from[p] + chain[p]);
            }
        }
        least.max(self.one_after_another(state))
    }

    /// Pending creations in the best order if nothing else counted: most tasks behind first.
    fn one_after_another(&self, state: &VisitState) -> Micros {
        let mut left = state.pending;
        let (mut now, mut least) = (state.now, 0);
        while left != 0 {
            let most = members(left).max_by_key(|&p| self.loads[p]).unwrap_or(0);
            now += self.table.place(most).create;
            least = least.max(now + self.loads[most]);
            left &= !(1 << most);
        }
        least
    }
}
