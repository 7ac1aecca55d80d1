//! Many nodes at a glance: nodes that are used alike are one line, which opens to their names.

use std::fmt::Write as _;

use crate::cluster_snapshot::{NodeSeen, Use};
use crate::node_groups::{Group, fold};
use crate::render::hosts;
use crate::render::svg::escape;

pub(super) fn overview(out: &mut String, nodes: &[&NodeSeen]) {
    let groups = fold(nodes);
    out.push_str("<div class=\"groups\">\n");
    groups.iter().for_each(|g| group(out, g));
    out.push_str("</div>\n");
}

fn group(out: &mut String, group: &Group<'_>) {
    let names: Vec<String> = group.nodes.iter().map(|node| node.name.clone()).collect();
    let cells: String = group.cells.iter().map(|cell| format!("<i class={}></i>", cell.class())).collect();
    let free = match group.in_use {
        Use::Unknown => "GPUs not known".to_owned(),
        Use::Away => "takes no jobs".to_owned(),
        _ => format!("{} of {} slices free", group.slices.free, group.slices.all),
    };
    let gpus = escape(&group.gpus);
    let line =
        format!("<span class=\"cells\" aria-hidden=\"true\">{cells}</span><small>{free}; {gpus}</small>");
    let link = |name: &String| {
        let name = escape(name);
        format!("<a href=\"/nodes/{name}\" data-node=\"{name}\">{name}</a>")
    };
    let _ = match &names[..] {
        [one] => writeln!(out, "<p class=\"group\">{} {line}</p>", link(one)),
        several => {
            let links: Vec<String> = several.iter().map(link).collect();
            writeln!(
                out,
                "<details data-key=\"{}\"><summary class=\"group\"><span>{}</span> {line}</summary>{}</details>",
                links_key(group),
                escape(&hosts::brief(several)),
                links.join(" ")
            )
        }
    };
}

/// What stays the same from look to look while such a group exists: the page keeps what is open.
fn links_key(group: &Group<'_>) -> String {
    let cells: String = group.cells.iter().map(|cell| cell.class()).collect();
    escape(&format!("{} {cells} {}", group.in_use.name(), group.gpus))
}

/// How many nodes are how much used, as links that show those alone.
pub(super) fn by_use(all: &[NodeSeen]) -> String {
    let count = |wanted: Use| all.iter().filter(|node| node.in_use() == wanted).count();
    let one = |(in_use, n): (Use, usize)| {
        format!("<a href=\"/?state={}\">{n} {}</a>", in_use.name(), in_use.words())
    };
    let some = Use::ALL.into_iter().map(|in_use| (in_use, count(in_use))).filter(|(_, n)| *n > 0);
    some.map(one).collect::<Vec<_>>().join(", ")
}
