//! Runs a program where the cluster's Slurm is: on the machine itself, or in the chroot of another Debian release.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the chroot usable, in a mount namespace that ends with the program: `$1` root, `$2` cluster directory.
const ENTER: &str = r#"set -e
root=$1; dir=$2; shift 2
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mkdir -p "$root$dir"
mount --rbind "$dir" "$root$dir"
exec chroot "$root" "$@""#;

/// Where programs of a cluster run.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    pub(crate) chroot: Option<PathBuf>,
}

impl Inside {
    /// The directory of the machine on which the cluster's directory is mounted, in the mount namespace of each program.
    pub(crate) fn mount_point(&self, cluster: &Path) -> Option<PathBuf> {
        Some(self.chroot.as_ref()?.join(cluster.strip_prefix("/").unwrap_or(cluster)))
    }

    /// A command there. The helpers in front of it exec it, so that the child's process id is the command's.
    pub(crate) fn command(&self, cluster: &Path, user: Option<(u32, u32)>, program: &str) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(root) = &self.chroot {
            words.extend(["unshare", "-m", "--", "sh", "-c", ENTER, "enter"].map(str::to_owned));
            words.extend([root.display().to_string(), cluster.display().to_string()]);
        }
        if let Some((uid, gid)) = user {
            words.extend(["setpriv".to_owned(), format!("--reuid={uid}"), format!("--regid={gid}")]);
            words.extend(["--clear-groups", "--"].map(str::to_owned));
        }
        words.push(program.to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}
