//! The nodes of tessera.toml.

use std::collections::BTreeSet;

use super::super::discovered::Discovered;
use super::super::marks::Edit;
use super::{Files, Plan};

pub(super) fn plan(files: &Files, kinds: &[Discovered], plan: &mut Plan) {
    let file = &files.tessera;
    let shown = file.path.display();
    let known = match nodes(files, plan) {
        Some(known) => known,
        None if kinds.is_empty() => {
            plan.problems.push(format!(
                "{shown} is not there, and no GPU is found on this machine: run `tessera discover --format all > FILE` on a node of each kind, \
                 then `tessera setup --from FILE` here"
            ));
            return;
        }
        None => BTreeSet::new(),
    };
    let mut edits = Vec::new();
    for kind in kinds {
        let has = kind.nodes.iter().filter(|node| known.contains(*node)).count();
        if has == kind.nodes.len() {
            continue;
        }
        if has > 0 {
            plan.problems.push(format!(
                "{shown} describes some of {} and not others: correct its names, or name the others by --node",
                kind.names
            ));
            continue;
        }
        edits.push(Edit::add(&kind.toml));
    }
    plan.change(file, edits);
}

/// Nodes that the file describes; `None` without a file.
fn nodes(files: &Files, plan: &mut Plan) -> Option<BTreeSet<String>> {
    let text = files.tessera.text.as_deref()?;
    let name = files.tessera.path.display().to_string();
    let part = |part: &str| {
        files.parts_of_tessera.get(part).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    let (config, errors) = site_config::parse(&name, text, &part);
    if let Some(config) = config {
        return Some(config.nodes.into_iter().flat_map(|spec| spec.names).collect());
    }
    // A first file may have everything but nodes.
    if !text.contains("[[nodes]]") && !text.contains("discovered") {
        return Some(BTreeSet::new());
    }
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    plan.problems.push(format!("{name} has errors, `tessera check` shows them all: {first}"));
    Some(BTreeSet::new())
}
