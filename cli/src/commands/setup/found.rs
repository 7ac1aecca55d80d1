//! Finds Slurm's files and reads them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use node_slurm::slurm_conf;
use plugin_rt::read_file::{CONFIG, read_small};

use super::conf::{ConfFile, Logical};
use super::plan::{Files, named_job_namespace};
use super::read_order::Lines;
use super::stamp;
use crate::files::TABLE;
use crate::outcome::Failure;

/// File in a directory whose files plugstack.conf includes: before pyxis.conf.
const PART: &str = "10-tessera.conf";
/// Wildcards match no slash, and no dot at a name's beginning.
const AS_IN_C: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
/// Most files that are read, with all that are included.
const MOST_FILES: usize = 200;

/// Reads the files beside this slurm.conf.
pub(super) fn files(conf: &Path) -> Result<Files, Failure> {
    let beside = |name: &str| conf.with_file_name(name);
    let mut files = Files { tessera: found(beside("tessera.toml"))?, ..Files::default() };
    files.parts_of_tessera = parts(&files.tessera);
    files.health = found(beside("tessera-health"))?;
    let main = found(conf.to_owned())?;
    if main.text.is_none() {
        if Path::new(slurm_conf::SENT).exists() || is_configless() {
            files.is_configless = true;
            return Ok(files);
        }
        return Err(Failure::new(format!("{} is not there", conf.display()))
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
        vec![conf.parent().unwrap_or(Path::new("/")).join(file)]
    })?;
    let namespace = named_job_namespace(&Lines::of(&files.slurm)).map(|(.., namespace)| namespace.file());
    files.job_namespace = namespace.map(|file| found(beside(file))).transpose()?;
    let named = Lines::of(&files.slurm).value("PlugStackConfig").map(PathBuf::from);
    let plugstack = found(named.unwrap_or_else(|| beside("plugstack.conf")))?;
    let dirs = Lines::of(&files.slurm).value("PluginDir").unwrap_or_default().to_owned();
    files.plugin_dirs_of_tessera =
        dirs.split(':').filter(|dir| stamp::is_ours(Path::new(dir))).map(str::to_owned).collect();
    let mut part = None;
    files.plugstack = with_included(plugstack, &mut |file, _| {
        let pattern = conf.parent().unwrap_or(Path::new("/")).join(file);
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

/// Reads the files beside tessera.toml that it names. One that cannot be read is missing.
fn parts(tessera: &ConfFile) -> BTreeMap<String, String> {
    let parts = RefCell::new(BTreeMap::new());
    let read = |name: &str| {
        let text = read_small(&tessera.path.with_file_name(name), CONFIG)?;
        parts.borrow_mut().insert(name.to_owned(), text.clone());
        Ok(text)
    };
    let _errors_are_the_plans = site_config::parse("", tessera.text.as_deref().unwrap_or_default(), &read);
    parts.into_inner()
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
    fn parts_of_tessera_toml_and_directories_of_its_plugins_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let links = "[[nodes]]\nmatrix = [[0, 25], [25, 0]]\n";
        fs::create_dir_all(path("old/unstamped")).unwrap();
        fs::write(path("old/unstamped/spank_tessera.so"), "").unwrap();
        let old = path("old").display().to_string();
        fs::write(path("slurm.conf"), format!("PluginDir={old}:/usr/lib/slurm\n")).unwrap();
        fs::write(path("links.toml"), links).unwrap();
        let node = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        fs::write(path("tessera.toml"), format!("{node}discovered = \"links.toml\"\n")).unwrap();
        let files = files(&path("slurm.conf")).unwrap();
        assert_eq!(files.parts_of_tessera, [("links.toml".to_owned(), links.to_owned())].into());
        assert_eq!(files.plugin_dirs_of_tessera, [old]);
    }

    #[test]
    fn the_file_of_a_job_namespace_is_read_where_slurm_conf_names_one() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let read = || files(&dir.path().join("slurm.conf")).unwrap().job_namespace.map(|file| file.text);
        write("slurm.conf", "ClusterName=a\n");
        write("namespace.yaml", "defaults:\n");
        assert_eq!(read(), None);
        write("slurm.conf", "NamespaceType=namespace/linux\n");
        assert_eq!(read(), Some(Some("defaults:\n".to_owned())));
        write("slurm.conf", "NamespaceType=namespace/tmpfs\n");
        assert_eq!(read(), Some(None));
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
