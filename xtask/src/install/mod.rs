//! `cargo xtask install`: builds for release, for one Slurm series, and installs what a site needs.

mod examples;
mod here;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use error_chain::with_causes;
use lab::artefacts::{self, Profile};
use lab::paths::workspace;
use slurm_tables::Version;

use crate::command::{TaskError, at, output};
use crate::man;
use examples::Directories;
use here::Here;

/// Shells, with the file name of the completion and where it goes below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tessera"),
    ("zsh", "share/zsh/site-functions/_tessera"),
    ("fish", "share/fish/vendor_completions.d/tessera.fish"),
];

/// Programs that are built for any Slurm, and where they go below the prefix.
const PROGRAMS: [(&str, &str); 3] =
    [("tessera", "bin"), ("tessera-broker", "sbin"), ("libtessera_task.so", "lib/tessera")];

/// The Slurm that the plugins are for.
#[derive(Args)]
pub(crate) struct For {
    /// A version such as 24.11.5, or a series of the set-up, instead of the Slurm that is installed here
    #[arg(long, value_parser = here::named)]
    slurm: Option<Version>,
    /// The source tree of the Slurm that the plugins will be loaded into, instead of its version
    #[arg(long, value_name = "DIR", conflicts_with = "slurm")]
    slurm_source: Option<PathBuf>,
}

/// Files that cargo has built for a site.
pub(crate) struct Built {
    /// Directory of the programs and libraries.
    pub(crate) dir: PathBuf,
    /// A `tessera` that runs on this machine, for completions and manual pages.
    pub(crate) tessera: PathBuf,
    /// True if it is for this machine's distribution: only that has the compiler of `tessera-clang++`.
    pub(crate) is_native: bool,
}

impl Built {
    /// Builds for use below a prefix of a machine like this one.
    pub(crate) fn here(prefix: &Path, profile: Profile) -> Result<Self, TaskError> {
        if !prefix.is_absolute() {
            return Err(TaskError::Other(format!("--prefix {}: must be absolute", prefix.display())));
        }
        artefacts::build_below(prefix, profile)?;
        let dir = artefacts::programs(profile);
        Ok(Self { tessera: dir.join("tessera"), dir, is_native: true })
    }
}

/// Paths from which files are used, and where they are put.
struct Places<'p> {
    /// Prefix from which they are used: an absolute path.
    prefix: &'p Path,
    /// Directory in which they are put instead, for packaging.
    destdir: Option<&'p Path>,
}

/// Builds and installs below the prefix, for release.
pub(crate) fn run(prefix: &Path, destdir: Option<&Path>, plugins_for: &For) -> Result<(), TaskError> {
    let here = Here::find(plugins_for.slurm_source.as_deref())?;
    let slurm = here::choose(plugins_for, here.as_ref())?;
    // What is staged may be for another machine.
    if let (Some(here), None) = (&here, destdir) {
        here::check(slurm, &here.version)?;
    }
    let built = Built::here(prefix, Profile::Release)?;
    install(&Places { prefix, destdir }, here.as_ref(), Some(slurm), &built)?;
    eprintln!(
        "installed for Slurm {}. In slurm.conf: PluginDir={}:<Slurm's own>; see {}",
        slurm,
        prefix.join("lib/tessera").display(),
        prefix.join("share/doc/tessera/slurm.conf.example").display()
    );
    Ok(())
}

/// Stages all that a package has: for any Slurm. The packaged `tessera setup` stamps the plugins.
///
/// Returns the directory of Slurm's configuration.
pub(crate) fn stage(destdir: &Path, built: &Built) -> Result<String, TaskError> {
    install(&Places { prefix: Path::new("/usr"), destdir: Some(destdir) }, None, None, built)
}

/// Installs below the prefix, staged under `destdir` if there is one; with plugins that are stamped for `slurm`, if it is
/// known. Returns the directory of Slurm's configuration.
fn install(
    &Places { prefix, destdir }: &Places<'_>,
    here: Option<&Here>,
    slurm: Option<Version>,
    built: &Built,
) -> Result<String, TaskError> {
    let root = match destdir {
        // Joining an absolute path would replace the staging directory.
        Some(stage) => stage.join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_path_buf(),
    };
    for (from, name) in artefacts::plugins_below(&built.dir) {
        put(&from, &root.join("lib/tessera/unstamped").join(name))?;
        if let Some(slurm) = slurm {
            let to = root.join("lib/tessera").join(name);
            plugin_stamp::stamp(&from, &to, slurm).map_err(|why| TaskError::Other(with_causes(&why)))?;
            eprintln!("install: {}", to.display());
        }
    }
    let program = &built.tessera;
    for (name, to) in PROGRAMS {
        put(&built.dir.join(name), &root.join(to).join(name))?;
    }
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(program).args(["completions", shell]))?;
        write(&root.join(file), &text)?;
    }
    let slurm_options = output(Command::new(program).args(["completions", "bash", "--sbatch"]))?;
    write(&root.join("share/tessera/slurm-completion.bash"), &slurm_options)?;
    let slurm_options = output(Command::new(program).args(["completions", "fish", "--sbatch"]))?;
    write(&root.join("share/fish/vendor_conf.d/tessera-slurm.fish"), &slurm_options)?;
    let shared = workspace();
    let directories = Directories::of(prefix, here);
    examples::install(&directories, &root)?;
    if !built.is_native {
        eprintln!(
            "install: without tessera-clang++: its pass is for the clang of one distribution, see --native"
        );
    } else if on_path("llvm-config-19") && on_path("clang++-19") {
        let pass = lab::case_pass::build()?;
        put(&pass.join("tessera-case-pass.so"), &root.join("lib/tessera/tessera-case-pass.so"))?;
        put(&pass.join("tessera-clang++"), &root.join("bin/tessera-clang++"))?;
        let header = shared.join("contrib/case-pass/include/tessera_task.h");
        put(&header, &root.join("include/tessera_task.h"))?;
    } else {
        eprintln!("install: without tessera-clang++: its pass needs Debian's llvm-19-dev and clang-19");
    }
    // Of each command, from its help; a page that is written by hand replaces its namesake.
    let man1 = root.join("share/man/man1");
    at(&man1, fs::create_dir_all(&man1))?;
    output(Command::new(program).arg("man-pages").arg(&man1))?;
    let has_compiler = root.join("bin/tessera-clang++").exists();
    let pages = man::pages(&shared.join("docs/man"))?;
    for page in pages.into_iter().filter(|page| has_compiler || !page.file.contains("tessera-clang++")) {
        write(&root.join("share/man").join(page.file), &page.text)?;
    }
    Ok(directories.etc)
}

/// True if a program is installed.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
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
