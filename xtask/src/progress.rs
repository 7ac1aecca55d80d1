//! Shows the work of a long step, and its time so far: on a terminal. In a pipe there is nothing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows a step until it is dropped.
pub(crate) struct ShownStep(ProgressBar);

impl ShownStep {
    /// Begins to show it. indicatif hides it where stderr is no terminal.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for ShownStep {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
