//! Reads a page of numbers that slurmctld's plugins write. Reasons: docs/decisions/0027.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use shared_pages::{SharedPage, is_of};

/// The numbers of a page that one of these users wrote; `understood` makes something of them if they are of this version.
///
/// # Errors
///
/// There is no such page, this process may not read it, or another version of Tessera, or another user, wrote it.
pub(crate) fn read<const N: usize, T>(
    path: &Path,
    users: &[u32],
    understood: impl FnOnce(Vec<u64>) -> Option<T>,
) -> io::Result<T> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    is_of(&file, users)?;
    let page = SharedPage::<N>::map(&file, false)?;
    let numbers = page.numbers().iter().map(|n| n.load(Relaxed)).collect();
    let other = || io::Error::new(ErrorKind::InvalidData, "another version of Tessera wrote it");
    understood(numbers).ok_or_else(other)
}
