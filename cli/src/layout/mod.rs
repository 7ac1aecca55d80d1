//! `tessera layout`: each GPU drawn as its slices.

mod json;
mod pieces;
mod source;
mod state;
mod svg;
mod text;

use std::fs;

use placement::Model;
use placement::layout::GpuLayout;
use site_config::SiteConfig;

use crate::args::{Cli, LayoutArgs};
use crate::local::{Local, chain, require_root};
use crate::outcome::{Failure, Outcome};
use crate::paint::Paint;
use crate::site;

pub(crate) use json::node as node_json;
pub(crate) use state::{read, take_over};
pub(crate) use text::picture as text_picture;

/// One node to draw.
pub(crate) struct Drawn {
    pub(crate) name: String,
    /// The interconnect's name, for the title.
    pub(crate) links: String,
    /// In NVML order.
    pub(crate) gpus: Vec<(&'static Model, GpuLayout)>,
    /// What the reader should know of where the state comes from.
    pub(crate) note: Option<String>,
}

pub(crate) fn run(args: &LayoutArgs, cli: &Cli) -> Result<Outcome, Failure> {
    let config = site::load(cli.config.as_deref())?;
    let nodes = if args.live { vec![live(args, &config)?] } else { source::nodes(args, &config)? };
    if let Some(path) = &args.svg {
        let picture = svg::picture(&nodes);
        if path.as_os_str() == "-" {
            return Ok(Outcome::ok(picture));
        }
        fs::write(path, picture)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
        return Ok(Outcome::ok(""));
    }
    if args.json {
        return Ok(Outcome::json(&json::value(&nodes), 0));
    }
    Ok(Outcome::ok(text::picture(&nodes, Paint::new(args.color))))
}

/// This node, from its own driver and journal.
fn live(args: &LayoutArgs, config: &SiteConfig) -> Result<Drawn, Failure> {
    require_root("tessera layout --live")?;
    let local = Local::new(config, args.node.as_deref())?;
    let inspection = gpu_node::inspect(&local.settings, None).map_err(|e| Failure::new(chain(&e)))?;
    Ok(crate::node::drawn(&local, &inspection))
}
