//! `cargo xtask install`: builds for release, for one Slurm series, and installs what a site needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::artefacts::{self, Profile};
use lab::paths::{target_dir, workspace};
use slurm_releases::Release;

use crate::command::{TaskError, at, output};
use crate::man;

/// Shells, with the file name of the completion and where it goes below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tessera"),
    ("zsh", "share/zsh/site-functions/_tessera"),
    ("fish", "share/fish/vendor_completions.d/tessera.fish"),
];

/// Builds and installs below `prefix`, staged under `destdir` if there is one.
pub(crate) fn run(prefix: &Path, destdir: Option<&Path>, slurm: Release) -> Result<(), TaskError> {
    if !prefix.is_absolute() {
        return Err(TaskError::Other(format!("--prefix {}: must be absolute", prefix.display())));
    }
    artefacts::build(slurm, Profile::Release)?;
    let root = match destdir {
        // Joining an absolute path would replace the staging directory.
        Some(stage) => stage.join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_path_buf(),
    };
    for (from, name) in artefacts::plugins(slurm, Profile::Release) {
        put(&from, &root.join("lib/tessera").join(name))?;
    }
    let program = target_dir().join("release/tessera");
    put(&program, &root.join("bin/tessera"))?;
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(&program).args(["completions", shell]))?;
        write(&root.join(file), &text)?;
    }
    let shared = workspace();
    put(&shared.join("slurm.conf.example"), &root.join("share/doc/tessera/slurm.conf.example"))?;
    for path in files(&shared.join("contrib/example"))? {
        if let Some(name) = path.file_name() {
            put(&path, &root.join("share/doc/tessera/examples").join(name))?;
        }
    }
    for page in man::pages(&shared.join("docs/man"))? {
        write(&root.join("share/man").join(page.file), &page.text)?;
    }
    eprintln!(
        "installed. In slurm.conf: PluginDir={}:<Slurm's own>; see {}",
        prefix.join("lib/tessera").display(),
        prefix.join("share/doc/tessera/slurm.conf.example").display()
    );
    Ok(())
}

/// Files directly in `dir`; none if there is no such directory.
fn files(dir: &Path) -> Result<Vec<PathBuf>, TaskError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let entries = at(dir, fs::read_dir(dir))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn put(from: &Path, to: &Path) -> Result<(), TaskError> {
    make_parent(to)?;
    // slurmctld may have the old file mapped and keeps it; the name then refers to the new file.
    let fresh = to.with_extension("new");
    at(from, fs::copy(from, &fresh))?;
    at(to, fs::rename(&fresh, to))?;
    eprintln!("install: {}", to.display());
    Ok(())
}

fn write(to: &Path, text: &str) -> Result<(), TaskError> {
    make_parent(to)?;
    at(to, fs::write(to, text))?;
    eprintln!("install: {}", to.display());
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), TaskError> {
    let parent = path.parent().unwrap_or(path);
    at(parent, fs::create_dir_all(parent))
}
