//! Stand-ins for Slurm's commands, and `tessera` run with them.

#[path = "../../src/slurm/squeue/columns.rs"]
mod columns;

use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use columns::line;

/// A shell script in a command's place, run in `dir`. Like the command, it says its version if it is asked for that alone.
///
/// Written by a process of its own: what another test starts meanwhile would hold the script open for writing for a moment,
/// and nobody could run it then.
pub(crate) fn program(dir: &Path, name: &str, text: &str) {
    let write = "printf '%s\\n' '#!/bin/sh' '[ \"$1\" = --version ] && exec echo slurm 24.11.5' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", write, "sh"]).arg(dir.join("bin").join(name)).arg(text);
    assert!(writer.status().unwrap().success(), "{name}");
}

/// `tessera` in `dir`, without other variables than it needs.
pub(crate) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    let path = format!("{}:/usr/bin:/bin", dir.join("bin").display());
    command.args(args).current_dir(dir).env_clear().env("COLUMNS", "100").env("PATH", path);
    command.env("TESSERA_CONF", dir.join("tessera.toml")).stdin(Stdio::null());
    command
}

/// The same at the end of a shell script, whose arguments are its command line: `exec "$@"`.
#[allow(dead_code, reason = "not every test that has the stand-ins needs it")]
pub(crate) fn by_script(dir: &Path, script: &str, args: &[&str]) -> Command {
    let tessera = command(dir, args);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).arg(tessera.get_program()).args(tessera.get_args());
    shell.current_dir(dir).env_clear().stdin(Stdio::null());
    shell.envs(tessera.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Runs it; all that it says and how it exits.
pub(crate) fn tessera(dir: &Path, args: &[&str]) -> String {
    said(&mut command(dir, args))
}

/// All that a command says and how it exits.
pub(crate) fn said(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    let stderr: String = stderr.lines().map(|l| format!("stderr: {l}\n")).collect();
    format!("{stdout}{stderr}exit {}", out.status.code().unwrap())
}
