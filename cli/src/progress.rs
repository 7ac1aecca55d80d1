//! How far a long command is: a bar on a terminal's stderr, and nothing in a pipe.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// A bar that goes when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `len` steps. indicatif itself hides it where stderr is no terminal.
    pub(crate) fn new(len: usize) -> Self {
        Self::of("{wide_bar} {pos} of {len}{left}", len)
    }

    /// Makes one with a line under it for the present work.
    pub(crate) fn with_line(len: usize) -> Self {
        Self::of("{wide_bar} {pos} of {len}{left}\n{wide_msg}", len)
    }

    fn of(template: &str, len: usize) -> Self {
        let bar = ProgressBar::new(len as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // An error of the terminal shows in the bar's other parts as well.
                let _ = out.write_str(&left(state.pos(), state.eta()));
            }));
        }
        Self(bar)
    }

    /// So many steps are done.
    pub(crate) fn at(&self, done: usize) {
        self.0.set_position(done as u64);
    }

    /// The first steps were done before: they say nothing about how long the others take.
    pub(crate) fn begins_at(&self, done: usize) {
        self.at(done);
        self.0.reset_eta();
    }

    /// Shows the present work.
    pub(crate) fn line(&self, text: String) {
        self.0.set_message(text);
    }

    pub(crate) fn position(&self) -> usize {
        usize::try_from(self.0.position()).unwrap_or(usize::MAX)
    }
}

/// How long it will take; nothing before the first step is done, from which that is reckoned.
fn left(done: u64, eta: Duration) -> String {
    if done == 0 { String::new() } else { format!(", {:#} left", HumanDuration(eta)) }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_step_nobody_knows_how_long_it_takes() {
        assert_eq!(left(0, Duration::ZERO), "");
        assert_eq!(left(2, Duration::from_secs(5)), ", 5s left");
    }
}
