//! The layout for a terminal.

use crate::cluster_snapshot::{GpuSeen, NodeSeen};
use crate::gpu_pieces::Owner;
use crate::gpu_pieces::Piece;
use crate::node_groups::{self, fit};
use crate::render::colour::Paint;

/// Columns before a drawn GPU, and the border behind it.
const LABEL: usize = 6;
/// A drawn GPU has a multiple of so many columns: every model's placement units divide it.
const STEP: usize = 24;
/// The fewest and the most columns of a GPU.
const COLUMNS: (usize, usize) = (48, 192);

/// Every node, with an empty line between them and, in colour, a legend at the end. `width`: the terminal's columns.
pub(crate) fn picture(nodes: &[NodeSeen], paint: Paint, width: usize) -> String {
    let columns = (width.saturating_sub(LABEL + 1) / STEP * STEP).clamp(COLUMNS.0, COLUMNS.1);
    let mut blocks: Vec<String> = nodes.iter().map(|n| node(n, paint, columns)).collect();
    if paint.on && !nodes.is_empty() {
        let words = Owner::IN_TEXT.into_iter().map(|o| paint.owner(o, &format!(" {} ", o.name())));
        blocks.push(words.collect::<Vec<_>>().join(" ") + "\n");
    }
    blocks.join("\n")
}

fn node(node: &NodeSeen, paint: Paint, columns: usize) -> String {
    let mut out = format!("{}\n", paint.bold(&title(node)));
    for (i, gpu) in node.gpus.iter().flatten().enumerate() {
        out.push_str(&row(i, gpu, paint, columns));
    }
    out
}

/// `n1: 8 x a100-40gb, links dgx-v`.
pub(super) fn title(node: &NodeSeen) -> String {
    let gpus = if node.gpus.is_ok() { node_groups::gpus(node) } else { "GPUs not known".to_owned() };
    let note = node.note.as_ref().map(|n| format!(" ({n})")).unwrap_or_default();
    format!("{}: {gpus}, links {}{note}", node.name, node.links)
}

/// Draws a GPU in one line, or in two if it is cut: profiles above, holders below.
fn row(index: usize, gpu: &GpuSeen, paint: Paint, columns: usize) -> String {
    let unit = columns / usize::from(gpu.model.placement_units.max(1));
    let cut = gpu.pieces.iter().any(|p| p.profile.is_some());
    let line = |label: &str, words: &dyn Fn(&Piece, usize) -> String| {
        let mut line = format!("{label:<LABEL$}");
        for piece in &gpu.pieces {
            let width = usize::from(piece.size) * unit - 1;
            line.push('│');
            line.push_str(&paint.owner(piece.owner, &fit(&words(piece, width), width)));
        }
        line + "│\n"
    };
    let label = format!("GPU {index}");
    if cut {
        line(&label, &|p, _| format!(" {}", p.profile.as_deref().unwrap_or_default()))
            + &line("", &|p, w| holder(p, w))
    } else {
        line(&label, &|p, w| holder(p, w))
    }
}

/// As much about the holder as there is room for.
fn holder(piece: &Piece, width: usize) -> String {
    let choices = piece.told();
    let fits = choices.iter().find(|c| !c.is_empty() && c.chars().count() < width);
    format!(" {}", fits.or(choices.last()).map_or("", String::as_str))
}
