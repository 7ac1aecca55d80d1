//! Gives a second target directory what the first one has built, so that cargo finds it there and compiles only what differs.
//!
//! Cargo compares times: every file keeps its own.

use std::fs::{self, DirEntry, File, FileTimes, Metadata};
use std::io;
use std::path::Path;

use crate::error::{HarnessError, at};

/// Brings the libraries, build scripts and fingerprints of the profile directory `from` into `to`, except where `to` has a
/// newer file, and except those of which `skipped` knows the name.
///
/// Compiled libraries become hard links: cargo, rustc and linkers write a new file instead of changing one. The fingerprints,
/// by which cargo believes that the rest is there, come last.
///
/// # Errors
///
/// A file that cannot be read or written.
pub(crate) fn seed(from: &Path, to: &Path, skipped: &dyn Fn(&str) -> bool) -> Result<(), HarnessError> {
    // Cargo's own: nobody builds in `from` meanwhile.
    let lock_path = from.join(".cargo-lock");
    let lock = at(&lock_path, File::create(&lock_path))?;
    at(&lock_path, lock.lock_shared())?;
    let library = |name: &str| {
        let end = Path::new(name).extension().unwrap_or_default();
        !skipped(name) && ["rlib", "rmeta", "so", "d"].iter().any(|wanted| end == *wanted)
    };
    bring(&from.join("deps"), &to.join("deps"), &library)?;
    for dir in ["build", ".fingerprint"] {
        bring(&from.join(dir), &to.join(dir), &|name| !skipped(name))?;
    }
    Ok(())
}

/// Brings the wanted files and directories of one directory.
fn bring(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<(), HarnessError> {
    if !from.is_dir() {
        return Ok(());
    }
    at(to, fs::create_dir_all(to))?;
    let entries: Vec<DirEntry> = at(from, at(from, fs::read_dir(from))?.collect())?;
    for entry in entries.iter().filter(|entry| wanted(&entry.file_name().to_string_lossy())) {
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let meta = at(&path, entry.metadata())?;
        if meta.is_dir() {
            bring(&path, &copy, &|_| true)?;
        } else if meta.is_file() && !is_newer(&copy, &meta) {
            at(&copy, bring_file(&path, &copy, &meta))?;
        }
    }
    Ok(())
}

/// Whether `copy` is as new as the original, or newer.
fn is_newer(copy: &Path, original: &Metadata) -> bool {
    let times = (fs::metadata(copy).and_then(|meta| meta.modified()), original.modified());
    matches!(times, (Ok(copied), Ok(made)) if copied >= made)
}

/// The new file has its name only when it is whole: a run that is killed leaves none that cargo would believe.
fn bring_file(from: &Path, to: &Path, original: &Metadata) -> io::Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let _ = fs::remove_file(part);
    let end = from.extension().unwrap_or_default();
    let is_linked = ["rlib", "rmeta", "so"].iter().any(|linked| end == *linked);
    if !is_linked || fs::hard_link(from, part).is_err() {
        fs::copy(from, part)?;
        let times = FileTimes::new().set_modified(original.modified()?);
        File::options().write(true).open(part)?.set_times(times)?;
    }
    // Two names of one file: rename would leave both.
    let _ = fs::remove_file(to);
    fs::rename(part, to)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A file of this text, made so many seconds ago.
    fn file(path: &Path, text: &str, age: u64) -> SystemTime {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        let made = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(path).unwrap().set_modified(made).unwrap();
        fs::metadata(path).unwrap().modified().unwrap()
    }

    #[test]
    fn what_is_built_is_brought_with_its_time_unless_newer_or_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let files = [
            "deps/liba-1.rlib",
            "deps/liba-1.rmeta",
            "deps/a_test-2",
            ".fingerprint/a-1/lib-a",
            "build/b-1/out/made.rs",
            "build/plugin-1/out/sys.rs",
        ];
        let made = files.map(|name| file(&from.join(name), "first", 90));
        file(&to.join("deps/liba-1.rmeta"), "own", 30);
        seed(&from, &to, &|name| name.starts_with("plugin-")).unwrap();
        let text = |name: &str| fs::read_to_string(to.join(name)).ok();
        let found = files.map(|name| text(name).unwrap_or_default());
        assert_eq!(found, ["first", "own", "", "first", "first", ""]);
        assert_eq!(fs::metadata(to.join(files[3])).unwrap().modified().unwrap(), made[3]);

        // Built again since: a new file, as cargo writes it.
        fs::remove_file(from.join(files[0])).unwrap();
        file(&from.join(files[0]), "second", 60);
        file(&from.join(files[3]), "second", 60);
        assert_eq!(text(files[0]).unwrap(), "first");
        seed(&from, &to, &|name| name.starts_with("plugin-")).unwrap();
        assert_eq!(
            files.map(|name| text(name).unwrap_or_default()),
            ["second", "own", "", "second", "first", ""]
        );
        seed(&from, &to, &|_| false).unwrap();
        assert_eq!(text(files[5]).unwrap(), "first");
    }
}
