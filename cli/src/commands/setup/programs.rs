//! Slurm's programs on this machine, which say of which version it is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use plugin_stamp::said;
use slurm_tables::Version;

/// Finds the programs that know which Slurm loads the plugins.
pub(super) fn of_this_machine() -> Vec<PathBuf> {
    choose(of_units(), found())
}

/// Chooses the daemons that systemd starts, or else programs that were found. The commands of another Slurm may be in PATH, so they do not count
/// where a unit starts something, such as a script.
fn choose(units: Vec<PathBuf>, found: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_daemon = |program: &PathBuf| has_name(program) && !program.ends_with("sinfo");
    match units.iter().any(is_daemon) {
        true => units.into_iter().filter(is_daemon).collect(),
        false if units.is_empty() => found,
        false => found.into_iter().filter(is_daemon).collect(),
    }
}

/// Asks a program of Slurm's for its version.
pub(super) fn version_of(program: &Path) -> Option<Version> {
    let said = Command::new(program).arg("-V").output().ok()?;
    said::of_program(&String::from_utf8_lossy(&said.stdout))
}

/// Finds Slurm's programs: those that systemd starts, then those in PATH.
pub(super) fn programs() -> Vec<PathBuf> {
    let units = of_units().into_iter().filter(|program| has_name(program));
    units.chain(found()).collect()
}

/// Names of Slurm's programs that say their version: the daemons, and a command that login nodes have.
const NAMES: [&str; 3] = ["slurmctld", "slurmd", "sinfo"];

fn has_name(program: &Path) -> bool {
    NAMES.iter().any(|name| program.ends_with(name))
}

/// Finds programs in PATH, and where root's PATH may end too early.
fn found() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let all = dirs.flat_map(|dir| NAMES.map(|name| dir.join(name)));
    all.filter(|program| program.is_file()).collect()
}

/// Asks systemd what the units of Slurm's daemons start.
fn of_units() -> Vec<PathBuf> {
    let mut show = Command::new("systemctl");
    show.args(["show", "--property=ExecStart", "slurmctld.service", "slurmd.service"]);
    let said = show.output().map(|said| said.stdout).unwrap_or_default();
    started(&String::from_utf8_lossy(&said)).into_iter().filter(|program| program.is_file()).collect()
}

/// Reads systemd's lines about what units start: `ExecStart={ path=/usr/sbin/slurmd ; argv[]=/usr/sbin/slurmd -D ; … }`.
fn started(said: &str) -> Vec<PathBuf> {
    let paths = said.lines().filter_map(|line| line.strip_prefix("ExecStart={ path=")?.split(" ; ").next());
    paths.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_that_systemd_starts_are_asked_and_not_another_slurms_commands() {
        let unit = |path: &str| {
            format!("ExecStart={{ path={path} ; argv[]={path} -D $OPTIONS ; ignore_errors=no }}\n\n")
        };
        let asked = |units: &str, found: &[&str]| {
            let found = found.iter().map(PathBuf::from).collect();
            let asked = choose(started(units), found);
            asked.iter().map(|program| program.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        let (opt, commands) = (unit("/opt/slurm/25.05.3/sbin/slurmctld"), ["/usr/bin/sinfo"]);
        assert_eq!(asked(&opt, &commands), "/opt/slurm/25.05.3/sbin/slurmctld");
        assert_eq!(asked(&opt, &[]), "/opt/slurm/25.05.3/sbin/slurmctld");
        assert_eq!(asked("ExecStart=\n", &commands), "/usr/bin/sinfo");
        // What a script starts is not known, but it is a daemon.
        assert_eq!(asked(&unit("/opt/start"), &commands), "");
        assert_eq!(asked(&unit("/opt/start"), &["/usr/sbin/slurmd", "/usr/bin/sinfo"]), "/usr/sbin/slurmd");
    }
}
