//! Prints the demo's text, and counts where the outcome differs from it.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Prints to stdout and counts the checks that failed.
pub(super) struct Show {
    begin: Instant,
    colour: bool,
    checks: usize,
    failures: Vec<String>,
}

impl Show {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            checks: 0,
            failures: Vec::new(),
        }
    }

    fn put(&self, text: &str) {
        // Nobody reads on: then nobody misses it.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A heading.
    pub(super) fn title(&self, text: &str) {
        self.put("");
        self.put(&self.paint("1", &format!("== {text}")));
    }

    /// A sentence.
    pub(super) fn say(&self, text: impl Display) {
        self.put(&text.to_string());
    }

    /// A command as it was typed.
    pub(super) fn typed(&self, user: &str, command: &str) {
        let prompt = if user == "root" { "# ".to_owned() } else { format!("{user}$ ") };
        self.put(&format!("{}{}", self.paint("36", &prompt), self.paint("1", command)));
    }

    /// A program's output.
    pub(super) fn block(&self, text: &str) {
        for line in text.lines() {
            self.put(&format!("    {line}"));
        }
    }

    /// Prints whether `wish` holds, and counts it if not.
    pub(super) fn check(&mut self, holds: bool, wish: impl Display) {
        self.checks += 1;
        let mark = if holds { self.paint("32", "  ok") } else { self.paint("31", "  NOT SO") };
        self.put(&format!("{mark}  {wish}"));
        if !holds {
            self.failures.push(wish.to_string());
        }
    }

    /// Prints the conclusion; an error if a check failed.
    pub(super) fn verdict(self) -> Result<(), String> {
        self.put("");
        let seconds = self.begin.elapsed().as_secs_f64();
        if self.failures.is_empty() {
            self.put(&format!("All {} checks hold, after {seconds:.0} s.", self.checks));
            return Ok(());
        }
        let list: String = self.failures.iter().map(|failure| format!("\n  {failure}")).collect();
        Err(format!("{} of {} checks do not hold:{list}", self.failures.len(), self.checks))
    }
}
