//! State of the screen, and the change that each key makes. Nothing here reads a clock, a terminal or Slurm.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rows::{JobSort, NodeSort, Rows, Shown};
use crate::clock::span;
use crate::cluster_snapshot::ClusterSnapshot;
use crate::filter::Filter;

/// Rows that a page key moves.
const PAGE: usize = 10;

/// The part of the screen that the keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Nodes,
    Jobs,
}

/// Fields that can be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    User,
    Partition,
    Nodes,
}

impl Field {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Partition => "partition",
            Self::Nodes => "nodes",
        }
    }
}

/// A window over the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Popup {
    Help,
    /// The nodes of a row.
    Nodes(Vec<String>),
    /// A job; what is to be said of it, once it is known.
    Job(u32, Option<String>),
    /// The question before a job is cancelled.
    Cancel(Cancelled),
}

/// A job that may be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cancelled {
    /// As scancel takes it: of an array that waits exactly the tasks that wait.
    pub(super) number: String,
    /// The job's user, and how long it has run: lost by the cancellation.
    pub(super) question: String,
    /// scancel's answer, empty until it comes; `None`: the person has not said yes.
    pub(super) said: Option<String>,
}

/// Work that the caller has to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Find out why this job waits or what it has.
    Explain(u32),
    /// Cancel the job with this number.
    Cancel(String),
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) pane: Pane,
    /// As they were typed: user, partition, nodes.
    pub(super) said: [String; 3],
    pub(super) filter: Filter,
    /// Why what was typed is no filter.
    pub(super) wrong: Option<String>,
    pub(super) input: Option<(Field, String)>,
    /// `None`: groups where there are many nodes.
    pub(super) grouped: Option<bool>,
    pub(super) node_sort: NodeSort,
    pub(super) job_sort: JobSort,
    /// The chosen row of each pane.
    pub(super) node_at: usize,
    pub(super) job_at: usize,
    pub(super) popup: Option<Popup>,
    /// Lines of the popup above its window.
    pub(super) scroll: u16,
}

impl State {
    /// The error is for the command line.
    pub(super) fn new(user: &str, partition: &str, nodes: &str) -> Result<Self, String> {
        let filter = Filter::new(nodes, partition, user, "")?;
        Ok(Self {
            pane: Pane::Nodes,
            said: [user, partition, nodes].map(str::to_owned),
            filter,
            wrong: None,
            input: None,
            grouped: None,
            node_sort: NodeSort::Site,
            job_sort: JobSort::Queue,
            node_at: 0,
            job_at: 0,
            popup: None,
            scroll: 0,
        })
    }

    /// The rows of both panes.
    pub(super) fn rows<'a>(&self, seen: Option<&'a ClusterSnapshot>) -> Rows<'a> {
        let Self { filter, grouped, node_sort, job_sort, .. } = self;
        let shown = Shown { filter, grouped: *grouped, node_sort: *node_sort, job_sort: *job_sort };
        Rows::of(&shown, seen)
    }

    /// Changes the state by a key.
    pub(super) fn press(&mut self, key: KeyEvent, seen: Option<&ClusterSnapshot>) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Nothing };
        }
        if self.input.is_some() {
            self.type_in(key.code, seen);
            return Wish::Nothing;
        }
        if self.popup.is_some() {
            return self.in_popup(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.open(Popup::Help),
            KeyCode::Char('u') => self.ask(Field::User),
            KeyCode::Char('p') => self.ask(Field::Partition),
            KeyCode::Char('n') => self.ask(Field::Nodes),
            KeyCode::Char('c') => self.may_cancel(seen),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('g') => self.grouped = Some(!self.rows(seen).grouped),
            KeyCode::Char('x') => {
                self.said = Default::default();
                self.choose(seen);
            }
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => {
                self.pane = if self.pane == Pane::Nodes { Pane::Jobs } else { Pane::Nodes };
            }
            KeyCode::Enter | KeyCode::Char('e') => return self.enter(seen),
            code => self.step(code, seen),
        }
        Wish::Nothing
    }

    /// Takes the text on a job; it is shown if the job is still asked about.
    pub(super) fn told(&mut self, id: u32, text: String) {
        if let Some(Popup::Job(shown, said)) = &mut self.popup
            && *shown == id
        {
            *said = Some(text);
        }
    }

    fn ask(&mut self, field: Field) {
        self.input = Some((field, self.said[field as usize].clone()));
    }

    fn type_in(&mut self, code: KeyCode, seen: Option<&ClusterSnapshot>) {
        let Some((field, text)) = &mut self.input else { return };
        match code {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Esc => self.input = None,
            KeyCode::Enter => {
                self.said[*field as usize] = std::mem::take(text);
                self.input = None;
                self.choose(seen);
            }
            _ => {}
        }
    }

    /// Takes what was said as the filter; the old one stays where it is wrong.
    fn choose(&mut self, seen: Option<&ClusterSnapshot>) {
        let [user, partition, nodes] = &self.said;
        let shows = |filter: Filter| match seen.and_then(|seen| filter.shows_none_of(seen)) {
            Some(why) => Err(why),
            None => Ok(filter),
        };
        match Filter::new(nodes, partition, user, "").and_then(shows) {
            Ok(filter) => {
                (self.filter, self.wrong) = (filter, None);
                (self.node_at, self.job_at) = (0, 0);
            }
            Err(why) => self.wrong = Some(why),
        }
    }

    fn in_popup(&mut self, code: KeyCode) -> Wish {
        if let Some(Popup::Cancel(job)) = &mut self.popup
            && job.said.is_none()
        {
            match code {
                KeyCode::Char('y') => {
                    job.said = Some(String::new());
                    return Wish::Cancel(job.number.clone());
                }
                KeyCode::Char('n' | 'q') | KeyCode::Esc => self.popup = None,
                // A key that was meant for something else cancels nothing.
                _ => {}
            }
            return Wish::Nothing;
        }
        match code {
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?') => self.popup = None,
            _ => {}
        }
        Wish::Nothing
    }

    /// Opens the question whether the chosen job is to be cancelled.
    fn may_cancel(&mut self, seen: Option<&ClusterSnapshot>) {
        let rows = self.rows(seen);
        let (Some(job), Some(seen), Pane::Jobs) = (row_at(&rows.jobs, self.job_at), seen, self.pane) else {
            return;
        };
        let since = if job.waits() { job.submit } else { job.start };
        let time =
            since.map_or_else(String::new, |since| format!(" for {}", span(seen.at.saturating_sub(since))));
        let does = match job.state.as_str() {
            _ if job.waits() => "waits".to_owned(),
            "RUNNING" => "runs".to_owned(),
            other => format!("is {}", other.to_lowercase()),
        };
        let question = format!("Job {} of {} {does}{time}.", job.number(), job.user);
        let popup = match job.to_change() {
            Some(number) => Popup::Cancel(Cancelled { number, question, said: None }),
            None => Popup::Job(
                job.id,
                Some("squeue cuts the list of its tasks: cancel it with scancel".to_owned()),
            ),
        };
        self.open(popup);
    }

    /// Shows scancel's answer.
    pub(super) fn cancelled(&mut self, number: &str, text: String) {
        if let Some(Popup::Cancel(job)) = &mut self.popup
            && job.number == number
        {
            job.said = Some(text);
        }
    }

    fn open(&mut self, popup: Popup) {
        (self.popup, self.scroll) = (Some(popup), 0);
    }

    fn sort(&mut self) {
        match self.pane {
            Pane::Nodes => {
                self.node_sort = match self.node_sort {
                    NodeSort::Site => NodeSort::Free,
                    NodeSort::Free => NodeSort::Name,
                    NodeSort::Name => NodeSort::Site,
                }
            }
            Pane::Jobs => {
                self.job_sort = match self.job_sort {
                    JobSort::Queue => JobSort::User,
                    JobSort::User => JobSort::Time,
                    JobSort::Time => JobSort::Queue,
                }
            }
        }
    }

    fn enter(&mut self, seen: Option<&ClusterSnapshot>) -> Wish {
        let rows = self.rows(seen);
        // Fewer rows than before: the screen marks the last one.
        let popup = match self.pane {
            Pane::Nodes => row_at(&rows.nodes, self.node_at).map(|row| Popup::Nodes(row.names())),
            Pane::Jobs => row_at(&rows.jobs, self.job_at).map(|job| Popup::Job(job.id, None)),
        };
        let Some(popup) = popup else { return Wish::Nothing };
        let wish = if let Popup::Job(id, _) = popup { Wish::Explain(id) } else { Wish::Nothing };
        self.open(popup);
        wish
    }

    fn step(&mut self, code: KeyCode, seen: Option<&ClusterSnapshot>) {
        let rows = self.rows(seen);
        let (at, n) = match self.pane {
            Pane::Nodes => (&mut self.node_at, rows.nodes.len()),
            Pane::Jobs => (&mut self.job_at, rows.jobs.len()),
        };
        let last = n.saturating_sub(1);
        let now = (*at).min(last);
        *at = match code {
            KeyCode::Down | KeyCode::Char('j') => (now + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => now.saturating_sub(1),
            KeyCode::PageDown => (now + PAGE).min(last),
            KeyCode::PageUp => now.saturating_sub(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => now,
        };
    }
}

/// Gives the chosen row, the last one if there are fewer by now.
fn row_at<T>(rows: &[T], at: usize) -> Option<&T> {
    rows.get(at.min(rows.len().saturating_sub(1)))
}
