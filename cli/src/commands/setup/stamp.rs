//! Fits the plugins to the Slurm that is installed on this machine: Slurm loads a plugin only if it bears Slurm's own version.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use slurm_tables::Version;

use super::programs::{self, version_of};
use crate::outcome::Failure;

/// Lines for stdout, and how much is left to do.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) left: usize,
}

/// Stamps copies of the plugins in `dir` for a Slurm, or says which are to be stamped.
pub(super) fn stamp(dir: &Path, version: Version, apply: bool) -> Result<Report, Failure> {
    let (mut text, mut left) = (String::new(), 0);
    for original in &originals(dir)? {
        let step = Step::of(original, dir, version)?;
        if step.is_needed && apply {
            plugin_stamp::stamp(original, &step.to, version).map_err(|why| Failure::of(&why))?;
        }
        left += usize::from(step.is_needed && !apply);
        let _ = writeln!(text, "{}", step.line(version, apply));
    }
    Ok(Report { text, left })
}

/// The Slurm of this machine, which its programs name.
pub(super) fn slurm_here() -> Result<Version, Failure> {
    only(&versions(programs::of_this_machine()))
}

/// Finds `lib/tessera` where this program is installed.
pub(super) fn beside_this_program() -> Result<PathBuf, Failure> {
    let program = env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    let prefix = program.ancestors().nth(2).unwrap_or(Path::new("/usr"));
    let dir = prefix.join("lib/tessera");
    if dir.join(UNSTAMPED).is_dir() {
        return Ok(dir);
    }
    Err(Failure::new(format!(
        "no plugins in {}: install Tessera with `cargo xtask install` or a package, or name their directory by --plugins",
        dir.join(UNSTAMPED).display()
    )))
}

/// The directory of plugins without a stamp, below that of the stamped ones.
const UNSTAMPED: &str = "unstamped";

/// Tells whether a directory is one of stamped plugins, of whichever installation.
pub(super) fn is_ours(dir: &Path) -> bool {
    dir.join(UNSTAMPED).join("spank_tessera.so").is_file()
}

/// Lists the plugins without a stamp.
fn originals(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let from = dir.join(UNSTAMPED);
    let entries = fs::read_dir(&from).map_err(|why| Failure::new(format!("{}: {why}", from.display())))?;
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut plugins: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "so")).collect();
    plugins.sort();
    if plugins.is_empty() {
        return Err(Failure::new(format!("{}: no plugin in it: install Tessera again", from.display())));
    }
    Ok(plugins)
}

/// Work for one plugin.
struct Step {
    to: PathBuf,
    /// The Slurm that the file is stamped for now; `None`: there is none, or it is of another build.
    now: Option<Version>,
    is_needed: bool,
}

impl Step {
    fn of(original: &Path, dir: &Path, version: Version) -> Result<Self, Failure> {
        let failed = |why: plugin_stamp::NotStamped| Failure::of(&why);
        let to = dir.join(original.file_name().unwrap_or_default());
        let now = match fs::read(&to) {
            Ok(bytes) => plugin_stamp::stamped(&to, &bytes).ok().map(|now| (now, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::new(format!("{}: {error}", to.display()))),
        };
        let wanted = plugin_stamp::with_stamp(original, version).map_err(failed)?;
        let is_needed = now.as_ref().is_none_or(|(_, bytes)| *bytes != wanted);
        Ok(Self { to, now: now.map(|(now, _)| now), is_needed })
    }

    fn line(&self, version: Version, applied: bool) -> String {
        let path = self.to.display();
        let was = match self.now {
            Some(now) if now != version => format!(", now for Slurm {now}"),
            Some(_) => ", now of another build".to_owned(),
            None => ", not there yet".to_owned(),
        };
        match (self.is_needed, applied) {
            (false, _) => format!("{path}: good"),
            (true, true) => format!("{path}: stamped"),
            (true, false) => format!("{path}: to be stamped{was}"),
        }
    }
}

/// Removes the stamped plugins, or says which are to be removed.
pub(super) fn remove(dir: &Path, apply: bool) -> Result<Report, Failure> {
    let (mut text, mut left) = (String::new(), 0);
    let stamped = originals(dir)?.into_iter().filter_map(|file| Some(dir.join(file.file_name()?)));
    for file in stamped.filter(|file| file.exists()) {
        if apply {
            fs::remove_file(&file).map_err(|why| Failure::new(format!("{}: {why}", file.display())))?;
            let _ = writeln!(text, "{}: removed", file.display());
        } else {
            let _ = writeln!(text, "{}: to be removed", file.display());
            left += 1;
        }
    }
    Ok(Report { text, left })
}

/// Asks each of these programs for its version.
fn versions(programs: Vec<PathBuf>) -> BTreeMap<Version, PathBuf> {
    let asked = programs.into_iter().filter_map(|program| Some((version_of(&program)?, program)));
    let mut all = BTreeMap::new();
    asked.for_each(|(version, program)| _ = all.entry(version).or_insert(program));
    all
}

/// The one Slurm of this machine.
fn only(found: &BTreeMap<Version, PathBuf>) -> Result<Version, Failure> {
    let mut versions = found.keys();
    match (versions.next(), versions.next()) {
        (Some(one), None) => Ok(*one),
        (None, _) => Err(Failure::new(
            "no Slurm is found: slurmctld, slurmd and sinfo are neither in PATH nor started by systemd",
        )
        .hint("name its version: tessera setup --slurm 24.11.5")),
        (Some(_), Some(_)) => {
            let all: Vec<String> =
                found.iter().map(|(version, program)| format!("{version} ({})", program.display())).collect();
            Err(Failure::new(format!("several Slurms are found: {}", all.join(", ")))
                .hint("name the one that loads the plugins by --slurm"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slurm_is_taken_and_two_are_not() {
        let all = |versions: &[&str]| {
            versions.iter().map(|v| (v.parse().unwrap(), format!("/opt/{v}/sinfo").into())).collect()
        };
        assert_eq!(only(&all(&["24.11.5"])).unwrap().to_string(), "24.11.5");
        let said = |versions: &[&str]| only(&all(versions)).unwrap_err().in_a_line();
        assert!(said(&[]).starts_with("no Slurm is found"), "{}", said(&[]));
        assert_eq!(
            said(&["24.11.5", "22.05.8"]),
            "several Slurms are found: 22.05.8 (/opt/22.05.8/sinfo), 24.11.5 (/opt/24.11.5/sinfo); name the one that loads the \
             plugins by --slurm"
        );
    }
}
