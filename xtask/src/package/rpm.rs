//! RPM packages, by rpmbuild.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::about::{About, NAME, PROGRAMS, RELOAD_UNITS, STAMP, SUMMARY, UNSTAMP};
use super::stage::Files;
use crate::command::{TaskError, at, output};

/// Builds the package from `work`/root.
pub(super) fn build(about: &About, work: &Path, files: &Files, out: &Path) -> Result<PathBuf, TaskError> {
    let spec = work.join("tessera.spec");
    at(&spec, fs::write(&spec, text(about, &work.join("root"), &files.all)))?;
    let mut build = Command::new("rpmbuild");
    let arch = about.arch.to_string();
    build
        .args(["--target", &arch, "-bb", "--quiet", "--define"])
        .arg(format!("_topdir {}", work.join("rpm").display()));
    if !about.compressed {
        build.args(["--define", "_binary_payload w0.gzdio"]);
    }
    output(build.arg(&spec))?;
    let rpms = work.join("rpm/RPMS").join(arch);
    let mut built = at(&rpms, fs::read_dir(&rpms))?;
    let Some(entry) = built.next() else {
        return Err(TaskError::Other(format!("{}: rpmbuild wrote no package there", rpms.display())));
    };
    let entry = at(&rpms, entry)?;
    let package = out.join(entry.file_name());
    at(&package, fs::copy(entry.path(), &package))?;
    Ok(package)
}

/// The directories that no other package has, so that they go with this one.
fn own_directories(files: &[PathBuf]) -> BTreeSet<&Path> {
    let is_own = |dir: &Path| {
        let is_named = |part: &OsStr| part == NAME || part.as_encoded_bytes().ends_with(b".service.d");
        dir.components().any(|part| is_named(part.as_os_str()))
    };
    files.iter().flat_map(|file| file.ancestors().skip(1)).filter(|dir| is_own(dir)).collect()
}

/// The spec file. The staged files go in as they are: they are stripped and compressed, and what a daemon loads is offered to
/// nobody else.
fn text(about: &About, root: &Path, files: &[PathBuf]) -> String {
    let mut listed = String::new();
    for dir in own_directories(files) {
        let _ = writeln!(listed, "%dir \"{}\"", dir.display());
    }
    for file in files {
        let doc = if file.starts_with("/usr/share/doc") { "%doc " } else { "" };
        let _ = writeln!(listed, "{doc}\"{}\"", file.display());
    }
    format!(
        "%global debug_package %{{nil}}\n\
         %global __os_install_post %{{nil}}\n\
         %global __provides_exclude_from ^/usr/lib/tessera/.*$\n\
         %global _build_id_links none\n\
         Name: {NAME}\n\
         Version: {version}\n\
         Release: 1\n\
         Summary: {SUMMARY}\n\
         License: GPL-2.0-or-later\n\n\
         %description\n{description}\n\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}/\n\n\
         %post\n{STAMP}{RELOAD_UNITS}\n\
         %preun\n[ \"$1\" = 0 ] || exit 0\n{refuse}{UNSTAMP}\n\
         %postun\n{RELOAD_UNITS}\n\
         %filetriggerin -- {programs}\n{STAMP}\n\
         %files\n%defattr(-,root,root)\n{listed}",
        version = about.version.as_str(),
        description = about.description(""),
        root = root.display(),
        programs = PROGRAMS.join(" "),
        refuse = about.refuse_removal(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::about::example;
    use super::*;

    #[test]
    fn the_spec_file_names_no_slurm() {
        let files = [
            "/usr/bin/tessera",
            "/usr/lib/systemd/system/slurmd.service.d/tessera.conf",
            "/usr/lib/tessera/unstamped/spank_tessera.so",
            "/usr/share/doc/tessera/LICENSE",
        ];
        let files = files.map(PathBuf::from);
        insta::assert_snapshot!(text(&example(), Path::new("/stage"), &files), @r#"
        %global debug_package %{nil}
        %global __os_install_post %{nil}
        %global __provides_exclude_from ^/usr/lib/tessera/.*$
        %global _build_id_links none
        Name: tessera
        Version: 0.1.0
        Release: 1
        Summary: GPU placement for Slurm: MIG at job start, GPU sets by interconnect, packing
        License: GPL-2.0-or-later

        %description
        Plugins for Slurm 22.05 to 26.05, the tessera command, the broker of GPU tasks, units,
        manual pages, completions and examples. `tessera setup` fits the plugins to the Slurm that
        is installed. Installing, upgrading and removing the package restarts no daemon.

        %install
        mkdir -p %{buildroot}
        cp -a /stage/. %{buildroot}/

        %post
        if ! tessera setup --plugins-only --apply; then
            echo "tessera: run tessera setup --plugins-only --apply once Slurm is installed; until then Slurm does not load Tessera" >&2
        fi
        if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi

        %preun
        [ "$1" = 0 ] || exit 0
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

        %postun
        if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi

        %filetriggerin -- /usr/sbin/slurmctld /usr/sbin/slurmd /usr/bin/sinfo
        if ! tessera setup --plugins-only --apply; then
            echo "tessera: run tessera setup --plugins-only --apply once Slurm is installed; until then Slurm does not load Tessera" >&2
        fi

        %files
        %defattr(-,root,root)
        %dir "/usr/lib/systemd/system/slurmd.service.d"
        %dir "/usr/lib/tessera"
        %dir "/usr/lib/tessera/unstamped"
        %dir "/usr/share/doc/tessera"
        "/usr/bin/tessera"
        "/usr/lib/systemd/system/slurmd.service.d/tessera.conf"
        "/usr/lib/tessera/unstamped/spank_tessera.so"
        %doc "/usr/share/doc/tessera/LICENSE"
        "#);
    }
}
