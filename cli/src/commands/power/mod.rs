//! `tessera power`: partition and power cap of a GPU from hardware counters.

mod args;
pub(crate) mod budgets;
mod calibrate;
mod choose;
mod divide;
mod fit;
mod import;
mod simulate;
mod status;
mod text;

#[cfg(test)]
pub(crate) use simulate::{calibrated, calibrated_for_three};

use std::path::Path;

use power::CounterTable;

pub(crate) use args::PowerCommand;

use crate::files;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};

pub(crate) fn run(command: &PowerCommand, globals: &Globals) -> Result<Outcome, Failure> {
    match command {
        PowerCommand::Import(args) => import::run(args),
        PowerCommand::Calibrate(args) => calibrate::run(args, globals),
        PowerCommand::Fit(args) => fit::run(args),
        PowerCommand::Choose(args) => choose::run(args),
        PowerCommand::Divide(args) => divide::run(args),
        PowerCommand::Simulate(args) => simulate::run(args),
        PowerCommand::Status(args) => status::run(args, globals),
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
