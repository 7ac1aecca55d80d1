//! Builds what a cluster loads, and copies it into the cluster's directory.
//!
//! It is copied because users' jobs read it, and users may not be able to read the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slurm_releases::Release;

use crate::command::run;
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::paths::{self, real_parts, target_dir, workspace};
use crate::seed::seed;
use crate::slurm::Slurm;

/// How the artefacts are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build, with all checks: what the tests use.
    Debug,
    /// What a site installs: demo and benchmarks.
    Release,
}

impl Profile {
    fn dir(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// The environment variable by which `cargo xtask test` says that it has built everything for debugging. Tests then do
/// not call cargo: no program is replaced while another test copies it.
pub const BUILT: &str = "TESSERA_E2E_BUILT";

/// The plugins, each bound to one Slurm series.
const PLUGINS: [&str; 5] = ["spank-plugin", "select-plugin", "gres-helper", "energy-plugin", "usage-plugin"];
const PLUGIN_FILES: [(&str, &str); 5] = [
    ("libspank_tessera.so", "spank_tessera.so"),
    ("libselect_cons_tres.so", "select_cons_tres.so"),
    ("libjob_submit_tessera.so", "job_submit_tessera.so"),
    ("libacct_gather_energy_tessera.so", "acct_gather_energy_tessera.so"),
    ("libacct_gather_interconnect_tessera.so", "acct_gather_interconnect_tessera.so"),
];
/// Has every decision of the select plugin audited.
pub const AUDITED: [&str; 2] = ["--features", "select-plugin/audited"];
/// Programs and the simulator, the same for every Slurm.
const COMMON: [&str; 3] = ["tessera", "nvml-sim", "tessera-broker"];
/// The simulator's libraries, each with the name that programs look for. Jobs find them by `LD_LIBRARY_PATH`.
const LIBRARIES: [(&str, &str); 4] = [
    ("libnvidia_ml.so", "libnvidia-ml.so.1"),
    ("libcuda.so", "libcuda.so.1"),
    ("libcudart.so", "libcudart.so.12"),
    ("libtessera_task.so", "libtessera_task.so"),
];

/// Builds plugins, CLI and simulator.
///
/// # Errors
///
/// cargo's output, if it fails.
pub fn build(slurm: &Slurm, profile: Profile) -> Result<(), HarnessError> {
    if std::env::var_os(BUILT).is_some() && profile == Profile::Debug && slurm.packaged {
        // Waits while `cargo xtask test` still builds them.
        let lock = being_built(slurm.release)?;
        return at(&lock_path(slurm.release), lock.lock_shared());
    }
    let common = ["tessera-cli", "nvml-sim", "cuda-sim", "cudart-sim", "task-broker", "task-client"];
    let build = |mut command: Command| run(&mut command)?.ok().map(drop);
    if slurm.build == target_dir() {
        return build(cargo("build", &[&common[..], &PLUGINS].concat(), profile, &target_dir()));
    }
    build(cargo("build", &common, profile, &target_dir()))?;
    build(build_plugins(slurm, profile))
}

/// The command that builds the plugins for a Slurm that is not the machine's own.
#[must_use]
pub fn build_plugins(slurm: &Slurm, profile: Profile) -> Command {
    let mut command = cargo("build", &PLUGINS, profile, &slurm.build);
    command.env("TESSERA_SLURM_SRC", &slurm.source);
    command
}

/// The commands that build the plugins for a packaged Slurm that is not the machine's own, and that then compare its layouts
/// and symbols as [`compare_layout`] does. Both take what a build of the whole workspace for debugging has left, which this
/// brings there: only the plugins themselves are compiled. `-p` would give their dependencies other features.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn build_beside(slurm: &Slurm) -> Result<(Command, Command), HarnessError> {
    let of_plugins = |name: &str| {
        let is_built = |file: &str| name.trim_start_matches("lib").starts_with(crate_name(file));
        PLUGINS.iter().any(|plugin| name.starts_with(plugin))
            || PLUGIN_FILES.iter().any(|(file, _)| is_built(file))
    };
    let built = |target: &Path| target.join(Profile::Debug.dir());
    seed(&built(&target_dir()), &built(&slurm.build), &of_plugins)?;
    let command = |task: &str, args: &[&str]| {
        let mut command = cargo(task, &[], Profile::Debug, &slurm.build);
        command
            .env("TESSERA_SLURM_SRC", &slurm.source)
            .args(["--quiet", "--workspace"])
            .args(AUDITED)
            .args(args);
        // The one test of the workspace that is built only by its name.
        command.args(["--test", "built_for"]);
        command
    };
    Ok((command("build", &["--lib"]), command("test", &[])))
}

/// The crate of a library's file.
fn crate_name(library: &str) -> &str {
    library.trim_start_matches("lib").trim_end_matches(".so")
}

/// The command that compares where Slurm's fields lie with the copy kept for its version, and the symbols that Slurm asks
/// for with those that the plugin has: two of its unit tests.
#[must_use]
pub fn compare_layout(slurm: &Slurm) -> Command {
    let mut command = cargo("test", &["select-plugin"], Profile::Debug, &slurm.build);
    command.env("TESSERA_SLURM_SRC", &slurm.source);
    command.args(["--quiet", "--lib", "ffi::layout::"]);
    command
}

/// The file whose lock `cargo xtask test` holds while it builds the plugins for `release`. Meanwhile tests already run on
/// other Slurms; those on this one wait for the lock.
///
/// # Errors
///
/// If the file cannot be made.
pub fn being_built(release: Release) -> Result<fs::File, HarnessError> {
    let path = lock_path(release);
    at(&path, fs::create_dir_all(paths::slurm(release)))?;
    at(&path, fs::File::create(&path))
}

fn lock_path(release: Release) -> PathBuf {
    paths::slurm(release).join("build.lock")
}

fn cargo(task: &str, packages: &[&str], profile: Profile, target: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).arg(task).arg("--target-dir").arg(target);
    for package in packages {
        command.args(["-p", package]);
    }
    match profile {
        Profile::Release => _ = command.arg("--release"),
        Profile::Debug if packages.contains(&"select-plugin") => _ = command.args(AUDITED),
        Profile::Debug => (),
    }
    command
}

/// Copies the simulator, the programs and the real NVIDIA ones into the cluster's directory.
pub(crate) fn install_common(layout: &Layout, profile: Profile) -> Result<(), HarnessError> {
    let from = programs(profile);
    for program in COMMON {
        copy(&from.join(program), &layout.at("bin").join(program))?;
    }
    for (built, name) in LIBRARIES {
        copy(&from.join(built), &layout.at("lib").join(name))?;
    }
    let real = real_parts().join("usr/bin");
    for program in ["nvidia-smi", "nvidia-cuda-mps-control"] {
        copy(&real.join(program), &layout.at("bin").join(program))?;
    }
    Ok(())
}

/// Copies the `tessera` command into the cluster's directory.
pub(crate) fn install_command(layout: &Layout, profile: Profile) -> Result<(), HarnessError> {
    copy(&programs(profile).join(COMMON[0]), &layout.at("bin").join(COMMON[0]))
}

/// The plugins as built, each with the name Slurm looks for.
#[must_use]
pub fn plugins(slurm: &Slurm, profile: Profile) -> Vec<(PathBuf, &'static str)> {
    let from = slurm.build.join(profile.dir());
    PLUGIN_FILES.iter().map(|(built, name)| (from.join(built), *name)).collect()
}

/// Where the programs and libraries are that are built for any Slurm.
#[must_use]
pub fn programs(profile: Profile) -> PathBuf {
    target_dir().join(profile.dir())
}

/// Copies the plugins into the cluster's plugin directory.
pub(crate) fn install_plugins(layout: &Layout, slurm: &Slurm, profile: Profile) -> Result<(), HarnessError> {
    for (from, name) in plugins(slurm, profile) {
        copy(&from, &layout.at("plugins").join(name))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), HarnessError> {
    // A process may have mapped the old library, which must not change: the new one is another file.
    let _ = fs::remove_file(to);
    // Another process copies. If this one did, a child that another thread starts meanwhile would hold the copy open for
    // writing until its exec, and a program that is open for writing cannot be run ("Text file busy").
    run(Command::new("cp").arg("--preserve=mode").args([from, to]))?.ok().map(drop)
}
