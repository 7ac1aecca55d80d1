//! Compares the versions of what is installed on this machine: Tessera's parts with each other, and its plugins with the
//! Slurm that runs. Files are read, never loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use plugin_stamp::said;
use slurm_tables::Version;

use super::findings::Findings;

/// Tessera's version, which `tessera` and each library have from the workspace.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Ways in which Slurm compares a plugin's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// All of it: of select and job submit plugins.
    Exact,
    /// Major and minor: of SPANK plugins.
    Series,
    /// Nothing: it is not Slurm that loads the library.
    Nothing,
}

impl Needs {
    /// Tells whether a plugin for one Slurm is loaded by another.
    fn are_met(self, plugin: Version, slurm: Version) -> bool {
        match self {
            Self::Exact => plugin == slurm,
            Self::Series => said::is_same_series(plugin, slurm),
            Self::Nothing => true,
        }
    }
}

/// A daemon whose plugins are on this machine, or Slurm's commands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Daemon {
    /// `slurmctld`, `slurmd` of a node, or `Slurm on this machine`.
    pub(super) name: String,
    /// The version that Slurm shows for it.
    pub(super) version: Version,
}

/// A plugin, library or program of Tessera's as it is installed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    path: PathBuf,
    needs: Needs,
    /// Tessera's version; `None` for one from before they had it.
    tessera: Option<String>,
    /// The Slurm that it is stamped for.
    slurm: Option<Version>,
}

impl Installed {
    /// Reads what the library says of itself; an error if it is no library.
    pub(super) fn read(path: &Path, needs: Needs) -> Result<Self, String> {
        let told = |what: String| format!("{}: {what}", path.display());
        let bytes = fs::read(path).map_err(|e| told(e.to_string()))?;
        let file = object::File::parse(&*bytes).map_err(|e| told(format!("not a library: {e}")))?;
        let text = symbol(&file, "tessera_version").map(|b| b.split(|b| *b == 0).next().unwrap_or_default());
        Ok(Self {
            path: path.to_path_buf(),
            needs,
            tessera: text.map(|text| String::from_utf8_lossy(text).into_owned()),
            slurm: plugin_stamp::stamped(path, &bytes).ok(),
        })
    }
}

/// Tessera's version by the program's own words; `None` if it is another's or does not run.
pub(super) fn of_program(path: &Path) -> Option<Installed> {
    let out = Command::new(path).arg("--version").output().ok()?;
    let said = String::from_utf8(out.stdout).ok()?;
    let tessera = Some(said.trim().strip_prefix("tessera-broker ")?.to_owned());
    Some(Installed { path: path.to_path_buf(), needs: Needs::Nothing, tessera, slurm: None })
}

/// The bytes of an exported variable.
fn symbol<'d>(file: &object::File<'d>, name: &str) -> Option<&'d [u8]> {
    let found = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name))?;
    let section = file.section_by_index(found.section_index()?).ok()?;
    section.data_range(found.address(), found.size()).ok()?
}

/// Compares the libraries with `tessera` and with the daemons of this machine.
pub(super) fn compare(installed: &[Installed], daemons: &[Daemon], findings: &mut Findings) {
    let with: Vec<String> = daemons.iter().map(|d| format!("{} {}", d.name, d.version)).collect();
    let with = if with.is_empty() { String::new() } else { format!(", with {}", with.join(" and ")) };
    findings.group(format!("versions: {} plugins, libraries and programs are all of Tessera {OWN}{with}", installed.len()), |f| {
        for library in installed {
            let path = library.path.display();
            let of = library.tessera.as_deref().unwrap_or("an older version");
            if of != OWN {
                f.bad(format!("{path} is of Tessera {of}, tessera of {OWN}: install all parts of one version"));
            }
            let Some(built_for) = library.slurm else { continue };
            for Daemon { name, version } in daemons.iter().filter(|d| !library.needs.are_met(built_for, d.version))
            {
                f.bad(format!(
                    "{path} is stamped for Slurm {built_for}; {name} is {version} and does not load it: run `tessera setup --plugins-only --apply` there"
                ));
            }
        }
    });
}

/// Names the nodes whose slurmd is of another series than slurmctld. Slurm allows that, and their plugins are other files.
pub(super) fn other_series(slurmctld: Version, nodes: &[(String, Version)], findings: &mut Findings) {
    for (node, version) in nodes.iter().filter(|(_, v)| !said::is_same_series(*v, slurmctld)) {
        findings.skipped(format!(
            "{node}: its slurmd is {version} and needs plugins built for that, not for slurmctld's {slurmctld}: run \
             `tessera doctor` there"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        said::of_release(text).unwrap()
    }

    fn library(path: &str, needs: Needs, tessera: &str, slurm: Option<&str>) -> Installed {
        Installed {
            path: path.into(),
            needs,
            tessera: Some(tessera.to_owned()).filter(|t| !t.is_empty()),
            slurm: slurm.map(version),
        }
    }

    fn said(installed: &[Installed], daemons: &[(&str, &str)]) -> String {
        let daemons: Vec<Daemon> = daemons
            .iter()
            .map(|(name, v)| Daemon { name: (*name).to_owned(), version: version(v) })
            .collect();
        let mut findings = Findings::default();
        compare(installed, &daemons, &mut findings);
        findings.list.into_iter().map(|(verdict, what)| format!("{:<5}{what}\n", verdict.word())).collect()
    }

    #[test]
    fn what_does_not_fit_is_told_with_both_versions() {
        let all = |spank: &str, lib: &str| {
            [
                library("/l/select_cons_tres.so", Needs::Exact, OWN, Some("22.05.8")),
                library("/l/spank_tessera.so", Needs::Series, OWN, Some(spank)),
                library("/l/libtessera_task.so", Needs::Nothing, lib, None),
            ]
        };
        let daemons = [("slurmctld", "22.05.8"), ("slurmd of n1", "22.05.8")];
        insta::assert_snapshot!(said(&all("22.05.9", OWN), &daemons), @"ok   versions: 3 plugins, libraries and programs are all of Tessera 0.1.0, with slurmctld 22.05.8 and slurmd of n1 22.05.8");
        insta::assert_snapshot!(said(&all("22.05.8", OWN), &[]), @"ok   versions: 3 plugins, libraries and programs are all of Tessera 0.1.0");
        insta::assert_snapshot!(said(&all("24.11.5", "0.0.9"), &daemons[..1]), @"
        bad  /l/spank_tessera.so is stamped for Slurm 24.11.5; slurmctld is 22.05.8 and does not load it: run `tessera setup --plugins-only --apply` there
        bad  /l/libtessera_task.so is of Tessera 0.0.9, tessera of 0.1.0: install all parts of one version
        ");
        insta::assert_snapshot!(said(&all("22.05.8", ""), &[("slurmctld", "22.05.9")]), @"
        bad  /l/select_cons_tres.so is stamped for Slurm 22.05.8; slurmctld is 22.05.9 and does not load it: run `tessera setup --plugins-only --apply` there
        bad  /l/libtessera_task.so is of Tessera an older version, tessera of 0.1.0: install all parts of one version
        ");
    }

    #[test]
    fn a_node_of_another_series_is_told() {
        let nodes = [("n1".to_owned(), version("24.11.4")), ("n2".to_owned(), version("24.05.8"))];
        let mut findings = Findings::default();
        other_series(version("24.11.5"), &nodes, &mut findings);
        let said: Vec<String> = findings.list.into_iter().map(|(_, what)| what).collect();
        assert_eq!(
            said,
            [
                "n2: its slurmd is 24.05.8 and needs plugins built for that, not for slurmctld's 24.11.5: run `tessera \
              doctor` there"
            ]
        );
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "text").unwrap();
        let error = Installed::read(file.path(), Needs::Exact).unwrap_err();
        assert!(error.ends_with(": not a library: Could not read file magic"), "{error}");
    }
}
