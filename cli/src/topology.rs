//! `tessera topology`: the hardware graph, as a table or drawn.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use placement::mapa::{Choice, HardwareGraph, LinkClass, Query, choose};
use placement::{GpuIndex, GpuSet};

use crate::outcome::{Failure, Outcome};
use crate::score::{self, Sensitivity};
use crate::table;

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
    /// A named system, or a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it
    #[arg(value_name = "NAME|FILE")]
    topology: String,
    /// Mark the set that this many GPUs would get
    #[arg(long, value_name = "N")]
    gpus: Option<usize>,
    /// The job's pattern, as in `tessera score`
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::request::pattern)]
    pattern: placement::Pattern,
    /// Whether bandwidth matters to the job
    #[arg(long, value_name = "HOW", default_value = "sensitive")]
    bandwidth: Sensitivity,
    /// GPUs that are not free: 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", value_parser = score::gpu_list)]
    busy: GpuSet,
}

pub(crate) fn run(command: &TopologyCommand) -> Result<Outcome, Failure> {
    let (TopologyCommand::Show(args) | TopologyCommand::Svg(args)) = command;
    let graph = score::graph(&args.topology, args.gpus.unwrap_or(8))?;
    let chosen = args.gpus.map(|n| {
        choose(&Query {
            graph: &graph,
            free: GpuSet::from_bits(graph.all().bits() & !args.busy.bits()),
            n,
            pattern: &args.pattern,
            sensitive: args.bandwidth == Sensitivity::Sensitive,
            policy: placement::mapa::Selection::Preserve,
            model: placement::mapa::BandwidthModel::default(),
        })
    });
    let chosen = chosen.transpose().map_err(|e| Failure::new(format!("nothing fits: {e}")))?;
    let edges = chosen.as_ref().and_then(|c| {
        let edges = args.pattern.edges(c.order.len()).ok()?;
        Some(edges.iter().filter_map(|e| Some((*c.order.get(e.a)?, *c.order.get(e.b)?))).collect::<Vec<_>>())
    });
    let edges = edges.unwrap_or_default();
    Ok(Outcome::ok(match command {
        TopologyCommand::Show(_) => show(&graph, args.busy, chosen.as_ref()),
        TopologyCommand::Svg(_) => svg(&graph, args, chosen.as_ref(), &edges),
    }))
}

fn show(graph: &HardwareGraph, busy: GpuSet, chosen: Option<&Choice>) -> String {
    let mark = |g: GpuIndex| match chosen {
        _ if busy.contains(g) => "busy",
        Some(c) if c.gpus.contains(g) => "chosen",
        _ => "",
    };
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(graph.all().iter().map(|g| format!("GPU{g}")));
    for a in graph.all().iter() {
        let mut row = vec![format!("GPU{a}")];
        row.extend(graph.all().iter().map(|b| {
            graph.link(a, b).map_or_else(|| "X".to_owned(), |l| format!("{} {}", l.kind, l.gbps()))
        }));
        row.push(mark(a).to_owned());
        rows.push(row);
    }
    let mut text = table::render(&rows, &(1..=graph.len()).collect::<Vec<_>>());
    if let Some(c) = chosen {
        let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "\nchosen, in order of ranks: {}", order.join(" "));
    }
    text
}

const SIZE: f64 = 520.0;

fn svg(
    graph: &HardwareGraph,
    args: &TopologyGraphArgs,
    chosen: Option<&Choice>,
    edges: &[(GpuIndex, GpuIndex)],
) -> String {
    let n = u32::try_from(graph.len().max(1)).unwrap_or(1);
    let place = |g: GpuIndex| {
        let turn = TAU * (f64::from(g.0) / f64::from(n) - 0.25);
        (SIZE / 2.0 + turn.cos() * SIZE * 0.4, SIZE / 2.0 + turn.sin() * SIZE * 0.4)
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {}\" font-family=\"sans-serif\" \
         font-size=\"15\" text-anchor=\"middle\">\n<style>line{{stroke:#8a94a6;fill:none}}.pcie{{stroke-dasharray:2 5}}\
         .used{{stroke:#c2410c}}circle{{fill:#e5e7eb;stroke:#475569;stroke-width:1.5}}.chosen{{fill:#fdba74}}\
         .busy{{fill:#94a3b8}}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        SIZE + 30.0
    );
    for edge in graph.graph().edge_indices() {
        let Some((a, b)) = graph.graph().edge_endpoints(edge) else { continue };
        let (a, b) = (graph.graph()[a], graph.graph()[b]);
        let link = graph.graph()[edge];
        let used = edges.iter().any(|e| *e == (a, b) || *e == (b, a));
        let (width, class) = match link.class() {
            LinkClass::Double => (5.0, ""),
            LinkClass::Single => (2.5, ""),
            LinkClass::Pcie => (1.5, "pcie"),
        };
        // PCIe joins all with all: drawn only where the job uses it.
        if link.class() == LinkClass::Pcie && !used {
            continue;
        }
        let ((x1, y1), (x2, y2)) = (place(a), place(b));
        let used = if used { " used" } else { "" };
        let _ = writeln!(
            out,
            "<line class=\"{class}{used}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke-width=\"{width}\"><title>{a}-{b} {} {} GB/s</title></line>",
            link.kind,
            link.gbps()
        );
    }
    for g in graph.all().iter() {
        let (x, y) = place(g);
        let class = match chosen {
            _ if args.busy.contains(g) => "busy",
            Some(c) if c.gpus.contains(g) => "chosen",
            _ => "",
        };
        let _ = writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"20\"/><text x=\"{x:.1}\" y=\"{:.1}\">{g}</text>",
            y + 5.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\">thick: two NVLink lanes or more; thin: one; dotted: PCIe; orange: the job</text>\n</svg>",
        SIZE / 2.0,
        SIZE + 15.0
    );
    out
}
