//! A note by which `tessera node reconcile` knows that the node's slurmd loads Tessera.
//!
//! The SPANK plugin locks the note when slurmd starts. The kernel drops the lock when that slurmd ends, however it ends, and a
//! slurmd without the plugin never takes it. In the note stand the time of the lock, seconds and nanoseconds since 1970, `detects` if
//! this slurmd takes MIG instances for GPUs, and what slurmctld was told last:
//!
//! ```text
//! 1764097557 120034567 detects
//! 1764097558 9f86d081884c7d65
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::mem::forget;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use node_slurm::slurm_conf;
use protocol::Said;
use rustix::fs::OFlags;

const NAME: &str = "tessera.loaded";
const DETECTS: &str = "detects";
/// Most bytes that are read.
const MAX_LEN: u64 = 200;

/// A note whose slurmd lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Time at which slurmd has loaded the plugin, seconds since 1970. slurmctld's `SlurmdStartTime` is not before it.
    pub since: u64,
    /// The nanoseconds of that time: they tell one slurmd from the next.
    pub nanos: u32,
    /// See [`protocol::Standing::Detects`].
    pub detects: bool,
    /// The last word that slurmctld was told.
    pub told: Option<Said>,
}

impl Loaded {
    /// Tells whether another note is of the same slurmd.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        (self.since, self.nanos) == (other.since, other.nanos)
    }
}

/// Path of a node's note: in `SlurmdSpoolDir`, or in `/run` if slurm.conf does not say which directory that is.
#[must_use]
pub fn path(slurm_conf: &Path, node: &str) -> PathBuf {
    match slurm_conf::spool_dir(slurm_conf, node) {
        Some(spool) => spool.join(NAME),
        None => PathBuf::from(format!("/run/{NAME}.{node}")),
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// Locks the note for as long as this process lives, or one that it forks. `detects`: see [`protocol::Standing::Detects`].
///
/// # Errors
///
/// The note cannot be written or locked.
pub fn hold(path: &Path, detects: bool) -> io::Result<()> {
    let mut note = open(path, true)?;
    // Shared: a slurmd that is to replace another one starts before that one ends.
    note.try_lock_shared().map_err(io::Error::from)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    write(&mut note, &format!("{}\n", head(now.as_secs(), now.subsec_nanos(), detects)))?;
    forget(note);
    Ok(())
}

/// Reads the note; `None`: no slurmd that loads Tessera runs on this node.
#[must_use]
pub fn read(path: &Path) -> Option<Loaded> {
    let mut note = open(path, false).ok()?;
    match note.try_lock() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    (&mut note).take(MAX_LEN).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (since, nanos) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let detects = words.next() == Some(DETECTS);
    let said = |line: &str| {
        let (started, file) = line.split_once(' ')?;
        Some(Said { started: started.parse().ok()?, file: u64::from_str_radix(file, 16).ok()? })
    };
    Some(Loaded { since, nanos, detects, told: lines.next().and_then(said) })
}

/// Notes what slurmctld was told.
///
/// # Errors
///
/// The note cannot be written.
pub fn tell(path: &Path, held: &Loaded, told: Said) -> io::Result<()> {
    let head = head(held.since, held.nanos, held.detects);
    write(&mut open(path, false)?, &format!("{head}\n{} {:016x}\n", told.started, told.file))
}

fn head(since: u64, nanos: u32, detects: bool) -> String {
    if detects { format!("{since} {nanos} {DETECTS}") } else { format!("{since} {nanos}") }
}

fn write(note: &mut File, text: &str) -> io::Result<()> {
    note.set_len(0)?;
    note.rewind()?;
    note.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_while_somebody_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(read(&path), None, "no slurmd has loaded the plugin");
        std::fs::write(&path, "5 7\n").unwrap();
        assert_eq!(read(&path), None, "its slurmd has ended");
        hold(&path, true).unwrap();
        let held = read(&path).unwrap();
        assert!(held.since > 1_700_000_000 && held.told.is_none() && held.detects, "{held:?}");
        let told = Said { started: held.since + 1, file: 0xab };
        tell(&path, &held, told).unwrap();
        assert_eq!(read(&path), Some(Loaded { told: Some(told), ..held }));
        hold(&path, false).unwrap();
        let next = read(&path).unwrap();
        assert!(
            next.told.is_none() && !next.detects && !next.is_of(&held),
            "another slurmd has told nothing: {next:?}"
        );
    }

    #[test]
    fn the_note_is_in_slurmds_directory() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        std::fs::write(&conf, "SlurmdSpoolDir=/var/spool/%n\n").unwrap();
        assert_eq!(path(&conf, "n1"), Path::new("/var/spool/n1/tessera.loaded"));
        std::fs::write(&conf, "SlurmdSpoolDir=/var/spool/%h\n").unwrap();
        assert_eq!(path(&conf, "n1"), Path::new("/run/tessera.loaded.n1"));
    }
}
