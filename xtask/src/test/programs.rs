//! Test programs, as `cargo build --message-format=json` lists them.

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::artefacts;
use serde_json::Value;
use slurm_releases::Release;

use super::lanes::Job;

/// One test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// Of the target: a file of `tests/`, the library or a program.
    pub(super) name: String,
    file: PathBuf,
    /// The package's directory, in which its tests expect to run.
    dir: PathBuf,
}

impl Program {
    /// Runs the tests whose names contain `filter`, as `cargo test` does.
    pub(super) fn job(&self, filter: Option<&str>) -> Job {
        Job::tests(&format!("{} {}", self.package, self.name), self.command(filter))
    }

    /// The same on a Slurm. Tests whose name has another series run there alone.
    pub(super) fn job_on(&self, filter: Option<&str>, slurm: Release) -> Job {
        let mut command = self.command(filter);
        command.env(lab::slurm::SERIES, slurm.series);
        for (other, _) in Release::packaged().filter(|(release, _)| *release != slurm) {
            command.args(["--skip", &format!("_{}", other.series.replace('.', "_"))]);
        }
        Job::tests(&format!("{} {} on Slurm {slurm}", self.package, self.name), command)
    }

    fn command(&self, filter: Option<&str>) -> Command {
        let mut command = Command::new(&self.file);
        command.args(filter).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        // What gpu-node's tests take instead of a build of their own.
        command.env(artefacts::BUILT, "1").env("GPU_NODE_TEST_SIM", lab::paths::target_dir().join("debug"));
        command
    }
}

/// The test programs in cargo's messages, by package and name.
pub(super) fn listed(messages: &str) -> Vec<Program> {
    let mut programs: Vec<Program> = messages.lines().filter_map(program).collect();
    programs.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    programs
}

fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let file = PathBuf::from(message["executable"].as_str()?);
    let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let name = message["target"]["name"].as_str()?.to_owned();
    Some(Program { package: package(message["package_id"].as_str()?)?, name, file, dir })
}

/// The name in a package id: `path+file:///src/tests#e2e@0.1.0`, or `…/placement#0.1.0` if the directory has that name.
fn package(id: &str) -> Option<String> {
    let (place, rest) = id.split_once('#')?;
    let name = rest.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name));
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///src/tests#e2e@0.1.0","manifest_path":"/src/tests/Cargo.toml","target":{"kind":["test"],"name":"jobs"},"profile":{"test":true},"executable":"/t/jobs-1"}
{"reason":"compiler-artifact","package_id":"path+file:///src/crates/tools/lab#0.1.0","manifest_path":"/src/crates/tools/lab/Cargo.toml","target":{"kind":["lib"],"name":"lab"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///src/tests#e2e@0.1.0","manifest_path":"/src/tests/Cargo.toml","target":{"kind":["bin"],"name":"cluster-guard"},"profile":{"test":false},"executable":"/t/cluster-guard"}
{"reason":"compiler-artifact","package_id":"path+file:///src/crates/tools/lab#0.1.0","manifest_path":"/src/crates/tools/lab/Cargo.toml","target":{"kind":["lib"],"name":"lab"},"profile":{"test":true},"executable":"/t/lab-2"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn only_tests_are_listed_with_their_package() {
        let program = |package: &str, name: &str, file: &str, dir: &str| Program {
            package: package.to_owned(),
            name: name.to_owned(),
            file: file.into(),
            dir: dir.into(),
        };
        assert_eq!(
            listed(MESSAGES),
            [
                program("e2e", "jobs", "/t/jobs-1", "/src/tests"),
                program("lab", "lab", "/t/lab-2", "/src/crates/tools/lab")
            ]
        );
    }
}
