//! `tessera free`: what could start now, and where.

mod args;
mod count;
mod shapes;
mod text;

use std::collections::HashMap;

use admission::Submission;
use geometry::{JobId, Model, Uid};
use node_state::Policy;
use serde_json::json;
use site_config::SiteConfig;

pub(crate) use args::FreeArgs;
use count::{Free, Present};

use crate::commands::layout;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::{scontrol, sinfo, squeue};
use crate::{files, published, site};

/// The user whose shares the caller may not join: no real user has this id.
const SOMEBODY: Uid = Uid(u32::MAX);

pub(crate) fn run(args: &FreeArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let (nodes, left_out) = present(args, &config)?;
    let who = Submission {
        partitions: args.partition.iter().cloned().collect(),
        account: args.account.clone(),
        ..Submission::default()
    };
    let policy = Policy { sets: config.sets(args.partition.as_deref()), ..config.policy() };
    let uid = Uid(rustix::process::getuid().as_raw());
    let gpus = || nodes.iter().flat_map(|n| &n.node.gpus);
    let mut models: Vec<&Model> = Vec::new();
    for gpu in gpus().filter(|gpu| gpu.model.has_mig()) {
        if !models.iter().any(|known| std::ptr::eq(*known, gpu.model)) {
            models.push(gpu.model);
        }
    }
    let most = nodes.iter().map(|n| n.node.gpus.len()).max().unwrap_or(0);
    let shapes = shapes::shapes(&config, &models, most, args.mem);
    let all: Vec<Free> =
        shapes.into_iter().map(|s| count::count(s, &who, &nodes, &config, &policy, uid)).collect();
    if args.json {
        return Ok(Outcome::json(&as_json(&all, &left_out), 0));
    }
    Ok(Outcome::ok(text::table(&all, &left_out)))
}

/// The nodes that take jobs, as they are now, and the names of those that take none.
fn present(args: &FreeArgs, config: &SiteConfig) -> Result<(Vec<Present>, Vec<String>), Failure> {
    let wanted = args.node.as_deref().map(|list| layout::named(list, config)).transpose()?;
    let (layouts, owners, usable) = match &args.from {
        Some(path) => (layout::from_text(&files::read_text(path)?), HashMap::new(), None),
        None => (scontrol::layouts()?, squeue::owners()?, Some(sinfo::usable()?)),
    };
    let own = Uid(rustix::process::getuid().as_raw());
    let owner =
        |job: JobId| if usable.is_none() { own } else { owners.get(&job).copied().unwrap_or(SOMEBODY) };
    let (mut nodes, mut left_out, mut states) = (Vec::new(), Vec::new(), HashMap::new());
    for (set, (spec, name)) in
        config.nodes.iter().enumerate().flat_map(|(set, s)| s.names.iter().map(move |n| (set, (s, n))))
    {
        if wanted.as_ref().is_some_and(|w| !w.contains(name)) {
            continue;
        }
        let partitions = usable.as_ref().map(|usable| usable.get(name));
        let in_partition = |all: &Vec<String>| args.partition.as_ref().is_none_or(|p| all.contains(p));
        match partitions {
            Some(None) => {
                left_out.push(name.clone());
                continue;
            }
            Some(Some(all)) if !in_partition(all) => continue,
            _ => {}
        }
        // A node without a published layout is Slurm's alone.
        let Some(line) = layouts.get(name) else { continue };
        let layout = published::read(line, &spec.gpus)
            .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        let mut node = spec.to_node();
        published::take_over(&layout, &mut node, &owner);
        let fresh = states.len();
        let state = *states.entry((set, line.clone())).or_insert(fresh);
        nodes.push(Present { name: name.clone(), node, state });
    }
    Ok((nodes, left_out))
}

fn as_json(all: &[Free], left_out: &[String]) -> serde_json::Value {
    let shape = |free: &Free| {
        let mut value =
            json!({ "shape": free.shape.name, "options": free.shape.options, "now": free.total() });
        match &free.nodes {
            Ok(nodes) => {
                value["nodes"] = nodes.iter().map(|(node, n)| json!({ "node": node, "now": n })).collect()
            }
            Err(why) => value["refused"] = why.as_str().into(),
        }
        value
    };
    json!({ "shapes": all.iter().map(shape).collect::<Vec<_>>(), "not_taking_jobs": left_out })
}
