//! Files that processes have open.

use std::os::fd::AsFd;
use std::path::Path;

use node_driver::deadline::Deadline;
use node_driver::process::threads;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};

/// Names a file by what the kernel knows it by. A user can open a file under any name: in a mount namespace of his own, he mounts
/// it on another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// File system and inode.
    file: (u32, u32, u64),
    /// Number of a character device.
    device: Option<(u32, u32)>,
}

impl FileId {
    /// Follows links. The numbers of devices count for the driver's own nodes alone: simulated ones of many nodes share them.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let is_drivers = path.as_os_str().as_encoded_bytes().starts_with(b"/dev/nvidia");
        Self::at(CWD, path).map(|id| Self { device: id.device.filter(|_| is_drivers), ..id })
    }

    /// The file system is not asked what it knows already: a user's own need not answer.
    fn at(dir: impl AsFd, name: impl rustix::path::Arg) -> Option<Self> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(dir, name, flags, StatxFlags::TYPE | StatxFlags::INO).ok()?;
        let is_device = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::CharacterDevice;
        let device = is_device.then_some((stat.stx_rdev_major, stat.stx_rdev_minor));
        Some(Self { file: (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino), device })
    }

    /// Tells whether `other` is the same file, or a node of the same device.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.file == other.file || (self.device.is_some() && self.device == other.device)
    }
}

/// The wanted ones of the files that it has open, each once. Those of threads with a table of their own are left out, unless the first
/// one has none. `left` is the number of files that may still be looked at, and becomes smaller. False: it has more than that, or
/// the deadline has passed. A user may have millions open.
pub(crate) fn open_files(
    pid: u32,
    wanted: &[FileId],
    left: &mut usize,
    deadline: &Deadline,
) -> (Vec<FileId>, bool) {
    let (most, mut found) = (*left, Vec::new());
    let mut all = look(format!("/proc/{pid}/fd").as_ref(), wanted, left, deadline, &mut found).is_some();
    if all && *left == most {
        all =
            threads(pid).all(|thread| look(&thread.join("fd"), wanted, left, deadline, &mut found).is_some());
    }
    (found, all)
}

/// Looks at the links of one directory. `None`: there are too many.
fn look(
    dir: &Path,
    wanted: &[FileId],
    left: &mut usize,
    deadline: &Deadline,
    found: &mut Vec<FileId>,
) -> Option<()> {
    if deadline.passed() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A process that has ended has no files open.
    let Ok(fd) = rustix::fs::open(dir, flags, Mode::empty()) else { return Some(()) };
    let Ok(entries) = rustix::fs::Dir::read_from(&fd) else { return Some(()) };
    let names = entries.flatten().map(|entry| entry.file_name().to_owned());
    for name in names.filter(|name| !name.to_bytes().starts_with(b".")) {
        // To ask for the time takes less than to look at a file, but not nothing.
        if *left == 0 || (left.is_multiple_of(64) && deadline.passed()) {
            return None;
        }
        *left -= 1;
        let Some(open) = FileId::at(&fd, &name) else { continue };
        // A user may have one file open very many times.
        found.extend(wanted.iter().find(|id| id.is(&open) && !found.contains(id)));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use lab::command::PATIENCE;
    use lab::threads::Running;

    use super::*;

    /// With the first thread's end it keeps its files.
    #[test]
    fn files_of_a_process_are_seen_without_its_first_thread() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("open");
        std::fs::write(&file, "").unwrap();
        let mut program = std::process::Command::new(lab::threads::build(dir.path()).unwrap());
        program.arg("linger").stdin(std::fs::File::open(&file).unwrap());
        program.stderr(std::fs::File::open(&file).unwrap());
        let running = Running::start(&mut program).unwrap().without_first_thread().unwrap();
        let wanted = [FileId::of(&file).unwrap()];
        let open = |mut most| open_files(running.0.id(), &wanted, &mut most, &Deadline::after(PATIENCE));
        assert_eq!(open(100), (wanted.to_vec(), true), "it is open twice");
        assert!(!open(1).1, "it has more open");
    }

    /// A user mounts a device's node on another name, or somebody makes one more node of the device.
    #[test]
    fn a_file_is_found_under_whatever_name_it_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [node, name, other] = ["nvidia0", "x", "other"].map(|name| dir.path().join(name));
        std::fs::write(&node, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::fs::hard_link(&node, &name).unwrap();
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("600").stdin(std::fs::File::open(&name).unwrap()).stdout(std::process::Stdio::null());
        let mut child = sleep.spawn().unwrap();
        let [node, other] = [node, other].map(|path| FileId::of(&path).unwrap());
        let null = FileId { device: FileId::at(CWD, "/dev/null").unwrap().device, ..other };
        let open = |wanted| open_files(child.id(), &[wanted], &mut 100, &Deadline::after(PATIENCE)).0;
        let found = [node, null, other].map(|wanted| open(wanted) == [wanted]);
        let simulated = FileId::of("/dev/null".as_ref()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [true, true, false]);
        assert!(null.device.is_some() && simulated.device.is_none());
    }
}
