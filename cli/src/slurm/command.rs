//! Runs one of Slurm's commands.

use std::env;
use std::process::Command;

use crate::outcome::Failure;

/// Beginnings of the variables by which a user changes what Slurm's commands select and print.
const OF_ONE_COMMAND: [&str; 5] = ["SQUEUE_", "SINFO_", "SCONTROL_", "SACCT_", "SCANCEL_"];
/// Such variables of several commands. `SLURM_CONF` is not one: it says which cluster this is.
const OF_ALL: [&str; 5] =
    ["SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_TOPO_LEN", "SLURM_DEBUG_FLAGS"];

/// Prepares a Slurm command that prints the same for every user: without the caller's variables for it.
pub(crate) fn prepare(program: &str) -> Command {
    let mut command = Command::new(program);
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in set.filter(|name| changes_output(name)) {
        command.env_remove(name);
    }
    command
}

fn changes_output(variable: &str) -> bool {
    OF_ALL.contains(&variable) || OF_ONE_COMMAND.iter().any(|command| variable.starts_with(command))
}

/// A Slurm command's stdout; a command that cannot be run or fails is a failure that quotes its line.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, Failure> {
    let line = || format!("{program} {}", args.join(" "));
    let out = prepare(program).args(args).output().map_err(|e| {
        Failure::new(format!("cannot run `{}`: {e}", line())).hint("is Slurm installed here?")
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(Failure::new(format!("`{}` failed: {}", line(), said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_change_answers_are_told_from_those_that_name_the_cluster() {
        let changing = ["SQUEUE_ARRAY", "SQUEUE_USERS", "SINFO_PARTITION", "SACCT_LOCAL", "SCONTROL_FUTURE"];
        assert!(changing.into_iter().chain(OF_ALL).all(changes_output));
        let others = ["SLURM_CONF", "SLURM_JWT", "SBATCH_PARTITION", "PATH", "SLURM_JOB_ID"];
        assert!(!others.into_iter().any(changes_output));
    }
}
