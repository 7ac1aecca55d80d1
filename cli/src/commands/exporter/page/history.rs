//! Percents over time as small graphs that say what they show.

use std::collections::VecDeque;

use crate::clock::span;
use crate::render::svg::Svg;
use geometry::counted;

/// A graph of `what` with the time that it spans, and its least and most. `now` says the last value. A single look is no history.
pub(super) fn past(values: &VecDeque<u8>, what: &str, now: &str, every_s: u64) -> String {
    if values.len() < 2 {
        return String::new();
    }
    let (least, most) = (values.iter().min().unwrap_or(&0), values.iter().max().unwrap_or(&0));
    let range = if least == most { format!("{most} %") } else { format!("{least} to {most} %") };
    format!(
        "<figure class=\"past\">{}<figcaption>{range} in the last {}</figcaption></figure>",
        graph(values, "history", what, now),
        spanned(values, every_s)
    )
}

/// How far back these looks go.
pub(super) fn spanned(values: &VecDeque<u8>, every_s: u64) -> String {
    span(every_s.saturating_mul(values.len().saturating_sub(1).try_into().unwrap_or(u64::MAX)).max(1))
}

/// Percents, look by look, as a graph of `what` from 0 to 100 %; `now` says the last one.
pub(super) fn graph(values: &VecDeque<u8>, class: &str, what: &str, now: &str) -> String {
    let points: Vec<String> =
        values.iter().enumerate().map(|(x, percent)| format!("{x},{}", 100 - i32::from(*percent))).collect();
    let width = values.len().saturating_sub(1).max(1);
    let mut svg = Svg::default();
    let graph = svg.of_class("svg", class).set("viewBox", format_args!("0 0 {width} 100"));
    let graph = graph.set("preserveAspectRatio", "none").set("role", "img").set("aria-label", now);
    graph.holds(|svg| {
        let looks = counted(values.len(), "look");
        svg.element("title").text(format_args!("{what}, the last {looks}, 0 to 100 %"));
        svg.element("polyline").set("points", points.join(" ")).end();
    });
    svg.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_says_its_time_and_its_range() {
        let values = VecDeque::from([20, 35, 30]);
        let shown = past(&values, "GPUs without jobs", "3 of 10", 15);
        insta::assert_snapshot!(shown, @r#"<figure class="past"><svg class="history" viewBox="0 0 2 100" preserveAspectRatio="none" role="img" aria-label="3 of 10"><title>GPUs without jobs, the last 3 looks, 0 to 100 %</title><polyline points="0,80 1,65 2,70"/></svg><figcaption>20 to 35 % in the last 30 s</figcaption></figure>"#);
        assert_eq!(past(&VecDeque::from([20]), "", "", 15), "");
    }
}
