//! `tessera lint`: where Slurm's own choice of GPUs falls behind.

use clap::Args;
use placement::mapa::{BandwidthModel, Choice, HardwareGraph, Query, Selection, StockRule, choose, stock};
use placement::{GpuSet, Pattern, mapa};
use serde_json::{Value, json};

use crate::outcome::{Failure, Outcome};
use crate::score::{self, TopologyArgs};
use crate::table;

/// List where Slurm's own choice of GPUs falls behind
///
/// For each number of GPUs: the best set, the set that Slurm picks by itself from gres.conf's Links, up to 23.11 and since
/// 24.05, and how many GB/s of predicted bandwidth each loses. Since 24.05 it takes the GPUs with the fewest links.
#[derive(Args)]
pub(crate) struct LintArgs {
    #[command(flatten)]
    topology: TopologyArgs,
    /// ring, tree, chain, star, all, none, ring+tree, or file:PATH with an edge list
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::request::pattern)]
    pattern: Pattern,
    /// bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote
    #[arg(long, value_name = "MODEL", default_value = "bottleneck")]
    model: String,
    /// GPUs that are not free: 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", value_parser = score::gpu_list)]
    busy: GpuSet,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct Line {
    n: usize,
    best: Choice,
    stock: [Choice; 2],
}

/// The set with its ranks in the best order.
fn scored(graph: &HardwareGraph, set: GpuSet, pattern: &Pattern, model: BandwidthModel) -> Option<Choice> {
    let policy = Selection::Preserve;
    choose(&Query { graph, free: set, n: set.len(), pattern, sensitive: true, policy, model }).ok()
}

pub(crate) fn run(args: &LintArgs) -> Result<Outcome, Failure> {
    let graph = score::graph(&args.topology.topology, 8)?;
    let model = score::model(&args.model)?;
    let free = score::free(&graph, args.busy)?;
    let mut lines = Vec::new();
    for n in 2..=free.len() {
        let policy = Selection::Preserve;
        let query = Query { graph: &graph, free, n, pattern: &args.pattern, sensitive: true, policy, model };
        let best = choose(&query).map_err(|e: mapa::NoChoice| Failure::new(format!("{n} GPUs: {e}")))?;
        let of = |rule| scored(&graph, stock(&graph, free, n, rule)?, &args.pattern, model);
        if let (Some(old), Some(new)) = (of(StockRule::MostLinks), of(StockRule::FewestLinks)) {
            lines.push(Line { n, best, stock: [old, new] });
        }
    }
    if args.json {
        return Ok(Outcome::json(&lines.iter().map(Line::json).collect(), 0));
    }
    let head =
        ["GPUS", "BEST", "GB/s", "SLURM TO 23.11", "GB/s", "BEHIND", "SLURM FROM 24.05", "GB/s", "BEHIND"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(Line::row));
    Ok(Outcome::ok(table::render(&rows, &[0, 2, 4, 5, 7, 8])))
}

impl Line {
    fn behind(&self, stock: &Choice) -> f64 {
        self.best.scores.eff_bw.unwrap_or(0.0) - stock.scores.eff_bw.unwrap_or(0.0)
    }

    fn row(&self) -> Vec<String> {
        let eff = |c: &Choice| c.scores.eff_bw.map_or_else(|| "-".to_owned(), |e| format!("{e:.1}"));
        let mut row = vec![self.n.to_string(), self.best.gpus.to_string(), eff(&self.best)];
        for choice in &self.stock {
            let behind = self.behind(choice);
            let behind = if behind > 0.05 { format!("{behind:.1}") } else { "-".to_owned() };
            row.extend([choice.gpus.to_string(), eff(choice), behind]);
        }
        row
    }

    fn json(&self) -> Value {
        let one = |c: &Choice| {
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
