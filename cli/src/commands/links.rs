//! `tessera lab links`: where Slurm's own choice of GPUs falls behind.

use clap::Args;
use mapa::{Match, Query, choose};
use mapa_study::{StockRule, stock};
use serde_json::{Value, json};
use topology::{BandwidthModel, GpuSet, HardwareGraph, Pattern, Selection};

use crate::globals::Globals;
use crate::options;
use crate::options::links::{Linked, TopologyArgs};
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// Compare the GPU sets that Slurm chooses with the best-linked ones
///
/// For each number of GPUs, prints the best set, the sets that Slurm up to 23.11 and Slurm from 24.05 pick by themselves
/// from gres.conf's Links, and the predicted bandwidth in GB/s that each of these loses. Slurm from 24.05 takes the GPUs
/// with the fewest links. Without --topology, covers every kind of node in tessera.toml.
#[derive(Args)]
pub(crate) struct LinksArgs {
    #[command(flatten)]
    topology: TopologyArgs,
    /// ring, tree, chain, star, all, none, ring+tree, or file:PATH with an edge list
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::options::pattern)]
    pattern: Pattern,
    /// bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote
    #[arg(long = "predict", alias = "model", value_name = "MODEL", default_value = "bottleneck")]
    model: String,
    /// GPUs in use, such as 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = options::gpu_list)]
    busy: GpuSet,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct LinksLine {
    n: usize,
    best: Match,
    stock: [Match; 2],
}

/// Scores a set with its ranks in the best order.
pub(crate) fn scored(
    graph: &HardwareGraph,
    set: GpuSet,
    pattern: &Pattern,
    model: BandwidthModel,
) -> Option<Match> {
    let policy = Selection::Preserve;
    choose(&Query {
        graph,
        free: set,
        next: GpuSet::EMPTY,
        n: set.len(),
        pattern,
        sensitive: true,
        policy,
        model,
    })
    .ok()
}

pub(crate) fn run(args: &LinksArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let model = options::model(&args.model)?;
    let nodes = args.topology.all(globals)?;
    let found =
        nodes.iter().map(|linked| lines(args, &linked.graph, model)).collect::<Result<Vec<_>, _>>()?;
    let sections = || nodes.iter().zip(&found);
    if args.json {
        let rows = |lines: &[LinksLine]| lines.iter().map(LinksLine::json).collect::<Value>();
        let all = match &found[..] {
            [one] if args.topology.named() => rows(one),
            _ => sections().map(|(on, lines)| json!({ "nodes": on.title, "lines": rows(lines) })).collect(),
        };
        return Ok(Outcome::json(&all, 0));
    }
    if args.topology.named() {
        return Ok(Outcome::ok(found.iter().map(|lines| table(lines)).collect::<String>()));
    }
    let text = |(on, lines): (&Linked, &Vec<LinksLine>)| format!("{}\n{}", on.title, table(lines));
    Ok(Outcome::ok(sections().map(text).collect::<Vec<_>>().join("\n")))
}

/// Finds the bandwidth that is lost for each number of GPUs.
fn lines(args: &LinksArgs, graph: &HardwareGraph, model: BandwidthModel) -> Result<Vec<LinksLine>, Failure> {
    let free = options::free(graph, args.busy)?;
    let mut lines = Vec::new();
    for n in 2..=free.len() {
        let policy = Selection::Preserve;
        let query = Query {
            graph,
            free,
            next: GpuSet::EMPTY,
            n,
            pattern: &args.pattern,
            sensitive: true,
            policy,
            model,
        };
        let best = choose(&query)
            .map_err(|e: mapa::NoMatch| Failure::new(format!("{}: {e}", geometry::counted(n, "GPU"))))?;
        let of = |rule| scored(graph, stock(graph, free, n, rule)?, &args.pattern, model);
        if let (Some(old), Some(new)) = (of(StockRule::MostLinks), of(StockRule::FewestLinks)) {
            lines.push(LinksLine { n, best, stock: [old, new] });
        }
    }
    Ok(lines)
}

fn table(lines: &[LinksLine]) -> String {
    let head =
        ["GPUS", "BEST", "GB/s", "SLURM TO 23.11", "GB/s", "BEHIND", "SLURM FROM 24.05", "GB/s", "BEHIND"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(LinksLine::row));
    table::render(&rows, &[0, 2, 4, 5, 7, 8])
}

impl LinksLine {
    fn behind(&self, stock: &Match) -> f64 {
        self.best.scores.eff_bw.unwrap_or(0.0) - stock.scores.eff_bw.unwrap_or(0.0)
    }

    fn row(&self) -> Vec<String> {
        let eff = |c: &Match| c.scores.eff_bw.map_or_else(|| "-".to_owned(), |e| format!("{e:.1}"));
        let mut row = vec![self.n.to_string(), self.best.gpus.to_string(), eff(&self.best)];
        for choice in &self.stock {
            let behind = self.behind(choice);
            let behind = if behind > 0.05 { format!("{behind:.1}") } else { "-".to_owned() };
            row.extend([choice.gpus.to_string(), eff(choice), behind]);
        }
        row
    }

    fn json(&self) -> Value {
        let one = |c: &Match| {
            json!({
                "gpus": c.gpus.iter().map(|g| g.0).collect::<Vec<_>>(), "eff_bw": c.scores.eff_bw,
                "agg_bw": c.scores.agg_bw, "behind_gbps": self.behind(c),
            })
        };
        json!({
            "n": self.n, "best": one(&self.best), "slurm_to_23_11": one(&self.stock[0]),
            "slurm_from_24_05": one(&self.stock[1]),
        })
    }
}
