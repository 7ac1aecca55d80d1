//! The layout for a terminal.

use geometry::Model;
use protocol::layout::GpuLayout;

use super::Drawn;
use super::pieces::{self, Piece};
use crate::render::colour::{Owner, Paint};

/// Columns of a drawn GPU, borders included: a multiple of every model's units plus one, and 80 columns hold it.
const WIDTH: usize = 72;

/// Every node, with an empty line between them and, in colour, a legend at the end.
pub(crate) fn picture(nodes: &[Drawn], paint: Paint) -> String {
    let mut blocks: Vec<String> = nodes.iter().map(|n| node(n, paint)).collect();
    if paint.on && !nodes.is_empty() {
        let words = Owner::ALL.into_iter().map(|o| paint.owner(o, &format!(" {} ", o.name())));
        blocks.push(words.collect::<Vec<_>>().join(" ") + "\n");
    }
    blocks.join("\n")
}

fn node(drawn: &Drawn, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.bold(&title(drawn)));
    for (i, (model, gpu)) in drawn.gpus.iter().enumerate() {
        out.push_str(&row(i, model, gpu, paint));
    }
    out
}

/// `n1: 8 x a100-40gb, links dgx-v`.
pub(super) fn title(drawn: &Drawn) -> String {
    let mut models: Vec<(&str, usize)> = Vec::new();
    for (model, _) in &drawn.gpus {
        match models.iter_mut().find(|(key, _)| *key == model.key) {
            Some((_, n)) => *n += 1,
            None => models.push((&model.key, 1)),
        }
    }
    let gpus: Vec<String> = models.iter().map(|(key, n)| format!("{n} x {key}")).collect();
    let note = drawn.note.as_ref().map(|n| format!(" ({n})")).unwrap_or_default();
    format!("{}: {}, links {}{note}", drawn.name, gpus.join(" + "), drawn.links)
}

/// One line, or two where the GPU is cut: profiles above, holders below.
fn row(index: usize, model: &Model, gpu: &GpuLayout, paint: Paint) -> String {
    let pieces = pieces::of(model, gpu);
    let unit = WIDTH / usize::from(model.placement_units.max(1));
    let cut = pieces.iter().any(|p| p.profile.is_some());
    let line = |label: &str, words: &dyn Fn(&Piece, usize) -> String| {
        let mut line = format!("{label:<6}");
        for piece in &pieces {
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
    let choices = [piece.detail(), piece.holder(), piece.ids()];
    let fits = choices.iter().find(|c| !c.is_empty() && c.chars().count() < width);
    format!(" {}", fits.or(choices.last()).map_or("", String::as_str))
}

/// Pads or cuts to the width.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() > width {
        text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        format!("{text:<width$}")
    }
}
