//! `tessera power`: partition and power cap of a GPU from hardware counters.

mod args;
pub(crate) mod budgets;
mod calibrate;
mod choose;
mod divide;
mod fit;
mod guard;
mod import;
mod simulate;
mod status;
mod text;

pub(crate) use simulate::paper_table;
#[cfg(test)]
pub(crate) use simulate::{calibrated, calibrated_for_three};

use std::path::Path;

use power::CounterTable;

pub(crate) use args::{PowerCommand, PowerStudy};

use crate::files;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};

pub(crate) fn run(command: &PowerCommand, globals: &Globals) -> Result<Outcome, Failure> {
    match command {
        PowerCommand::Study(command) => study(command, globals),
        PowerCommand::Status(args) => status::run(args, globals),
    }
}

/// Runs a command of `tessera lab power`.
pub(crate) fn study(command: &PowerStudy, globals: &Globals) -> Result<Outcome, Failure> {
    match command {
        PowerStudy::Import(args) => import::run(args),
        PowerStudy::Calibrate(args) => calibrate::run(args, globals),
        PowerStudy::Fit(args) => fit::run(args),
        PowerStudy::Choose(args) => choose::run(args),
        PowerStudy::Divide(args) => divide::run(args),
        PowerStudy::Simulate(args) => simulate::run(args),
    }
}

fn counters(path: &Path) -> Result<CounterTable, Failure> {
    let text = files::read_text(path)?;
    CounterTable::parse(&path.display().to_string(), &text).map_err(|e| Failure::of(&e))
}

/// A failure about what a file says.
fn about(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
