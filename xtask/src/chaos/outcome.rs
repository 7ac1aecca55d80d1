//! Messages of a run while it goes on, and its last line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use super::Chaos;
use super::check::Finding;
use super::plan::{Event, Plan};
use crate::command::{TaskError, at};

/// Counts and findings of a run.
#[derive(Debug)]
pub(super) struct ChaosOutcome {
    begin: Instant,
    pub(super) jobs: u32,
    pub(super) faults: u32,
    pub(super) refused: u32,
    violations: Vec<Finding>,
    /// Each only once: rule and subject.
    told: BTreeSet<(&'static str, String)>,
    /// Events of Slurm's own doing, and how often.
    stock: BTreeMap<String, u32>,
}

impl ChaosOutcome {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            jobs: 0,
            faults: 0,
            refused: 0,
            violations: Vec::new(),
            told: BTreeSet::new(),
            stock: BTreeMap::new(),
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Prints a line with the time since the beginning.
    pub(super) fn say(&self, text: &str) -> Result<(), TaskError> {
        let seconds = self.begin.elapsed().as_secs();
        print(&format!("{:3}:{:02} {text}\n", seconds / 60, seconds % 60))
    }

    /// Reports what breaks a rule, once.
    pub(super) fn violation(&mut self, finding: Finding, logs: &Path) -> Result<(), TaskError> {
        if self.told.insert((finding.rule, finding.subject.clone())) {
            self.say(&format!("VIOLATION {finding} (logs: {})", logs.display()))?;
            self.violations.push(finding);
        }
        Ok(())
    }

    /// Counts what Slurm does without us too.
    pub(super) fn stock(&mut self, what: &str) -> Result<(), TaskError> {
        *self.stock.entry(what.to_owned()).or_default() += 1;
        self.say(&format!("  Slurm's own: {what}"))
    }

    /// Prints what Slurm did by itself, and the last line.
    pub(super) fn summary(&self, chaos: &Chaos) -> String {
        let mut text = String::new();
        for (what, count) in &self.stock {
            text += &format!("chaos: Slurm's own, {count} times: {what}\n");
        }
        for violation in &self.violations {
            text += &format!("chaos: violation: {violation}\n");
        }
        text + &format!(
            "chaos: seed {}, {}: {} jobs, {} faults, {} violations, {} min\n",
            chaos.seed,
            chaos.slurm,
            self.jobs,
            self.faults,
            self.violations.len(),
            (self.begin.elapsed().as_secs() + 30) / 60
        )
    }
}

/// Prints the sequence of a seed, up to the wanted number of jobs.
pub(super) fn print_plan(chaos: &Chaos) -> Result<(), TaskError> {
    let limit = chaos.jobs.unwrap_or(100);
    for step in Plan::new(chaos.seed) {
        let line = match &step.event {
            Event::Submit(order) if order.number >= limit => return Ok(()),
            Event::Submit(order) => {
                let (kind, seconds) = (order.kind(), order.seconds);
                format!(
                    "submit {}: user {}, {}, {seconds} s, {:?}",
                    order.number, order.user, kind.name, order.manner
                )
            }
            Event::Strike(number, fault) => format!("fault {number}: {fault}"),
            Event::Mend => "mend".to_owned(),
            Event::Check => "check".to_owned(),
            Event::Rest => "rest".to_owned(),
        };
        print(&format!("{line}; then {} ms\n", step.then_ms))?;
    }
    Ok(())
}

pub(super) fn print(text: &str) -> Result<(), TaskError> {
    let mut out = std::io::stdout();
    at(Path::new("stdout"), out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}
