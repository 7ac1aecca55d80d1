//! The daemons' directories: root's, with two in them that belong to a daemon's user, who may leave anything there.
//!
//! A directory is removed in two steps: it is moved away, which nothing in it can prevent, and then emptied. A tree that is
//! too deep or too large, or a process that still writes to it, must neither keep the next daemon from starting nor fail
//! a prolog.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::own_dirs::{self, StateError, io};

/// Folders of a daemon's pipes and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) pipe: PathBuf,
    pub(crate) log: PathBuf,
}

impl Paths {
    pub(crate) fn of(settings: &Settings, key: &str) -> Self {
        let dir = settings.node.run_dir.join("mps").join(key);
        Self { pipe: dir.join("pipe"), log: dir.join("log") }
    }
}

/// A file in the daemon's directory that the daemon inherits open and locked: whoever finds it locked knows that a
/// process of the daemon still lives, even one that has no other trace yet.
const LIFE: &str = "life";

/// Path of that file as the kernel shows it for a process that has it open.
pub(super) fn life_path(settings: &Settings, key: &str) -> PathBuf {
    let dir = settings.node.run_dir.join("mps").join(key);
    std::fs::canonicalize(&dir).unwrap_or(dir).join(LIFE)
}

pub(super) fn life_held(settings: &Settings, key: &str) -> bool {
    let path = settings.node.run_dir.join("mps").join(key).join(LIFE);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, &path, flags, Mode::empty())
        .is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

fn lock_life(dir: &OwnedFd, path: &Path) -> Result<OwnedFd, StateError> {
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(dir, LIFE, flags, Mode::RUSR).map_err(io(path, "create it"))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io(path, "lock it"))?;
    Ok(file)
}

/// Makes the daemon's directories and returns the lock that it is to inherit.
pub(super) fn make_dirs(settings: &Settings, key: &str, uid: u32, gid: u32) -> Result<OwnedFd, StateError> {
    remove_dirs(settings, key)?;
    let public = Mode::from_bits_truncate(0o755);
    let run = own_dirs::own(&settings.node.run_dir, public)?;
    let mps = own_dirs::own_at(run, &settings.node.run_dir, "mps", public)?;
    let base = settings.node.run_dir.join("mps");
    // Root's daemon is shared by users, who are let in one by one.
    let (outer, mode) = if uid == 0 { (Mode::RWXU, public) } else { (public, Mode::RWXU) };
    let dir = own_dirs::own_at(mps, &base, key, outer)?;
    for name in ["pipe", "log"] {
        let path = base.join(key).join(name);
        // Made by root in root's directory: nobody can have put a link there.
        drop(own_dirs::own_at(&dir, &base.join(key), name, mode)?);
        rustix::fs::chownat(
            &dir,
            name,
            Some(Uid::from_raw(uid)),
            Some(Gid::from_raw(gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .map_err(io(&path, "give it to the job's user"))?;
    }
    lock_life(&dir, &base.join(key).join(LIFE))
}

/// Removes a daemon's directories. Links in them are removed, never followed. What cannot be removed at once is out of
/// the way, for [`still_there`].
pub(super) fn remove_dirs(settings: &Settings, key: &str) -> Result<(), StateError> {
    let base = settings.node.run_dir.join("mps");
    if rustix::fs::statat(CWD, &base, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return Ok(());
    }
    // Refuses a `run_dir` or `mps` that somebody else could have redirected.
    let run = own_dirs::own(&settings.node.run_dir, Mode::from_bits_truncate(0o755))?;
    let mps = own_dirs::own_at(run, &settings.node.run_dir, "mps", Mode::from_bits_truncate(0o755))?;
    let away = format!("{AWAY}{key}-{}", unique());
    match rustix::fs::renameat(&mps, key, &mps, &away) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(io(&base.join(key), "move it away"))?,
    }
    discard(&mps, &away, &Deadline::after(TIMEOUT));
    Ok(())
}

/// Prefix of the name of everything that has been moved away.
const AWAY: &str = ".away-";

/// Distinguishes what is moved: two processes do not share an id, nor one process a moment.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

/// Number of names read at once: few enough to take a small part of [`LEAST`].
const MOST: usize = 1000;
/// Longest time spent on a daemon that ends, or on all that was left, in one go: every prolog waits for a look at the node.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest time that is worth starting for.
const LEAST: Duration = Duration::from_millis(20);

/// Empties and removes `name` in `dir` until the deadline; false: something is left.
///
/// Whatever the depth, no more than three directories are open, and this does not call itself: directories found
/// in one are moved up to the top, which only root can write to, and looked into there.
fn discard(dir: &OwnedFd, name: &str, deadline: &Deadline) -> bool {
    let Ok(top) = open_dir(dir, name) else { return false };
    let (mut moved, unique) = (0, unique());
    loop {
        let Ok(names) = entries(&top) else { return false };
        if names.is_empty() {
            return rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok();
        }
        for inner in names {
            if deadline.passed() {
                return false;
            }
            if rustix::fs::unlinkat(&top, &inner, AtFlags::empty()).is_ok() {
                continue;
            }
            if let Ok(sub) = open_dir(&top, &inner) {
                for leaf in entries(&sub).unwrap_or_default() {
                    if rustix::fs::unlinkat(&sub, &leaf, AtFlags::empty()).is_err() {
                        moved += 1;
                        // It stays, and is met again, where somebody else was quicker.
                        let _ = rustix::fs::renameat(&sub, &leaf, &top, format!("{unique}-{moved}"));
                    }
                    // Afterwards: to read the names may have taken all the time, every time.
                    if deadline.passed() {
                        return false;
                    }
                }
            }
            let _ = rustix::fs::unlinkat(&top, &inner, AtFlags::REMOVEDIR);
        }
    }
}

fn open_dir(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Names in a directory, at most [`MOST`].
fn entries(dir: &OwnedFd) -> Result<Vec<std::ffi::CString>, Errno> {
    let names = Dir::read_from(dir)?.map(|entry| entry.map(|e| e.file_name().to_owned()));
    let own = |name: &Result<std::ffi::CString, Errno>| {
        !name.as_ref().is_ok_and(|n| matches!(n.to_bytes(), b"." | b".."))
    };
    names.filter(own).take(MOST).collect()
}

/// Keys of directories that daemons left behind.
pub fn left_dirs(settings: &Settings) -> Vec<String> {
    all_dirs(settings).filter(|name| !name.starts_with(AWAY)).collect()
}

/// Tries again to remove what was moved away; the paths of what is still there.
pub fn still_there(settings: &Settings) -> Vec<PathBuf> {
    let base = settings.node.run_dir.join("mps");
    let Ok(mps) = open_dir(CWD, &base) else { return Vec::new() };
    let mut away: Vec<String> = all_dirs(settings).filter(|name| name.starts_with(AWAY)).collect();
    let n = away.len().max(1);
    // One that somebody still writes to must not take the time of all others; of too many for one go, others are first
    // the next time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    away.rotate_left(usize::try_from(now.subsec_micros()).unwrap_or(0) % n);
    let (all, each) = (Deadline::after(TIMEOUT), TIMEOUT / u32::try_from(n).unwrap_or(u32::MAX));
    away.retain(|name| all.passed() || !discard(&mps, name, &all.at_most(each.max(LEAST))));
    away.iter().map(|name| base.join(name)).collect()
}

/// Names of the daemons' directories, with those that were moved away.
pub(super) fn all_dirs(settings: &Settings) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(settings.node.run_dir.join("mps")).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_directory_takes_no_more_time_than_there_is() {
        let mps = tempfile::Builder::new().prefix("tn").tempdir_in("/dev/shm").unwrap();
        let pipe = mps.path().join("away/pipe");
        std::fs::create_dir_all(&pipe).unwrap();
        (0..10 * MOST).for_each(|k| std::fs::write(pipe.join(k.to_string()), "").unwrap());
        let dir = open_dir(CWD, mps.path()).unwrap();
        // No system unlinks two files in a microsecond; but each time at least one is gone.
        let discard = || discard(&dir, "away", &Deadline::after(Duration::from_millis(5)));
        let times = (0..=10 * MOST).take_while(|_| !discard()).count();
        assert!((1..=10 * MOST).contains(&times), "{times}");
        assert!(!mps.path().join("away").exists());
    }
}
