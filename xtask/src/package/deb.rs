//! Debian packages, by Debian's own programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::about::{About, NAME, PROGRAMS, RELOAD_UNITS, STAMP, SUMMARY, UNSTAMP};
use super::portable;
use super::stage::Files;
use crate::command::{TaskError, at, output};

/// Builds the package from `work`/root.
pub(super) fn build(about: &About, work: &Path, files: &Files, out: &Path) -> Result<PathBuf, TaskError> {
    let root = work.join("root");
    let arch = about.arch.of_debian();
    let libraries = if about.is_native { libraries(work, files)? } else { portable::LIBRARIES.to_owned() };
    let control = control(about, arch, &libraries);
    let meta = root.join("DEBIAN");
    at(&meta, fs::create_dir_all(&meta))?;
    for (name, text, mode) in [
        ("control", control, 0o644),
        ("prerm", before_removal(about), 0o755),
        ("postinst", format!("#!/bin/sh\nset -e\n{STAMP}{RELOAD_UNITS}"), 0o755),
        ("postrm", after_removal(), 0o755),
        ("triggers", triggers(), 0o644),
    ] {
        let file = meta.join(name);
        at(&file, fs::write(&file, text))?;
        at(&file, fs::set_permissions(&file, fs::Permissions::from_mode(mode)))?;
    }
    let licence = root.join("usr/share/doc").join(NAME);
    at(&licence, fs::rename(licence.join("LICENSE"), licence.join("copyright")))?;
    let package = out.join(format!("{NAME}_{}_{arch}.deb", about.version));
    let compression = if about.compressed { "-Zxz" } else { "-Znone" };
    output(
        Command::new("dpkg-deb").args(["--build", "--root-owner-group", compression]).args([&root, &package]),
    )?;
    Ok(package)
}

/// Lists the libraries that the programs and plugins are linked with, as dependencies. Slurm's own functions come from the daemon that loads a
/// plugin, so nothing is missing where they are not found.
fn libraries(work: &Path, files: &Files) -> Result<String, TaskError> {
    let debian = work.join("debian");
    at(&debian, fs::create_dir_all(&debian))?;
    let control = debian.join("control");
    at(&control, fs::write(&control, format!("Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n")))?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.current_dir(work).args(["-O", "--ignore-missing-info", "--warnings=0"]).args(&files.linked);
    let found = output(&mut shlibdeps)?;
    Ok(found.trim().trim_start_matches("shlibs:Depends=").to_owned())
}

fn control(about: &About, arch: &str, libraries: &str) -> String {
    format!(
        "Package: {NAME}\n\
         Version: {}\n\
         Architecture: {arch}\n\
         Maintainer: the site that built it <root@localhost>\n\
         Section: admin\n\
         Priority: optional\n\
         Depends: {libraries}\n\
         Description: {SUMMARY}\n{}\n",
        about.version,
        about.description(" ")
    )
}

/// An upgrade may go on: the files are replaced, not removed.
fn before_removal(about: &About) -> String {
    format!("#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n{}{UNSTAMP}", about.refuse_removal())
}

/// Has `postinst triggered` called when a package changes one of Slurm's programs.
fn triggers() -> String {
    PROGRAMS.map(|program| format!("interest-noawait {program}\n")).concat()
}

/// The journal goes with `purge`: by then Slurm names Tessera no more.
fn after_removal() -> String {
    format!("#!/bin/sh\nset -e\n{RELOAD_UNITS}if [ \"$1\" = purge ]; then rm -rf /var/lib/tessera; fi\n")
}

#[cfg(test)]
mod tests {
    use super::super::about::example;
    use super::*;

    #[test]
    fn the_control_file_names_no_slurm() {
        insta::assert_snapshot!(control(&example(), "amd64", "libc6 (>= 2.34)"), @r"
        Package: tessera
        Version: 0.1.0
        Architecture: amd64
        Maintainer: the site that built it <root@localhost>
        Section: admin
        Priority: optional
        Depends: libc6 (>= 2.34)
        Description: GPU placement for Slurm: MIG at job start, GPU sets by interconnect, packing
         Plugins for Slurm 22.05 to 26.05, the tessera command, the broker of GPU tasks, units,
         manual pages, completions and examples. `tessera setup` fits the plugins to the Slurm that
         is installed. Installing, upgrading and removing the package restarts no daemon.
        ");
    }

    #[test]
    fn removal_is_refused_by_a_script() {
        insta::assert_snapshot!(before_removal(&example()), @r#"
        #!/bin/sh
        set -e
        [ "$1" = remove ] || exit 0
        refuse_if_named() {
            line=$(grep -Ei "$2" "$1" 2>/dev/null | head -n 1)
            if [ -n "$line" ]; then
                echo "tessera: $1 still names Tessera, and Slurm would not start without it: $line" >&2
                echo "tessera: follow /usr/share/doc/tessera/uninstall.md, then remove the package." >&2
                exit 1
            fi
        }
        refuse_if_named /etc/slurm/slurm.conf '^[[:space:]]*(PluginDir|JobSubmitPlugins|AcctGather[a-z]*Type|HealthCheckProgram)[[:space:]]*=.*tessera'
        refuse_if_named /etc/slurm/plugstack.conf '^[^#]*tessera'
        said=$(tessera setup --plugins-only --remove --apply 2>&1) || case $said in
        *'still names Tessera'*)
            echo "$said" >&2
            echo "tessera: follow /usr/share/doc/tessera/uninstall.md, then remove the package." >&2
            exit 1
            ;;
        esac
        "#);
    }
}
