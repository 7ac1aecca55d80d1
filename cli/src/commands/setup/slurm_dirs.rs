//! Directories of the Slurm of this machine: where its plugins and its commands are.

use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use slurm_tables::Version;

use super::absolute;
use super::programs::{programs, version_of};

/// Directories in which a program without PATH finds commands.
const SEARCHED: [&str; 2] = ["/usr/bin", "/bin"];

/// Finds the directory of the plugins of the Slurm with this version: where its programs look for their library, which is with the plugins.
/// Another Slurm on the machine has others.
pub(super) fn slurm_plugins(slurm: Version) -> Option<PathBuf> {
    plugins_of(programs().into_iter().filter(|program| version_of(program) == Some(slurm)))
}

/// Finds the directory of plugins that belongs to the first of these programs that has one.
fn plugins_of(programs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut candidates = programs.flat_map(|program| {
        let beside = program.canonicalize().unwrap_or_default();
        let prefix = beside.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
        run_paths(&program)
            .into_iter()
            .chain(["lib64/slurm", "lib/slurm"].map(|dir| prefix.join(dir)))
            .collect::<Vec<_>>()
    });
    candidates.find(|dir| dir.join("select_cons_tres.so").is_file())
}

/// Finds the directory of the commands of the Slurm with this version. `None`: programs find them without PATH, or there are none.
pub(super) fn slurm_commands(slurm: Version) -> Option<PathBuf> {
    commands_of(programs().iter().filter(|program| version_of(program) == Some(slurm)))
}

fn commands_of<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Option<PathBuf> {
    let dirs = programs
        .filter_map(|program| program.parent().map(|dir| absolute(dir.to_owned())))
        .flat_map(|dir| [dir.clone(), dir.with_file_name("bin")]);
    let dirs: Vec<PathBuf> = dirs.filter(|dir| dir.join("squeue").is_file()).collect();
    let is_found = dirs.iter().any(|dir| SEARCHED.iter().any(|searched| dir == Path::new(searched)));
    dirs.into_iter().next().filter(|_| !is_found)
}

/// Directories in which the dynamic linker looks for a program's libraries.
fn run_paths(program: &Path) -> Vec<PathBuf> {
    let read = || {
        let bytes = fs::read(program).ok()?;
        let header = FileHeader64::<Endianness>::parse(&*bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &*bytes).ok()?;
        let (entries, link) = sections.dynamic(endian, &*bytes).ok()??;
        let strings = sections.strings(endian, &*bytes, link).ok()?;
        let paths = entries.iter().filter(|entry| [DT_RPATH, DT_RUNPATH].contains(&entry.tag(endian)));
        let paths = paths.filter_map(|entry| entry.string(endian, strings).ok());
        let paths = paths.flat_map(|text| text.split(|byte| *byte == b':'));
        Some(paths.map(|dir| PathBuf::from(String::from_utf8_lossy(dir).into_owned())).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_are_those_of_the_slurm_that_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let programs: Vec<PathBuf> = ["none", "a", "b"]
            .into_iter()
            .map(|name| {
                let prefix = dir.path().join(name);
                fs::create_dir_all(prefix.join("sbin")).unwrap();
                fs::create_dir_all(prefix.join("lib/slurm")).unwrap();
                if name != "none" {
                    fs::write(prefix.join("lib/slurm/select_cons_tres.so"), "").unwrap();
                }
                fs::write(prefix.join("sbin/slurmctld"), "").unwrap();
                prefix.join("sbin/slurmctld")
            })
            .collect();
        let plugins = |of: &[PathBuf]| plugins_of(of.iter().cloned());
        assert_eq!(plugins(&programs), Some(dir.path().join("a/lib/slurm")));
        assert_eq!(plugins(&programs[2..]), Some(dir.path().join("b/lib/slurm")));
        assert_eq!(plugins(&programs[..1]), None);
        // No Slurm of this machine has such a version.
        assert_eq!(slurm_plugins("22.05.99".parse().unwrap()), None);
    }

    #[test]
    fn commands_are_found_beside_daemons() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        ["sbin", "bin"].into_iter().for_each(|name| fs::create_dir(path(name)).unwrap());
        let daemon = [path("sbin/slurmd")];
        assert_eq!(commands_of(daemon.iter()), None);
        fs::write(path("bin/squeue"), "").unwrap();
        assert_eq!(commands_of(daemon.iter()), Some(path("bin")));
    }
}
