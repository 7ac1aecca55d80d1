//! Jobs that could start now, by GPU model and shape of request, and what fragmentation costs.

use std::fmt::Write as _;

use geometry::Model;
use geometry::size::display_gb;

use super::View;
use super::history::{graph, spanned};
use crate::fragmentation::{Places, Shape, Wholeness};
use crate::render::svg::escape;

/// A row of counts for each model of these nodes, the smallest shape first.
pub(super) fn start(out: &mut String, whole: &Wholeness) {
    if whole.places.is_empty() {
        return;
    }
    out.push_str("<h2>Could start now <small>jobs of each shape, if only such jobs came</small></h2><div class=\"models\">\n");
    for of_model in whole.places.chunk_by(|a, b| a.model == b.model) {
        let key = of_model[0].model;
        let model = Model::find(key);
        let _ = write!(out, "<h3>{}</h3><ul class=\"shapes\">", escape(key));
        of_model.iter().for_each(|places| shape(out, places, model));
        out.push_str("</ul>\n");
    }
    out.push_str(
        "</div><p class=\"hint\">Ask with <code>sbatch --gpu-mem=10G</code>, <code>--gpu-isolation=mig:1g.10gb</code> or \
         <code>--gpus-per-node=4</code>. <code>tessera free</code> counts under your own limits.</p>\n",
    );
}

fn shape(out: &mut String, places: &Places, model: Option<&Model>) {
    let what = match (places.shape, model) {
        (Shape::Instance(profile), Some(model)) => {
            format!("{}, {}", display_gb(profile.memory_mib), model.sms_in_words(profile.sm))
        }
        (Shape::Gpus(1), Some(model)) => {
            format!("{}, {} SMs", display_gb(model.usable_mib()), model.full_gpu_sm)
        }
        _ => "on one node".to_owned(),
    };
    let none = if places.now == 0 { " class=\"none\"" } else { "" };
    let _ = write!(
        out,
        "<li{none}><b>{}</b> {} <small>{what}</small></li>",
        places.now,
        escape(&places.shape.to_string())
    );
}

/// A line that opens to a table of what small jobs cost large ones; nothing if no node takes jobs.
pub(super) fn lost(out: &mut String, whole: &Wholeness, view: View<'_>) {
    let Some([_, lost]) = whole.words() else { return };
    let past = view.changes.lost.values().next().filter(|past| past.len() > 1);
    let past =
        past.map_or_else(String::new, |past| format!("lost in the last {}", spanned(past, view.every_s)));
    let _ = write!(
        out,
        "<details data-key=\"places\"><summary>{}</summary><table><thead><tr><th>Jobs for</th><th>Model</th><th>Fit now</th>\
         <th>If packed</th><th>Lost</th><th>{past}</th></tr></thead><tbody>",
        escape(&sentence(&lost))
    );
    for places in &whole.places {
        row(out, places, view);
    }
    out.push_str("</tbody></table></details>\n");
}

fn row(out: &mut String, places: &Places, view: View<'_>) {
    let lost = places.lost_percent();
    let key = (places.model.to_owned(), places.shape.to_string());
    let now = format!("{lost} % lost now");
    let past =
        view.changes.lost.get(&key).map_or_else(String::new, |h| graph(h, "history", "places lost", &now));
    let _ = write!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{lost} %</td><td>{past}</td></tr>",
        escape(&places.shape.to_string()),
        escape(places.model),
        places.now,
        places.packed
    );
}

/// Gives words a capital letter and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
