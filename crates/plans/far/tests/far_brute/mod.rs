//! An oracle for tiny batches: every assignment of tasks to places, every order of creations and destructions.

use far::{Micros, Problem};

/// The shortest makespan of any schedule that creates an instance at each place at most once. One GPU, empty.
pub fn optimum(problem: &Problem) -> Micros {
    let mut loads = vec![0; problem.tree.nodes.len()];
    assign(problem, 0, &mut loads, Micros::MAX)
}

fn assign(problem: &Problem, task: usize, loads: &mut Vec<Micros>, best: Micros) -> Micros {
    let Some(t) = problem.tasks.get(task) else {
        let state = State { now: 0, alive: vec![None; loads.len()], clear: vec![0; 16], end: 0 };
        return order(problem, loads, &state, best);
    };
    let mut best = best;
    for (place, node) in problem.tree.nodes.iter().enumerate() {
        if let Some(time) = t.times[node.class] {
            loads[place] += time;
            best = best.min(assign(problem, task + 1, loads, best));
            loads[place] -= time;
        }
    }
    best
}

#[derive(Clone)]
struct State {
    /// End of the last operation.
    now: Micros,
    /// Per place: when the instance there has no more tasks.
    alive: Vec<Option<Micros>>,
    /// Per unit: end of the last destruction.
    clear: Vec<Micros>,
    end: Micros,
}

/// Tries every next operation. A load is set to zero when its place has been visited.
fn order(problem: &Problem, loads: &[Micros], state: &State, best: Micros) -> Micros {
    if state.end >= best {
        return best;
    }
    if loads.iter().all(|&l| l == 0) {
        return state.end;
    }
    let mut best = best;
    for (place, node) in problem.tree.nodes.iter().enumerate() {
        let units = (0..16).filter(|u| node.mask >> u & 1 == 1);
        let mut next = state.clone();
        let free = |other: usize| problem.tree.nodes[other].mask & node.mask == 0;
        if let Some(idle_from) = state.alive[place] {
            next.now = state.now.max(idle_from) + problem.costs.destroy[node.class];
            next.alive[place] = None;
            units.for_each(|u| next.clear[u] = next.now);
            best = best.min(order(problem, loads, &next, best));
        } else if loads[place] > 0 && (0..loads.len()).all(|o| free(o) || state.alive[o].is_none()) {
            let ready = units.map(|u| state.clear[u]).max().unwrap_or(0);
            next.now = state.now.max(ready) + problem.costs.create[node.class];
            next.alive[place] = Some(next.now + loads[place]);
            next.end = next.end.max(next.now + loads[place]);
            let mut rest = loads.to_vec();
            rest[place] = 0;
            best = best.min(order(problem, &rest, &next, best));
        }
    }
    best
}
