//! `tessera topology`: the hardware graph, as a table or drawn.

mod args;
mod picture;
mod svg;

use std::fmt::Write as _;

use mapa::{Query, choose};
use mapa_study::{StockRule, stock};
use topology::{BandwidthModel, GpuSet};

pub(crate) use args::TopologyCommand;
use picture::Picture;

use crate::commands::links;
use crate::globals::Globals;
use crate::options::{self, Sensitivity};
use crate::outcome::{Failure, Outcome};
use crate::render::table;

pub(crate) fn run(command: &TopologyCommand, globals: &Globals) -> Result<Outcome, Failure> {
    let (TopologyCommand::Show(args) | TopologyCommand::Svg(args)) = command;
    let graph = options::links::graph(&args.topology, globals, args.gpus.unwrap_or(8))?;
    let free = options::free(&graph, args.busy)?;
    let chosen = args.gpus.map(|n| {
        choose(&Query {
            graph: &graph,
            free,
            next: GpuSet::EMPTY,
            n,
            pattern: &args.pattern,
            sensitive: args.bandwidth == Sensitivity::Sensitive,
            policy: topology::Selection::Preserve,
            model: BandwidthModel::default(),
        })
    });
    let chosen = chosen.transpose().map_err(|e| Failure::new(format!("nothing fits: {e}")))?;
    let slurms = args.gpus.filter(|_| args.slurm).and_then(|n| {
        links::scored(
            &graph,
            stock(&graph, free, n, StockRule::FewestLinks)?,
            &args.pattern,
            BandwidthModel::default(),
        )
    });
    let picture = Picture { graph: &graph, args, chosen: chosen.as_ref(), slurms: slurms.as_ref() };
    Ok(Outcome::ok(match command {
        TopologyCommand::Show(_) => table(&picture),
        TopologyCommand::Svg(_) => svg::of(&picture),
    }))
}

fn table(picture: &Picture<'_>) -> String {
    let graph = picture.graph;
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(graph.all().iter().map(|g| format!("GPU{g}")));
    for a in graph.all().iter() {
        let mut row = vec![format!("GPU{a}")];
        row.extend(graph.all().iter().map(|b| {
            graph.link(a, b).map_or_else(|| "X".to_owned(), |l| format!("{} {}", l.kind, l.gbps()))
        }));
        row.push(picture.mark(a).to_owned());
        rows.push(row);
    }
    let mut text = table::render(&rows, &(1..=graph.len()).collect::<Vec<_>>());
    if let Some(c) = picture.chosen {
        let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "\nchosen, in order of ranks: {}", order.join(" "));
    }
    text
}
