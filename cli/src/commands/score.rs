//! `tessera score`: the set of GPUs that a job would get on a node, and what it scores.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use geometry::GpuIndex;
use mapa::{Match, NoMatch, Query, choose};
use serde_json::{Value, json};
use topology::{GpuSet, Pattern, Selection};

use crate::globals::Globals;
use crate::options::links::TopologyArgs;
use crate::options::{self, Sensitivity};
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// Choose GPUs by pattern and topology, and score them
///
/// Prints the set that a policy chooses among the free GPUs of a node, the order of its ranks, and the scores of MAPA
/// (SC'21): x, y and z count the pattern's edges on double NVLink, single NVLink and no NVLink. Bandwidths are GB/s in one
/// direction. Exit status 1 if nothing fits.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera score --topology dgx-v --gpus 4
  tessera score --topology dgx-v --gpus 3 --busy 0,3 --bandwidth insensitive
  tessera score --topology torus-2d --gpus 5 --pattern tree --all")]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    pub(crate) topology: TopologyArgs,
    /// How many GPUs
    #[arg(long, value_name = "N", value_parser = options::gpu_count)]
    pub(crate) gpus: usize,
    /// ring, tree, chain, star, all, none, ring+tree, or file:PATH with an edge list
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::options::pattern)]
    pub(crate) pattern: Pattern,
    /// Whether bandwidth matters to the job
    #[arg(long, value_name = "HOW", default_value = "sensitive")]
    pub(crate) bandwidth: Sensitivity,
    /// baseline, topo-aware, greedy or preserve
    #[arg(long, value_name = "POLICY", default_value = "preserve", value_parser = options::policy)]
    pub(crate) policy: Selection,
    /// bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote
    #[arg(long = "predict", alias = "model", value_name = "MODEL", default_value = "bottleneck")]
    pub(crate) model: String,
    /// GPUs in use, such as 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = options::gpu_list)]
    pub(crate) busy: GpuSet,
    /// Also print all candidates, with sets that score the same in one line
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ScoreArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let graph = args.topology.one(globals, args.gpus)?;
    let model = options::model(&args.model)?;
    let query = Query {
        graph: &graph,
        free: options::free(&graph, args.busy)?,
        next: GpuSet::EMPTY,
        n: args.gpus,
        pattern: &args.pattern,
        sensitive: args.bandwidth == Sensitivity::Sensitive,
        policy: args.policy,
        model,
    };
    let start = Instant::now();
    let found = choose(&query);
    let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
    let classes = if args.all { classes(&query)? } else { Vec::new() };
    let status = u8::from(found.is_err());
    if args.json {
        let mut value = as_json(&query, &found, elapsed_us);
        if let (true, Some(object)) = (args.all, value.as_object_mut()) {
            object.insert("classes".to_owned(), classes.iter().map(Class::json).collect());
        }
        return Ok(Outcome::json(&value, status));
    }
    let mut text = match &found {
        Ok(choice) => as_text(&query, choice, elapsed_us),
        Err(reason) => format!("nothing fits: {reason}\n"),
    };
    if args.all {
        text.push('\n');
        text.push_str(&class_table(&classes));
    }
    Ok(Outcome { text, status })
}

fn numbers(gpus: impl IntoIterator<Item = GpuIndex>) -> Vec<u16> {
    gpus.into_iter().map(|g| g.0).collect()
}

fn as_json(query: &Query<'_>, found: &Result<Match, NoMatch>, elapsed_us: f64) -> Value {
    let elapsed_us = (elapsed_us * 10.0).round() / 10.0;
    let (model, policy) = (query.model.name(), query.policy.name());
    match found {
        Err(reason) => json!({
            "chosen": false, "reason": reason.to_string(), "model": model, "policy": policy, "elapsed_us": elapsed_us,
        }),
        Ok(c) => json!({
            "chosen": true, "gpus": numbers(c.gpus.iter()), "order": numbers(c.order.iter().copied()),
            "x": c.scores.x, "y": c.scores.y, "z": c.scores.z, "agg_bw": c.scores.agg_bw,
            "eff_bw": c.scores.eff_bw, "preserved_bw": c.preserved_bw, "model": model, "policy": policy,
            "pattern": query.pattern.name(), "sensitive": query.sensitive, "tied_sets": tied(query, c), "exact": c.exact,
            "elapsed_us": elapsed_us,
        }),
    }
}

/// Sets as good as the chosen one; not part of the decision's time where they are counted only now.
fn tied(query: &Query<'_>, c: &Match) -> u64 {
    c.tied_sets.unwrap_or_else(|| mapa_study::count_ties(query, c))
}

fn gbps(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"))
}

fn as_text(query: &Query<'_>, c: &Match, elapsed_us: f64) -> String {
    let list = |gpus: Vec<u16>| gpus.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    let (s, tied) = (&c.scores, tied(query, c));
    let exact = if c.exact { "" } else { " (search ended early: not proven best)" };
    format!(
        "GPUs          {}{exact}\norder         {}\nlinks         {} double, {} single, {} without NVLink\n\
         AggBW         {:.3} GB/s\nEffBW         {} GB/s ({})\npreserved     {:.3} GB/s\npolicy        {}, {} set{} \
         as good\ntime          {elapsed_us:.0} us\n",
        list(numbers(c.gpus.iter())),
        list(numbers(c.order.iter().copied())),
        s.x,
        s.y,
        s.z,
        s.agg_bw,
        gbps(s.eff_bw),
        query.model.name(),
        c.preserved_bw,
        query.policy.name(),
        tied,
        if tied == 1 { "" } else { "s" },
    )
}

/// Sets that score the same, each in its best order.
struct Class {
    example: Match,
    sets: u64,
}

impl Class {
    fn json(&self) -> Value {
        let (c, s) = (&self.example, &self.example.scores);
        json!({
            "gpus": numbers(c.gpus.iter()), "order": numbers(c.order.iter().copied()), "x": s.x, "y": s.y, "z": s.z,
            "agg_bw": s.agg_bw, "eff_bw": s.eff_bw, "preserved_bw": c.preserved_bw, "sets": self.sets,
        })
    }
}

/// Every set of the free GPUs, by its scores; best first by what the policy asks for.
fn classes(query: &Query<'_>) -> Result<Vec<Class>, Failure> {
    let free: Vec<GpuIndex> = query.free.iter().collect();
    if free.len() > mapa::MOST_FREE {
        return Err(Failure::new("--all takes at most 16 free GPUs"));
    }
    let mut classes: BTreeMap<[u64; 4], Class> = BTreeMap::new();
    for mask in (0_u32..1 << free.len()).filter(|m| m.count_ones() as usize == query.n && query.n > 0) {
        let set: GpuSet =
            free.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, g)| *g).collect();
        let Ok(mut choice) = choose(&Query { free: set, ..*query }) else { continue };
        let rest = GpuSet::from_bits(query.free.bits() & !set.bits());
        choice.preserved_bw = query.graph.preserved_bw(rest);
        let eff = choice.scores.eff_bw.unwrap_or(0.0);
        let worth = match (query.policy, query.sensitive) {
            (Selection::Preserve, true) => eff,
            (Selection::Preserve, false) => choice.preserved_bw,
            _ => choice.scores.agg_bw,
        };
        // Larger first: the bits of positive numbers have their order.
        let first = |v: f64| u64::MAX - (v.max(0.0) + 1.0).to_bits();
        let s = &choice.scores;
        let counts = u64::from(s.x) << 32 | u64::from(s.y) << 16 | u64::from(s.z);
        let key = [first(worth), first(choice.preserved_bw), first(eff), counts];
        let class = classes.entry(key).or_insert(Class { example: choice, sets: 0 });
        class.sets += 1;
    }
    Ok(classes.into_values().collect())
}

fn class_table(classes: &[Class]) -> String {
    let head = ["x", "y", "z", "AGGBW", "EFFBW", "PRESERVED", "SETS", "FIRST, IN ORDER"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for class in classes {
        let (c, s) = (&class.example, &class.example.scores);
        let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
        rows.push(vec![
            s.x.to_string(),
            s.y.to_string(),
            s.z.to_string(),
            format!("{:.1}", s.agg_bw),
            gbps(s.eff_bw),
            format!("{:.1}", c.preserved_bw),
            class.sets.to_string(),
            order.join(" "),
        ]);
    }
    table::render(&rows, &[0, 1, 2, 3, 4, 5, 6])
}
