//! The plan in a terminal: time from left to right, a line per slice.

use std::fmt::Write as _;

use far::{Micros, OpKind};
use geometry::counted;

use super::batch::seconds;
use super::planned::Planned;
use crate::gpu_pieces::Owner;
use crate::render::colour::Paint;
use crate::render::table;

/// Columns before the chart.
const LABEL: usize = 5;
/// The fewest columns of the chart.
const LEAST: usize = 40;

/// `screen`: the columns that there are.
pub(super) fn pictures(plans: &[Planned<'_>], paint: Paint, screen: usize) -> String {
    let width = screen.saturating_sub(LABEL + 1).max(LEAST);
    plans.iter().map(|p| picture(p, paint, width)).collect::<Vec<_>>().join("\n")
}

fn picture(planned: &Planned<'_>, paint: Paint, width: usize) -> String {
    let problem = &planned.answer.problem;
    let mut text = paint.bold(&title(planned)) + "\n" + &bound(planned) + "\n\n";
    for gpu in 0..problem.gpus.len() {
        let _ = writeln!(text, "GPU {gpu}");
        for unit in units(planned) {
            let _ = writeln!(text, "  {unit:>2} {}", lane(planned, gpu, unit, paint, width));
        }
    }
    let end = format!("{:.1} s", seconds(planned.makespan));
    let _ = writeln!(text, "     0{end:>rest$}", rest = width - 1);
    let _ = writeln!(text, "     + create  x destroy\n");
    text + &list(planned)
}

fn title(planned: &Planned<'_>) -> String {
    let (batch, gpus) = (planned.batch, planned.answer.problem.gpus.len());
    let tasks = batch.tasks.len();
    format!(
        "{}: {} on {gpus} x {}, policy {}",
        batch.id,
        counted(tasks, "job"),
        batch.model.key,
        planned.policy
    )
}

fn bound(planned: &Planned<'_>) -> String {
    let (makespan, bound) = (seconds(planned.makespan), seconds(planned.answer.lower_bound));
    if planned.answer.proven_optimal {
        return format!("{makespan:.3} s, proven the best possible");
    }
    format!(
        "{makespan:.3} s; no plan ends before {bound:.3} s, so this one is at most {:.2} % longer than the best",
        100.0 * planned.gap()
    )
}

/// The units that have a line: first units of the smallest instances.
fn units(planned: &Planned<'_>) -> Vec<u8> {
    let tree = &planned.answer.problem.tree;
    let mut units: Vec<u8> = tree.nodes.iter().filter(|n| n.children.is_empty()).map(|n| n.start).collect();
    units.sort_unstable();
    units
}

fn column(planned: &Planned<'_>, at: Micros, width: usize) -> usize {
    let whole = u128::from(planned.makespan.max(1));
    usize::try_from(u128::from(at) * width as u128 / whole).unwrap_or(width).min(width)
}

/// Draws one memory slice: jobs with their names where their instance begins, operations on top of the gaps.
fn lane(planned: &Planned<'_>, gpu: usize, unit: u8, paint: Paint, width: usize) -> String {
    let nodes = &planned.answer.problem.tree.nodes;
    let mine = |g: usize, n: usize| g == gpu && nodes[n].mask >> unit & 1 == 1;
    let mut cells = vec![(' ', false); width];
    for run in planned.answer.schedule.runs.iter().filter(|r| mine(r.gpu, r.node)) {
        let (from, to) = (column(planned, run.begin, width), column(planned, run.end, width));
        let name = if nodes[run.node].start == unit { planned.name(run.task) } else { String::new() };
        let mut label = name.chars();
        for (k, cell) in cells.iter_mut().enumerate().take(to).skip(from) {
            let inside = k > from && k + 1 < to;
            let letter = if inside { label.next().unwrap_or('=') } else { '=' };
            *cell = (
                if k == from {
                    '['
                } else if k + 1 == to {
                    ']'
                } else {
                    letter
                },
                true,
            );
        }
    }
    for op in planned.answer.schedule.ops.iter().filter(|o| mine(o.gpu, o.node)) {
        let (from, to) = (column(planned, op.begin, width), column(planned, op.end, width));
        let sign = if op.kind == OpKind::Create { '+' } else { 'x' };
        let free = |cell: &&mut (char, bool)| !cell.1;
        cells.iter_mut().take(to + 1).skip(from).filter(free).for_each(|cell| *cell = (sign, false));
    }
    let mut text = String::new();
    for piece in cells.chunk_by(|a, b| a.1 == b.1) {
        let letters: String = piece.iter().map(|c| c.0).collect();
        text += &if piece[0].1 { paint.owner(Owner::Isolated, &letters) } else { letters };
    }
    text.trim_end().to_owned()
}

/// Every task, by begin.
fn list(planned: &Planned<'_>) -> String {
    let nodes = &planned.answer.problem.tree.nodes;
    let mut rows = vec![["name", "GPU", "instance", "begin", "end"].map(str::to_owned).to_vec()];
    let mut runs = planned.answer.schedule.runs.clone();
    runs.sort_by_key(|r| (r.begin, r.gpu, nodes[r.node].start));
    for run in runs {
        let node = &nodes[run.node];
        rows.push(vec![
            planned.name(run.task),
            run.gpu.to_string(),
            format!("{}@{}", node.profile, node.start),
            format!("{:.3}", seconds(run.begin)),
            format!("{:.3}", seconds(run.end)),
        ]);
    }
    table::render(&rows, &[1, 3, 4])
}
