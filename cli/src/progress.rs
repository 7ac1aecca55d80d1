//! How far a long command is: a bar on a terminal's stderr, and nothing in a pipe.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that goes with its scope.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `len` steps. indicatif itself hides it where stderr is no terminal.
    pub(crate) fn new(len: usize) -> Self {
        let bar = ProgressBar::new(len as u64);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len}, {eta} left") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So many steps are done.
    pub(crate) fn at(&self, done: usize) {
        self.0.set_position(done as u64);
    }

    pub(crate) fn position(&self) -> usize {
        usize::try_from(self.0.position()).unwrap_or(usize::MAX)
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
