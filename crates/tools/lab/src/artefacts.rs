//! Builds what a cluster loads, and copies it into the cluster's directory.
//!
//! It is copied because users' jobs read it, and users may not be able to read the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use error_chain::with_causes;
use slurm_releases::Release;

use crate::command::run;
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::paths::{real_parts, target_dir, workspace};
use crate::slurm::Slurm;

/// How the artefacts are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build, with all checks: what the tests use.
    Debug,
    /// Files as a site installs them: demo and benchmarks.
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

/// The plugins: one build for every Slurm.
const PLUGINS: [&str; 6] =
    ["spank-plugin", "select-plugin", "gres-helper", "gpu-plugin", "energy-plugin", "usage-plugin"];
/// The packages of cargo whose programs and libraries a site installs.
#[must_use]
pub fn product() -> Vec<&'static str> {
    [&["tessera-cli", "task-broker", "task-client"][..], &PLUGINS].concat()
}

const PLUGIN_FILES: [(&str, &str); 6] = [
    ("libspank_tessera.so", "spank_tessera.so"),
    ("libselect_cons_tres.so", "select_cons_tres.so"),
    ("libjob_submit_tessera.so", "job_submit_tessera.so"),
    ("libgpu_nvml.so", "gpu_nvml.so"),
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
/// Files of a package that a cluster has, and their paths in its directory.
const PACKAGED: [(&str, &str); 3] = [
    ("usr/bin/tessera", "bin/tessera"),
    ("usr/sbin/tessera-broker", "bin/tessera-broker"),
    ("usr/lib/tessera/libtessera_task.so", "lib/libtessera_task.so"),
];

/// Builds plugins, CLI and simulator.
///
/// # Errors
///
/// cargo's output, if it fails.
pub fn build(profile: Profile) -> Result<(), HarnessError> {
    build_below(Path::new("/usr"), profile)
}

/// Builds them for use below a prefix, where programs and libraries look for each other unless `tessera.toml` says otherwise.
///
/// # Errors
///
/// cargo's output, if it fails.
pub fn build_below(prefix: &Path, profile: Profile) -> Result<(), HarnessError> {
    if std::env::var_os(BUILT).is_some() && profile == Profile::Debug {
        return Ok(());
    }
    let common = ["tessera-cli", "nvml-sim", "cuda-sim", "cudart-sim", "task-broker", "task-client"];
    let mut build = cargo("build", &[&common[..], &PLUGINS].concat(), profile, &target_dir());
    if prefix != Path::new("/usr") {
        build.env("TESSERA_PREFIX", prefix);
    }
    run(&mut build)?.ok().map(drop)
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

/// Replaces the programs and the library that cargo has built by those of an unpacked package. The simulator stays.
pub(crate) fn install_packaged(layout: &Layout, root: &Path) -> Result<(), HarnessError> {
    for (file, to) in PACKAGED {
        copy(&root.join(file), &layout.at(to))?;
    }
    Ok(())
}

/// Copies what slurmd needs to find GPUs by itself: Slurm's own gpu_nvml.so of the machine's series, which only a package that is not
/// installed has, and the simulator under the name by which Slurm 22.05 looks for it.
pub(crate) fn install_autodetect(
    layout: &Layout,
    slurm: &Slurm,
    profile: Profile,
) -> Result<(), HarnessError> {
    copy(&programs(profile).join(LIBRARIES[0].0), &layout.at("lib").join("libnvidia-ml.so"))?;
    let dir = layout.at(SLURM_NVML);
    at(&dir, fs::create_dir_all(&dir))?;
    if slurm.release != Release::MACHINE {
        return Ok(());
    }
    copy(&real_parts().join("usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so"), &dir.join("gpu_nvml.so"))
}

/// Directory of Slurm's own gpu_nvml.so in a cluster's.
pub(crate) const SLURM_NVML: &str = "slurm-nvml";

/// Copies the `tessera` command into the cluster's directory.
pub(crate) fn install_command(layout: &Layout, profile: Profile) -> Result<(), HarnessError> {
    copy(&programs(profile).join(COMMON[0]), &layout.at("bin").join(COMMON[0]))
}

/// The plugins as built, each with the name Slurm looks for. They are to be stamped.
#[must_use]
pub fn plugins(profile: Profile) -> Vec<(PathBuf, &'static str)> {
    plugins_below(&programs(profile))
}

/// Gives the plugins that cargo has built in a directory, each with the name that Slurm looks for.
#[must_use]
pub fn plugins_below(from: &Path) -> Vec<(PathBuf, &'static str)> {
    PLUGIN_FILES.iter().map(|(built, name)| (from.join(built), *name)).collect()
}

/// Gives the plugins of an unpacked package, each with the name that Slurm looks for.
#[must_use]
pub fn packaged_plugins(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let dir = root.join("usr/lib/tessera/unstamped");
    PLUGIN_FILES.iter().map(|(_, name)| (dir.join(name), *name)).collect()
}

/// Returns the directory of the programs and libraries that are built for any Slurm.
#[must_use]
pub fn programs(profile: Profile) -> PathBuf {
    target_dir().join(profile.dir())
}

/// Puts plugins into the cluster's plugin directory, stamped for its Slurm.
pub(crate) fn install_plugins(
    layout: &Layout,
    slurm: &Slurm,
    plugins: &[(PathBuf, &str)],
) -> Result<(), HarnessError> {
    let version = slurm.number()?;
    for (from, name) in plugins {
        let to = layout.at("plugins").join(name);
        // Another process copies, as in `copy`; the stamp is written to a file that is not run.
        plugin_stamp::stamp(from, &to, version).map_err(|why| HarnessError::Unexpected(with_causes(&why)))?;
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
