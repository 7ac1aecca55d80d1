//! Power budgets, counted again: every GPU of every node, for every cap that a job could start with.

use geometry::GpuIndex;
use node_state::{PowerBudget, PowerRange};
use topology::GpuSet;

/// A node as its budgets see it.
#[derive(Clone, Debug)]
pub struct PoweredNode {
    /// Name of the budget.
    pub name: String,
    /// How many GPUs it has.
    pub gpus: u16,
    /// Power range of each GPU.
    pub range: PowerRange,
}

/// A job's GPUs and cap on a node.
#[derive(Clone, Debug)]
pub struct CappedJob {
    /// The node's name.
    pub node: String,
    /// GPUs of which it has something.
    pub gpus: GpuSet,
    /// Power cap, W; `None`: as the node has it.
    pub cap_w: Option<u16>,
}

/// Adds up the watts that a budget's GPUs may draw: the highest cap of the jobs on each, and idle draw without jobs.
#[must_use]
pub fn watts_in(budget: &PowerBudget, nodes: &[PoweredNode], jobs: &[CappedJob]) -> u32 {
    let mut sum = 0;
    for node in nodes.iter().filter(|node| budget.nodes.contains(&node.name)) {
        for gpu in 0..node.gpus {
            let mut watts = node.range.idle_w;
            for job in jobs.iter().filter(|job| job.node == node.name && job.gpus.contains(GpuIndex(gpu))) {
                watts = watts.max(job.cap_w.unwrap_or(node.range.cap_w));
            }
            sum += u32::from(watts);
        }
    }
    sum
}

/// Lists the faults of a job's start with `chosen_w` on all of `places`, or of its waiting if that is `None`. Its places' caps
/// are not looked at.
#[must_use]
pub fn audit_cap(
    budgets: &[PowerBudget],
    nodes: &[PoweredNode],
    running: &[CappedJob],
    places: &[CappedJob],
    asked_w: Option<u16>,
    chosen_w: Option<u16>,
) -> Vec<String> {
    let node_of = |place: &CappedJob| nodes.iter().find(|node| node.name == place.node);
    let own = |budget: &&PowerBudget| places.iter().any(|place| budget.nodes.contains(&place.node));
    let most = |node: &PoweredNode| asked_w.unwrap_or(u16::MAX).min(node.range.cap_w);
    let legal = |cap_w: u16| {
        budgets.iter().filter(own).all(|budget| {
            let here = places.iter().filter(|place| budget.nodes.contains(&place.node)).filter_map(node_of);
            let not_below =
                here.map(most).all(|most| cap_w.min(most) >= budget.floor_w.unwrap_or(most).min(most));
            let mut jobs = running.to_vec();
            jobs.extend(places.iter().filter_map(|place| {
                Some(CappedJob { cap_w: Some(cap_w.min(most(node_of(place)?))), ..place.clone() })
            }));
            not_below && watts_in(budget, nodes, &jobs) <= budget.watts
        })
    };
    let concerned = places.iter().filter(|place| budgets.iter().any(|b| b.nodes.contains(&place.node)));
    let highest = concerned.filter_map(node_of).map(most).max().unwrap_or(0);
    let best = (1..=highest).rev().find(|cap_w| legal(*cap_w));
    if best == chosen_w { Vec::new() } else { vec![format!("{chosen_w:?} W chosen, {best:?} W is right")] }
}
