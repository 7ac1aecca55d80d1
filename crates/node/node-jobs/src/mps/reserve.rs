//! FreeRoom in `run_dir` that root keeps for new MPS daemons.
//!
//! A daemon's user may write to the daemon's directories, and can so use up the file system: its bytes or its inodes. Root
//! therefore keeps files there that serve for nothing but their room, and removes them when a daemon is to be started and
//! too little is free. What was weighed is in `docs/decisions/0031-room-in-run-dir.md`.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::folders::{Paths, all_dirs, still_there};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::own_dirs;

/// Root's directory in `run_dir` with the files that keep room.
const DIR: &str = "reserve";
/// The file in it that keeps bytes. The others are empty and keep an inode each.
const BYTES_FILE: &str = "bytes";
/// The room that is kept, but at most a quarter of the file system.
const KEPT: FreeRoom = FreeRoom { bytes: 4 << 20, inodes: 256 };
/// FreeRoom that the start of a daemon needs: four files and directories of ours, seven of the daemon's, and some more.
const FOR_A_START: FreeRoom = FreeRoom { bytes: 256 << 10, inodes: 16 };

/// FreeRoom on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeRoom {
    bytes: u64,
    /// Practically endless where the file system does not count them.
    inodes: u64,
}

impl FreeRoom {
    fn holds(self, other: Self) -> bool {
        self.bytes >= other.bytes && self.inodes >= other.inodes
    }

    fn times(self, factor: u64) -> Self {
        Self { bytes: self.bytes.saturating_mul(factor), inodes: self.inodes.saturating_mul(factor) }
    }
}

/// Returns what is free for users in `run_dir`, and what its file system has in all. `None`: it cannot be asked.
fn room(settings: &Settings) -> Option<(FreeRoom, FreeRoom)> {
    let stat = rustix::fs::statvfs(&settings.node.run_dir).ok()?;
    let of = |blocks: u64, inodes: u64| FreeRoom {
        bytes: blocks.saturating_mul(stat.f_frsize),
        inodes: if stat.f_files == 0 { u64::MAX } else { inodes },
    };
    Some((of(stat.f_bavail, stat.f_favail), of(stat.f_blocks, stat.f_files)))
}

/// Tells whether too little is free for a daemon to start.
pub(super) fn is_short(settings: &Settings) -> bool {
    room(settings).is_some_and(|(free, _)| !free.holds(FOR_A_START))
}

/// Gives a daemon that is to be started the room that root kept, if nothing else is left, and returns a line for the log. With
/// plenty of room, root keeps some of it for the next time.
pub(super) fn make_room(settings: &Settings) -> Option<String> {
    // Files of daemons that have ended go first: no job needs them.
    if is_short(settings) {
        let _not_yet_gone = still_there(settings);
    }
    if !is_short(settings) {
        keep(settings);
        return None;
    }
    free(settings).then(|| {
        format!(
            "{} was nearly full, so root freed the space that it reserves there: {}",
            settings.node.run_dir.display(),
            largest(settings)
        )
    })
}

/// Keeps room, unless that is done or more than half of what is free would go. Without this, jobs still start until the file
/// system is full, so nothing is said of a failure.
fn keep(settings: &Settings) {
    let Some((free, all)) = room(settings) else { return };
    let kept = FreeRoom { bytes: KEPT.bytes.min(all.bytes / 4), inodes: KEPT.inodes.min(all.inodes / 4) };
    if !free.holds(kept.times(2)) {
        return;
    }
    let fill = || -> Result<(), Errno> {
        let run = run_dir(settings).ok_or(Errno::NOENT)?;
        // Whoever makes the directory fills it.
        rustix::fs::mkdirat(&run, DIR, Mode::RWXU)?;
        let dir = open_dir(&run)?;
        let make = |name: &str| {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR)
        };
        rustix::fs::fallocate(make(BYTES_FILE)?, FallocateFlags::empty(), 0, kept.bytes)?;
        // The directory and the first file have an inode each.
        (2..kept.inodes).try_for_each(|k| make(&k.to_string()).map(drop))
    };
    let _not_now = fill();
}

/// Removes what keeps room; true if anything was there.
fn free(settings: &Settings) -> bool {
    let Some(run) = run_dir(settings) else { return false };
    let Ok(dir) = open_dir(&run) else { return false };
    for name in own_dirs::names(&dir).unwrap_or_default() {
        let _another_was_quicker = own_dirs::unlink(&dir, &name);
    }
    rustix::fs::unlinkat(&run, DIR, AtFlags::REMOVEDIR).is_ok()
}

fn run_dir(settings: &Settings) -> Option<OwnedFd> {
    own_dirs::own(&settings.node.run_dir, Mode::from_bits_truncate(0o755)).ok()
}

fn open_dir(run: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(run, DIR, flags, Mode::empty())
}

/// Most files of one daemon that are counted.
const MOST: usize = 50_000;
/// Longest time for counting all daemons' files: the prolog waits.
const COUNT_TIME: Duration = Duration::from_millis(300);

/// Says which daemon's user has the most files in `run_dir`, and how many bytes.
pub(super) fn largest(settings: &Settings) -> String {
    let deadline = Deadline::after(COUNT_TIME);
    let counted = all_dirs(settings).map(|key| {
        let paths = Paths::of(settings, &key);
        (count(vec![paths.pipe.clone(), paths.log], &deadline), paths.pipe)
    });
    // A page of memory and an inode weigh alike.
    match counted.max_by_key(|((files, bytes), _)| *files as u64 + bytes / 4096) {
        None => "no MPS daemon has files there".to_owned(),
        Some(((files, bytes), pipe)) => {
            let owner =
                rustix::fs::statat(CWD, &pipe, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_uid);
            let dir = pipe.parent().unwrap_or(&pipe).display();
            format!("the most is used by uid {owner}, {files} files with {} KiB in {dir}", bytes >> 10)
        }
    }
}

/// Counts files and bytes below these directories, without following links, as far as the time goes.
fn count(mut dirs: Vec<PathBuf>, deadline: &Deadline) -> (usize, u64) {
    let (mut files, mut bytes) = (0, 0);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if files == MOST || deadline.passed() {
                return (files, bytes);
            }
            files += 1;
            let Ok(meta) = entry.metadata() else { continue };
            bytes += std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
            if meta.is_dir() {
                dirs.push(Path::join(&dir, entry.file_name()));
            }
        }
    }
    (files, bytes)
}
