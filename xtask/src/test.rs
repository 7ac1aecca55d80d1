//! `cargo xtask test`: everything that must hold before a commit goes out; what CI runs.

use std::process::Command;
use std::time::Instant;

use lab::artefacts::{self, Profile};
use lab::paths::workspace;
use slurm_releases::Release;

use crate::command::{TaskError, run};
use crate::setup;

/// Sets up, checks format and lints, builds, and runs every test whose name contains `filter`.
pub(crate) fn run_all(filter: Option<&str>) -> Result<(), TaskError> {
    setup::run(None)?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("lints", cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // The command line's comments are its --help texts, in which [[nodes]] is no link.
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--exclude", "tessera-cli", "--no-deps"]);
    doc.arg("--document-private-items");
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("documentation", doc)?;
    step("build", cargo(&["build", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--examples"]))?;
    for release in Release::in_chroots() {
        eprintln!("== plugins for Slurm {release}");
        artefacts::build(release, Profile::Debug)?;
    }
    eprintln!("== tests");
    let parts = tests(&["--workspace", "--exclude", "e2e"], filter);
    // Last, so that the runner's own words are the last ones: on real daemons.
    parts.and(tests(&["--package", "e2e", "--tests"], filter))
}

fn tests(which: &[&str], filter: Option<&str>) -> Result<(), TaskError> {
    let mut test = cargo(&["test", "--no-fail-fast"]);
    test.args(which).env(artefacts::BUILT, "1");
    if let Some(filter) = filter {
        test.arg(filter);
    }
    run(&mut test)
}

fn step(name: &str, mut command: Command) -> Result<(), TaskError> {
    eprintln!("== {name}");
    let begin = Instant::now();
    run(&mut command)?;
    eprintln!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// This very cargo, in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace());
    command
}
