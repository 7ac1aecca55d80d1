//! `tessera top`: nodes, GPUs and jobs, live in the terminal. The state, the rows and the screen are pure; this is the shell.

mod args;
mod rows;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io::{IsTerminal as _, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGTERM};

pub(crate) use args::TopArgs;
use state::{State, Wish};
use view::View;

use crate::cluster_snapshot::{self, ClusterSnapshot};
use crate::commands::why;
use crate::globals::Globals;
use crate::job_use::JobUse;
use crate::outcome::{Failure, Outcome};
use crate::render::colour::{ColorWhen, Paint};
use crate::slurm::command;
use crate::{clock, site};

/// Longest time without a look at the keyboard and at what came from Slurm.
const TICK: Duration = Duration::from_millis(200);

/// Messages from the threads that ask Slurm.
enum News {
    Seen(Result<ClusterSnapshot, Failure>),
    Told(u32, String),
    /// Job's number, and scancel's answer.
    Cancelled(String, String),
}

/// Work that the screen leaves to other threads.
struct Asks<'a> {
    tell: &'a dyn Fn(u32),
    cancel: &'a dyn Fn(String),
}

pub(crate) fn run(args: &TopArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let state = State::new(&args.user, &args.partition, &args.node).map_err(Failure::new)?;
    let config = site::load(globals.config.as_deref())?;
    // Where Slurm does not answer, the screen says so.
    if !state.filter.is_empty()
        && let Ok(seen) = cluster_snapshot::look(&config)
    {
        state.filter.refuse_unknown(&seen)?;
    }
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        return Err(Failure::new("tessera top needs a terminal")
            .hint("`tessera layout`, `tessera free` and squeue print the same once"));
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))
            .map_err(|e| Failure::new(format!("cannot await signals: {e}")))?;
    }
    end_with_the_terminal();
    let (send, news) = channel();
    let config = globals.config.clone();
    look(send.clone(), config.clone(), args.every);
    let mut terminal =
        ratatui::try_init().map_err(|e| Failure::new(format!("cannot use this terminal: {e}")))?;
    let asks = Asks {
        tell: &|id| tell(send.clone(), config.clone(), id),
        cancel: &|number| cancel(send.clone(), number),
    };
    let end = watch(&mut terminal, state, &news, asks, &ended);
    ratatui::restore();
    end.map(|()| Outcome::ok(""))
        .map_err(|e| Failure::new(format!("this terminal cannot be used any more: {e}")))
}

/// Ends the process once its terminal is gone: crossterm reads such a terminal for ever and returns from nothing.
#[expect(clippy::exit, reason = "the thread that would return from main does not come back")]
fn end_with_the_terminal() {
    thread::spawn(|| {
        let stdin = stdin();
        loop {
            // Without events asked for, only the end is told.
            let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
            match poll(&mut terminal, None) {
                Ok(_) => std::process::exit(1),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
}

/// Asks Slurm at an interval, until nobody listens.
fn look(send: Sender<News>, config: Option<PathBuf>, every: Duration) {
    thread::spawn(move || {
        loop {
            let mut seen = site::load(config.as_deref()).and_then(|config| cluster_snapshot::look(&config));
            seen.iter_mut().for_each(ClusterSnapshot::name_users);
            if send.send(News::Seen(seen)).is_err() {
                return;
            }
            thread::sleep(every);
        }
    });
}

/// Asks Slurm about a job.
fn tell(send: Sender<News>, config: Option<PathBuf>, id: u32) {
    thread::spawn(move || {
        let told = site::load(config.as_deref()).and_then(|config| why::told(id, &config, true));
        let told = told.unwrap_or_else(|failure| failure.what().to_owned());
        // An error: the command has ended.
        let _ = send.send(News::Told(id, format!("{}{told}", JobUse::ask(id).text())));
    });
}

/// Cancels a job, and says what came of it.
fn cancel(send: Sender<News>, number: String) {
    thread::spawn(move || {
        let said = match command::run("scancel", &[&number]) {
            Ok(said) if said.trim().is_empty() => "Slurm has been told to cancel it.".to_owned(),
            Ok(said) => said,
            Err(failure) => failure.what().to_owned(),
        };
        let _ = send.send(News::Cancelled(number, said));
    });
}

/// Draws and reads keys until the person quits.
fn watch(
    terminal: &mut DefaultTerminal,
    mut state: State,
    news: &Receiver<News>,
    asks: Asks<'_>,
    ended: &AtomicBool,
) -> std::io::Result<()> {
    let colour = Paint::new(ColorWhen::Auto).on;
    let (mut seen, mut trouble): (Option<ClusterSnapshot>, Option<String>) = (None, None);
    let mut drawn: Option<Instant> = None;
    while !ended.load(Ordering::Relaxed) {
        let mut changed = false;
        for came in news.try_iter() {
            changed = true;
            match came {
                News::Seen(Ok(now)) => (seen, trouble) = (Some(now), None),
                News::Seen(Err(failure)) => trouble = Some(failure.what().to_owned()),
                News::Told(id, text) => state.told(id, text),
                News::Cancelled(number, text) => state.cancelled(&number, text),
            }
        }
        // The age of what is shown goes on by itself.
        if changed || drawn.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            let (seen, trouble) = (seen.as_ref(), trouble.as_deref());
            let now = clock::epoch_seconds();
            terminal.draw(|frame| view::draw(frame, View { state: &state, seen, trouble, now, colour }))?;
            drawn = Some(Instant::now());
        }
        if event::poll(TICK)? {
            drawn = None;
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                match state.press(key, seen.as_ref()) {
                    Wish::Quit => return Ok(()),
                    Wish::Explain(id) => (asks.tell)(id),
                    Wish::Cancel(number) => (asks.cancel)(number),
                    Wish::Nothing => {}
                }
            }
        }
    }
    Ok(())
}
