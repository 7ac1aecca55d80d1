//! Example files and units, with the directories of this installation and of the Slurm that it is for.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use lab::paths::workspace;

use super::here::Here;
use super::write;
use crate::command::{TaskError, at};

/// Directories of Slurm's commands that init systems and shells search by themselves.
const SEARCHED: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];
/// Name of a file that adds to a unit of Slurm's.
const DROP_IN: &str = "tessera.conf";
/// End of a PATH behind Slurm's own directory.
const REST: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories that the files name.
#[derive(Debug)]
pub(super) struct Directories {
    /// Prefix of Tessera.
    prefix: String,
    /// Directory of Slurm's own plugins, if they are found.
    plugins: Option<String>,
    /// Directory of Slurm's configuration.
    pub(super) etc: String,
    /// Directory of Slurm's commands, if PATH does not have it.
    commands: Option<String>,
}

impl Directories {
    pub(super) fn of(prefix: &Path, slurm: Option<&Here>) -> Self {
        let text = |path: &PathBuf| path.display().to_string();
        Self {
            prefix: prefix.display().to_string().trim_end_matches('/').to_owned(),
            plugins: slurm.and_then(|slurm| slurm.plugins.as_ref()).map(text),
            etc: slurm.and_then(|slurm| slurm.etc.as_ref()).map_or_else(|| "/etc/slurm".to_owned(), text),
            commands: slurm
                .map(|slurm| text(&slurm.commands))
                .filter(|dir| !SEARCHED.contains(&dir.as_str())),
        }
    }

    /// A file of the sources with these directories instead of the usual ones.
    fn adapted(&self, name: &str, text: &str) -> String {
        let mut text = text
            .replace("/usr/local/", &format!("{}/", self.prefix))
            .replace("--prefix /usr/local", &format!("--prefix {}", self.prefix))
            .replace("/etc/slurm", &self.etc);
        if let Some(plugins) = &self.plugins {
            text = text.replace("/usr/lib/x86_64-linux-gnu/slurm-wlm", plugins);
        }
        let Some(commands) = &self.commands else { return text };
        match name {
            "plugstack.conf" => {
                // The last line is the plugin's, and has no newline after it otherwise.
                format!("{} env=PATH={commands}:{REST}\n", text.trim_end())
            }
            "tessera-health" => {
                text.replacen("\nsetsid ", &format!("\nexport PATH=\"{commands}:$PATH\"\nsetsid "), 1)
            }
            "tessera-planner.service" => {
                text.replace("\nExecStart=", &format!("\nEnvironment=PATH={commands}:{REST}\nExecStart="))
            }
            DROP_IN => text.replace("=-+", &format!("=-+/usr/bin/env PATH={commands}:{REST} ")),
            _ => text,
        }
    }
}

/// The files, and where each goes below the prefix.
fn sources() -> Result<Vec<(PathBuf, PathBuf)>, TaskError> {
    let doc = Path::new("share/doc/tessera");
    let mut all = Vec::new();
    for from in ["slurm.conf.example", "LICENSE", "docs/upgrade.md", "docs/uninstall.md"].map(Path::new) {
        all.push((workspace().join(from), doc.join(from.file_name().unwrap_or_default())));
    }
    let units = Path::new("lib/systemd/system");
    for (from, to) in [
        ("contrib/example", doc.join("examples")),
        ("contrib/systemd", units.to_owned()),
        ("contrib/systemd/slurmctld.service.d", units.join("slurmctld.service.d")),
        ("contrib/systemd/slurmd.service.d", units.join("slurmd.service.d")),
    ] {
        let dir = workspace().join(from);
        for entry in at(&dir, fs::read_dir(&dir))? {
            let entry = at(&dir, entry)?;
            if entry.path().is_file() {
                all.push((entry.path(), to.join(entry.file_name())));
            }
        }
    }
    all.sort();
    Ok(all)
}

/// Replaces links to pages that are not installed by their names in the sources.
fn with_links_to(installed: &[&OsStr], page: &str) -> String {
    let mut parts = page.split("](");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let file = target.split('#').next().unwrap_or_default();
        let there = file.is_empty() || file.contains("://") || installed.contains(&OsStr::new(file));
        match whole.rfind('[') {
            Some(label) if !there => {
                whole.remove(label);
                let _ = write!(whole, " (docs/{file} of the sources){rest}");
            }
            _ => {
                let _ = write!(whole, "]({target}){rest}");
            }
        }
    }
    whole
}

/// Writes all of them below `root`.
pub(super) fn install(directories: &Directories, root: &Path) -> Result<(), TaskError> {
    let sources = sources()?;
    let names: Vec<&OsStr> = sources.iter().filter_map(|(from, _)| from.file_name()).collect();
    for (from, below) in &sources {
        let (text, to) = (at(from, fs::read_to_string(from))?, root.join(below));
        let text =
            if below.extension() == Some(OsStr::new("md")) { with_links_to(&names, &text) } else { text };
        let name = below.file_name().unwrap_or_default().to_string_lossy();
        write(&to, &directories.adapted(&name, &text))?;
        at(&to, fs::set_permissions(&to, at(from, fs::metadata(from))?.permissions()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn directories(prefix: &str, slurm: Option<&str>) -> Directories {
        let here = slurm.map(|at| Here {
            version: "25.05.8".to_owned(),
            plugins: Some(Path::new(at).join("lib/slurm")),
            commands: Path::new(at).join("bin"),
            etc: Some(Path::new(at).join("etc")),
        });
        Directories::of(Path::new(prefix), here.as_ref())
    }

    /// Lists the installed examples, by their place below the prefix.
    fn installed(directories: &Directories) -> BTreeMap<String, String> {
        let dir = tempfile::tempdir().unwrap();
        install(directories, dir.path()).unwrap();
        let place = |(_, below): (PathBuf, PathBuf)| {
            (below.display().to_string(), fs::read_to_string(dir.path().join(below)).unwrap())
        };
        let health = dir.path().join("share/doc/tessera/examples/tessera-health");
        assert_eq!(fs::metadata(health).unwrap().permissions().mode() & 0o111, 0o111);
        sources().unwrap().into_iter().map(place).collect()
    }

    #[test]
    fn beside_a_packaged_slurm_the_files_are_as_in_the_sources() {
        let here = Here {
            version: "22.05.8".to_owned(),
            plugins: Some("/usr/lib/x86_64-linux-gnu/slurm-wlm".into()),
            commands: "/usr/bin".into(),
            etc: None,
        };
        let usual = installed(&Directories::of(Path::new("/usr/local"), Some(&here)));
        for (from, below) in sources().unwrap() {
            // Links of pages are another matter.
            if below.extension() != Some(OsStr::new("md")) {
                assert_eq!(usual[&below.display().to_string()], fs::read_to_string(from).unwrap());
            }
        }
        for page in ["upgrade", "uninstall"] {
            let text = &usual[&format!("share/doc/tessera/{page}.md")];
            let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let places = links.filter(|link| !link.is_empty() && !link.contains("://"));
            places.for_each(|link| {
                assert!(usual.contains_key(&format!("share/doc/tessera/{link}")), "{page}: {link}")
            });
        }
    }

    #[test]
    fn a_link_to_a_page_that_is_not_installed_is_its_name() {
        let text =
            with_links_to(&[OsStr::new("a.md")], "x [A](a.md#s), [B b](b.md#s) and [C](https://c) [d] y\n");
        assert_eq!(text, "x [A](a.md#s), B b (docs/b.md of the sources) and [C](https://c) [d] y\n");
    }

    #[test]
    fn no_file_names_a_directory_of_another_installation() {
        for (place, text) in installed(&directories("/opt/tessera/", Some("/opt/slurm"))) {
            // Its path has the usual directory in it.
            let text = text.replace("/opt/slurm/etc/slurm.conf", "slurm.conf");
            for elsewhere in
                ["/usr/local", "/etc/slurm", "/usr/lib/", "/usr/bin/tessera", "/usr/sbin/tessera", "//"]
            {
                let names_none =
                    |line: &&str| line.contains("https://") || line.trim_start().starts_with("// ");
                let wrong =
                    text.lines().filter(|line| !names_none(line)).find(|line| line.contains(elsewhere));
                assert_eq!(wrong, None, "{place}: {elsewhere}");
            }
        }
    }

    #[test]
    fn files_for_a_slurm_in_a_prefix_name_its_directories() {
        let files = installed(&directories("/opt/tessera", Some("/opt/slurm")));
        for (place, line) in [
            (
                "share/doc/tessera/slurm.conf.example",
                "PluginDir=/opt/tessera/lib/tessera:/opt/slurm/lib/slurm",
            ),
            ("share/doc/tessera/slurm.conf.example", "PlugStackConfig=/opt/slurm/etc/plugstack.conf"),
            ("share/doc/tessera/slurm.conf.example", "HealthCheckProgram=/opt/slurm/etc/tessera-health"),
            (
                "share/doc/tessera/examples/plugstack.conf",
                "required /opt/tessera/lib/tessera/spank_tessera.so config=/opt/slurm/etc/tessera.toml tessera=/opt/tessera/bin/tessera \
                 env=PATH=/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            ),
            ("share/doc/tessera/examples/tessera-health", "export PATH=\"/opt/slurm/bin:$PATH\""),
            (
                "share/doc/tessera/examples/tessera-health",
                "if [ -e /opt/slurm/etc/slurm.conf ]; then export SLURM_CONF=/opt/slurm/etc/slurm.conf; fi",
            ),
            (
                "share/doc/tessera/examples/tessera-health",
                "/opt/tessera/bin/tessera --config /opt/slurm/etc/tessera.toml node reconcile --if-dead &",
            ),
            (
                "lib/systemd/system/tessera-planner.service",
                "ExecStart=/opt/tessera/bin/tessera planner --every 30s",
            ),
            (
                "lib/systemd/system/tessera-planner.service",
                "Environment=PATH=/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            ),
            (
                "lib/systemd/system/slurmctld.service.d/tessera.conf",
                "ExecStartPre=-+/usr/bin/env PATH=/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                 /opt/tessera/bin/tessera setup --plugins-only --apply",
            ),
        ] {
            let text = &files[place];
            assert!(text.lines().any(|found| found == line), "{place}: {line}\n{text}");
        }
        let tessera = &files["share/doc/tessera/examples/tessera.toml"];
        assert!(tessera.contains("task_broker = \"/opt/tessera/sbin/tessera-broker\""), "{tessera}");
    }
}
