//! Sources of the state of the nodes.

use std::collections::{HashMap, HashSet};

use protocol::node_word::split;
use site_config::{SiteConfig, hostlist};

use super::args::LayoutArgs;
use crate::cluster_snapshot::{self, ClusterSnapshot, NodeSeen};
use crate::files::read_text;
use crate::filter::Filter;
use crate::outcome::Failure;
use crate::site;
use crate::slurm::sinfo;

/// The nodes to draw, in the order of `tessera.toml`.
pub(crate) fn nodes(args: &LayoutArgs, config: &SiteConfig) -> Result<Vec<NodeSeen>, Failure> {
    let text = |option: &Option<String>| option.clone().unwrap_or_default();
    if let Some(list) = &args.node {
        named(list, config)?;
    }
    let filter = Filter::new(&text(&args.node), &text(&args.partition), &text(&args.user), "");
    let filter = filter.map_err(Failure::new)?;
    let mut seen = match &args.from {
        Some(path) => in_file(&from_text(&read_text(path)?), args.node.is_some(), config)?,
        None => {
            let seen = cluster_snapshot::look(config)?;
            filter.refuse_unknown(&seen)?;
            seen
        }
    };
    seen.name_users();
    let wanted: HashSet<String> = filter.nodes(&seen).into_iter().map(|node| node.name.clone()).collect();
    seen.nodes.retain(|node| wanted.contains(&node.name));
    Ok(seen.nodes)
}

/// The nodes of a file's layouts; with `all`, those of which it has none too.
fn in_file(
    layouts: &HashMap<String, String>,
    all: bool,
    config: &SiteConfig,
) -> Result<ClusterSnapshot, Failure> {
    let mut nodes = Vec::new();
    for (spec, name) in config.nodes.iter().flat_map(|s| s.names.iter().map(move |n| (s, n))) {
        let line = layouts.get(name).map(String::as_str);
        let node =
            NodeSeen::of(spec, name, sinfo::SinfoNode { takes_jobs: true, ..Default::default() }, line);
        match &node.gpus {
            Err(why) if line.is_some() => return Err(Failure::new(format!("layout of {name}: {why}"))),
            _ if line.is_some() || all => nodes.push(node),
            _ => {}
        }
    }
    Ok(ClusterSnapshot { nodes, jobs: Vec::new(), idle_words: None, at: 0, took_s: 0.0 })
}

/// The names of a hostlist; an error if tessera.toml lacks one.
pub(crate) fn named(list: &str, config: &SiteConfig) -> Result<Vec<String>, Failure> {
    let names = hostlist::expand(list).map_err(|why| Failure::new(format!("--node={list:?} {why}")))?;
    match names.iter().find(|n| config.node(n).is_none()) {
        Some(unknown) => Err(site::unknown_node(unknown, config)),
        None => Ok(names),
    }
}

/// Lines as `sinfo -O nodelist,extra` prints them: a name, spaces, a layout. Other lines are passed over.
pub(crate) fn from_text(text: &str) -> HashMap<String, String> {
    let line = |l: &str| {
        let (name, layout) = l.trim().split_once(char::is_whitespace)?;
        let layout = split(layout.trim_start()).0;
        layout.starts_with("tessera").then(|| (name.to_owned(), layout.to_owned()))
    };
    text.lines().filter_map(line).collect()
}
