//! `tessera-broker`: one per node while it has jobs of kind `tasks`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use error_chain::Chain;
use task_broker::shell::{Options, keep_alive, serve, start};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (options.serve, options.daemon) {
        (true, _) => serve(&options),
        (_, true) => start(&options),
        _ => keep_alive(&options),
    };
    done.unwrap_or_else(|e| {
        // If nobody can be told, the exit status still says it.
        let _ = writeln!(std::io::stderr(), "tessera-broker: {}", Chain(&e));
        ExitCode::FAILURE
    })
}
