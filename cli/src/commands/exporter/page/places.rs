//! GPUs without jobs, and by shape of request what fragmentation costs, with their histories.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::node::percents;
use crate::cluster_snapshot::ClusterSnapshot;
use crate::commands::exporter::changes::Changes;
use crate::fragmentation::{Places, wholeness};
use crate::render::svg::escape;

/// Two lines of words, the second of which opens to a table; nothing if no node takes jobs.
pub(super) fn places(out: &mut String, seen: &ClusterSnapshot, changes: &Changes) {
    let all = wholeness(&seen.nodes.iter().collect::<Vec<_>>());
    let Some([whole, lost]) = all.words() else { return };
    let now = format!("{} of {} GPUs have no job now", all.gpus, all.of_gpus);
    let graph = percents(&changes.whole, "history", "GPUs without jobs", &now);
    let _ = write!(
        out,
        "<p class=\"places\">{} {graph}</p><details data-key=\"places\"><summary>{}</summary>\
         <table><thead><tr><th>Jobs for</th><th>Model</th><th>Fit now</th><th>If packed</th><th>Lost</th><th></th></tr></thead><tbody>",
        sentence(&whole),
        escape(&sentence(&lost))
    );
    for places in &all.places {
        let key = (places.model.to_owned(), places.shape.to_string());
        row(out, places, changes.lost.get(&key));
    }
    out.push_str("</tbody></table></details>\n");
}

fn row(out: &mut String, places: &Places, history: Option<&VecDeque<u8>>) {
    let lost = places.lost_percent();
    let now = format!("{lost} % lost now");
    let graph = history.map_or_else(String::new, |h| percents(h, "history", "places lost", &now));
    let _ = write!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{lost} %</td><td>{graph}</td></tr>",
        escape(&places.shape.to_string()),
        escape(places.model),
        places.now,
        places.packed
    );
}

/// With a capital letter and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
