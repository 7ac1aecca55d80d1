//! The cluster as a page: four numbers, what could start now, of few nodes each GPU as a row of its slices, of many a tile for
//! each, and the jobs that wait. A job and a node have a page of their own.

mod grid;
mod history;
mod idle;
mod job;
mod node;
mod pending;
mod start;
mod tiles;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::changes::Changes;
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, Use};
use crate::filter::Filter;
use crate::fragmentation::wholeness;
use crate::gpu_pieces::Owner;
use crate::job_use::JobUse;
use crate::render::palette;
use crate::render::svg::escape;
use geometry::counted;
use node::{History, Looks};

/// GPUs that are drawn each by itself. More would be megabytes, and nobody could see them all.
const MOST_DRAWN: usize = 128;

/// A job's user, where he may be named.
type User<'a, 's> = &'a dyn Fn(u32) -> Option<&'s str>;

/// The data of a page.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The last look that succeeded.
    pub(super) seen: Option<&'a ClusterSnapshot>,
    pub(super) changes: &'a Changes,
    /// Why the last look failed.
    pub(super) trouble: Option<&'a str>,
    /// Users may be named.
    pub(super) names: bool,
    /// Seconds since 1970.
    pub(super) now: u64,
    /// Seconds between two looks.
    pub(super) every_s: u64,
}

/// The style sheet: the colours of every picture, and the page's own rules.
pub(super) fn style_sheet() -> String {
    palette::html_rules() + include_str!("page.css")
}

/// A page around this. `title` says what it shows besides the cluster.
pub(super) fn whole(title: &str, main: &str, form: &str, every_s: u64) -> String {
    let (head, back) = if title.is_empty() {
        (String::new(), "")
    } else {
        (
            format!("{} · ", escape(title)),
            "<p class=\"back\"><a href=\"/\">← All GPUs of the cluster</a></p>\n",
        )
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{head}GPUs of the cluster</title><link rel=\"stylesheet\" href=\"/page.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"{every_s}\"></noscript>\
         <script src=\"/page.js\" defer></script></head>\n\
         <body data-every=\"{every_s}\"><h1><a href=\"/\">GPUs of the cluster</a></h1>\n{back}{form}\
         <main id=\"cluster\">{main}</main>\
         <dialog id=\"more\" aria-label=\"Details\"><div id=\"says\" aria-live=\"polite\"></div>\
         <button id=\"close\">Close</button></dialog></body></html>\n"
    )
}

/// The form that chooses what is shown. It works without the script, too. `said`: what was asked for, by field.
pub(super) fn form(seen: Option<&ClusterSnapshot>, names: bool, said: &dyn Fn(&str) -> String) -> String {
    let nodes = seen.map_or(&[][..], |seen| &seen.nodes);
    let partitions: BTreeSet<&str> = nodes.iter().flat_map(|n| &n.partitions).map(String::as_str).collect();
    let option = |field: &str, value: &str, words: &str| {
        let chosen = if said(field) == value { " selected" } else { "" };
        format!("<option value=\"{}\"{chosen}>{}</option>", escape(value), escape(words))
    };
    let partitions: String = partitions.into_iter().map(|name| option("partition", name, name)).collect();
    let states: String = Use::ALL.map(|in_use| option("state", in_use.name(), in_use.words())).concat();
    let user = if names {
        format!("<label>User <input name=\"user\" size=\"8\" value=\"{}\"></label> ", escape(&said("user")))
    } else {
        String::new()
    };
    format!(
        "<form id=\"filter\" action=\"/\"><label>Nodes <input name=\"node\" size=\"10\" placeholder=\"n[1-4]\" value=\"{}\"></label> \
         <label>Partition <select name=\"partition\"><option value=\"\">any</option>{partitions}</select></label> \
         <label>State <select name=\"state\"><option value=\"\">any</option>{states}</select></label> {user}\
         <button>Show</button></form>\n",
        escape(&said("node"))
    )
}

/// All that changes. The filter's error is said in its place.
pub(super) fn cluster(view: View<'_>, filter: &Result<Filter, String>) -> String {
    let mut out = String::new();
    trouble(&mut out, view);
    let Some(seen) = view.seen else { return out };
    let filter = match filter {
        Ok(filter) => filter,
        Err(why) => {
            let _ = writeln!(out, "<p class=\"trouble\" role=\"alert\">{}</p>", escape(why));
            return out;
        }
    };
    let wanted = filter.nodes(seen);
    let all = wholeness(&seen.nodes.iter().collect::<Vec<_>>());
    let uses = uses(&seen.nodes);
    tiles::tiles(&mut out, seen, &all, &uses, view);
    if filter.is_empty() {
        start::start(&mut out, &all);
        start::lost(&mut out, &all, view);
    } else {
        let of = counted(seen.nodes.len(), "node");
        let _ = writeln!(out, "<p>Shown: {} of {of}. <a href=\"/\">Show all</a></p>", wanted.len());
        start::start(&mut out, &wholeness(&wanted));
    }
    let gpus: usize = wanted.iter().map(|node| node.gpus.as_ref().map_or(0, Vec::len)).sum();
    let _ = writeln!(
        out,
        "<h2>Nodes <small>seen {} ago: {}</small></h2>",
        span(view.now.saturating_sub(seen.at)),
        by_use(&uses)
    );
    if gpus > MOST_DRAWN {
        out.push_str(grid::LEGEND);
        grid::grid(&mut out, &wanted);
    } else {
        out.push_str(&legend(&wanted));
        // Nodes that take no jobs come last.
        let (away, able): (Vec<_>, Vec<_>) = wanted.iter().partition(|node| node.in_use().is_away());
        sections(&mut out, &[able, away].concat(), view, seen, History::Small);
    }
    pending::pending(&mut out, seen, filter, view.names, view.now);
    idle::idle(&mut out, seen, filter, view.names);
    out
}

/// Nodes by how much they are used.
type Uses = [(Use, usize); Use::ALL.len()];

/// Counts the nodes of each use.
fn uses(all: &[NodeSeen]) -> Uses {
    let mut uses = Use::ALL.map(|in_use| (in_use, 0));
    for in_use in all.iter().map(NodeSeen::in_use) {
        uses.iter_mut().filter(|(known, _)| *known == in_use).for_each(|(_, n)| *n += 1);
    }
    uses
}

/// How many nodes are how much used, as links that show those alone.
fn by_use(uses: &Uses) -> String {
    let one = |(in_use, n): &(Use, usize)| {
        format!("<a href=\"/?state={}\">{n} {}</a>", in_use.name(), in_use.words())
    };
    uses.iter().filter(|(_, n)| *n > 0).map(one).collect::<Vec<_>>().join(", ")
}

/// Writes a job with the answer of `tessera why`, its name and its use, as a title and what goes into a page.
pub(super) fn job(view: View<'_>, id: u32, told: &str, known: &JobUse) -> (String, String) {
    let users = view.seen.map(users).unwrap_or_default();
    let user = |id: u32| users.get(&id).filter(|_| view.names).copied();
    (job::title(view, id), job::job(view, id, (told, known), &user))
}

/// Writes a node with the histories of its GPUs; `None`: there is no such node.
pub(super) fn node(view: View<'_>, name: &str) -> Option<String> {
    let mut out = String::new();
    trouble(&mut out, view);
    let seen = view.seen?;
    let node = seen.nodes.iter().find(|node| node.name == name)?;
    sections(&mut out, &[node], view, seen, History::Large);
    Some(out)
}

/// The users of all jobs.
fn users(seen: &ClusterSnapshot) -> HashMap<u32, &str> {
    seen.jobs.iter().map(|job| (job.id, job.user.as_str())).collect()
}

fn sections(out: &mut String, nodes: &[&NodeSeen], view: View<'_>, seen: &ClusterSnapshot, history: History) {
    let users = users(seen);
    let user = |id: u32| users.get(&id).filter(|_| view.names).copied();
    for seen in nodes {
        let busy = view.changes.busy.get(&seen.name).map_or(&[][..], Vec::as_slice);
        node::section(out, seen, Looks { busy, every_s: view.every_s }, &user, history);
    }
}

fn trouble(out: &mut String, view: View<'_>) {
    if let Some(why) = view.trouble {
        let _ = writeln!(
            out,
            "<p class=\"trouble\" role=\"alert\">Slurm cannot be asked now: {}</p>",
            escape(why)
        );
    }
}

/// The kinds that these nodes have.
fn legend(nodes: &[&NodeSeen]) -> String {
    let gpus = nodes.iter().flat_map(|node| node.gpus.iter().flatten());
    let one =
        |owner: Owner| format!("<li><span class=\"key {}\"></span>{}</li>", owner.name(), owner.words());
    format!(
        "<ul class=\"legend\">{}</ul>\n",
        Owner::of(gpus.flat_map(|gpu| &gpu.pieces)).map(one).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::{node, seen};

    pub(super) fn view<'a>(seen: &'a ClusterSnapshot, changes: &'a Changes) -> View<'a> {
        View { seen: Some(seen), changes, trouble: None, names: false, now: 10_005, every_s: 15 }
    }

    /// Nodes of 8 GPUs in every mixture of free, partly used and fully used.
    fn large(n: usize) -> ClusterSnapshot {
        let line = |i: usize| {
            let gpu = |k: usize| match (i / 3_usize.pow(u32::try_from(k).unwrap())) % 3 {
                0 => "free".to_owned(),
                1 => format!("mig[3g.20gb@0:job{},1g.5gb@4:idle]", 10 * i + k),
                _ => format!("whole[job{}]", 10 * i + k),
            };
            (0..8).map(|k| format!(" gpu{k}={}", gpu(k))).collect::<String>()
        };
        let node = |i: usize| {
            node(&format!("gpu-node-{i}"), "gpu", true, &["a100-40gb"; 8], &format!("tessera{}", line(i)))
        };
        ClusterSnapshot { nodes: (0..n).map(node).collect(), ..seen() }
    }

    #[test]
    fn a_thousand_nodes_are_a_small_page() {
        let (seen, mut changes) = (large(1000), Changes::default());
        changes.add(&seen);
        let page = cluster(view(&seen, &changes), &Ok(Filter::default()));
        assert!(page.len() < 150_000, "{} bytes", page.len());
        // Each node can be reached.
        for i in 0..1000 {
            assert!(page.contains(&format!("href=\"/nodes/gpu-node-{i}\"")), "{i}");
        }
    }

    #[test]
    fn what_fragmentation_costs_has_a_history() {
        let (seen, mut changes) = (seen(), Changes::default());
        changes.add(&seen);
        changes.add(&seen);
        let page = cluster(view(&seen, &changes), &Ok(Filter::default()));
        let a100 = "(a100-40gb)";
        for part in [
            "<b>1</b> <span>of 4 GPUs without jobs</span>",
            "25 % in the last 15 s</figcaption>",
            "<title>GPUs without jobs, the last 2 looks, 0 to 100 %</title><polyline points=\"0,75 1,75\"/>",
            &format!(
                "Lost to fragmentation: 1 of 1 places for 4g.20gb {a100}, 1 of 2 for 2g.10gb {a100}, 1 of 4 for 1g.5gb {a100}."
            ),
            "<td>4g.20gb</td><td>a100-40gb</td><td>0</td><td>1</td><td>100 %</td><td><svg",
        ] {
            assert!(page.contains(part), "no {part} in\n{page}");
        }
    }

    #[test]
    fn a_filter_draws_what_it_leaves() {
        let (seen, changes) = (large(1000), Changes::default());
        let filter = Filter::new("gpu-node-[7-8]", "", "", "");
        let page = cluster(view(&seen, &changes), &filter);
        assert!(page.contains("Shown: 2 of 1000 nodes.") && page.contains("data-job=\"70\""), "{page}");
        assert!(!page.contains("class=\"rack\""));
    }
}
