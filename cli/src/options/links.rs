//! The links that a command is about: those of a named system, of a file, of one node of tessera.toml or of all.

use std::path::Path;

use clap::Args;
use site_config::{NodeSpec, SiteConfig, System};
use topology::HardwareGraph;

use crate::files::read_text;
use crate::globals::Globals;
use crate::outcome::Failure;
use crate::site;

// A doc comment here would take the place of the command's own.
#[derive(Args)]
pub(crate) struct TopologyArgs {
    /// A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node
    ///
    /// By default the nodes of tessera.toml.
    #[arg(long, value_name = "NAME|FILE|NODE")]
    topology: Option<String>,
}

/// Nodes that are linked alike.
pub(crate) struct Linked {
    /// As a heading: `n1: 8 x a100-40gb, links dgx-v`; the name alone where it was given.
    pub(crate) title: String,
    pub(crate) graph: HardwareGraph,
}

impl TopologyArgs {
    /// The links that are named, else those of tessera.toml's nodes, which must all be alike. A system that fits any
    /// number of GPUs gets `gpus`.
    pub(crate) fn one(&self, globals: &Globals, gpus: usize) -> Result<HardwareGraph, Failure> {
        if let Some(named) = &self.topology {
            return graph(named, globals, gpus);
        }
        let mut all = of_site(globals)?;
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only.graph),
            _ => Err(Failure::new("--topology is needed: the nodes of tessera.toml have different links")
                .hint("--topology=n1 takes the links of node n1")),
        }
    }

    /// The links that are named, else those of each set of tessera.toml's nodes.
    pub(crate) fn all(&self, globals: &Globals) -> Result<Vec<Linked>, Failure> {
        match &self.topology {
            Some(named) => Ok(vec![Linked { title: named.clone(), graph: graph(named, globals, 8)? }]),
            None => of_site(globals),
        }
    }

    /// True if one was named.
    pub(crate) fn named(&self) -> bool {
        self.topology.is_some()
    }
}

/// Each kind of node of tessera.toml that has several GPUs.
fn of_site(globals: &Globals) -> Result<Vec<Linked>, Failure> {
    let config = load(globals)?;
    let mut all: Vec<Linked> = Vec::new();
    for spec in config.nodes.iter().filter(|spec| spec.gpus.len() > 1) {
        let graph = of_spec(spec);
        match all.iter_mut().find(|known| known.graph == graph) {
            Some(known) => known.title = format!("{}\n{}", known.title, site::title(spec)),
            None => all.push(Linked { title: site::title(spec), graph }),
        }
    }
    if all.is_empty() {
        return Err(Failure::new("tessera.toml has no node with several GPUs").hint(SYSTEMS_HINT));
    }
    Ok(all)
}

const SYSTEMS_HINT: &str = "--topology takes a named system such as dgx-v, a file or a node";

fn load(globals: &Globals) -> Result<SiteConfig, Failure> {
    site::load(globals.config.as_deref()).map_err(|e| Failure::new(e.what()).hint(SYSTEMS_HINT))
}

fn of_spec(spec: &NodeSpec) -> HardwareGraph {
    HardwareGraph::clone(&spec.links)
}

/// The hardware graph of a named system, a file, or a node of tessera.toml, in this order.
pub(crate) fn graph(topology: &str, globals: &Globals, gpus: usize) -> Result<HardwareGraph, Failure> {
    if let Some(system) = System::find(topology) {
        let n = if system.size == 0 { gpus.max(8) } else { system.size };
        return system.graph(n).ok_or_else(|| Failure::new(format!("{topology} has no graph of {n} GPUs")));
    }
    if Path::new(topology).exists() {
        return of_file(topology);
    }
    let site = site::load(globals.config.as_deref());
    if let Some(spec) = site.as_ref().ok().and_then(|site| site.node(topology)) {
        return Ok(of_spec(spec));
    }
    let names: Vec<&str> = site_config::systems().iter().map(|s| s.name.as_str()).collect();
    Err(Failure::new(format!("{topology:?} is not a system, a file, or a node of tessera.toml"))
        .hint(format!("systems: {}", names.join(", "))))
}

fn of_file(path: &str) -> Result<HardwareGraph, Failure> {
    let text = read_text(path.as_ref())?;
    let (graph, errors) = site_config::links_of_file(path, &text);
    let shown: Vec<String> = errors.iter().map(site_problems::shown).collect();
    graph.ok_or_else(|| {
        Failure::new(format!("{path} has no links\n{}", shown.join("\n")))
            .hint("matrix = [[0, 50], [50, 0]], or what `tessera discover` writes")
    })
}
