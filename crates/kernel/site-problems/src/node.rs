//! Compares a file with one node: its paths, and the power limits that its GPUs take.

use std::path::Path;

use site_config::hostlist;
use slurm_names::walk;
use toml_tables::ConfigError;
use toml_tables::{At, TableReader};

/// Facts about a node that a description is compared with.
pub struct OnNode<'a> {
    /// Name in Slurm.
    pub name: &'a str,
    /// Tells whether this path exists there.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// The number of each GPU with the least and the highest power limit that it takes, W.
    pub limits_w: &'a [(u16, u32, u32)],
}

/// Paths of `[node]`, with what fails without them. The pool's are used only on sites that have one.
const PATHS: [(&str, &str); 6] = [
    ("dev_root", "no device node is found there"),
    ("proc_root", "the driver's files are not found there"),
    ("nvml_library", "no job with GPUs can start"),
    ("mps_control", "no job with a share can start"),
    ("task_broker", "no job with GPU tasks can start"),
    ("task_library", "no program of a job with GPU tasks can start"),
];
const OF_POOL: [&str; 2] = ["task_broker", "task_library"];

/// Finds paths of a file without errors that a node does not have, and power limits that its GPUs do not take.
#[must_use]
pub fn problems_on_node(file_name: &str, text: &str, node: &OnNode<'_>) -> Vec<ConfigError> {
    walk(file_name, text, |root| {
        if let Some(table) = root.table("node") {
            let used = |key: &str| !OF_POOL.contains(&key) || root.has("tasks");
            PATHS.iter().filter(|(key, _)| used(key)).for_each(|(key, fails)| path(&table, key, fails, node));
        }
        for set in root.tables("nodes") {
            limit(&set, "names", "cap_w", node);
        }
        for budget in root.tables("power_budgets") {
            limit(&budget, "nodes", "floor_w", node);
        }
    })
}

fn path(table: &TableReader<'_, '_>, key: &'static str, fails: &str, node: &OnNode<'_>) {
    let Some(At { value, span }) = table.string(key) else { return };
    let here = value.replace("%n", node.name);
    // The dynamic linker searches for a library without a directory.
    if !here.starts_with('/') || (node.exists)(Path::new(&here)) {
        return;
    }
    let what = format!("{here} does not exist on {}: {fails}", node.name);
    table.errors.push(span, what, Some(format!("correct {key}, or install what is missing")));
}

/// Reports watts that some GPU of the node does not take, if `list` has the node.
fn limit(table: &TableReader<'_, '_>, list: &'static str, key: &'static str, node: &OnNode<'_>) {
    let names = table.string(list).and_then(|at| hostlist::expand(&at.value).ok()).unwrap_or_default();
    if !names.iter().any(|name| name == node.name) || !table.has(key) {
        return;
    }
    let Some(At { value: watts, span }) = table.number(key, 0..u64::MAX) else { return };
    let refuses =
        |(_, least, most): &&(u16, u32, u32)| !(u64::from(*least)..=u64::from(*most)).contains(&watts);
    if let Some((gpu, least, most)) = node.limits_w.iter().find(refuses) {
        let what = format!("{key} = {watts} is no power limit that GPU {gpu} of {} takes", node.name);
        table.errors.push(span, what, Some(format!("use {least} to {most}")));
    }
}
