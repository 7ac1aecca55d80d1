//! Makes a root of a Debian release, with the Slurm that it ships: a chroot for the daemons of another release than the
//! machine's, and what tests of packages copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::paths;
use slurm_releases::{Debian, Release};

use super::apt::Apt;
use super::once;
use super::sources::KEYRING;
use crate::command::{TaskError, at, output};

/// Packages of the chroot beyond a minimal Debian.
const PACKAGES: &str = "slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge";

/// Makes the chroot of `release` with debootstrap, checked against Debian's archive keys.
pub(super) fn create(release: Release, debian: Debian, root: &Path) -> Result<(), TaskError> {
    let suite = debian.suite;
    let stamp = paths::slurm(release).join("chroot.done");
    once(
        &stamp,
        &format!("{suite} {PACKAGES}\n"),
        &format!("Slurm {release}: chroot of Debian `{suite}`"),
        || {
            if root.exists() {
                at(root, fs::remove_dir_all(root))?;
            }
            let mut debootstrap = Command::new("debootstrap");
            debootstrap
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["--variant=minbase", "--merged-usr"])
                .arg(format!("--include={PACKAGES}"))
                .arg(format!("--keyring={KEYRING}"))
                .args([suite, &root.to_string_lossy(), &Apt::main_mirror()?]);
            debootstrap.args(script(suite));
            output(&mut debootstrap)?;
            let version_line = output(Command::new("chroot").arg(root).args(["slurmctld", "-V"]))?;
            let found = version_line.trim().trim_start_matches("slurm-wlm ").to_owned();
            // A Debian that still changes may have gone on. Whoever runs tests there asks for its version.
            if release.is_series_of(&found) || debian.moves {
                return Ok(());
            }
            Err(TaskError::Other(format!("the chroot has Slurm {found}, expected {release}")))
        },
    )?;
    let hosts = root.join("etc/hosts");
    at(&hosts, fs::write(&hosts, names(fs::read_to_string("/etc/hosts").ok())))
}

/// The script by which debootstrap makes a Debian that is newer than itself: that of the Debian which never is released. All newer
/// ones have the same.
fn script(suite: &str) -> Option<PathBuf> {
    let scripts = Path::new("/usr/share/debootstrap/scripts");
    (!scripts.join(suite).exists()).then(|| scripts.join("sid"))
}

/// Packages that are unpacked into a chroot. Each is a step of its own, so that a chroot made earlier stays.
pub(super) struct Extra {
    what: &'static str,
    packages: Vec<&'static str>,
}

/// All of them: slurmdbd, its plugin for the database, and the library that the plugin loads; and Slurm's public library, which
/// programs that submit jobs are built against. Where there is no source, the public headers too. A Debian that still changes has no
/// gpu_nvml.so.
pub(super) fn extras(debian: Debian) -> Vec<Extra> {
    let slurmdbd = vec!["slurmdbd", "slurm-wlm-mysql-plugin", "libmariadb3"];
    let mut extras = vec![
        Extra { what: "slurmdbd", packages: slurmdbd },
        Extra { what: "libslurm", packages: vec![debian.library] },
    ];
    if debian.moves {
        extras.push(Extra { what: "headers", packages: vec!["libslurm-dev"] });
    } else {
        extras.push(Extra { what: "nvml", packages: vec!["slurm-wlm-nvml-plugin"] });
    }
    extras
}

/// Unpacks packages into the chroot of `release`.
pub(super) fn unpack(extra: &Extra, release: Release, debian: Debian, root: &Path) -> Result<(), TaskError> {
    let Extra { what, packages } = extra;
    // In the chroot, so that it goes with it.
    let stamp = root.join(format!("{what}.done"));
    once(&stamp, &format!("{packages:?}\n"), &format!("Slurm {release}: {what}"), || {
        let debs = paths::slurm(release).join(what);
        if debs.exists() {
            at(&debs, fs::remove_dir_all(&debs))?;
        }
        at(&debs, fs::create_dir_all(&debs))?;
        Apt::update(debian.suite)?.download(packages, &debs)?;
        for deb in at(&debs, fs::read_dir(&debs))?.filter_map(Result::ok) {
            output(Command::new("dpkg").arg("-x").arg(deb.path()).arg(root))?;
        }
        Ok(())
    })
}

/// The chroot's `/etc/hosts`, which debootstrap does not make. slurmctld asks for the name of the address that a command comes
/// from, and without that file a name server has to answer, or not to, for 5 s each time.
fn names(machine: Option<String>) -> String {
    machine.unwrap_or_else(|| "127.0.0.1 localhost\n".to_owned())
}
