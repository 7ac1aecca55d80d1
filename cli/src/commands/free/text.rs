//! The table that a person reads.

use geometry::GpuIndex;
use geometry::size::display_gb;
use node_state::{Node, Purpose};

use super::count::Free;
use crate::allowance::Allowance;
use crate::render::{hosts, table};
use crate::sick_words::sick_list;
use crate::slurm_nodes::{Live, Whose, away};

/// Groups of nodes that a line names; the others are only counted.
const MOST_GROUPS: usize = 3;

/// Writes a line per shape, the default partition if it was taken, why the other shapes are refused, the limits of this user, and
/// what is not counted.
pub(super) fn table(
    all: &[Free],
    live: &Live,
    default: Option<&[String]>,
    limits: Option<(&str, &Allowance)>,
) -> String {
    let mut rows =
        vec![["SHAPE", "MEMORY", "SMs", "NOW", "WHERE", "ASK FOR ONE WITH"].map(str::to_owned).to_vec()];
    let mut refused: Vec<String> = Vec::new();
    for free in all {
        match &free.nodes {
            Ok(nodes) => rows.push(vec![
                free.shape.name.clone(),
                free.shape.memory_mib.map_or_else(|| "-".to_owned(), display_gb),
                free.shape.sms_in_words(),
                free.total().to_string(),
                places(nodes),
                free.shape.options.clone(),
            ]),
            Err(why) => refused.push(format!("{}: {why}", free.shape.name)),
        }
    }
    let mut text = table::render(&rows, &[1, 3]);
    if rows.len() > 1 {
        text.push_str(
            "\n--gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.\n",
        );
    }
    text.extend(default.map(|names| {
        format!("\nIn your default partition, {}; --partition counts another.\n", names.join(","))
    }));
    text.push_str(&limits.map_or_else(String::new, |(user, allowance)| limited(all, user, allowance)));
    if !refused.is_empty() {
        text.push_str(&format!("\nRefused:\n  {}\n", refused.join("\n  ")));
    }
    let left_out: Vec<String> = away::by_reason(&live.not_taking)
        .into_iter()
        .map(|(names, why)| format!("{}: {why}", hosts::brief(&names)))
        .collect();
    if !left_out.is_empty() {
        text.push_str(&format!("\nNot counted:\n  {}\n", left_out.join("\n  ")));
    }
    let gone: Vec<String> = aside(live, |whose| whose == Whose::Nobodys);
    if !gone.is_empty() {
        text.push_str(&format!(
            "\nThese nodes start no GPU job until an administrator fixes them:\n  {}\n",
            gone.join("\n  ")
        ));
    }
    let sick: Vec<String> = by_reason(
        live.nodes.iter().filter_map(|present| Some((present.name.clone(), sick_list(&present.sick)?))),
    );
    if !sick.is_empty() {
        text.push_str(&format!("\nUnhealthy, and not counted:\n  {}\n", sick.join("\n  ")));
    }
    let slurms: Vec<String> =
        aside(live, |whose| whose != Whose::Nobodys).into_iter().chain(partly(live)).collect();
    if !slurms.is_empty() {
        text.push_str(&format!(
            "\nLeft to Slurm, for jobs without Tessera's options (--gres=gpu:1), and not counted here:\n  {}\n",
            slurms.join("\n  ")
        ));
    }
    text
}

/// The limits that concern GPUs, with what NOW has to do with them.
fn limited(all: &[Free], user: &str, allowance: &Allowance) -> String {
    let lines = allowance.lines();
    if lines.is_empty() {
        return String::new();
    }
    let less = all.iter().any(|free| free.total() < free.room());
    let so = if less { ": NOW is what they leave, WHERE what the GPUs have room for" } else { "" };
    format!("\n{}{so}\n  {}\n", allowance.head(user), lines.join("\n  "))
}

/// `n[1-2]: it publishes no layout`: the nodes without Tessera's jobs, those with the same reason together.
fn aside(live: &Live, which: impl Fn(Whose) -> bool) -> Vec<String> {
    let nodes = live.aside.iter().filter(|aside| which(aside.whose));
    by_reason(nodes.map(|aside| (aside.name.clone(), aside.why.clone())))
}

/// `n1: GPU 3`: the GPUs that the site leaves to Slurm on nodes whose other GPUs are counted.
fn partly(live: &Live) -> Vec<String> {
    let nodes = live.nodes.iter().filter_map(|present| Some((present.name.clone(), slurms(&present.node)?)));
    by_reason(nodes)
}

fn slurms(node: &Node) -> Option<String> {
    let numbered = (0_u16..).map(GpuIndex).zip(&node.gpus);
    let all: Vec<String> = numbered
        .filter(|(_, gpu)| gpu.purpose == Purpose::Slurm)
        .map(|(number, _)| number.to_string())
        .collect();
    let s = if all.len() == 1 { "" } else { "s" };
    (!all.is_empty()).then(|| format!("GPU{s} {}", all.join(", ")))
}

fn by_reason(nodes: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (name, why) in nodes {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    groups.into_iter().map(|(why, names)| format!("{}: {why}", hosts::brief(&names))).collect()
}

/// `n[1-4] 7 each, n5 2`: the nodes that a job gets first come first, with those that have room for as many.
fn places(nodes: &[(String, u32)]) -> String {
    let mut groups: Vec<(u32, Vec<String>)> = Vec::new();
    for (name, n) in nodes {
        match groups.iter_mut().find(|(count, _)| count == n) {
            Some((_, names)) => names.push(name.clone()),
            None => groups.push((*n, vec![name.clone()])),
        }
    }
    let more: usize = groups.iter().skip(MOST_GROUPS).map(|(_, names)| names.len()).sum();
    let mut words: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|(n, names)| {
            format!("{} {n}{}", hosts::brief(names), if names.len() > 1 { " each" } else { "" })
        })
        .collect();
    if more > 0 {
        words.push(format!("{more} more node{}", if more == 1 { "" } else { "s" }));
    }
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}
