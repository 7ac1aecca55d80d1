//! The `tessera` command: inventory, layouts, explanations and checks for admins and users.
//!
//! Every command returns what goes to stdout as one text, with an exit status; nothing is printed on the way.
//! Exit status: 0; 1 for something the user or the site can put right; 2 for wrong usage; 70 for a bug of ours.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod args;
mod check;
mod clock;
mod discover;
mod doctor;
mod ends;
mod explain;
mod fit;
mod layout;
mod links;
mod lint;
mod local;
mod node;
mod outcome;
mod paint;
mod plan;
mod planner;
mod profiles;
mod request;
mod score;
mod simulate;
mod site;
mod slurm;
mod squeue;
mod table;
mod times;
mod topology;

use std::io::Write as _;
use std::panic;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};
use outcome::{Failure, Outcome};

fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let said = info.to_string().replace('\n', ": ");
        complain(&format!("tessera: this is a bug in tessera, please report it: {said}\n"));
    }));
    panic::catch_unwind(main_guarded).unwrap_or(ExitCode::from(70))
}

fn main_guarded() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are errors to clap, with status 0. A closed pipe is nobody's error.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    match run(&cli) {
        Ok(Outcome { text, status }) => {
            let mut out = std::io::stdout().lock();
            // A reader that has seen enough (`| head`) closes the pipe: not an error.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            ExitCode::from(status)
        }
        Err(failure) => {
            complain(&failure.to_string());
            ExitCode::from(1)
        }
    }
}

fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn run(cli: &Cli) -> Result<Outcome, Failure> {
    match &cli.command {
        Command::Layout(args) => layout::run(args, cli),
        Command::Explain(args) => explain::run(args, cli),
        Command::Discover(args) => discover::run(args, cli),
        Command::Doctor(args) => doctor::run(args, cli),
        Command::Node(command) => node::run(command, cli),
        Command::Plan(args) => plan::run(args, cli),
        Command::Planner(args) => planner::run(args, cli),
        Command::Times(args) => times::run(args),
        Command::Score(args) => score::run(args, cli),
        Command::Simulate(command) => simulate::run(command, cli),
        Command::Topology(command) => topology::run(command, cli),
        Command::Lint(args) => lint::run(args, cli),
        Command::Fit(command) => fit::run(command, cli),
        Command::Check(args) => check::run(args, cli),
        Command::Profiles(args) => profiles::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tessera", &mut script);
            Ok(Outcome::ok(String::from_utf8_lossy(&script)))
        }
    }
}
