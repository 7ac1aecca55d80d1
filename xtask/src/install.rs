//! `cargo xtask install`: builds for release, for one Slurm series, and installs what a site needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use lab::Slurm;
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

/// The Slurm that the plugins are for.
#[derive(Args)]
pub(crate) struct For {
    /// A series of the set-up, instead of the Slurm that is installed here
    #[arg(long)]
    slurm: Option<Release>,
    /// The configured source tree of the very Slurm that the plugins will be loaded into
    #[arg(long, value_name = "DIR", conflicts_with = "slurm")]
    slurm_source: Option<PathBuf>,
}

/// A Slurm that is installed on this machine.
struct Here {
    version: String,
    /// The directory of its own plugins, if it is found.
    plugins: Option<PathBuf>,
}

/// Builds and installs below `prefix`, staged under `destdir` if there is one.
pub(crate) fn run(prefix: &Path, destdir: Option<&Path>, plugins_for: &For) -> Result<(), TaskError> {
    if !prefix.is_absolute() {
        return Err(TaskError::Other(format!("--prefix {}: must be absolute", prefix.display())));
    }
    let here = Here::find()?;
    let slurm = choose(plugins_for, here.as_ref())?;
    // What is staged may be for another machine.
    if let (Some(here), None) = (&here, destdir) {
        check(&slurm.version()?, &here.version)?;
    }
    artefacts::build(&slurm, Profile::Release)?;
    let root = match destdir {
        // Joining an absolute path would replace the staging directory.
        Some(stage) => stage.join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_path_buf(),
    };
    for (from, name) in artefacts::plugins(&slurm, Profile::Release) {
        put(&from, &root.join("lib/tessera").join(name))?;
    }
    let program = target_dir().join("release/tessera");
    put(&program, &root.join("bin/tessera"))?;
    put_task_broker(&root)?;
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(&program).args(["completions", shell]))?;
        write(&root.join(file), &text)?;
    }
    let shared = workspace();
    let plugin_dir = here.and_then(|here| here.plugins);
    let example = |from: &Path, to: &Path| {
        let text = at(from, fs::read_to_string(from))?;
        write(to, &adapted(&text, prefix, plugin_dir.as_deref()))?;
        at(to, fs::set_permissions(to, at(from, fs::metadata(from))?.permissions()))
    };
    let doc = root.join("share/doc/tessera");
    example(&shared.join("slurm.conf.example"), &doc.join("slurm.conf.example"))?;
    if on_path("llvm-config-19") && on_path("clang++-19") {
        let pass = build_pass()?;
        put(&pass.join("tessera-case-pass.so"), &root.join("lib/tessera/tessera-case-pass.so"))?;
        put(&pass.join("tessera-clang++"), &root.join("bin/tessera-clang++"))?;
        let header = shared.join("contrib/case-pass/include/tessera_task.h");
        put(&header, &root.join("include/tessera_task.h"))?;
    } else {
        eprintln!("install: without tessera-clang++: its pass needs Debian's llvm-19-dev and clang-19");
    }
    for path in files(&shared.join("contrib/example"))? {
        if let Some(name) = path.file_name() {
            example(&path, &doc.join("examples").join(name))?;
        }
    }
    for page in man::pages(&shared.join("docs/man"))? {
        write(&root.join("share/man").join(page.file), &page.text)?;
    }
    eprintln!(
        "installed for Slurm {}. In slurm.conf: PluginDir={}:<Slurm's own>; see {}",
        slurm.version()?,
        prefix.join("lib/tessera").display(),
        prefix.join("share/doc/tessera/slurm.conf.example").display()
    );
    Ok(())
}

impl Here {
    /// The Slurm whose daemons or commands are in PATH or in a directory for daemons; `None` if there is none.
    fn find() -> Result<Option<Self>, TaskError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]).collect();
        let programs = ["slurmctld", "slurmd", "sinfo"];
        let candidates = programs.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        let Some(program) = candidates.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        let version = lab::slurm::installed(&program)?;
        Ok(Some(Self { version, plugins: plugin_dir(&program) }))
    }
}

/// Where the Slurm of this program keeps its own plugins, by the usual places below its prefix.
fn plugin_dir(program: &Path) -> Option<PathBuf> {
    let prefix = fs::canonicalize(program).ok()?.ancestors().nth(2)?.to_path_buf();
    let triple = format!("lib/{}-linux-gnu/slurm-wlm", std::env::consts::ARCH);
    let places = [triple.as_str(), "lib/slurm", "lib64/slurm", "lib/slurm-wlm"];
    places.iter().map(|place| prefix.join(place)).find(|dir| dir.join("select_cons_tres.so").is_file())
}

/// The Slurm to build for: what the options say, or else the one that is here.
fn choose(plugins_for: &For, here: Option<&Here>) -> Result<Slurm, TaskError> {
    if let Some(source) = &plugins_for.slurm_source {
        return Ok(Slurm::by_hand(&crate::cluster::absolute(source)?, None)?);
    }
    if let Some(release) = plugins_for.slurm {
        return Ok(release.into());
    }
    let Some(here) = here else {
        return Err(TaskError::Other(
            "no Slurm is found here: name its configured source tree by --slurm-source DIR".to_owned(),
        ));
    };
    let release = Release::of_version(&here.version).map_err(|e| TaskError::Other(e.to_string()))?;
    let slurm = Slurm::from(release);
    if slurm.version().is_ok_and(|version| version == here.version) {
        return Ok(slurm);
    }
    Err(TaskError::Other(format!(
        "Slurm {0} is installed here: name the configured source tree of Slurm {0} by --slurm-source DIR",
        here.version
    )))
}

/// Slurm loads these plugins only if they were built for exactly its version.
fn check(built_for: &str, here: &str) -> Result<(), TaskError> {
    if built_for == here {
        return Ok(());
    }
    Err(TaskError::Other(format!(
        "plugins built for Slurm {built_for} cannot be loaded by the Slurm {here} that is installed here: name the \
         source tree of Slurm {here} by --slurm-source DIR, or stage them for another machine by --destdir DIR"
    )))
}

/// An example file with the directories of this installation instead of the usual ones.
fn adapted(text: &str, prefix: &Path, slurm_plugins: Option<&Path>) -> String {
    let text =
        text.replace("/usr/local/", &format!("{}/", prefix.display().to_string().trim_end_matches('/')));
    match slurm_plugins {
        Some(dir) => text.replace("/usr/lib/x86_64-linux-gnu/slurm-wlm", &dir.display().to_string()),
        None => text,
    }
}

/// Builds and installs the broker of GPU tasks and the library of their programs.
fn put_task_broker(root: &Path) -> Result<(), TaskError> {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--package", "task-broker", "--package", "task-client"]);
    output(build.current_dir(workspace()))?;
    let built = target_dir().join("release");
    put(&built.join("tessera-broker"), &root.join("sbin/tessera-broker"))?;
    put(&built.join("libtessera_task.so"), &root.join("lib/tessera/libtessera_task.so"))
}

/// Builds the compiler pass in `contrib/case-pass`, and returns the directory with the plugin and `tessera-clang++`.
pub(crate) fn build_pass() -> Result<PathBuf, TaskError> {
    let dir = target_dir().join("case-pass");
    at(&dir, fs::create_dir_all(&dir))?;
    // Tests may build it at the same time.
    let lock_path = dir.join("lock");
    let lock = at(&lock_path, fs::File::create(&lock_path))?;
    at(&lock_path, lock.lock())?;
    let mut make = Command::new("make");
    make.args(["--silent", "-j2", "-C"]).arg(workspace().join("contrib/case-pass"));
    output(make.arg(format!("BUILD={}", dir.display())))?;
    Ok(dir)
}

/// Whether a program is installed.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_name_the_directories_of_the_installation() {
        let text = "PluginDir=/usr/local/lib/tessera:/usr/lib/x86_64-linux-gnu/slurm-wlm\n";
        let own = Path::new("/opt/slurm/lib/slurm");
        let adapted = |prefix, dir| adapted(text, Path::new(prefix), dir);
        assert_eq!(adapted("/usr/local", None), text);
        assert_eq!(
            adapted("/opt/tessera", Some(own)),
            "PluginDir=/opt/tessera/lib/tessera:/opt/slurm/lib/slurm\n"
        );
        for example in files(&workspace().join("contrib/example")).unwrap() {
            let text = fs::read_to_string(&example).unwrap();
            let adapted = super::adapted(&text, Path::new("/opt/t"), None);
            for elsewhere in ["/usr/local", "/usr/sbin/tessera", "/usr/lib/tessera", "/usr/bin/tessera"] {
                assert!(!adapted.contains(elsewhere), "{example:?}: {elsewhere}");
            }
        }
    }

    #[test]
    fn another_slurm_is_refused_with_both_versions() {
        assert!(check("22.05.8", "22.05.8").is_ok());
        insta::assert_snapshot!(check("25.05.8", "25.05.7").unwrap_err(), @"plugins built for Slurm 25.05.8 cannot be loaded by the Slurm 25.05.7 that is installed here: name the source tree of Slurm 25.05.7 by --slurm-source DIR, or stage them for another machine by --destdir DIR");
        let here = |version: &str| Here { version: version.to_owned(), plugins: None };
        let choice = For { slurm: None, slurm_source: None };
        insta::assert_snapshot!(choose(&choice, None).unwrap_err(), @"no Slurm is found here: name its configured source tree by --slurm-source DIR");
        insta::assert_snapshot!(choose(&choice, Some(&here("25.05.7"))).unwrap_err(), @"Slurm 25.05.7 is installed here: name the configured source tree of Slurm 25.05.7 by --slurm-source DIR");
        insta::assert_snapshot!(choose(&choice, Some(&here("21.08.8"))).unwrap_err(), @"Slurm 21.08.8 is not one that Tessera knows: 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, 26.05");
    }
}
