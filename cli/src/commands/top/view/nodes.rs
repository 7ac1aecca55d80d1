//! The nodes: each GPU as its placement units, or groups of nodes that are used alike.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{View, cut, pane, titled, window};
use crate::cluster_snapshot::{GpuSeen, NodeSeen};
use crate::commands::top::rows::NodeSort;
use crate::commands::top::rows::{NodeRow, Rows};
use crate::commands::top::state::Pane;
use crate::gpu_pieces::Owner;
use crate::gpu_pieces::Piece;
use crate::node_groups::{self, Group, MARKS};

/// Columns of the longest name that is shown whole.
const MOST_NAME: usize = 14;
/// Columns of a GPU that has few placement units.
const LEAST_GPU: usize = 4;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: View<'_>, rows: &Rows<'_>) {
    let by = match view.state.node_sort {
        NodeSort::Site if rows.grouped => "most free first",
        NodeSort::Site => "as in tessera.toml",
        NodeSort::Free => "most free slices first",
        NodeSort::Name => "by name",
    };
    let nodes: usize = rows.nodes.iter().map(|row| row.nodes()).sum();
    let marks = if rows.grouped { MARKS } else { "= job  - idle  · free  × Slurm's  ! unhealthy" };
    let title = format!("NODES {nodes}, {by}    {marks}");
    let chosen = pane(view.state, Pane::Nodes);
    let rest = titled(frame, area, &cut(&title, usize::from(area.width)), chosen);
    window(frame, rest, lines(view, rows, area.width), view.state.node_at, chosen);
}

/// All rows at this width, each line with its row.
pub(super) fn lines(view: View<'_>, rows: &Rows<'_>, width: u16) -> Vec<(usize, Line<'static>)> {
    let (width, chosen) = (usize::from(width), pane(view.state, Pane::Nodes));
    let name = rows.nodes.iter().filter_map(NodeRow::name).max().unwrap_or(0).min(MOST_NAME);
    let groups = rows.nodes.iter().filter_map(NodeRow::group);
    // Before them stands the mark.
    let room = node_groups::room(groups, width.saturating_sub(1));
    let lines = rows.nodes.iter().enumerate().flat_map(|(row, shown)| {
        let mark = if row == view.state.node_at.min(rows.nodes.len() - 1) && chosen { ">" } else { " " };
        let lines = match shown {
            NodeRow::One(node) => single(view, node, name, width, mark),
            NodeRow::Group(group) => vec![grouped(group, room, mark)],
        };
        lines.into_iter().map(move |line| (row, line))
    });
    lines.collect()
}

impl NodeRow<'_> {
    /// Length of a single node's name.
    fn name(&self) -> Option<usize> {
        match self {
            Self::One(node) => Some(node.name.chars().count()),
            Self::Group(_) => None,
        }
    }

    fn group(&self) -> Option<&Group<'_>> {
        match self {
            Self::One(_) => None,
            Self::Group(group) => Some(group),
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Group(group) => group.nodes.len(),
        }
    }
}

fn grouped(group: &Group<'_>, room: usize, mark: &str) -> Line<'static> {
    Line::from(format!("{mark}{}", group.line(room)))
}

/// As many GPUs on a line as there is room for.
fn single(view: View<'_>, node: &NodeSeen, name: usize, width: usize, mark: &str) -> Vec<Line<'static>> {
    let away = if node.takes_jobs { ' ' } else { '!' };
    let head = format!("{mark}{}{away} ", cut(&node.name, name));
    let gpus = match &node.gpus {
        Ok(gpus) => gpus,
        Err(why) => return vec![Line::from(format!("{head}GPUs not known: {why}"))],
    };
    let indent = head.chars().count();
    // Twice as wide where all GPUs fit so: profiles can be read then.
    let twice = indent + gpus.iter().map(|gpu| 2 * gpu_columns(gpu) + 1).sum::<usize>() <= width;
    let (mut lines, mut line, mut used) = (Vec::new(), vec![Span::raw(head)], indent);
    for gpu in gpus {
        let columns = gpu_columns(gpu) * if twice { 2 } else { 1 };
        if used + columns > width && used > indent {
            lines.push(Line::from(std::mem::take(&mut line)));
            line.push(Span::raw(" ".repeat(indent)));
            used = indent;
        }
        let unit = columns / usize::from(gpu.model.placement_units.max(1));
        line.extend(gpu.pieces.iter().map(|p| piece(view, p, unit)));
        line.push(Span::raw(" "));
        used += columns + 1;
    }
    lines.push(Line::from(line));
    lines
}

fn gpu_columns(gpu: &GpuSeen) -> usize {
    let units = usize::from(gpu.model.placement_units.max(1));
    units * LEAST_GPU.div_ceil(units)
}

/// Draws a piece: its profile at its beginning, and its owner by the fill, so that a colour-blind reader needs no colour.
fn piece(view: View<'_>, piece: &Piece, unit: usize) -> Span<'static> {
    let width = usize::from(piece.size) * unit;
    let profile = piece.profile.as_deref().and_then(|name| name.split('.').next()).unwrap_or_default();
    let (label, fill) = match piece.owner {
        Owner::Isolated => (profile, '='),
        Owner::Whole => ("whole", '='),
        Owner::Shared => ("m", '='),
        Owner::Tasks => ("t", '='),
        Owner::Idle if width > profile.len() => (profile, '-'),
        Owner::Idle => ("", '-'),
        Owner::Free => ("", '·'),
        Owner::Slurm => ("", '×'),
        Owner::Sick => ("", '!'),
    };
    let text: String = label.chars().chain(std::iter::repeat(fill)).take(width).collect();
    Span::styled(text, view.owner(piece.owner))
}
