//! Runs one of Slurm's commands.

use std::process::Command;

use crate::outcome::Failure;

/// A Slurm command's stdout; a command that cannot be run or fails is a failure that quotes its line.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, Failure> {
    let line = || format!("{program} {}", args.join(" "));
    let out = Command::new(program).args(args).output().map_err(|e| {
        Failure::new(format!("cannot run `{}`: {e}", line())).hint("is Slurm installed here?")
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(Failure::new(format!("`{}` failed: {}", line(), said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
