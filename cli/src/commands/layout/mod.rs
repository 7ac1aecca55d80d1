//! `tessera layout`: each GPU drawn as its slices.

mod args;
mod source;
mod watch;

pub(crate) use source::{from_text, named};

use site_config::SiteConfig;

pub(crate) use args::LayoutArgs;

use crate::cluster_snapshot::NodeSeen;
use crate::files::write_out;
use crate::fragmentation::wholeness;
use crate::globals::Globals;
use crate::local_node::{Local, ending, require_root};
use crate::node_groups::{self, MOST_SINGLE};
use crate::outcome::{Failure, Outcome};
use crate::render::colour::Paint;
use crate::render::layout::{json, svg, text};
use crate::render::terminal;
use crate::site;

pub(crate) fn run(args: &LayoutArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let once = || once(args, &site::load(globals.config.as_deref())?);
    if args.watch { watch::watch(args.every, &once) } else { once() }
}

fn once(args: &LayoutArgs, config: &SiteConfig) -> Result<Outcome, Failure> {
    let nodes = if args.live { vec![live(args, config)?] } else { source::nodes(args, config)? };
    if let Some(path) = &args.svg {
        return write_out(path, svg::picture(&nodes, args.fits.as_deref()));
    }
    let whole = wholeness(&nodes.iter().collect::<Vec<_>>());
    let said = whole.words().map_or_else(String::new, |words| format!("\n{}\n", words.join("\n")));
    if args.json {
        return Ok(Outcome::json(&json::value(&nodes, &whole), 0));
    }
    if nodes.is_empty() {
        let text = match &args.user {
            Some(user) => format!("{user} has no job on these nodes\n"),
            None => "no node of tessera.toml is left to draw\n".to_owned(),
        };
        return Ok(Outcome::ok(text));
    }
    if args.summary || (nodes.len() > MOST_SINGLE && !args.all) {
        let summary = node_groups::summary(&nodes.iter().collect::<Vec<_>>(), terminal::width());
        return Ok(Outcome::ok(summary + &said));
    }
    Ok(Outcome::ok(text::picture(&nodes, Paint::new(args.color), terminal::width()) + &said))
}

/// Reads this node from its own driver and journal.
fn live(args: &LayoutArgs, config: &SiteConfig) -> Result<NodeSeen, Failure> {
    require_root("tessera layout --here")?;
    let local = Local::new(config, args.node.as_deref())?;
    let inspection = gpu_node::inspect(&local.settings, None).map_err(|e| Failure::of(&e))?;
    Ok(local.drawn(&inspection, &ending(&local.name, &inspection.entries)))
}
