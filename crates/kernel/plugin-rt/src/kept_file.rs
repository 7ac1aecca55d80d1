//! Files that a daemon of Slurm keeps in its own directory: read only if nobody else can have written them, and replaced whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Users who may read a file that a daemon keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The daemon's own user and root.
    Owner,
    /// Every user who can reach the directory.
    All,
}

impl Readers {
    /// Returns the permission bits of such a file.
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::All => 0o644,
        }
    }
}

/// A file of ours in a daemon's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    dir: PathBuf,
    name: &'static str,
}

impl KeptFile {
    /// The file of this name in a directory, which must be there.
    #[must_use]
    pub fn in_dir(dir: &Path, name: &'static str) -> Self {
        Self { dir: dir.to_owned(), name }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    /// Reads the contents of the file.
    ///
    /// # Errors
    ///
    /// It is not there, cannot be read, is longer than `most` bytes, or somebody else than root, this process's user and the
    /// directory's owner may have written it.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        let dir = self.checked_dir()?;
        let file = self.open()?;
        let meta = file.metadata()?;
        let own = [0, rustix::process::geteuid().as_raw(), dir.uid()].contains(&meta.uid());
        if !(meta.is_file() && own && meta.mode() & 0o022 == 0) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user may have written it"));
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(ErrorKind::InvalidData.into()) } else { Ok(bytes) }
    }

    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        OpenOptions::new().read(true).custom_flags(flags).open(self.path())
    }

    /// Puts these bytes there, so that it survives a crash: either the old text or the new one. False: it has them already.
    ///
    /// # Errors
    ///
    /// Anybody may write to the directory, or it has no room.
    pub fn keep(&self, bytes: &[u8], readers: Readers) -> io::Result<bool> {
        self.checked_dir()?;
        if self.read(bytes.len() as u64).is_ok_and(|kept| kept == bytes) {
            return self.open_to(readers).map(|()| false);
        }
        self.replace(bytes, readers).map(|()| true)
    }

    /// Changes who may read the file, if that is different.
    ///
    /// # Errors
    ///
    /// The file is not there, or belongs to another user.
    pub fn open_to(&self, readers: Readers) -> io::Result<()> {
        let file = self.open()?;
        if file.metadata()?.mode() & 0o777 == readers.mode() {
            return Ok(());
        }
        file.set_permissions(fs::Permissions::from_mode(readers.mode()))
    }

    /// The directory, unless everybody may write to it.
    fn checked_dir(&self) -> io::Result<fs::Metadata> {
        let dir = fs::metadata(&self.dir)?;
        if dir.is_dir() && dir.mode() & 0o002 == 0 {
            return Ok(dir);
        }
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{}: any user may write there", self.dir.display()),
        ))
    }

    /// Replaces the file, whatever it has. A file that root puts into another user's directory is that user's from the moment at which it
    /// appears.
    ///
    /// # Errors
    ///
    /// Anybody may write to the directory, or nobody, or it has no room.
    pub fn replace(&self, bytes: &[u8], readers: Readers) -> io::Result<()> {
        let dir = self.checked_dir()?;
        let new = self.dir.join(format!("{}.{}", self.name, std::process::id()));
        // What a killed process of this number has left.
        let _gone = fs::remove_file(&new);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                // The daemon's umask has no say.
                file.set_permissions(fs::Permissions::from_mode(readers.mode()))?;
                // Only root can give it to another user, and needs to.
                let _ = fchown(&file, Some(dir.uid()), Some(dir.gid()));
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, self.path()))
            .and_then(|()| File::open(&self.dir)?.sync_all())
            .inspect_err(|_| drop(fs::remove_file(&new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_keeps_is_of_the_directorys_owner_at_once() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(51_001), Some(51_002)).unwrap();
        let file = KeptFile::in_dir(dir.path(), "kept");
        // Whoever sees the new file sees it with its owner: both are on the temporary file already.
        file.replace(b"1", Readers::All).unwrap();
        let owner = |meta: fs::Metadata| (meta.uid(), meta.gid());
        assert_eq!(owner(fs::metadata(file.path()).unwrap()), (51_001, 51_002));
        // One that an earlier version left to root is read too, by every user who may read it.
        std::os::unix::fs::chown(file.path(), Some(0), Some(0)).unwrap();
        assert_eq!(file.read(9).unwrap(), b"1");
    }
}
