//! Directories and lock files that a command goes on with later, and that nobody else may write.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Makes or takes a directory of this user that nobody else may write to or put another one in the place of. Returns its path
/// without links.
///
/// # Errors
///
/// It cannot be made, or another user may write there.
pub(crate) fn own_dir(path: &Path) -> io::Result<PathBuf> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let (me, sudo) = (rustix::process::geteuid().as_raw(), sudo_user());
    let link = fs::symlink_metadata(path)?;
    if link.is_symlink() && ![me, 0].contains(&link.uid()) {
        return Err(denied("it is a link of another user"));
    }
    let path = fs::canonicalize(path)?;
    let dir = fs::metadata(&path)?;
    if !dir.is_dir() {
        return Err(denied("it is not a directory"));
    }
    if dir.uid() != me || dir.mode() & 0o022 != 0 {
        return Err(denied("it must belong to you, and no other user may write there (chmod go-w)"));
    }
    for above in path.ancestors().skip(1) {
        let there = fs::metadata(above)?;
        let is_open = there.mode() & 0o002 != 0 && there.mode() & 0o1000 == 0;
        // A user may put links into the own directories, and root would follow them.
        let is_strangers = me == 0 && there.uid() != 0 && Some(there.uid()) != sudo;
        if is_open || is_strangers {
            let why = format!("another user may move it: {} is not only yours or root's", above.display());
            return Err(denied(&why));
        }
    }
    Ok(path)
}

/// Who called sudo.
fn sudo_user() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// Opens a file that only this user, or the owner of its directory, has made; makes it where it is missing and `write` is true. Then
/// nobody else can open it: whoever may read a file can lock it. What root makes belongs to the owner of its directory.
///
/// # Errors
///
/// It cannot be opened, is not a regular file, or another user may have written it.
pub(crate) fn own_file(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.read(true).write(write).mode(0o600).custom_flags(flags);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = fs::metadata(dir)?;
    let opened = match options.open(path) {
        // Only a file that is certainly new is given away: another could be a link to any of root's.
        Err(e) if e.kind() == ErrorKind::NotFound && write => {
            match options.clone().create_new(true).open(path) {
                // Somebody has just made it.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => options.open(path),
                made => made.and_then(|file| given_to_owner(file, &dir)),
            }
        }
        opened => opened,
    };
    let file = opened.map_err(|e| {
        let is_link = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
        if is_link { denied("it is a link") } else { e }
    })?;
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(denied("it is not a regular file"));
    }
    if !is_ours(&there, &dir) {
        return Err(denied("another user may have written it"));
    }
    if write && there.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Gives a file that root has made to its directory's owner, who otherwise could not open it later.
fn given_to_owner(file: File, dir: &Metadata) -> io::Result<File> {
    if rustix::process::geteuid().is_root() && dir.uid() != 0 {
        fchown(&file, Some(dir.uid()), Some(dir.gid()))?;
    }
    Ok(file)
}

fn is_ours(file: &Metadata, dir: &Metadata) -> bool {
    let owners = [0, rustix::process::geteuid().as_raw(), dir.uid()];
    owners.contains(&file.uid()) && file.mode() & 0o002 == 0
}

fn denied(why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{chown, lchown, symlink};

    /// Not the user who tests.
    const EVE: u32 = 65_534;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn an_own_directory_is_made_and_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let made = own_dir(&path).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o022, 0);
        symlink(&path, dir.path().join("link")).unwrap();
        assert_eq!(own_dir(&path).unwrap(), made);
        assert_eq!(own_dir(&dir.path().join("link")).unwrap(), made);
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(own_dir(&dir.path().join("file")).is_err());
    }

    #[test]
    fn a_directory_where_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for open in [0o775, 0o757, 0o1777] {
            own_dir(&path).unwrap();
            mode(&path, open);
            assert!(own_dir(&path).unwrap_err().to_string().contains("no other user may write"), "{open:o}");
            fs::remove_dir(&path).unwrap();
        }
        mode(dir.path(), 0o777);
        assert!(own_dir(&path).unwrap_err().to_string().contains("may move it"));
        mode(dir.path(), 0o1777);
        own_dir(&path).unwrap();
    }

    #[test]
    fn a_directory_that_another_user_planted_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (of_eve, own) = (dir.path().join("eve"), dir.path().join("own"));
        own_dir(&own).unwrap();
        own_dir(&of_eve).unwrap();
        chown(&of_eve, Some(EVE), Some(EVE)).unwrap();
        assert!(own_dir(&of_eve).unwrap_err().to_string().contains("must belong to you"));
        assert!(own_dir(&of_eve.join("below")).unwrap_err().to_string().contains("may move it"));
        symlink(&own, dir.path().join("link")).unwrap();
        lchown(dir.path().join("link"), Some(EVE), Some(EVE)).unwrap();
        let why = own_dir(&dir.path().join("link")).unwrap_err().to_string();
        assert!(why.contains("a link of another user"), "{why}");
    }

    #[test]
    fn a_lock_that_root_makes_belongs_to_the_owner_of_its_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("roots"), "").unwrap();
        chown(dir.path(), Some(EVE), Some(EVE)).unwrap();
        for (name, owner) in [("lock", EVE), ("lock", EVE), ("roots", 0)] {
            own_file(&dir.path().join(name), true).unwrap();
            let made = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((made.uid(), made.mode() & 0o777), (owner, 0o600), "{name}");
        }
    }

    #[test]
    fn a_lock_that_another_user_planted_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("lock"), "").unwrap();
        fs::set_permissions(path("lock"), Permissions::from_mode(0o644)).unwrap();
        for name in ["lock", "new"] {
            own_file(&path(name), true).unwrap().try_lock().unwrap();
            assert_eq!(fs::metadata(path(name)).unwrap().mode() & 0o777, 0o600, "nobody else can lock it");
        }
        own_file(&path("lock"), false).unwrap();
        assert_eq!(own_file(&path("none"), false).unwrap_err().kind(), ErrorKind::NotFound);
        let why = |name: &str| own_file(&path(name), true).unwrap_err().to_string();
        symlink("lock", path("link")).unwrap();
        assert!(why("link").contains("a link"));
        assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert!(why("fifo").contains("not a regular file"));
        mode(&path("lock"), 0o666);
        assert!(why("lock").contains("another user may have written it"));
        if rustix::process::geteuid().is_root() {
            fs::write(path("planted"), "12 0 -10000\n").unwrap();
            chown(path("planted"), Some(EVE), Some(EVE)).unwrap();
            assert!(why("planted").contains("another user may have written it"));
        }
    }
}
