//! `tessera topology`: the hardware graph, as a table or drawn.

mod svg;

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use placement::mapa::{Choice, HardwareGraph, Query, choose};
use placement::{GpuIndex, GpuSet};

use crate::globals::Globals;
use crate::options::{self, Sensitivity, links};
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// Show how a node's GPUs are linked
#[derive(Subcommand)]
pub(crate) enum TopologyCommand {
    /// Print links as a table, GB/s in one direction
    Show(TopologyGraphArgs),
    /// Draw the graph as SVG, on standard output
    Svg(TopologyGraphArgs),
}

// A doc comment here would take the place of the command's own.
#[derive(Args)]
pub(crate) struct TopologyGraphArgs {
    /// A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node
    #[arg(value_name = "NAME|FILE|NODE")]
    topology: String,
    /// Mark the set that this many GPUs would get
    #[arg(long, value_name = "N", value_parser = options::gpu_count)]
    gpus: Option<usize>,
    /// The job's pattern, as in `tessera score`
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::options::pattern)]
    pattern: placement::Pattern,
    /// Whether bandwidth matters to the job
    #[arg(long, value_name = "HOW", default_value = "sensitive")]
    bandwidth: Sensitivity,
    /// GPUs that are not free: 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", value_parser = options::gpu_list)]
    busy: GpuSet,
}

pub(crate) fn run(command: &TopologyCommand, globals: &Globals) -> Result<Outcome, Failure> {
    let (TopologyCommand::Show(args) | TopologyCommand::Svg(args)) = command;
    let graph = links::graph(&args.topology, globals, args.gpus.unwrap_or(8))?;
    let free = options::free(&graph, args.busy)?;
    let chosen = args.gpus.map(|n| {
        choose(&Query {
            graph: &graph,
            free,
            next: GpuSet::EMPTY,
            n,
            pattern: &args.pattern,
            sensitive: args.bandwidth == Sensitivity::Sensitive,
            policy: placement::mapa::Selection::Preserve,
            model: placement::mapa::BandwidthModel::default(),
        })
    });
    let chosen = chosen.transpose().map_err(|e| Failure::new(format!("nothing fits: {e}")))?;
    let picture = Picture { graph: &graph, args, chosen: chosen.as_ref() };
    Ok(Outcome::ok(match command {
        TopologyCommand::Show(_) => picture.table(),
        TopologyCommand::Svg(_) => picture.svg(),
    }))
}

/// What is shown: the node's links, and the set chosen on it.
struct Picture<'a> {
    graph: &'a HardwareGraph,
    args: &'a TopologyGraphArgs,
    chosen: Option<&'a Choice>,
}

impl Picture<'_> {
    fn mark(&self, gpu: GpuIndex) -> &'static str {
        match self.chosen {
            _ if self.args.busy.contains(gpu) => "busy",
            Some(c) if c.gpus.contains(gpu) => "chosen",
            _ => "",
        }
    }

    fn table(&self) -> String {
        let graph = self.graph;
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(graph.all().iter().map(|g| format!("GPU{g}")));
        for a in graph.all().iter() {
            let mut row = vec![format!("GPU{a}")];
            row.extend(graph.all().iter().map(|b| {
                graph.link(a, b).map_or_else(|| "X".to_owned(), |l| format!("{} {}", l.kind, l.gbps()))
            }));
            row.push(self.mark(a).to_owned());
            rows.push(row);
        }
        let mut text = table::render(&rows, &(1..=graph.len()).collect::<Vec<_>>());
        if let Some(c) = self.chosen {
            let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "\nchosen, in order of ranks: {}", order.join(" "));
        }
        text
    }
}
