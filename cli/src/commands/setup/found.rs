//! Finds Slurm's files and reads them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use object::Endianness;
use object::elf::{DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use plugin_rt::read_file::{TABLE, read_small};
use slurm_tables::Version;

use super::conf::{ConfFile, Logical};
use super::plan::Files;
use super::stamp;
use crate::outcome::Failure;

/// Link of slurmd's to the files that slurmctld has sent it: Slurm's commands look there behind /etc [read_config.c].
const SENT: &str = "/run/slurm/conf/slurm.conf";
/// File in a directory whose files plugstack.conf includes: before pyxis.conf.
const PART: &str = "10-tessera.conf";
/// Wildcards match no slash, and no dot at a name's beginning.
const AS_IN_C: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
/// Most files that are read, with all that are included.
const MOST_FILES: usize = 200;

/// Reads the files beside this slurm.conf.
pub(super) fn files(slurm_conf: &Path) -> Result<Files, Failure> {
    let beside = |name: &str| slurm_conf.with_file_name(name);
    let mut files = Files { tessera: found(beside("tessera.toml"))?, ..Files::default() };
    files.health = found(beside("tessera-health"))?;
    let main = found(slurm_conf.to_owned())?;
    if main.text.is_none() {
        if Path::new(SENT).exists() || is_configless() {
            files.is_configless = true;
            return Ok(files);
        }
        return Err(Failure::new(format!("{} is not there", slurm_conf.display()))
            .hint("name it by --slurm-conf or SLURM_CONF, or stamp the plugins alone by --plugins-only"));
    }
    files.gres = found(beside("gres.conf"))?;
    files.slurm = with_included(main, &mut |file, line| {
        // Slurm's reader knows no wildcards there [parse_config.c, `_parse_include_directive`].
        if file.contains(['*', '?', '[', '%']) {
            files.not_followed.push(format!(
                "{line}: Slurm's reader of slurm.conf knows no wildcards, so this include was not read"
            ));
            return Vec::new();
        }
        vec![slurm_conf.parent().unwrap_or(Path::new("/")).join(file)]
    })?;
    let mut named =
        files.slurm.iter().flat_map(ConfFile::logical).filter(|line| line.fields.begins("PlugStackConfig"));
    let named = named.next_back().and_then(|line| line.fields.field("PlugStackConfig").map(PathBuf::from));
    let plugstack = found(named.unwrap_or_else(|| beside("plugstack.conf")))?;
    let mut part = None;
    files.plugstack = with_included(plugstack, &mut |file, _| {
        let pattern = slurm_conf.parent().unwrap_or(Path::new("/")).join(file);
        part = part.take().or_else(|| place_for_part(&pattern));
        matching(&pattern)
    })?;
    files.plugstack_part = part;
    Ok(files)
}

/// Reads a file; a missing one has no text.
fn found(path: PathBuf) -> Result<ConfFile, Failure> {
    match read_small(&path, TABLE) {
        Ok(text) => Ok(ConfFile { path, text: Some(text) }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(ConfFile { path, text: None }),
        Err(error) => Err(Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("run this as root; the file has to be a regular file of text")),
    }
}

/// A file and what it includes, one level deep and in order. `find` gets the name and the place of each include.
fn with_included(
    main: ConfFile,
    find: &mut dyn FnMut(&str, &str) -> Vec<PathBuf>,
) -> Result<Vec<ConfFile>, Failure> {
    let mut all = vec![main];
    let mut next = 0;
    while next < all.len() {
        let includes = |line: &Logical| line.include().map(|file| (file.to_owned(), line.first + 1));
        let lines: Vec<(String, usize)> = all[next].logical().iter().filter_map(includes).collect();
        for (file, number) in lines {
            let place = format!("{}:{number}", all[next].path.display());
            for path in find(&file, &place) {
                if all.iter().any(|known| known.path == path) {
                    continue;
                }
                if all.len() == MOST_FILES {
                    return Err(Failure::new(format!("{place}: more than {MOST_FILES} files are included"))
                        .hint(
                            "stamp the plugins alone by --plugins-only, and change Slurm's files by hand",
                        ));
                }
                all.push(found(path)?);
            }
        }
        next += 1;
    }
    // The files that are not there have no lines.
    Ok(all
        .into_iter()
        .enumerate()
        .filter(|(i, file)| *i == 0 || file.text.is_some())
        .map(|(_, file)| file)
        .collect())
}

/// The files that a pattern finds, in their order, as Slurm's glob(3) does.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let found = pattern.to_str().and_then(|text| glob::glob_with(text, AS_IN_C).ok());
    found.into_iter().flatten().filter_map(Result::ok).collect()
}

/// A file that the pattern would find, in a directory that exists.
fn place_for_part(pattern: &Path) -> Option<PathBuf> {
    let name = pattern.file_name()?.to_str().filter(|name| name.contains('*'))?;
    let dir = pattern.parent().filter(|dir| dir.is_dir())?;
    Pattern::new(name).ok()?.matches(PART).then(|| dir.join(PART))
}

/// Tells whether a slurmd of this machine gets its files from slurmctld. Only root's processes count: anybody can call one slurmd.
fn is_configless() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let processes = processes.filter(|entry| entry.metadata().is_ok_and(|there| there.uid() == 0));
    let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| {
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.ends_with("slurmd"))
            && words.any(|word| word.starts_with("--conf-server"))
    })
}

/// Finds the directory of the plugins of the Slurm with this version: where its programs look for their library, which is with the plugins.
/// Another Slurm on the machine has others.
pub(super) fn slurm_plugins(slurm: Version) -> Option<PathBuf> {
    plugins_of(stamp::programs().into_iter().filter(|program| stamp::version_of(program) == Some(slurm)))
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
    fn included_files_are_read_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir(dir.path().join("plugstack.conf.d")).unwrap();
        let parts = dir.path().join("plugstack.conf.d/*.conf").display().to_string();
        write("slurm.conf", "ClusterName=a\nInclude nodes.conf\ninclude more*.conf\nInclude gone.conf\n");
        write("nodes.conf", "NodeName=n1\nInclude slurm.conf\n");
        write("plugstack.conf", &format!("include {parts}\n"));
        write("plugstack.conf.d/b.conf", "");
        write("plugstack.conf.d/a.conf", "required /x/spank_pyxis.so\n");
        write("plugstack.conf.d/.c.conf", "");
        let files = files(&dir.path().join("slurm.conf")).unwrap();
        let names = |files: &[ConfFile]| -> Vec<String> {
            files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&files.slurm), ["slurm.conf", "nodes.conf"]);
        assert_eq!(names(&files.plugstack), ["plugstack.conf", "a.conf", "b.conf"]);
        assert_eq!(files.plugstack_part, Some(dir.path().join("plugstack.conf.d/10-tessera.conf")));
        assert!(files.not_followed.len() == 1 && files.not_followed[0].contains("slurm.conf:3"));
        assert!(!files.is_configless && files.gres.text.is_none());
    }

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
    fn an_include_of_too_many_files_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let parts = dir.path().join("d");
        fs::create_dir(&parts).unwrap();
        fs::write(dir.path().join("slurm.conf"), "ClusterName=a\n").unwrap();
        fs::write(dir.path().join("plugstack.conf"), "# parts\ninclude d/*\n").unwrap();
        (0..MOST_FILES - 1).for_each(|n| fs::write(parts.join(format!("{n}.conf")), "").unwrap());
        let read = || files(&dir.path().join("slurm.conf"));
        assert_eq!(read().unwrap().plugstack.len(), MOST_FILES);
        fs::write(parts.join("more.conf"), "").unwrap();
        let why = read().unwrap_err().in_a_line();
        assert!(why.contains("plugstack.conf:2: more than 200 files are included"), "{why}");
    }
}
