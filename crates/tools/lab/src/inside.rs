//! Runs a program where the cluster's Slurm is: on the machine itself, or in the chroot of another Debian release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clock;
use crate::daemon::Daemon;
use crate::layout::Layout;
use crate::process::PidFile;

/// Makes a chroot usable, in a mount namespace that ends with the program: `$1` root of the chroot or empty, `$2` cluster
/// directory, `$3` what is laid over `/etc`, or empty, `$4` the directory of a node whose GPUs are to be seen in `/dev`, `/proc` and
/// `/sys`, or empty.
const ENTER: &str = r#"set -e
root=$1; dir=$2; etc=$3; node=$4; shift 4
if [ -n "$root" ]; then
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mkdir -p "$root$dir"
  mount --rbind "$dir" "$root$dir"
  # Without it, daemons ask a name server for 127.0.0.1 at every message, and wait 5 s for each answer that is lost.
  [ -e "$root/etc/hosts" ] || { cp /etc/hosts "$root/etc/hosts.$$"; mv "$root/etc/hosts.$$" "$root/etc/hosts"; }
fi
[ -z "$etc" ] || mount -t overlay overlay -o "lowerdir=$etc:$root/etc" "$root/etc"
if [ -n "$node" ]; then
  mount -t overlay overlay -o "lowerdir=$node/dev:/dev" "$root/dev"
  mount --bind "$node/proc/driver" "$root/proc/driver"
  mount -t tmpfs gpus "$root/sys/bus/pci"
  for gpu in "$node"/proc/driver/nvidia/gpus/*; do
    place="$root/sys/bus/pci/drivers/nvidia/${gpu##*/}"
    mkdir -p "$place"
    cp /sys/devices/system/cpu/online "$place/local_cpulist"
  done
fi
[ -z "$root" ] || exec chroot "$root" "$@"
exec "$@""#;

/// Root and namespace in which programs of a cluster run.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    pub(crate) chroot: Option<PathBuf>,
    /// slurmd finds its node's GPUs by itself: see [`crate::Builder::autodetect`].
    pub(crate) detects: bool,
}

impl Inside {
    /// The directory of the machine on which the cluster's directory is mounted, in the mount namespace of each program.
    pub(crate) fn mount_point(&self, cluster: &Path) -> Option<PathBuf> {
        Some(self.chroot.as_ref()?.join(cluster.strip_prefix("/").unwrap_or(cluster)))
    }

    /// The process that [`Daemon::Namespace`] names: it has all mounts of the chroot and does nothing. To make them again for each command
    /// would cost more processor time than the command.
    pub(crate) fn namespace(&self, cluster: &Path) -> Option<Command> {
        self.chroot.as_ref()?;
        let mut command = Command::new("unshare");
        command.args(self.entering(cluster, None, None)).args(["env", "-C"]);
        command.arg(Layout::new(cluster).jobs()).args(["sleep", "infinity"]);
        Some(command)
    }

    /// The id of that process, if it runs in the chroot already.
    fn entered(&self, cluster: &Path) -> Option<i32> {
        let root = self.chroot.as_ref()?;
        let name = Daemon::Namespace.name();
        let process = PidFile::new(cluster).read().into_iter().find(|process| process.name == name)?;
        let is_there = fs::read_link(format!("/proc/{}/root", process.pid)).is_ok_and(|at| at == *root);
        (is_there && process.is_alive()).then_some(process.pid)
    }

    /// The arguments of `unshare` for a namespace of its own.
    fn entering(&self, cluster: &Path, etc: Option<&Path>, gpus_of: Option<&Path>) -> Vec<String> {
        let path = |path: Option<&Path>| path.map_or(String::new(), |path| path.display().to_string());
        let mut words = ["-m", "--", "sh", "-c", ENTER, "enter"].map(str::to_owned).to_vec();
        words.extend([path(self.chroot.as_deref()), path(Some(cluster)), path(etc), path(gpus_of)]);
        words
    }

    /// A command of a user in the directory of jobs, with the clock of a host. It shares the namespace of all such commands if it can.
    pub(crate) fn user_command(
        &self,
        cluster: &Path,
        host: &str,
        user: Option<(u32, u32)>,
        program: &str,
    ) -> Command {
        let shared = if clock::etc(cluster, host).is_none() { self.entered(cluster) } else { None };
        let Some(pid) = shared else {
            if self.chroot.is_none() {
                return self.command(cluster, host, user, program, None);
            }
            let mut command = self.command(cluster, host, user, "env", None);
            command.arg("-C").arg(Layout::new(cluster).jobs()).arg(program);
            return command;
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={pid}")).args(["--mount", "--root", "--wd"]);
        if let Some((uid, gid)) = user {
            command.arg(format!("--setuid={uid}")).arg(format!("--setgid={gid}"));
        }
        command.args(["--", program]);
        command
    }

    /// A command there, with the clock of a host. The helpers in front of it exec it, so that the child's process id is the
    /// command's.
    pub(crate) fn command(
        &self,
        cluster: &Path,
        host: &str,
        user: Option<(u32, u32)>,
        program: &str,
        gpus_of: Option<&Path>,
    ) -> Command {
        let mut words: Vec<String> = Vec::new();
        let etc = clock::etc(cluster, host);
        if self.chroot.is_some() || etc.is_some() || gpus_of.is_some() {
            words.push("unshare".to_owned());
            words.extend(self.entering(cluster, etc.as_deref(), gpus_of));
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
