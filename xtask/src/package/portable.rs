//! Programs and plugins that run on every distribution with glibc 2.28 or newer, on this machine's processor or another.
//!
//! A linker takes the newest version of each function that it finds, so what is linked on Debian 12 needs its glibc. zig has the lists of
//! functions of older ones, and `cargo-zigbuild` makes it cargo's linker. The Python registry has both compiled.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use lab::artefacts;
use lab::paths::{target_dir, workspace};

use crate::command::{TaskError, output, run};
use crate::install::Built;
use crate::setup;

/// The oldest glibc that the programs run with: that of RHEL 8. Debian 10 has it, too.
const GLIBC: (u32, u32) = (2, 28);

/// Libraries that the programs need, as Debian names them.
pub(super) const LIBRARIES: &str = "libc6 (>= 2.28)";

/// Processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(super) enum Arch {
    /// Intel's and AMD's
    #[value(name = "x86_64")]
    X86_64,
    /// ARM's of 64 bits: NVIDIA Grace
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// Gives this machine's.
    pub(super) fn own() -> Self {
        if std::env::consts::ARCH == "aarch64" { Self::Aarch64 } else { Self::X86_64 }
    }

    /// Gives Debian's name.
    pub(super) fn of_debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// Writes Rust's name, which is also RPM's.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        })
    }
}

/// Builds for release.
pub(super) fn build(arch: Arch) -> Result<Built, TaskError> {
    let tools = setup::zig::install()?;
    let target = format!("{arch}-unknown-linux-gnu");
    has_library(&target)?;
    let mut cargo = Command::new(tools.join("bin/cargo-zigbuild"));
    cargo.current_dir(workspace()).arg("zigbuild").arg("--release").arg("--target-dir").arg(target_dir());
    cargo.arg("--target").arg(format!("{target}.{}.{}", GLIBC.0, GLIBC.1));
    for package in artefacts::product() {
        cargo.args(["-p", package]);
    }
    // This machine's strip knows no other processor.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("CARGO_ZIGBUILD_ZIG_PATH", tools.join("ziglang/zig"));
    run(&mut cargo)?;
    let dir = target_dir().join(&target).join("release");
    let tessera = if arch == Arch::own() { dir.join("tessera") } else { tessera_here()? };
    Ok(Built { dir, tessera, is_native: false })
}

/// Builds the command for this machine.
fn tessera_here() -> Result<PathBuf, TaskError> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace()).args(["build", "-p", "tessera-cli", "--target-dir"]).arg(target_dir());
    run(&mut cargo)?;
    Ok(target_dir().join("debug/tessera"))
}

/// Checks that Rust's own library for a processor is installed.
fn has_library(target: &str) -> Result<(), TaskError> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).is_dir() {
        return Ok(());
    }
    Err(TaskError::Other(format!("Rust has no library for {target} here: rustup target add {target}")))
}

/// Checks that no file needs a newer glibc.
pub(super) fn check(files: &[PathBuf]) -> Result<(), TaskError> {
    for file in files {
        let said = output(Command::new("readelf").args(["--wide", "--version-info"]).arg(file))?;
        if let Some((major, minor)) = newest(&said).filter(|needed| *needed > GLIBC) {
            let (file, ours) = (file.display(), format!("{}.{}", GLIBC.0, GLIBC.1));
            return Err(TaskError::Other(format!("{file} needs glibc {major}.{minor}, not {ours}")));
        }
    }
    Ok(())
}

/// Gives the newest glibc whose functions a file needs, by what `readelf --version-info` says of it.
fn newest(said: &str) -> Option<(u32, u32)> {
    let versions = said.split("GLIBC_").skip(1).filter_map(|rest| {
        let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let said = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n  Name: GLIBC_2.17  Flags: none\n\
                    Name: GLIBC_2.2.5  Flags: none  Version: 2\n  Name: GCC_3.0\n";
        assert_eq!(newest(said), Some((2, 17)));
        assert_eq!(newest("Name: GLIBC_PRIVATE"), None);
    }

    #[test]
    fn a_program_that_needs_a_newer_glibc_is_not_packed() {
        let own = std::env::current_exe().unwrap();
        let said = check(&[own]).unwrap_err().to_string();
        assert!(said.contains(" needs glibc 2.") && said.ends_with(", not 2.28"), "{said}");
    }

    #[test]
    fn a_library_that_rust_lacks_is_named_with_the_command() {
        has_library(&format!("{}-unknown-linux-gnu", Arch::own())).unwrap();
        let said = has_library("mips-unknown-linux-gnu").unwrap_err().to_string();
        assert!(said.ends_with("rustup target add mips-unknown-linux-gnu"), "{said}");
    }
}
