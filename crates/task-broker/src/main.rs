//! `tessera-broker`: one per node while it has jobs of kind `tasks`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use error_chain::Chain;
use task_broker::shell::{Options, PARENT, ServeError, become_parent, keep_alive, serve, start};

fn main() -> ExitCode {
    let done = if std::env::args_os().nth(1).is_some_and(|word| word == PARENT) {
        keep_alive(std::env::args_os().skip(2).collect())
    } else {
        run(&Options::parse())
    };
    done.unwrap_or_else(|e| {
        // If nobody can be told, the exit status still says it.
        let _ = writeln!(std::io::stderr(), "tessera-broker: {}", Chain(&e));
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode, ServeError> {
    match (options.serve, options.daemon) {
        (true, _) => serve(options),
        (_, true) => start(options),
        _ => Err(become_parent(options)),
    }
}
