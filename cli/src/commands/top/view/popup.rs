//! Windows over the panes: the keys, a row's nodes, or the text on a job.

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use site_config::hostlist;

use super::View;
use crate::cluster_snapshot::{NodeSeen, power};
use crate::commands::top::state::{Cancelled, Popup};
use crate::gpu_pieces::Piece;

/// Nodes of a group whose GPUs are told.
const MOST_TOLD: usize = 8;

const KEYS: &str = "\
↑ ↓ PgUp PgDn Home End  move          Tab  nodes or jobs
Enter  a node: what its GPUs have; a job: why it waits, or what it uses
c      cancel the job, after a question
s      sort: nodes by file, free slices, name;
       jobs by priority, user, time
u      show one user's jobs, and the nodes where they run
p      show one partition
n      show some nodes, a hostlist such as n[1-4]
x      show all again
g      groups of nodes that are used alike, or each node
q      quit                           Esc  closes this

A character of a GPU is a memory slice, or half of one:
3g==  a job's instance      m==  shared, t== by GPU tasks
3g--  idle, kept for reuse  ···  free     ×××  Slurm's own
!     the node takes no jobs now
";

pub(super) fn draw(frame: &mut Frame<'_>, view: View<'_>, popup: &Popup) {
    let (title, text) = match popup {
        Popup::Help => ("Keys".to_owned(), KEYS.to_owned()),
        Popup::Nodes(names) => {
            (super::cut(&hostlist::compress(names), 40).trim_end().to_owned(), nodes(view, names))
        }
        Popup::Job(id, said) => {
            (format!("Job {id}"), said.clone().unwrap_or_else(|| "asking Slurm…".to_owned()))
        }
        Popup::Cancel(job) => ("Cancel a job".to_owned(), cancel(job)),
    };
    let whole = frame.area();
    let area =
        whole.inner(Margin { horizontal: (whole.width / 16).min(8), vertical: (whole.height / 8).min(4) });
    let inside = area.inner(Margin { horizontal: 2, vertical: 1 });
    let area = Rect { height: area.height.min(height(&text, inside.width).saturating_add(2)), ..area };
    let keys = match popup {
        Popup::Cancel(Cancelled { said: None, .. }) => " y yes, n no ",
        _ => " ↑↓ scroll, Esc closes ",
    };
    let block = Block::bordered().title(format!(" {title} ")).title_bottom(keys);
    frame.render_widget(Clear, area);
    let inside = area.inner(Margin { horizontal: 2, vertical: 1 });
    frame.render_widget(block, area);
    let last = height(&text, inside.width).saturating_sub(inside.height);
    let shown = Paragraph::new(text).wrap(Wrap { trim: false }).scroll((view.state.scroll.min(last), 0));
    frame.render_widget(shown, inside);
}

fn cancel(job: &Cancelled) -> String {
    let next = match job.said.as_deref() {
        None => format!("scancel {}?  y cancels it, n leaves it", job.number),
        Some("") => "asking Slurm…".to_owned(),
        Some(text) => text.to_owned(),
    };
    format!("{}\n\n{next}", job.question)
}

/// Lines of a text at this width.
fn height(text: &str, width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let lines: usize = text.lines().map(|line| line.chars().count().div_ceil(width).max(1)).sum();
    u16::try_from(lines).unwrap_or(u16::MAX)
}

fn nodes(view: View<'_>, names: &[String]) -> String {
    let Some(seen) = view.seen else { return String::new() };
    let mut text = if names.len() > 1 {
        format!("{} nodes: {}\n\n", names.len(), hostlist::compress(names))
    } else {
        String::new()
    };
    for node in seen.nodes.iter().filter(|node| names.contains(&node.name)).take(MOST_TOLD) {
        text.push_str(&one(node));
    }
    if names.len() > MOST_TOLD {
        let _ = writeln!(text, "and {} more; n shows some nodes", names.len() - MOST_TOLD);
    }
    text
}

fn one(node: &NodeSeen) -> String {
    let no_jobs = if node.takes_jobs { "" } else { "; takes no jobs now, `sinfo -R` says why" };
    let draws = node.watts.map_or_else(String::new, |watts| format!(", draws {}", power(watts.into())));
    let mut text = format!(
        "{}: partition {}, links {}{draws}{no_jobs}\n",
        node.name,
        node.partitions.join(","),
        node.links
    );
    match &node.gpus {
        Err(why) => {
            let _ = writeln!(text, "  GPUs not known: {why}");
        }
        Ok(gpus) => {
            for (i, gpu) in gpus.iter().enumerate() {
                let pieces: Vec<String> = gpu.pieces.iter().map(piece).collect();
                let _ = writeln!(text, "  GPU {i} {}: {}", gpu.model.key, pieces.join(", "));
            }
        }
    }
    text
}

fn piece(piece: &Piece) -> String {
    let profile = piece.profile.as_ref().map_or_else(String::new, |profile| format!("{profile} "));
    format!("{profile}{}", piece.detail())
}
