//! `tessera completions`: scripts for shells, and man pages of the commands.

mod slurm;

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::outcome::{Failure, Outcome};

/// Print the completion script of a shell
///
/// Put it where the shell looks: for bash in /etc/bash_completion.d/tessera, for zsh in a file _tessera in a directory of its
/// fpath, for fish in /etc/fish/completions/tessera.fish.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// Complete the --gpu-... options of sbatch, salloc and srun, beside what Slurm's own script completes (bash and fish)
    #[arg(long = "sbatch", alias = "slurm")]
    slurm: bool,
}

/// Write a man page of each command
#[derive(Args)]
pub(crate) struct ManPagesArgs {
    /// The directory, such as /usr/share/man/man1
    dir: PathBuf,
}

pub(crate) fn run(args: &CompletionsArgs, command: &mut Command) -> Result<Outcome, Failure> {
    if args.slurm {
        return slurm::script(args.shell).map(Outcome::ok).ok_or_else(|| {
            Failure::new(format!("there is no such script for {}", args.shell)).hint("bash and fish have one")
        });
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "tessera", &mut script);
    Ok(Outcome::ok(String::from_utf8_lossy(&script)))
}

pub(crate) fn man_pages(args: &ManPagesArgs, command: Command) -> Result<Outcome, Failure> {
    clap_mangen::generate_to(command, &args.dir).map_err(|error| {
        Failure::new(format!("cannot write man pages to {}: {error}", args.dir.display()))
    })?;
    Ok(Outcome::ok(""))
}
