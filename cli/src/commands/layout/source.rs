//! Where the state of the nodes comes from.

use std::collections::HashMap;

use site_config::{SiteConfig, hostlist};

use super::args::LayoutArgs;
use crate::files::read_text;
use crate::local::ending_note;
use crate::outcome::Failure;
use crate::render::layout::Drawn;
use crate::slurm::scontrol;
use crate::{published, site};

/// The nodes to draw, in the order of `tessera.toml`.
pub(crate) fn nodes(args: &LayoutArgs, config: &SiteConfig) -> Result<Vec<Drawn>, Failure> {
    let wanted = args.node.as_deref().map(|list| named(list, config)).transpose()?;
    let layouts = match &args.from {
        Some(path) => from_text(&read_text(path)?),
        None => scontrol::layouts()?,
    };
    let mut drawn = Vec::new();
    for (spec, name) in config.nodes.iter().flat_map(|s| s.names.iter().map(move |n| (s, n))) {
        if wanted.as_ref().is_some_and(|w| !w.contains(name)) {
            continue;
        }
        let (layout, note) = match layouts.get(name) {
            Some(line) => {
                let layout = published::read(line, &spec.gpus)
                    .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
                let cut = layout.cut.then(|| "the published line ended early".to_owned());
                let note = [cut, ending_note(layout.ending.iter().copied())]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>();
                (layout, (!note.is_empty()).then(|| note.join("; ")))
            }
            // A file with some nodes means those.
            None if args.from.is_some() && wanted.is_none() => continue,
            None => (node_state::layout_of(&spec.to_node()), Some("no layout published".to_owned())),
        };
        let gpus = spec.gpus.iter().copied().zip(layout.gpus).collect();
        drawn.push(Drawn { name: name.clone(), links: spec.interconnect.clone(), gpus, note });
    }
    Ok(drawn)
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
        let layout = layout.trim_start();
        layout.starts_with("tessera").then(|| (name.to_owned(), layout.to_owned()))
    };
    text.lines().filter_map(line).collect()
}
