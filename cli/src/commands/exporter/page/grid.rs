//! Many nodes as tiles: the racks in the order of tessera.toml, then the nodes that take no jobs.

use std::fmt::Write as _;

use crate::cluster_snapshot::NodeSeen;
use crate::node_groups;
use crate::render::hosts;
use crate::render::svg::escape;
use geometry::counted;

/// Nodes per stem of names, on average, from which stems are racks.
const LEAST_IN_RACK: usize = 3;

/// Steps of a tile's fill.
const STEPS: u32 = 8;

/// A tile for each node.
pub(super) fn grid(out: &mut String, nodes: &[&NodeSeen]) {
    let (away, able): (Vec<&NodeSeen>, Vec<&NodeSeen>) =
        nodes.iter().partition(|node| node.in_use().is_away());
    out.push_str("<div class=\"racks\">\n");
    racks(&able).iter().for_each(|nodes| rack(out, nodes));
    out.push_str("</div>\n");
    if !away.is_empty() {
        let _ = writeln!(
            out,
            "<h2>{} taking no jobs <small><code>sinfo -R</code> says why</small></h2>",
            counted(away.len(), "node")
        );
        out.push_str("<p class=\"grid away\">");
        away.iter().for_each(|node| tile(out, node, 0));
        out.push_str("</p>\n");
    }
}

/// Neighbours with equal GPUs and equal names but for the last number. Where hardly two names go together, equal GPUs suffice.
fn racks<'a>(nodes: &[&'a NodeSeen]) -> Vec<Vec<&'a NodeSeen>> {
    let by = |stems: bool| {
        let key = |node: &NodeSeen| {
            (node_groups::gpus(node), if stems { stem(&node.name).to_owned() } else { String::new() })
        };
        let mut racks: Vec<((String, String), Vec<&'a NodeSeen>)> = Vec::new();
        for node in nodes {
            let key = key(node);
            match racks.last_mut() {
                Some((known, rack)) if *known == key => rack.push(node),
                _ => racks.push((key, vec![node])),
            }
        }
        racks.into_iter().map(|(_, rack)| rack).collect::<Vec<_>>()
    };
    let racks = by(true);
    if racks.len() * LEAST_IN_RACK <= nodes.len() { racks } else { by(false) }
}

fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn rack(out: &mut String, nodes: &[&NodeSeen]) {
    let Some(first) = nodes.first() else { return };
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let gpus = if first.gpus.is_ok() { node_groups::gpus(first) } else { "GPUs not known".to_owned() };
    let _ = write!(
        out,
        "<section class=\"rack\"><h3>{} <small>{}</small></h3><p class=\"grid\">",
        escape(&hosts::brief(&names)),
        escape(&gpus)
    );
    let one = nodes.iter().all(|node| stem(&node.name) == stem(&first.name));
    let common = if one { stem(&first.name).len() } else { 0 };
    nodes.iter().for_each(|node| tile(out, node, common));
    out.push_str("</p></section>\n");
}

/// The node's number or name, and its GPUs without jobs. The fill is the part of the slices that jobs have. `common`: bytes of the
/// name that the rack's title has.
fn tile(out: &mut String, node: &NodeSeen, common: usize) {
    let name = escape(&node.name);
    let label = match node.name.get(common..) {
        Some(number) if !number.is_empty() => escape(number),
        _ => name.clone(),
    };
    let slices = node.slices();
    let gpus = node.gpus.iter().flatten();
    let whole = gpus.clone().filter(|gpu| gpu.is_free()).count();
    let sick = if node.sick.is_empty() { "" } else { " k" };
    let (class, says) = match &node.gpus {
        Err(_) => ("x".to_owned(), "GPUs not known".to_owned()),
        _ if gpus.clone().count() > 0 && gpus.clone().all(|gpu| gpu.state() == "slurm") => {
            ("s".to_owned(), "left to Slurm".to_owned())
        }
        _ => {
            let used = (STEPS * (slices.all - slices.free)).div_ceil(slices.all.max(1));
            (format!("f{used}"), format!("{} of {} slices free", slices.free, slices.all))
        }
    };
    let mark = match (node.sick.is_empty(), whole) {
        (false, _) => "<b>!</b>".to_owned(),
        (true, 0) => String::new(),
        (true, n) => format!("<b>{n}</b>"),
    };
    let _ = writeln!(
        out,
        "<a href=\"/nodes/{name}\" class=\"{class}{sick}\" title=\"{name}: {says}\">{label}{mark}</a>"
    );
}

/// Explains the tiles.
pub(super) const LEGEND: &str = "<ul class=\"legend grid-legend\"><li><span class=\"key f4\"></span>filled: slices that jobs have</li>\
    <li><b>3</b> GPUs without jobs</li><li><b>!</b> an unhealthy GPU</li>\
    <li><span class=\"key s\"></span>left to Slurm</li><li><span class=\"key away\"></span>takes no jobs</li></ul>\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::node;

    fn named(name: &str, takes_jobs: bool) -> NodeSeen {
        node(name, "gpu", takes_jobs, &["a100-40gb"; 2], "tessera gpu0=mig[3g.20gb@0:job1] gpu1=free")
    }

    #[test]
    fn racks_stand_in_order_and_drained_nodes_last() {
        let nodes: Vec<NodeSeen> = ["r1n1", "r1n2", "r1n3", "r1n4", "r2n1", "r2n2", "r2n3", "r2n4"]
            .map(|name| named(name, name != "r1n3"))
            .into();
        let mut out = String::new();
        grid(&mut out, &nodes.iter().collect::<Vec<_>>());
        let order: Vec<&str> = out.split("/nodes/").skip(1).map(|rest| &rest[..4]).collect();
        assert_eq!(order, ["r1n1", "r1n2", "r1n4", "r2n1", "r2n2", "r2n3", "r2n4", "r1n3"]);
        insta::assert_snapshot!(out.lines().skip(1).take(2).collect::<Vec<_>>().join("\n"), @r#"
        <section class="rack"><h3>r1n[1-2,4] <small>2 x a100-40gb</small></h3><p class="grid"><a href="/nodes/r1n1" class="f2" title="r1n1: 11 of 14 slices free">1<b>1</b></a>
        <a href="/nodes/r1n2" class="f2" title="r1n2: 11 of 14 slices free">2<b>1</b></a>
        "#);
    }

    #[test]
    fn names_without_racks_are_one_grid() {
        let nodes: Vec<NodeSeen> = ["alpha", "beta", "gamma"].map(|name| named(name, true)).into();
        let mut out = String::new();
        grid(&mut out, &nodes.iter().collect::<Vec<_>>());
        assert_eq!(out.matches("class=\"rack\"").count(), 1);
        assert!(out.contains(">alpha<b>1</b></a>"), "{out}");
    }
}
