//! Writes the planned changes: each file whole or not at all.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::files::own_dir::own_file;
use crate::files::write_file;
use crate::outcome::Failure;

/// Puts a new text in the place of a file. It keeps its mode, its ACL, its owner and the link that leads to it. All users can read a new file:
/// the programs that submit jobs read Slurm's files as the user.
pub(super) fn write(path: &Path, text: &str, is_program: bool) -> Result<(), Failure> {
    let new_mode = if is_program { 0o755 } else { 0o644 };
    keeps_owner(path)
        .and_then(|()| write_file::write_with_mode(path, text.as_bytes(), new_mode))
        .map_err(|why| failure("write", path, &why))
}

pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|why| failure("remove", path, &why))
}

/// Holds the directory of a file, so that no two runs write at once. The hold ends with the process. Whoever may open a file can lock
/// it, and anybody may open the directory of slurm.conf: root holds a file of its own for it.
pub(super) fn hold(path: &Path) -> Result<fs::File, Failure> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let held = fs::File::open(dir).map_err(|why| failure("open", dir, &why))?;
    let there = held.metadata().map_err(|why| failure("look at", dir, &why))?;
    let own = PathBuf::from(format!("/run/tessera-setup-{}-{}.lock", there.dev(), there.ino()));
    let held = if rustix::process::geteuid().is_root() {
        own_file(&own, true).map_err(|why| failure("open", &own, &why))?
    } else {
        held
    };
    match rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Failure::new(format!("another `tessera setup` writes into {}", dir.display()))
                .hint("wait until it ends, then run this again"))
        }
        // File systems without locks have no second run to be kept off.
        _ => Ok(held),
    }
}

/// Only root can give a new file the owner of the old one.
fn keeps_owner(path: &Path) -> io::Result<()> {
    let me = rustix::process::geteuid();
    match fs::metadata(path) {
        Ok(there) if !me.is_root() && there.uid() != me.as_raw() => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("it belongs to the user with the number {}", there.uid()),
        )),
        _ => Ok(()),
    }
}

/// Says what to do about a file that cannot be changed.
fn failure(what: &str, path: &Path, why: &io::Error) -> Failure {
    let shown = path.display();
    let hint = match why.kind() {
        ErrorKind::ReadOnlyFilesystem => format!(
            "{} is on a read-only file system: make the changes shown by `tessera setup` where that is made, or mount it for writing first",
            shown
        ),
        ErrorKind::PermissionDenied => {
            "run this as root; if root is refused too, see `lsattr` and the log of SELinux".to_owned()
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space there, then run this again: it goes on".to_owned()
        }
        ErrorKind::NotFound => {
            "a link leads nowhere, or its directory is missing: correct that, then run this again".to_owned()
        }
        _ => "files written before this one are whole: run this again when the cause is gone".to_owned(),
    };
    Failure::new(format!("cannot {what} {shown}: {why}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    /// Set in the process that writes under another umask: the directory to write into.
    const WRITES_INTO: &str = "SETUP_TEST_WRITES_INTO";

    #[test]
    fn a_link_and_a_mode_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("real"), "old").unwrap();
        fs::set_permissions(path("real"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", path("slurm.conf")).unwrap();
        write(&path("slurm.conf"), "new", false).unwrap();
        assert!(fs::symlink_metadata(path("slurm.conf")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(path("real")).unwrap(), "new");
        assert_eq!(fs::metadata(path("real")).unwrap().mode() & 0o777, 0o640);
        write(&path("script"), "#!/bin/sh\n", true).unwrap();
        assert_eq!(fs::metadata(path("script")).unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn all_users_can_read_new_files_whatever_roots_umask() {
        if let Some(dir) = std::env::var_os(WRITES_INTO) {
            let path = |name: &str| Path::new(&dir).join(name);
            write(&path("plugstack.conf"), "", false).unwrap();
            write(&path("tessera-health"), "", true).unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let test = "commands::setup::write::tests::all_users_can_read_new_files_whatever_roots_umask";
        let done = Command::new("sh")
            .args(["-c", r#"umask 077; exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args([test, "--exact"])
            .env(WRITES_INTO, dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("plugstack.conf"), mode("tessera-health")), (0o644, 0o755));
    }

    /// Anybody may open the directory of slurm.conf, and so lock it.
    #[test]
    fn who_locks_the_directory_does_not_keep_root_from_writing() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        let directory = fs::File::open(dir.path()).unwrap();
        rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(hold(&conf).is_ok(), rustix::process::geteuid().is_root());
        drop(directory);
        let held = hold(&conf).unwrap();
        assert!(hold(&conf).unwrap_err().in_a_line().contains("another `tessera setup`"));
        drop(held);
        hold(&conf).unwrap();
    }

    #[test]
    fn errors_say_what_to_do() {
        let said =
            |kind: ErrorKind| failure("write", Path::new("/etc/slurm/slurm.conf"), &kind.into()).in_a_line();
        assert!(said(ErrorKind::ReadOnlyFilesystem).contains("mount it for writing"));
        assert!(said(ErrorKind::PermissionDenied).contains("run this as root"));
        assert!(
            write(Path::new("/none/at/all"), "", false)
                .unwrap_err()
                .in_a_line()
                .contains("directory is missing")
        );
        let dir = tempfile::tempdir().unwrap();
        symlink("nowhere", dir.path().join("link")).unwrap();
        assert!(
            write(&dir.path().join("link"), "", false)
                .unwrap_err()
                .in_a_line()
                .contains("a link leads nowhere")
        );
        let _held = hold(&dir.path().join("slurm.conf")).unwrap();
        let second = hold(&dir.path().join("slurm.conf")).unwrap_err().in_a_line();
        assert!(second.contains("another `tessera setup`"), "{second}");
    }
}
