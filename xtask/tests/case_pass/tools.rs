//! The built pass, and compilers that use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What clang needs to compile the host side against the simulator's headers: no CUDA is installed.
const HOST: [&str; 8] = [
    "-x",
    "cuda",
    "--cuda-host-only",
    "-nocudainc",
    "-nocudalib",
    "-Xclang",
    "-target-sdk-version=12.5",
    "-I",
];

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

pub(crate) fn source() -> PathBuf {
    workspace().join("contrib/case-pass")
}

/// The directory with the plugin and `tessera-clang++`, built by the first test that asks.
pub(crate) fn built() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = lab::paths::target_dir().join("case-pass");
        fs::create_dir_all(&dir).unwrap();
        // Another test program or a benchmark may build it too.
        let lock = fs::File::create(dir.join("lock")).unwrap();
        lock.lock().unwrap();
        let mut make = Command::new("make");
        make.args(["--silent", "-j2", "-C"]).arg(source()).arg(format!("BUILD={}", dir.display()));
        succeeds(&mut make);
        dir
    })
}

/// Runs a command to its end and says all if it fails.
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{}",
        done.status,
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    done
}

/// A compiler in CUDA mode against the simulator's headers.
pub(crate) fn host(compiler: &Path) -> Command {
    let mut command = Command::new(compiler);
    command.args(HOST).arg(workspace().join("crates/cuda-sim/include"));
    command.env_remove("TESSERA_PASS_REPORT");
    command
}

pub(crate) fn shape(name: &str) -> PathBuf {
    source().join("tests/shapes").join(format!("{name}.cu"))
}

/// The names of all shapes.
pub(crate) fn shapes() -> Vec<String> {
    let entries = fs::read_dir(source().join("tests/shapes")).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap().path())).collect();
    names.sort();
    names
}
