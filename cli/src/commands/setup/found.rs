//! Finds Slurm's files and reads them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use plugin_rt::read_file::{TABLE, read_small};

use super::conf::{ConfFile, Logical};
use super::plan::Files;
use crate::outcome::Failure;

/// Where slurmd links the files that slurmctld has sent it, and where Slurm's commands look behind /etc [read_config.c].
const SENT: &str = "/run/slurm/conf/slurm.conf";
/// File in a directory whose files plugstack.conf includes: before pyxis.conf.
const PART: &str = "10-tessera.conf";
/// Most files that are read for one include with a wildcard, and all together.
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
    while next < all.len() && all.len() < MOST_FILES {
        let includes = |line: &Logical| line.include().map(|file| (file.to_owned(), line.first + 1));
        let lines: Vec<(String, usize)> = all[next].logical().iter().filter_map(includes).collect();
        for (file, number) in lines {
            let place = format!("{}:{number}", all[next].path.display());
            for path in find(&file, &place) {
                if all.iter().all(|known| known.path != path) && all.len() < MOST_FILES {
                    all.push(found(path)?);
                }
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

/// The files that a pattern finds, in their order. Wildcards count in the last part only: `*` and `?`.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let Some(name) = pattern.file_name().and_then(OsStr::to_str) else { return Vec::new() };
    if !name.contains(['*', '?']) {
        return vec![pattern.to_owned()];
    }
    let Some(entries) = pattern.parent().and_then(|dir| fs::read_dir(dir).ok()) else { return Vec::new() };
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_match = |path: &PathBuf| {
        let file = path.file_name().and_then(OsStr::to_str);
        file.is_some_and(|file| !file.starts_with('.') && globs(name.as_bytes(), file.as_bytes()))
    };
    let mut files: Vec<PathBuf> = files.filter(is_match).collect();
    files.sort();
    files
}

/// Tells whether a name matches a pattern with `*` and `?`.
fn globs(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on after the last star: it takes one byte more each time.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// A file that the pattern would find, in a directory that exists.
fn place_for_part(pattern: &Path) -> Option<PathBuf> {
    let name = pattern.file_name()?.to_str().filter(|name| name.contains('*'))?;
    let dir = pattern.parent().filter(|dir| dir.is_dir())?;
    globs(name.as_bytes(), PART.as_bytes()).then(|| dir.join(PART))
}

/// Tells whether a slurmd of this machine gets its files from slurmctld.
fn is_configless() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| {
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.ends_with("slurmd"))
            && words.any(|word| word.starts_with("--conf-server"))
    })
}

/// The directory of Slurm's own plugins: where its programs look for their library, which stands with the plugins.
pub(super) fn slurm_plugins() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]).collect();
    let programs = ["slurmctld", "slurmd", "sinfo"];
    let programs = dirs.iter().flat_map(|dir| programs.iter().map(move |name| dir.join(name)));
    let candidates = programs.filter(|program| program.is_file()).flat_map(|program| {
        let beside = program.canonicalize().unwrap_or_default();
        let prefix = beside.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
        run_paths(&program)
            .into_iter()
            .chain(["lib64/slurm", "lib/slurm"].map(|dir| prefix.join(dir)))
            .collect::<Vec<_>>()
    });
    let mut candidates = candidates;
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
    fn names_match_patterns() {
        let does = |pattern: &str, name: &str| globs(pattern.as_bytes(), name.as_bytes());
        assert!(does("*", "pyxis.conf") && does("*.conf", "10-tessera.conf") && does("*a*a*b", "xaayab"));
        assert!(does("p?xis.conf", "pyxis.conf") && does("a", "a") && !does("*.conf", "pyxis.conf~"));
        assert!(!does("p*", "tessera.conf") && !does("?", "") && does("*", ""));
    }

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
}
