//! Access to the directory of a daemon that users share.
//!
//! Whoever reaches a daemon's socket can change its limits, and may write to its lock file. The daemon is root's and its
//! directory has one owner, so a POSIX ACL names the users who have a share now. Neither names nor groups would do:
//! `/proc/net/unix` shows every socket's path to everybody, and a job's processes keep the groups that Slurm gave them.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;

use super::MpsError;
use crate::settings::Settings;
use node_journal::own_dirs;
use node_journal::{Entry, Journal};

const NAME: &str = "system.posix_acl_access";

/// Lets in the users of a shared daemon's live jobs and nobody else. `gone` is a job that does not count any more.
pub(crate) fn admit(
    settings: &Settings,
    journal: &Journal,
    key: &str,
    gone: Option<u32>,
) -> Result<(), MpsError> {
    let (entries, damaged) = journal.jobs()?.into_parts();
    let lost = !journal.lost_jobs(&entries, &damaged)?.is_empty();
    let uses = |e: &&Entry| e.daemons().contains(&key);
    let live = |e: &&Entry| e.holds() && e.boot == journal.boot() && Some(e.job) != gone;
    let mut uids: BTreeSet<u32> = entries.iter().filter(uses).filter(live).map(|e| e.uid).collect();
    let base = settings.node.run_dir.join("mps");
    let run = own_dirs::own(&settings.node.run_dir, Mode::from_bits_truncate(0o755))?;
    let mps = own_dirs::own_at(run, &settings.node.run_dir, "mps", Mode::from_bits_truncate(0o755))?;
    let dir = own_dirs::own_at(mps, &base, key, Mode::RWXU)?;
    let path = base.join(key);
    if lost {
        // A job whose file is damaged may have a share: nobody loses access who has it.
        uids.extend(admitted(&dir));
    }
    match rustix::fs::fsetxattr(&dir, NAME, &acl(&uids), XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => Err(MpsError::NoAcl { path }),
        other => Ok(other.map_err(own_dirs::io(&path, "limit it to the users who share it"))?),
    }
}

/// The users that a directory's ACL lets in now.
fn admitted(dir: &OwnedFd) -> Vec<u32> {
    let mut text = vec![0; 1 << 16];
    let n = rustix::fs::fgetxattr(dir, NAME, &mut text).unwrap_or(0);
    let entries = text.get(4..n).unwrap_or_default().chunks_exact(8);
    let user = |entry: &[u8]| match entry {
        [2, 0, _, _, id @ ..] => Some(u32::from_le_bytes(id.try_into().ok()?)),
        _ => None,
    };
    entries.filter_map(user).collect()
}

/// An ACL as the kernel takes it: everything for the owner, passing through for these users, nothing for others
/// [`linux/posix_acl_xattr.h`: version 2, then tag, permissions and id of each entry, little-endian].
fn acl(uids: &BTreeSet<u32>) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let (owner, user, group, mask, other) = (0x01_u16, 0x02, 0x04, 0x10, 0x20);
    let mut text = 2_u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, permissions: u16, id: u32| {
        text.extend(tag.to_le_bytes());
        text.extend(permissions.to_le_bytes());
        text.extend(id.to_le_bytes());
    };
    entry(owner, 7, NOBODY);
    uids.iter().for_each(|uid| entry(user, 1, *uid));
    entry(group, 0, NOBODY);
    entry(mask, 1, NOBODY);
    entry(other, 0, NOBODY);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_an_acl_and_drops_it_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let of = |uids: &[u32]| {
            let uids = uids.iter().copied().collect();
            rustix::fs::setxattr(dir.path(), NAME, &acl(&uids), XattrFlags::empty()).unwrap();
            let mut text = [0; 256];
            rustix::fs::getxattr(dir.path(), NAME, &mut text).map(|n| text[..n].to_vec())
        };
        assert_eq!(of(&[51_002, 51_001]).unwrap(), acl(&[51_001, 51_002].into()));
        let file = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        assert_eq!(admitted(&file), [51_001, 51_002]);
        assert_eq!(of(&[]).unwrap(), acl(&BTreeSet::new()));
    }
}
