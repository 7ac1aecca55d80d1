//! Reads `[[power_budgets]]`, and what `[[nodes]]` say of power.

use std::collections::HashSet;

use gpu_rules::PowerBudget;
use protocol::wire::MAX_CAP_W;

use crate::hostlist::{compress, expand};
use crate::types::{NodePower, NodeSpec};
use toml_tables::{At, TableReader};

/// Most watts of a budget; no machine room has as many.
const MOST_WATTS: u64 = 100_000_000;

/// Whole watts of one GPU.
fn gpu_watts(table: &TableReader<'_, '_>, key: &'static str) -> Option<u16> {
    let at = table.number(key, 1..u64::from(MAX_CAP_W) + 1)?;
    u16::try_from(at.value).ok()
}

/// Reads `cap_w` and `idle_w` of a node set; `None` if one of them is wrong.
pub(crate) fn of_nodes(table: &TableReader<'_, '_>) -> Option<NodePower> {
    let (cap_w, idle_w) = (gpu_watts(table, "cap_w"), gpu_watts(table, "idle_w"));
    if let (Some(cap_w), Some(idle_w)) = (cap_w, idle_w)
        && idle_w >= cap_w
    {
        let what = format!("idle_w = {idle_w} is not less than cap_w = {cap_w}");
        let hint = "idle_w is what a GPU without jobs draws, cap_w the most that it may draw".to_owned();
        table.errors.push(table.key_span("idle_w"), what, Some(hint));
        return None;
    }
    let is_read = |key, value: Option<u16>| value.is_some() || !table.has(key);
    let is_good = is_read("cap_w", cap_w) && is_read("idle_w", idle_w);
    is_good.then_some(NodePower { cap_w, idle_w, model: None })
}

/// Reads `[[power_budgets]]`. `specs` has the nodes; `None`: some of them are not known because of other errors.
pub(crate) fn read(root: &mut TableReader<'_, '_>, specs: Option<&[NodeSpec]>) -> Vec<PowerBudget> {
    root.tables("power_budgets").into_iter().flat_map(|table| budgets(table, specs)).collect()
}

/// The budgets of one table: one, or with `per_node` one for each node.
fn budgets(table: TableReader<'_, '_>, specs: Option<&[NodeSpec]>) -> Vec<PowerBudget> {
    let nodes = nodes(&table);
    let watts = table.number("watts", 1..MOST_WATTS + 1);
    if !table.has("watts") {
        let hint = "add watts = 12000, what the GPUs of these nodes may draw together".to_owned();
        table.errors.push(table.span.clone(), "[[power_budgets]] has no watts", Some(hint));
    }
    let floor_w = gpu_watts(&table, "floor_w");
    let per_node = table.boolean("per_node").unwrap_or(false);
    let mut read = Vec::new();
    if let (Some(At { value: nodes, span }), Some(watts)) = (nodes, watts) {
        let groups: Vec<Vec<String>> =
            if per_node { nodes.into_iter().map(|node| vec![node]).collect() } else { vec![nodes] };
        let budget = |nodes: Vec<String>| PowerBudget {
            name: compress(&nodes),
            nodes,
            watts: u32::try_from(watts.value).unwrap_or(u32::MAX),
            floor_w,
        };
        read.extend(groups.into_iter().map(budget));
        let problem = specs.and_then(|specs| read.iter().find_map(|budget| problem(budget, specs)));
        if let Some(Problem { on, what, hint }) = problem {
            let place = match on {
                On::Nodes => span,
                On::Floor => table.key_span("floor_w"),
                On::Watts => watts.span,
            };
            table.errors.push(place, what, Some(hint));
        }
    }
    table.finish();
    read
}

fn nodes(table: &TableReader<'_, '_>) -> Option<At<Vec<String>>> {
    if !table.has("nodes") {
        let hint = "add nodes = \"n[1-8]\", a Slurm hostlist".to_owned();
        table.errors.push(table.span.clone(), "[[power_budgets]] has no nodes", Some(hint));
        return None;
    }
    table.parsed("nodes", |text| {
        let mut names = expand(text).map_err(|e| {
            (format!("nodes = {text:?} {e}"), Some("write a Slurm hostlist such as n[1-4,7]".to_owned()))
        })?;
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok(names)
    })
}

/// The key that is wrong.
enum On {
    Nodes,
    Floor,
    Watts,
}

struct Problem {
    on: On,
    what: String,
    hint: String,
}

/// Finds the first error of a budget as such.
fn problem(budget: &PowerBudget, specs: &[NodeSpec]) -> Option<Problem> {
    let mut idle = 0_u64;
    let mut gpus = 0;
    // What the cheapest start adds.
    let mut least: Option<(u32, u16)> = None;
    for name in &budget.nodes {
        let Some(spec) = specs.iter().find(|spec| spec.names.contains(name)) else {
            let what = format!("node {name} is not in any [[nodes]]");
            return Some(Problem {
                on: On::Nodes,
                what,
                hint: "describe it there, or leave it out".to_owned(),
            });
        };
        let (cap_w, idle_w) = match (spec.power.cap_w, spec.power.idle_w) {
            (Some(cap_w), Some(idle_w)) => (cap_w, idle_w),
            (cap_w, _) => {
                let (key, column) =
                    if cap_w.is_none() { ("cap_w", "FOUND") } else { ("idle_w", "DRAW, without jobs,") };
                return Some(Problem {
                    on: On::Nodes,
                    what: format!("node {name} has no {key}, which a power budget needs"),
                    hint: format!(
                        "add {key} to its [[nodes]]: `tessera power status` shows it as {column} there"
                    ),
                });
            }
        };
        let floor = budget.floor_w.unwrap_or(cap_w);
        if floor > cap_w || floor <= idle_w {
            return Some(Problem {
                on: On::Floor,
                what: format!("floor_w = {floor} is no cap for the GPUs of {name}"),
                hint: format!("use more than idle_w = {idle_w} and at most cap_w = {cap_w}"),
            });
        }
        gpus += spec.gpus.len();
        idle += u64::from(idle_w) * spec.gpus.len() as u64;
        let rise = (u32::from(floor - idle_w), floor);
        least = Some(least.map_or(rise, |known| known.min(rise)));
    }
    let (rise, floor) = least?;
    let enough = idle + u64::from(rise);
    let PowerBudget { name, watts, .. } = budget;
    let hint = format!("use {enough} or more: idle GPUs, and one with a job at {floor} W");
    let draw = if gpus == 1 { "draws" } else { "draw" };
    let what = if u64::from(*watts) < idle {
        format!(
            "{watts} W is less than the {} of {name} {draw}, {idle} W",
            geometry::counted(gpus, "idle GPU")
        )
    } else if u64::from(*watts) < enough {
        format!(
            "with {watts} W no job could ever start: the {} of {name} {draw} {idle} W",
            geometry::counted(gpus, "idle GPU")
        )
    } else {
        return None;
    };
    Some(Problem { on: On::Watts, what, hint })
}
