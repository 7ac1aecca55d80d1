//! Slurm's health check, by which Tessera finds unhealthy GPUs and jobs that Slurm has forgotten.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::answers::SlurmAnswers;
use super::findings::Findings;

/// Names the work that is not done on a node where nothing runs Tessera's commands.
const WITHOUT: &str =
    "Tessera finds no unhealthy GPU, and what a job holds that Slurm has forgotten stays with it";

/// Checks that Slurm runs a health check, and, where `node` is this machine, that the program can be run and names Tessera.
pub(super) fn check(slurm: &SlurmAnswers, node: Option<&str>, findings: &mut Findings) {
    let (program, interval) =
        (slurm.setting_of("HealthCheckProgram"), slurm.setting_of("HealthCheckInterval"));
    // `0 sec`.
    if ["", "(null)"].contains(&program) || interval.split(' ').next() == Some("0") {
        findings.skipped(format!(
            "slurm.conf: Slurm runs no HealthCheckProgram: unless something else runs `tessera node reconcile --if-dead` and `tessera node \
             health` on each node once a minute, {WITHOUT}"
        ));
        return;
    }
    let Some(node) = node else { return };
    match program_here(Path::new(program)) {
        Program::Missing(why) => findings.bad(format!(
            "{node}: HealthCheckProgram {program} {why}: {WITHOUT}; Slurm sends no such file, so put it on every node"
        )),
        Program::WithoutTessera => findings.skipped(format!(
            "{node}: HealthCheckProgram {program} does not name tessera: unless it has `tessera node reconcile --if-dead` and `tessera node \
             health` run in another way, {WITHOUT}"
        )),
        Program::Good => {}
    }
}

/// A health check as it is on this machine.
#[derive(Debug, PartialEq, Eq)]
enum Program {
    Good,
    /// slurmd cannot run it, for this reason.
    Missing(String),
    /// A script without the word `tessera`.
    WithoutTessera,
}

fn program_here(path: &Path) -> Program {
    match fs::metadata(path) {
        // Only root may look into every directory.
        Err(e) if e.kind() == ErrorKind::PermissionDenied => return Program::Good,
        Err(e) => return Program::Missing(format!("cannot be run ({e})")),
        Ok(meta) if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 => {
            return Program::Missing("is not executable".to_owned());
        }
        Ok(_) => {}
    }
    // A program that is not text, or that only root may read, tells nothing.
    match fs::read_to_string(path) {
        Ok(text) if !text.contains("tessera") => Program::WithoutTessera,
        _ => Program::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_check_that_nobody_can_run_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("check");
        let with = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            program_here(&path)
        };
        assert!(
            matches!(program_here(&path), Program::Missing(why) if why.starts_with("cannot be run (No such"))
        );
        assert!(matches!(program_here(dir.path()), Program::Missing(_)), "a directory");
        let ours = "#!/bin/sh\nsetsid tessera node health &\n";
        assert_eq!(with(ours, 0o644), Program::Missing("is not executable".to_owned()));
        assert_eq!(with(ours, 0o755), Program::Good);
        assert_eq!(with("#!/bin/sh\n/usr/sbin/nhc\n", 0o755), Program::WithoutTessera);
    }

    #[test]
    fn a_site_without_a_health_check_is_told_what_it_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("check").display().to_string();
        let said = |program: &str, interval: &str, node: Option<&str>| {
            let slurm = SlurmAnswers::of_config(&format!(
                "HealthCheckInterval     = {interval}\nHealthCheckProgram      = {program}\n"
            ));
            let mut findings = Findings::default();
            check(&slurm, node, &mut findings);
            let said = |(result, what): (super::super::findings::CheckResult, String)| {
                format!("{} {}", result.word(), what.split(':').next().unwrap_or_default())
            };
            findings.list.into_iter().map(said).collect::<String>()
        };
        assert_eq!(said("(null)", "60 sec", Some("n1")), "skip slurm.conf");
        assert_eq!(said(&missing, "0 sec", Some("n1")), "skip slurm.conf");
        assert_eq!(said(&missing, "60 sec", None), "", "the file is needed on nodes");
        assert_eq!(said(&missing, "60 sec", Some("n1")), "bad n1");
    }
}
