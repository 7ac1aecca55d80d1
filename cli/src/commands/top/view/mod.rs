//! The screen: a state and what was seen, as cells of a terminal of any size.

mod jobs;
mod nodes;
mod popup;

use geometry::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::state::{Pane, State};
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, Slices, power};
use crate::gpu_pieces::Owner;
use crate::node_groups::fit as cut;

/// Columns from which nodes and jobs stand beside each other.
const WIDE: u16 = 140;

/// Data of the drawing.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    /// The last look that succeeded.
    pub(super) seen: Option<&'a ClusterSnapshot>,
    /// Why the last look failed.
    pub(super) trouble: Option<&'a str>,
    /// Seconds since 1970.
    pub(super) now: u64,
    pub(super) colour: bool,
}

impl View<'_> {
    fn owner(&self, owner: Owner) -> Style {
        match owner.background().filter(|_| self.colour) {
            Some(index) => Style::new().fg(Color::Indexed(16)).bg(Color::Indexed(index)),
            None => Style::new(),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, view: View<'_>) {
    let [top, said, rest, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(summary(view, top.width)).style(bold()), top);
    frame.render_widget(filter(view), said);
    let rows = view.state.rows(view.seen);
    let half = Constraint::Percentage(50);
    let [left, right] = if rest.width >= WIDE {
        Layout::horizontal([half, half]).spacing(2).areas(rest)
    } else {
        let need = [nodes::lines(view, &rows, rest.width).len(), rows.jobs.len()].map(|lines| lines + 1);
        Layout::vertical([Constraint::Length(upper(need, rest.height)), Constraint::Min(0)]).areas(rest)
    };
    nodes::draw(frame, left, view, &rows);
    jobs::draw(frame, right, view, &rows);
    frame.render_widget(
        Line::from("Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit"),
        keys,
    );
    if let Some(popup) = &view.state.popup {
        popup::draw(frame, view, popup);
    }
}

/// Lines of the upper pane: half of the screen, less where it or the lower one needs less. `need`: lines with the title.
fn upper([above, below]: [usize; 2], height: u16) -> u16 {
    let [above, below] = [above + 1, below].map(|lines| u16::try_from(lines).unwrap_or(u16::MAX));
    above.min(height.saturating_sub(below).max(height / 2))
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The most important first: a narrow terminal cuts the end.
fn summary(view: View<'_>, width: u16) -> String {
    let Some(seen) = view.seen else { return "tessera top: asking Slurm…".to_owned() };
    let room = seen.room();
    let running = seen.jobs.iter().filter(|job| job.state == "RUNNING").count();
    let pending = seen.jobs.iter().filter(|job| job.waits()).count();
    let age = span(view.now.saturating_sub(seen.at));
    let watts = seen.watts().map_or_else(String::new, power);
    let draw = if watts.is_empty() { String::new() } else { format!(" Nodes draw {watts}.") };
    let long = format!(
        "tessera top: {}. {} running, {pending} waiting.{draw} Seen {age} ago.",
        room.words(),
        counted(running, "job")
    );
    if long.chars().count() <= usize::from(width) {
        return long;
    }
    let Slices { free, all } = room.slices;
    let able = if room.nodes == room.of_nodes { String::new() } else { format!("{}/", room.nodes) };
    let nodes = counted(room.of_nodes, "node");
    let short = format!(
        "{free}/{all} slices free  {running} running {pending} waiting  {able}{nodes}  {age} ago  {watts}"
    );
    short.trim_end().to_owned()
}

/// Draws the line that is typed, is wrong, or is shown.
fn filter(view: View<'_>) -> Line<'static> {
    let state = view.state;
    if let Some((field, text)) = &state.input {
        return Line::from(format!("show {}: {text}█  (Enter takes it, Esc leaves it)", field.name()));
    }
    let warn = |text: String| Line::from(Span::styled(text, Style::new().add_modifier(Modifier::REVERSED)));
    if let Some(why) = &state.wrong {
        return warn(why.clone());
    }
    if let Some(why) = view.trouble {
        return warn(format!("Slurm cannot be asked now: {}", why.lines().next().unwrap_or_default()));
    }
    let names = ["user", "partition", "nodes"];
    let said = names.iter().zip(&state.said).filter(|(_, text)| !text.is_empty());
    let said: Vec<String> = said.map(|(name, text)| format!("{name} {text}")).collect();
    if said.is_empty() {
        return Line::default();
    }
    Line::from(format!("Shown: {}  (x shows all)", said.join(", ")))
}

/// A pane's title, marked where the keys go, and the room below it.
fn titled(frame: &mut Frame<'_>, area: Rect, title: &str, chosen: bool) -> Rect {
    let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let style = if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { bold() };
    let width = usize::from(head.width);
    frame.render_widget(Paragraph::new(format!("{title:<width$}")).style(style), head);
    rest
}

/// The lines with the chosen row in the window. `lines` have the row that they belong to.
fn window(frame: &mut Frame<'_>, area: Rect, lines: Vec<(usize, Line<'_>)>, at: usize, chosen: bool) {
    let rows = lines.last().map_or(0, |(row, _)| row + 1);
    let at = at.min(rows.saturating_sub(1));
    let height = usize::from(area.height);
    let end = lines.iter().rposition(|(row, _)| *row == at).map_or(0, |last| last + 1);
    let shown = lines.into_iter().skip(end.saturating_sub(height)).take(height);
    let mark = |(row, line): (usize, Line<'static>)| {
        if row == at && chosen { line.style(Style::new().add_modifier(Modifier::BOLD)) } else { line }
    };
    let marked: Vec<Line<'_>> = shown.map(|(row, line)| mark((row, own(line)))).collect();
    frame.render_widget(Paragraph::new(marked), area);
}

fn own(line: Line<'_>) -> Line<'static> {
    let spans = line.spans.into_iter().map(|span| Span::styled(span.content.into_owned(), span.style));
    Line::from(spans.collect::<Vec<_>>())
}

fn pane(state: &State, pane: Pane) -> bool {
    state.pane == pane
}
