//! Writes files that a command line names. Root may name one in a directory where others can plant links, FIFOs and files.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::Path;

use rustix::fs::{XattrFlags, fsetxattr, getxattr};

/// Attribute with a file's POSIX ACL.
const ACL: &str = "system.posix_acl_access";
/// Most bytes of an attribute (`XATTR_SIZE_MAX`).
const LONGEST_ACL: usize = 65_536;
/// Paths where FIFOs belong to the user who began the pipeline, and only root can plant one.
const STREAMS: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"];

/// Writes a file whole: if the disk is full, the old text stays. It keeps its owner, mode and ACL. A link of this user or of root is
/// followed; a device, and this user's own FIFO, take the text as a stream.
///
/// # Errors
///
/// The file cannot be written, or another user may have planted what stands there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, None)
}

/// Writes a file as [`write`] does. A new one gets this mode, whatever the umask.
pub(crate) fn write_with_mode(path: &Path, bytes: &[u8], new_mode: u32) -> io::Result<()> {
    put(path, bytes, Some(new_mode))
}

fn put(path: &Path, bytes: &[u8], new_mode: Option<u32>) -> io::Result<()> {
    let refused = |what: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, what.to_owned()));
    let link = fs::symlink_metadata(path).ok().filter(Metadata::is_symlink);
    if link.as_ref().is_some_and(|link| !is_trusted(link)) {
        return refused("it is a link of another user");
    }
    match fs::metadata(path) {
        Ok(there) if there.is_file() && is_planted(path, &there)? => {
            refused("it is a file of another user, in a directory that any user may write to")
        }
        Ok(there) if there.is_file() => replace(path, Some(&there), bytes, None),
        Ok(there) if there.is_dir() => refused("it is a directory"),
        Ok(there) if there.file_type().is_fifo() && !is_trusted(&there) && !is_stream(path) => {
            refused("it is a FIFO of another user")
        }
        Ok(there) => stream(path, &there, bytes),
        Err(e) if link.is_some() => Err(e),
        Err(_) => replace(path, None, bytes, new_mode),
    }
}

/// True if a file belongs to this user or to root.
fn is_trusted(there: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&there.uid())
}

fn is_stream(path: &Path) -> bool {
    path.to_str().is_some_and(|path| STREAMS.iter().any(|stream| path.starts_with(stream)))
}

/// True if another user may have put a file there to own what this process writes, as in /tmp.
fn is_planted(path: &Path, there: &Metadata) -> io::Result<bool> {
    let path = fs::canonicalize(path)?;
    let dir = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    Ok(!is_trusted(there) && dir.mode() & 0o002 != 0)
}

fn stream(path: &Path, seen: &Metadata, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).custom_flags(libc_flags()).open(path)?;
    let there = file.metadata()?;
    if (there.dev(), there.ino()) != (seen.dev(), seen.ino()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it changes while it is opened"));
    }
    file.write_all(bytes)
}

/// A terminal must not become this process's own.
fn libc_flags() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap_or_default()
}

/// Puts a new file in the place of what is there. Nothing that is there is opened.
fn replace(path: &Path, there: Option<&Metadata>, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    // A link stays, and what it names is replaced.
    let path = if there.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // In words of the system alone: the other name is nobody's concern.
    fs::metadata(dir)?;
    let mut file = builder.prefix(".tessera-").permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
    if let Some(there) = there {
        // Only root can, and need, give it back.
        let _ = fchown(file.as_file(), Some(there.uid()), Some(there.gid()));
    }
    if let Some(mode) = there.map(|there| there.mode() & 0o777).or(mode) {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    if there.is_some() {
        copy_acl(&path, file.as_file())?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}

/// Gives a new file the ACL of an old one, whose mode it has. Not every file system has them, and few files have one.
fn copy_acl(from: &Path, to: &File) -> io::Result<()> {
    let mut acl = vec![0; LONGEST_ACL];
    match getxattr(from, ACL, &mut acl[..]) {
        Ok(length) => Ok(fsetxattr(to, ACL, &acl[..length], XattrFlags::empty())?),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    /// Not the user who tests.
    const EVE: u32 = 65_534;

    /// A directory that anybody may write to, as /tmp.
    fn tmp() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        dir
    }

    fn fifo(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    fn names(dir: &Path) -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode_and_its_link() {
        let dir = tmp();
        let path = |name: &str| dir.path().join(name);
        write(&path("out.csv"), b"old, and longer\n").unwrap();
        fs::set_permissions(path("out.csv"), Permissions::from_mode(0o640)).unwrap();
        symlink("out.csv", path("link")).unwrap();
        fs::hard_link(path("out.csv"), path("hard")).unwrap();
        write(&path("link"), b"new\n").unwrap();
        assert_eq!(fs::read_to_string(path("out.csv")).unwrap(), "new\n");
        assert_eq!(fs::metadata(path("out.csv")).unwrap().mode() & 0o777, 0o640);
        // Whoever holds the old file under another name keeps the old text.
        assert_eq!(fs::read_to_string(path("hard")).unwrap(), "old, and longer\n");
        assert_eq!(names(dir.path()).len(), 3, "nothing is left over");
        assert!(write(&path("."), b"").unwrap_err().to_string().contains("a directory"));
        symlink("nowhere", path("dangling")).unwrap();
        assert_eq!(write(&path("dangling"), b"").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(write(&path("none/out.csv"), b"").is_err());
        write(Path::new("/dev/null"), b"text").unwrap();
    }

    /// slurm.conf may have passwords, and be for root and `SlurmUser` alone.
    #[test]
    fn a_file_keeps_its_acl() {
        // Version 2, then each entry's tag, rights and id: the owner, a user, the group, the mask, others.
        let entry = |tag: u16, rights: u16, id: u32| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let entries = [(1, 6, none), (2, 4, EVE), (4, 0, none), (0x10, 4, none), (0x20, 0, none)];
        let entries = entries.into_iter().flat_map(|(tag, rights, id)| entry(tag, rights, id));
        let acl: Vec<u8> = 2_u32.to_le_bytes().into_iter().chain(entries).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slurm.conf");
        fs::write(&path, "old").unwrap();
        if rustix::fs::setxattr(&path, ACL, &acl, XattrFlags::empty()) == Err(rustix::io::Errno::OPNOTSUPP) {
            return;
        }
        write(&path, b"new").unwrap();
        let mut kept = vec![0; LONGEST_ACL];
        let length = getxattr(&path, ACL, &mut kept[..]).unwrap();
        assert_eq!((&kept[..length], fs::metadata(&path).unwrap().mode() & 0o777), (&acl[..], 0o640));
    }

    #[test]
    fn what_another_user_planted_is_left_alone() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tmp();
        let path = |name: &str| dir.path().join(name);
        let secret = path("roots");
        fs::write(&secret, "roots own\n").unwrap();
        symlink(&secret, path("link")).unwrap();
        std::os::unix::fs::lchown(path("link"), Some(EVE), Some(EVE)).unwrap();
        fs::write(path("file"), "").unwrap();
        chown(path("file"), Some(EVE), Some(EVE)).unwrap();
        fifo(&path("fifo"));
        chown(path("fifo"), Some(EVE), Some(EVE)).unwrap();
        symlink("fifo", path("own-link")).unwrap();
        let why = |name: &str| write(&path(name), b"harm").unwrap_err().to_string();
        assert!(why("link").contains("a link of another user"));
        assert!(why("file").contains("a file of another user"));
        // Both would wait for a reader for ever.
        assert!(why("fifo").contains("a FIFO of another user"));
        assert!(why("own-link").contains("a FIFO of another user"));
        assert_eq!(fs::read_to_string(&secret).unwrap(), "roots own\n");
    }

    #[test]
    fn a_users_file_stays_the_users() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        fs::write(&path, "").unwrap();
        chown(&path, Some(EVE), Some(EVE)).unwrap();
        write(&path, b"text").unwrap();
        let there = fs::metadata(&path).unwrap();
        assert_eq!((there.uid(), there.gid(), there.len()), (EVE, EVE, 4));
    }

    #[test]
    fn an_own_fifo_takes_a_stream() {
        let dir = tmp();
        let path = dir.path().join("fifo");
        fifo(&path);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        write(&path, b"text").unwrap();
        assert_eq!(reader.join().unwrap(), "text");
    }
}
