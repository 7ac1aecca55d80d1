//! The lines of gres.conf: shards for every node, GPUs only where no line has them.

use site_config::hostlist::expand;
use site_problems::shards_in_gres_conf;
use slurm_files::{GpuOrder, gpu_order};

use super::super::conf::{ConfFile, Logical};
use super::super::discovered::Discovered;
use super::super::marks::Edit;
use super::{Files, Plan};

pub(super) fn plan(files: &Files, kinds: &[Discovered], plan: &mut Plan) {
    let file = &files.gres;
    let mut lines = Vec::new();
    for kind in kinds {
        let Some(node) = kind.nodes.first() else { continue };
        if let Err(why) = check(file, kind, node) {
            plan.problems.push(format!("{}: {why}", file.path.display()));
            continue;
        }
        if finds_gpus_itself(file, node) {
            plan.notes.push(format!(
                "{}: AutoDetect stays as it is: slurmd finds the GPUs of {} by itself, as whole GPUs even while jobs have instances \
                 of them, and Tessera adds the shards alone",
                file.path.display(),
                kind.names
            ));
        } else if !names_gpus(file, node) {
            lines.extend(kind.gpu_lines.iter().cloned());
        }
        if shards_in_gres_conf(file.text.as_deref().unwrap_or_default(), node).is_none() {
            lines.push(kind.shard_line.clone());
        }
    }
    let edits = if lines.is_empty() { Vec::new() } else { vec![Edit::add(&lines)] };
    plan.change(file, edits);
}

/// Compares the file with the GPUs that the node has.
fn check(file: &ConfFile, kind: &Discovered, node: &str) -> Result<(), String> {
    let text = file.text.as_deref().unwrap_or_default();
    let order = gpu_order(text, node).map_err(|why| format!("it cannot be read for {node}: {why}"))?;
    if let GpuOrder::Files(files) = order
        && u32::try_from(files.len()) != Ok(kind.gpus)
    {
        return Err(format!(
            "it has {} GPUs for {node}, which has {}: correct its File=, then run this again",
            files.len(),
            kind.gpus
        ));
    }
    match shards_in_gres_conf(text, node) {
        Some(shards) if shards != kind.shards => Err(format!(
            "it has {shards} shards for {node}, whose GPUs come to {}: correct Count= of its shards, then run this again",
            kind.shards
        )),
        _ => Ok(()),
    }
}

/// Tells whether slurmd finds this node's GPUs without lines for them.
fn finds_gpus_itself(file: &ConfFile, node: &str) -> bool {
    slurm_files::AutoDetect::of(file.text.as_deref().unwrap_or_default()).on(node)
}

/// Tells whether any line is about this node's GPUs.
fn names_gpus(file: &ConfFile, node: &str) -> bool {
    let is_here = |line: &Logical| {
        let list = line.fields.field("NodeName");
        list.is_none_or(|list| expand(list).unwrap_or_default().iter().any(|name| name == node))
    };
    let is_gpu =
        |line: &Logical| line.fields.field("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
    file.logical().iter().any(|line| is_gpu(line) && is_here(line))
}
