//! The `tessera` command: inventory, layouts, explanations and checks for admins and users.
//!
//! Every command returns an exit status and all that goes to stdout as one text; it prints nothing on the way.
//! Exit status: 0; 1 for a problem that the user or the site can fix; 2 for wrong usage; 70 for a bug of ours.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod allowance;
mod cli;
mod clock;
mod cluster_snapshot;
mod commands;
mod files;
mod filter;
mod fragmentation;
mod globals;
mod gpu_pieces;
mod groups;
mod idle_jobs;
mod job_namespace;
mod job_use;
mod layout_line;
mod local_node;
mod node_answer;
mod node_groups;
mod only_instance;
mod options;
mod outcome;
#[cfg(test)]
mod pages;
pub mod parsers;
mod plan_inputs;
mod power_models;
mod progress;
mod render;
mod runtimes;
mod sick_words;
mod site;
mod slurm;
mod slurm_nodes;
mod this_machine;
mod unknown_name;

use std::io::{ErrorKind, Write as _};
use std::panic;
use std::process::ExitCode;

use cli::Cli;
use outcome::Outcome;

/// The command: reads its arguments, prints, and says how it ended.
pub fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let said = info.to_string().replace('\n', ": ");
        complain(&format!("tessera: this is a bug in tessera, please report it: {said}\n"));
    }));
    panic::catch_unwind(main_guarded).unwrap_or(ExitCode::from(70))
}

fn main_guarded() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are errors to clap, with status 0. A closed pipe is nobody's error.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    match cli::run(&cli) {
        Ok(Outcome { text, status }) => {
            let mut out = std::io::stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                // A reader that has seen enough (`| head`) closes the pipe: not an error.
                Err(why) if why.kind() != ErrorKind::BrokenPipe => {
                    complain(&format!("tessera: cannot write the answer: {why}\n"));
                    ExitCode::from(1)
                }
                _ => ExitCode::from(status),
            }
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
