//! Reads `[[nodes]]`: the nodes, their GPUs and the links between these.

use std::collections::HashMap;

use geometry::Model;
use gpu_rules::MigPolicy;
use topology::{HardwareGraph, System, systems};

use crate::budgets;
use crate::hostlist;
use crate::matrix::{BESIDE, ReadFile, discovered, matrix};
use crate::models::Models;
use crate::power;
use crate::types::{NodePower, NodeSpec};
use crate::uses;
use toml_tables::{At, TableReader};

/// Most GPUs of a node; no machine has more.
const MOST_GPUS: u64 = 64;

/// Contents of all `[[nodes]]`.
pub(crate) struct Nodes {
    /// The node sets without errors.
    pub(crate) specs: Vec<NodeSpec>,
    /// The models of all sets, each once, including sets with other errors. If the model of any set is unknown, every
    /// known model. So a check against them never reports a consequence of another error.
    pub(crate) models: Vec<&'static Model>,
    /// No set is missing because of errors.
    pub(crate) complete: bool,
}

pub(crate) fn read(root: &mut TableReader<'_, '_>, read_file: ReadFile<'_>) -> Nodes {
    let known = Models::read(root);
    let tables = root.tables("nodes");
    if tables.is_empty() && !root.has("nodes") {
        let hint = "add [[nodes]] with names, gpu and count; `tessera discover` writes one".to_owned();
        root.errors.push(0..0, "the file describes no nodes", Some(hint));
    }
    let (mut seen, mut models) = (HashMap::new(), Some(Vec::new()));
    let described = tables.len();
    let set = |table| node_set(table, &known, read_file, &mut seen, &mut models);
    let specs: Vec<NodeSpec> = tables.into_iter().filter_map(set).collect();
    let models = models.filter(|m| !m.is_empty()).unwrap_or_else(|| Model::all().iter().collect());
    let complete = specs.len() == described;
    Nodes { specs, models, complete }
}

/// Reads one `[[nodes]]`. `None` if a necessary part is missing or wrong; the errors then name it.
fn node_set(
    table: TableReader<'_, '_>,
    known: &Models,
    read_file: ReadFile<'_>,
    seen: &mut HashMap<String, String>,
    models: &mut Option<Vec<&'static Model>>,
) -> Option<NodeSpec> {
    let names = names(&table, seen);
    let gpus = gpus(&table, known);
    match (&gpus, models.as_mut()) {
        (Some(gpus), Some(known)) => {
            for model in gpus {
                if !known.iter().any(|k| k.key == model.key) {
                    known.push(model);
                }
            }
        }
        _ => *models = None,
    }
    let policies = [("on", MigPolicy::On), ("off", MigPolicy::Off), ("dynamic", MigPolicy::Dynamic)];
    let mig = if table.has("mig") { table.word("mig", &policies) } else { Some(MigPolicy::Dynamic) };
    let asked = table.has("mig").then_some(mig).flatten();
    if let Some(model) = gpus.as_deref().and_then(|g| without_mig(g, asked?)) {
        let what = format!("no GPU of these nodes can be partitioned: {} has no MIG", model.key);
        table.errors.push(
            table.key_span("mig"),
            what,
            Some("leave mig out, or write mig = \"off\"".to_owned()),
        );
    }
    let links = links(&table, gpus.as_deref(), read_file);
    let uses = uses::read(&table, gpus.as_deref());
    let keep_uncut = uses::keep_uncut(&table, uses.as_deref(), mig);
    let power = budgets::of_nodes(&table);
    let memory_fence = table.boolean("memory_fence").unwrap_or(false);
    let model = power::model(&table, gpus.as_deref(), read_file);
    let power = power.zip(model.ok()).map(|(power, model)| NodePower { model, ..power });
    table.finish();
    let (interconnect, links) = links.map(|(name, graph)| (name, graph.into()))?;
    let (uses, keep_uncut, power) = (uses?, keep_uncut?, power?);
    let (names, gpus, mig) = (names?, gpus?, mig?);
    Some(NodeSpec { names, gpus, mig, uses, keep_uncut, links, interconnect, memory_fence, power })
}

/// A model that cannot be in MIG mode, if the site asks for the mode and all of the nodes' GPUs are such.
fn without_mig(gpus: &[&'static Model], asked: MigPolicy) -> Option<&'static Model> {
    let none = asked != MigPolicy::Off && gpus.iter().all(|m| !m.has_mig());
    gpus.first().copied().filter(|_| none)
}

fn names(table: &TableReader<'_, '_>, seen: &mut HashMap<String, String>) -> Option<Vec<String>> {
    let Some(_) = table.get("names") else {
        let hint = "add names = \"n[1-2]\", a Slurm hostlist".to_owned();
        table.errors.push(table.span.clone(), "[[nodes]] has no names", Some(hint));
        return None;
    };
    let expand = |text: &str| {
        let hint = || Some("write a Slurm hostlist such as n[1-4,7]".to_owned());
        hostlist::expand(text)
            .map(|n| (text.to_owned(), n))
            .map_err(|e| (format!("names = {text:?} {e}"), hint()))
    };
    let At { value: (written, names), span } = table.parsed("names", expand)?;
    for name in &names {
        if let Some(before) = seen.insert(name.clone(), written.clone()) {
            let what = if before == written {
                format!("node {name} is named twice")
            } else {
                format!("node {name} is already in names = {before:?}")
            };
            table.errors.push(span, what, None);
            return None;
        }
    }
    Some(names)
}

/// The model of each GPU, from `gpu` and `count` or from `gpus`.
fn gpus(table: &TableReader<'_, '_>, known: &Models) -> Option<Vec<&'static Model>> {
    let count = table.number("count", 1..MOST_GPUS + 1);
    let one = table.parsed("gpu", |text| known.find(text));
    let many = table.strings("gpus");
    let errors = table.errors;
    match (table.has("gpu"), many) {
        (true, Some(_)) => {
            let hint = Some("use gpu for one model, or gpus for a list".to_owned());
            errors.push(table.key_span("gpus"), "gpu and gpus are both given", hint);
            None
        }
        (true, None) => {
            if !table.has("count") {
                let hint = Some("add count = 8, the number of GPUs of each node".to_owned());
                errors.push(table.key_span("gpu"), "gpu needs count", hint);
            }
            Some(vec![one?.value; usize::try_from(count?.value).ok()?])
        }
        (false, Some(list)) => {
            let asked = list.len();
            if asked == 0 {
                errors.push(table.key_span("gpus"), "gpus is empty", None);
            }
            if let Some(count) = count.filter(|c| usize::try_from(c.value) != Ok(asked)) {
                let what =
                    format!("count is {}, but gpus lists {}", count.value, geometry::counted(asked, "GPU"));
                errors.push(count.span, what, Some("leave count out".to_owned()));
            }
            let found = list.into_iter().filter_map(|At { value, span }| {
                known.find(&value).map_err(|(what, hint)| errors.push(span, what, hint)).ok()
            });
            let found: Vec<_> = found.collect();
            (found.len() == asked && asked > 0).then_some(found)
        }
        (false, None) => {
            if !table.has("gpus") {
                let hint = Some("add gpu = \"a100-40gb\" and count = 8".to_owned());
                errors.push(table.span.clone(), "[[nodes]] has no gpu", hint);
            }
            None
        }
    }
}

/// The name of the interconnect and the links between these GPUs; PCIe alone if the file names none.
fn links(
    table: &TableReader<'_, '_>,
    gpus: Option<&[&'static Model]>,
    read_file: ReadFile<'_>,
) -> Option<(String, HardwareGraph)> {
    let ways = ["interconnect", "matrix", "discovered"];
    let given: Vec<&str> = ways.into_iter().filter(|w| table.has(w)).collect();
    let system = table.parsed("interconnect", system);
    let file = table.string("discovered");
    for key in BESIDE.into_iter().chain(["matrix"]) {
        table.get(key);
    }
    if let [first, second, ..] = given[..] {
        let hint = Some("give only one of interconnect, matrix, discovered".to_owned());
        table.errors.push(table.key_span(second), format!("{first} and {second} are both given"), hint);
        return None;
    }
    let n = gpus.map(<[_]>::len);
    if given != ["matrix"] {
        for key in BESIDE.into_iter().filter(|k| table.has(k)) {
            let hint = Some("a named or discovered interconnect already has it".to_owned());
            table.errors.push(table.key_span(key), format!("{key} is only for a matrix"), hint);
        }
    }
    match given.first() {
        None => Some(("pcie".to_owned(), System::find("pcie")?.graph(n?)?)),
        Some(&"interconnect") => of_system(table, &system?, n?),
        Some(&"matrix") => {
            let model = gpus.and_then(|g| g.first()).copied();
            matrix(table, n, model).map(|m| ("matrix".to_owned(), m))
        }
        Some(_) => discovered(table, &file?, gpus, read_file),
    }
}

fn system(text: &str) -> Result<&'static System, (String, Option<String>)> {
    System::find(text).ok_or_else(|| {
        let names: Vec<&str> = systems().iter().map(|s| s.name.as_str()).collect();
        (format!("unknown interconnect {text:?}"), Some(toml_tables::suggest(text, &names)))
    })
}

fn of_system(
    table: &TableReader<'_, '_>,
    system: &At<&'static System>,
    n: usize,
) -> Option<(String, HardwareGraph)> {
    let At { value: system, span } = system;
    let matrix = system.graph(n);
    if matrix.is_none() {
        let what = format!("interconnect {} links {} GPUs, not {n}", system.name, system.size);
        let hint = "for another number of GPUs, give a matrix or discovered = FILE".to_owned();
        table.errors.push(span.clone(), what, Some(hint));
    }
    matrix.map(|m| (system.name.clone(), m))
}
