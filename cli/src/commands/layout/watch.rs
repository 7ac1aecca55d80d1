//! The layout again and again.

use std::io::{IsTerminal as _, Write as _, stdout};
use std::thread;
use std::time::Duration;

use crate::clock::span;
use crate::outcome::{Failure, Outcome};
use crate::render::terminal;
use geometry::counted;

/// Prints the picture at an interval until the reader goes: over the last one in a terminal, below it elsewhere. Only a first
/// picture that fails ends it; later, what fails is said in the picture's place.
pub(super) fn watch(
    every: Duration,
    picture: &dyn Fn() -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let mut now = picture()?.text;
    loop {
        let said = format!("every {}, Ctrl-C ends it\n\n{now}", span(every.as_secs()));
        let said = match terminal::screen().filter(|_| stdout().is_terminal()) {
            Some((_, lines)) => over(&said, lines),
            None => format!("{now}\n"),
        };
        let mut out = stdout().lock();
        // A reader that has seen enough closes the pipe: not an error.
        if out.write_all(said.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(Outcome::ok(""));
        }
        drop(out);
        thread::sleep(every);
        now = picture().map_or_else(|failure| failure.to_string(), |outcome| outcome.text);
    }
}

/// The text over what a terminal of so many lines shows. What does not fit is counted.
fn over(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let fits = all.len() < lines;
    let shown = if fits { all.len() } else { lines.saturating_sub(2) };
    // Lines that are too long are cut, not wrapped.
    let mut screen = "\x1b[?7l\x1b[H".to_owned();
    for line in &all[..shown] {
        screen.push_str(line);
        // Clears the rest of the line.
        screen.push_str("\x1b[K\n");
    }
    if !fits {
        let more = all.len() - shown;
        screen.push_str(&format!(
            "… {}: --node, --partition or --user shows less\x1b[K",
            counted(more, "more line")
        ));
    }
    screen + "\x1b[J\x1b[?7h"
}

#[cfg(test)]
mod tests {
    use super::over;

    #[test]
    fn what_does_not_fit_the_screen_is_counted() {
        assert_eq!(over("a\nb\n", 3), "\x1b[?7l\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J\x1b[?7h");
        let cut = over("a\nb\nc\nd\n", 4);
        assert!(cut.starts_with("\x1b[?7l\x1b[Ha\x1b[K\nb\x1b[K\n… 2 more lines"), "{cut:?}");
        assert_eq!(cut.matches('\n').count(), 2);
    }
}
