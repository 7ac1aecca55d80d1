//! The cluster as a page: of few nodes each GPU as a row of its slices, of many the nodes that are used alike as one line,
//! and what waits.

mod idle;
mod node;
mod overview;
mod pending;
mod places;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::changes::Changes;
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, Use};
use crate::filter::Filter;
use crate::gpu_pieces::Owner;
use crate::render::svg::escape;
use geometry::counted;
use node::History;

/// GPUs that are drawn each by itself. More would be megabytes, and nobody could see them all.
const MOST_DRAWN: usize = 128;

/// A job's user, where he may be named.
type User<'a, 's> = &'a dyn Fn(u32) -> Option<&'s str>;

/// What a page is made of.
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
}

/// A page around this.
pub(super) fn whole(main: &str, form: &str, every_s: u64) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>GPUs of the cluster</title><link rel=\"stylesheet\" href=\"/page.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"{every_s}\"></noscript>\
         <script src=\"/page.js\" defer></script></head>\n\
         <body data-every=\"{every_s}\"><h1><a href=\"/\">GPUs of the cluster</a></h1>\n{form}\
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
    let _ = writeln!(out, "<p>{}</p>", summary(seen, view.now));
    let _ = writeln!(out, "<p>Nodes: {}.</p>", overview::by_use(&seen.nodes));
    places::places(&mut out, seen, view.changes);
    let wanted = filter.nodes(seen);
    if !filter.is_empty() {
        let of = counted(seen.nodes.len(), "node");
        let _ = writeln!(out, "<p>Shown: {} of {of}. <a href=\"/\">Show all</a></p>", wanted.len());
    }
    let gpus: usize = wanted.iter().map(|node| node.gpus.as_ref().map_or(0, Vec::len)).sum();
    if gpus > MOST_DRAWN {
        out.push_str(OVERVIEW_LEGEND);
        overview::overview(&mut out, &wanted);
    } else {
        out.push_str(&legend());
        sections(&mut out, &wanted, view, seen, History::Small);
    }
    pending::pending(&mut out, seen, filter, view.names, view.now);
    idle::idle(&mut out, seen, filter, view.names);
    out
}

/// One node with the histories of its GPUs; `None`: there is no such node.
pub(super) fn node(view: View<'_>, name: &str) -> Option<String> {
    let mut out = String::new();
    trouble(&mut out, view);
    let seen = view.seen?;
    let node = seen.nodes.iter().find(|node| node.name == name)?;
    sections(&mut out, &[node], view, seen, History::Large);
    Some(out)
}

fn sections(out: &mut String, nodes: &[&NodeSeen], view: View<'_>, seen: &ClusterSnapshot, history: History) {
    let jobs: HashMap<u32, &str> = seen.jobs.iter().map(|job| (job.id, job.user.as_str())).collect();
    let user = |id: u32| jobs.get(&id).filter(|_| view.names).copied();
    for seen in nodes {
        let busy = view.changes.busy.get(&seen.name).map_or(&[][..], Vec::as_slice);
        node::section(out, seen, busy, &user, history);
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

fn summary(seen: &ClusterSnapshot, now: u64) -> String {
    let of_state = |state: &'static str| seen.jobs.iter().filter(move |job| job.state == state);
    let in_state = |state| of_state(state).map(|job| job.jobs()).fold(0, usize::saturating_add);
    let age = now.saturating_sub(seen.at);
    format!(
        "{}. {} running, {} waiting. Seen {} ago.",
        seen.room().words(),
        counted(in_state("RUNNING"), "job"),
        in_state("PENDING"),
        span(age)
    )
}

/// Of the overview, where a GPU is a small square.
const OVERVIEW_LEGEND: &str = "<ul class=\"legend\"><li class=\"cells\"><i class=f></i> free GPU</li>\
    <li class=\"cells\"><i class=p></i> partly used</li><li class=\"cells\"><i class=u></i> fully used</li>\
    <li class=\"cells\"><i class=s></i> left to Slurm</li><li class=\"cells\"><i class=k></i> unhealthy</li></ul>\n";

fn legend() -> String {
    let one = |owner: &Owner| {
        let words = match owner {
            Owner::Isolated => "a job's instance",
            Owner::Shared => "shared",
            Owner::Tasks => "shared by GPU tasks",
            Owner::Idle => "idle instance",
            Owner::Whole => "whole GPU",
            Owner::Free => "free",
            Owner::Slurm => "left to Slurm",
            Owner::Sick => "unhealthy",
        };
        format!("<li><span class=\"key {}\"></span>{words}</li>", owner.name())
    };
    let all =
        [Owner::Isolated, Owner::Shared, Owner::Tasks, Owner::Idle, Owner::Whole, Owner::Free, Owner::Slurm];
    format!("<ul class=\"legend\">{}</ul>\n", all.iter().map(one).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::{node, seen};

    fn view<'a>(seen: &'a ClusterSnapshot, changes: &'a Changes) -> View<'a> {
        View { seen: Some(seen), changes, trouble: None, names: false, now: 10_005 }
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
        // Each node can be reached, and few lines hold them all.
        for i in 0..1000 {
            assert!(page.contains(&format!("data-node=\"gpu-node-{i}\"")), "{i}");
        }
        assert!(page.matches("class=\"group\"").count() <= 45, "{}", page.matches("class=\"group\"").count());
    }

    #[test]
    fn what_fragmentation_costs_has_a_history() {
        let (seen, mut changes) = (seen(), Changes::default());
        changes.add(&seen);
        changes.add(&seen);
        let page = cluster(view(&seen, &changes), &Ok(Filter::default()));
        let a100 = "(a100-40gb)";
        for part in [
            "<p class=\"places\">Without jobs: 1 of 4 GPUs, 0 of 3 nodes. <svg",
            "<title>GPUs without jobs, the last 2 looks</title><polyline points=\"0,75 1,75\"/>",
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
        assert!(!page.contains("class=\"group\""));
    }
}
