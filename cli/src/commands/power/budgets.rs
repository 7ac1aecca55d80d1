//! Watts that are committed in the site's power budgets, as slurmctld publishes them with the nodes' layouts.

use std::collections::HashMap;

use node_layout::parse_layout;
use node_state::PowerBudget;
use serde_json::{Value, json};

use crate::render::table;

/// Adds up the watts that the GPUs of a budget's nodes commit; `None`: a node does not say.
pub(crate) fn committed(budget: &PowerBudget, layouts: &HashMap<String, String>) -> Option<u32> {
    let on = |node: &String| parse_layout(layouts.get(node)?.trim()).ok()?.watts;
    budget.nodes.iter().map(on).sum()
}

/// A line for each budget; empty without any.
pub(super) fn text(budgets: &[PowerBudget], layouts: &HashMap<String, String>) -> String {
    if budgets.is_empty() {
        return String::new();
    }
    let mut rows = vec![["BUDGET", "WATTS", "COMMITTED", "FREE", "FLOOR"].map(str::to_owned).to_vec()];
    for budget in budgets {
        let watts = |watts: Option<u32>| watts.map_or_else(|| "-".to_owned(), |watts| format!("{watts} W"));
        let committed = committed(budget, layouts);
        let free = committed.map(|committed| budget.watts.saturating_sub(committed));
        let floor = budget.floor_w.map(u32::from);
        rows.push(vec![
            budget.name.clone(),
            watts(Some(budget.watts)),
            watts(committed),
            watts(free),
            watts(floor),
        ]);
    }
    table::render(&rows, &[1, 2, 3, 4])
}

pub(super) fn as_json(budgets: &[PowerBudget], layouts: &HashMap<String, String>) -> Vec<Value> {
    let one = |budget: &PowerBudget| {
        let committed = committed(budget, layouts);
        json!({
            "nodes": budget.name,
            "watts": budget.watts,
            "floor_w": budget.floor_w,
            "committed_w": committed,
            "free_w": committed.map(|committed| budget.watts.saturating_sub(committed)),
        })
    };
    budgets.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_line_for_each_budget() {
        let budget = |name: &str, nodes: &[&str], floor_w| PowerBudget {
            name: name.to_owned(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            watts: 1200,
            floor_w,
        };
        let budgets = [
            budget("n[1-2]", &["n1", "n2"], Some(200)),
            budget("n3", &["n3"], None),
            budget("n2", &["n2"], None),
        ];
        let layouts = [
            ("n1", "tessera watts=500 gpu0=free"),
            ("n2", "tessera watts=800 gpu0=free"),
            ("n3", "tessera gpu0=free"),
        ];
        let layouts = layouts.into_iter().map(|(node, line)| (node.to_owned(), line.to_owned())).collect();
        assert_snapshot!(text(&budgets, &layouts), @r"
        BUDGET   WATTS  COMMITTED   FREE  FLOOR
        n[1-2]  1200 W     1300 W    0 W  200 W
        n3      1200 W          -      -      -
        n2      1200 W      800 W  400 W      -
        ");
        assert_eq!(as_json(&budgets, &layouts)[0]["committed_w"], json!(1300));
        assert_eq!(as_json(&budgets, &layouts)[1]["free_w"], Value::Null);
        assert_eq!(text(&[], &layouts), "");
    }
}
