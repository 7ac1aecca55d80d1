//! `tessera-broker`: one per node while it has jobs of kind `gpu-tasks`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use error_chain::Chain;
use task_broker::shell::{Asked, HELP, Options, PARENT, ServeError, become_parent, keep_alive, serve, start};

fn main() -> ExitCode {
    let done = if std::env::args_os().nth(1).is_some_and(|word| word == PARENT) {
        keep_alive(std::env::args_os().skip(2).collect())
    } else {
        asked()
    };
    done.unwrap_or_else(|e| {
        // If nobody can be told, the exit status still says it.
        let _ = writeln!(std::io::stderr(), "tessera-broker: {}", Chain(&e));
        ExitCode::FAILURE
    })
}

/// Does what the command line asks; 2 for one that asks nothing.
fn asked() -> Result<ExitCode, ServeError> {
    let told = match Asked::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Broker(options)) => return run(&options),
        Ok(Asked::Help) => write!(std::io::stdout(), "{HELP}"),
        Ok(Asked::Version) => writeln!(std::io::stdout(), "tessera-broker {}", env!("CARGO_PKG_VERSION")),
        Err(e) => {
            // If nobody can be told, the exit status still says it.
            let _ = writeln!(std::io::stderr(), "tessera-broker: {}; --help lists the options", Chain(&e));
            return Ok(ExitCode::from(2));
        }
    };
    Ok(if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(options: &Options) -> Result<ExitCode, ServeError> {
    match (options.serve, options.daemon) {
        (true, _) => serve(options),
        (_, true) => start(options),
        _ => Err(become_parent(options)),
    }
}
