//! The broker's folder: sockets, what jobs were added, the table.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use task_control::Job;

use super::ServeError;
use crate::core::Opened;

/// Most bytes noted for the log of one job.
const MOST_NOTES: u64 = 64 << 10;

/// `RUN_DIR/tasks`, which only root can change.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

/// Opens the event log, which names users' processes. The site may have named a directory where others can plant something: a
/// FIFO would be waited for, through a link root would write elsewhere, and another user's file is read by that user.
pub(super) fn event_log(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let there = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !there.is_file() || there.uid() != own || there.mode() & 0o022 != 0 {
        let why = "it must be a regular file that belongs to root and that no other user may write to";
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// A parent in the background: its process id, its start time in clock ticks since boot, and the arguments of its broker.
pub(super) type NotedParent = (u32, u64, Vec<OsString>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AddedJob {
    pub(super) job: Job,
    /// Memory that NVML showed of its devices when they were opened.
    pub(super) opened: Vec<Opened>,
}

impl Folder {
    /// Makes the folder if it is missing.
    pub(super) fn make(run_dir: &Path) -> Result<Folder, ServeError> {
        let path = task_control::folder(run_dir);
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&path);
        made.map_err(ServeError::io("create the folder of its sockets"))?;
        let meta = path.symlink_metadata().map_err(ServeError::io("look at the folder of its sockets"))?;
        let own = rustix::process::geteuid().as_raw();
        if !meta.is_dir() || meta.uid() != own || meta.mode() & 0o022 != 0 {
            return Err(ServeError::Unsafe { path });
        }
        Ok(Folder { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, options: &mut OpenOptions) -> Result<File, ServeError> {
        let opened = options.create(true).mode(0o600).open(self.path.join(name));
        opened.map_err(ServeError::io("open a file of its folder"))
    }

    /// Opens the file for messages that no process waits for.
    pub(super) fn messages(&self) -> Result<File, ServeError> {
        self.open("broker.log", OpenOptions::new().append(true))
    }

    /// The lock of whoever serves; `None` while another does.
    pub(super) fn lock(&self) -> Result<Option<File>, ServeError> {
        self.locked("lock")
    }

    /// The lock of the parent that was started in the background; `None` while it lives.
    pub(super) fn parent_lock(&self) -> Result<Option<File>, ServeError> {
        self.locked("parent.lock")
    }

    /// Notes a parent that was started in the background, and the broker's arguments.
    pub(super) fn note_parent(&self, parent: &NotedParent) -> std::io::Result<()> {
        self.write("parent", &serde_json::to_vec(parent)?)
    }

    /// The parent that was noted last.
    pub(super) fn noted_parent(&self) -> Option<NotedParent> {
        serde_json::from_slice(&std::fs::read(self.path.join("parent")).ok()?).ok()
    }

    fn locked(&self, name: &str) -> Result<Option<File>, ServeError> {
        let file = self.open(name, OpenOptions::new().write(true))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(e) => Err(ServeError::io("lock its folder")(e.into())),
        }
    }

    /// The file of the table of leases. One from before this boot is emptied: start times count from the boot.
    pub(super) fn table(&self) -> Result<File, ServeError> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let file = self.open("leases", OpenOptions::new().read(true).write(true))?;
        if std::fs::read_to_string(self.path.join("boot")).ok().as_deref() != Some(boot.as_str()) {
            file.set_len(0).map_err(ServeError::io("empty the table of leases"))?;
            self.write("boot", boot.as_bytes()).map_err(ServeError::io("note the boot"))?;
        }
        Ok(file)
    }

    fn write(&self, name: &str, text: &[u8]) -> std::io::Result<()> {
        let temporary = self.path.join(format!("{name}.new"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text)?;
        std::fs::rename(temporary, self.path.join(name))
    }

    pub(super) fn note(&self, added: &AddedJob) -> std::io::Result<()> {
        self.write(&format!("{}.job", added.job.job), &serde_json::to_vec(added)?)
    }

    /// Notes something for the log of a job, which its next task that ends prints. A file that is long enough stays so.
    pub(super) fn note_for_log(&self, job: u32, line: &str) -> std::io::Result<()> {
        let path = self.path.join(format!("{job}.notes"));
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        if file.metadata()?.len() < MOST_NOTES {
            file.write_all(format!("{line}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Forgets a job; one that is not noted is no error.
    pub(super) fn forget(&self, job: u32) {
        for name in [format!("{job}.job"), format!("{job}.sock"), format!("{job}.notes")] {
            // It may be gone.
            let _ = std::fs::remove_file(self.path.join(name));
        }
    }

    /// The jobs that were added and have not ended. What cannot be read is reported.
    pub(super) fn jobs(&self, report: impl Fn(String)) -> Vec<AddedJob> {
        let names = std::fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut jobs: Vec<AddedJob> = names
            .filter(|path| path.extension().is_some_and(|end| end == "job"))
            .filter_map(|path| {
                let text = std::fs::read(&path).map_err(serde_json::Error::io);
                match text.and_then(|text| serde_json::from_slice(&text)) {
                    Ok(job) => Some(job),
                    Err(e) => {
                        report(format!("{}: cannot read what job was added: {e}", path.display()));
                        None
                    }
                }
            })
            .collect();
        jobs.sort_by_key(|added: &AddedJob| added.job.job);
        jobs
    }

    /// Removes everything but the locks: there are no jobs.
    pub(super) fn clear(&self) {
        for name in ["control.sock", "leases", "boot", "parent"] {
            // It may be gone.
            let _ = std::fs::remove_file(self.path.join(name));
        }
    }

    /// A path for a socket that is about to be made, without an old one.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        // There may be none.
        let _ = std::fs::remove_file(&path);
        path
    }
}

/// Lets only the owner use a socket, and gives it to them.
pub(super) fn give(path: &Path, uid: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    std::os::unix::fs::lchown(path, Some(uid), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_log_is_no_file_that_another_user_planted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        event_log(&path("log")).unwrap().write_all(b"one\n").unwrap();
        event_log(&path("log")).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(path("log")).unwrap(), "one\ntwo\n");
        std::os::unix::fs::symlink("log", path("link")).unwrap();
        assert!(event_log(&path("link")).is_err());
        // The second has a reader, so that opening it succeeds.
        for fifo in ["fifo", "read"] {
            assert!(std::process::Command::new("mkfifo").arg(path(fifo)).status().unwrap().success());
        }
        let _reader = OpenOptions::new().read(true).write(true).open(path("read")).unwrap();
        assert!(event_log(&path("fifo")).is_err() && event_log(&path("read")).is_err());
        std::fs::set_permissions(path("log"), Permissions::from_mode(0o622)).unwrap();
        assert!(event_log(&path("log")).is_err(), "others may write to it");
        if rustix::process::geteuid().is_root() {
            std::fs::write(path("planted"), "").unwrap();
            std::os::unix::fs::chown(path("planted"), Some(65_534), None).unwrap();
            assert!(event_log(&path("planted")).is_err());
        }
    }
}
