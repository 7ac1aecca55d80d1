//! Lists the steps on this node and their jobs, from the kernel's list of sockets.
//!
//! A slurmstepd listens on `SlurmdSpoolDir/NODE_JOB.STEP` for as long as it lives, a batch script's and an extern
//! step's too [`stepd_api.c`, 22.05 and 24.11]. Its file stays behind when it is killed; the kernel's list of bound
//! sockets does not keep it. Users can bind sockets with such names as well, but not in a directory that is root's; and
//! as the kernel prints names as they are, one with a newline in it looks like a line of its own: so each is called.
//! Several slurmds on one machine differ by node name, several clusters by the directory that slurm.conf names.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use geometry::JobId;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use plugin_rt::slurm_conf;

use crate::step_number::StepNumber;

const SOCKETS: &str = "/proc/net/unix";

/// Jobs with a live step on `node`. `None` where the kernel does not tell, or where others than root can write to Slurm's
/// directory: an empty set would mean that every job is dead. `env` is slurmd's environment: `SLURM_CONF`.
#[must_use]
pub fn jobs_with_steps(node: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<HashSet<JobId>> {
    Some(live(node, env, &|_| true)?.into_iter().map(|(job, _)| job).collect())
}

/// Steps of `job` that live on `node`, those of `srun` and others. `None` as in [`jobs_with_steps`].
#[must_use]
pub fn steps_of(
    job: JobId,
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<BTreeSet<StepNumber>> {
    Some(live(node, env, &|of| of == job)?.into_iter().map(|(_, step)| step).collect())
}

/// Steps on `node` of the jobs that are `wanted`.
fn live(
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
    wanted: &dyn Fn(JobId) -> bool,
) -> Option<HashSet<(JobId, StepNumber)>> {
    let spool = env("SLURM_CONF")
        .and_then(|path| std::fs::read_to_string(path).ok())
        .and_then(|conf| slurm_conf::named_spool_dir(&conf, node));
    if spool.as_ref().is_some_and(|dir| !only_roots(dir)) {
        return None;
    }
    let ours = |job: JobId, path: &Path| {
        wanted(job)
            && path.parent().is_some_and(|dir| spool.as_ref().is_none_or(|s| s == dir) && only_roots(dir))
            && may_listen(path)
    };
    steps_listed(|| std::fs::read(SOCKETS).ok(), node, &ours)
}

/// The kernel tells its sockets in pieces, and one that goes between two pieces can hide another that stays: it is asked
/// twice, and both answers count.
fn steps_listed(
    mut read: impl FnMut() -> Option<Vec<u8>>,
    node: &str,
    ours: &dyn Fn(JobId, &Path) -> bool,
) -> Option<HashSet<(JobId, StepNumber)>> {
    // Paths are bytes; a name that is not UTF-8 is nobody's stepd.
    let mut steps = || Some(steps_in(&String::from_utf8_lossy(&read()?), node, ours));
    Some(&steps()? | &steps()?)
}

/// From `/proc/net/unix`, whose eighth column is the path that a socket was bound to.
fn steps_in(sockets: &str, node: &str, ours: &dyn Fn(JobId, &Path) -> bool) -> HashSet<(JobId, StepNumber)> {
    let step_of = |line: &str| {
        let path = Path::new(line.split_ascii_whitespace().nth(7)?);
        let rest = path.file_name()?.to_str()?.strip_prefix(node)?.strip_prefix('_')?;
        let (job, step) = rest.split_once('.')?;
        let step = StepNumber(step.split('.').next()?.parse().ok()?);
        let job = JobId(job.parse().ok()?);
        ours(job, path).then_some((job, step))
    };
    sockets.lines().skip(1).filter_map(step_of).collect()
}

/// Tells whether a process answers at a socket; true also if that cannot be found out. A step daemon takes no offence at a
/// caller that hangs up, and is not waited for.
fn may_listen(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (Ok(socket), Ok(address)) = (socket, SocketAddrUnix::new(path)) else { return true };
    !matches!(rustix::net::connect(&socket, &address), Err(Errno::CONNREFUSED | Errno::NOENT))
}

fn only_roots(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|d| d.is_dir() && d.uid() == 0 && d.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    const LIST: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 30861 /var/spool/slurmd/n1/n1_12.4294967291
0000000000000000: 00000002 00000000 00010000 0001 01 30862 /var/spool/slurmd/n1/n1_12.0
0000000000000000: 00000003 00000000 00000000 0001 03 30863
0000000000000000: 00000002 00000000 00010000 0001 01 30864 /var/spool/slurmd/n1/n1_14.0.1
0000000000000000: 00000002 00000000 00010000 0001 01 30865 /var/spool/slurmd/n1/n10_15.0
0000000000000000: 00000002 00000000 00010000 0001 01 30866 /home/mallory/n1_16.0
0000000000000000: 00000002 00000000 00010000 0001 01 30867 @/var/spool/slurmd/n1/n1_17.0
0000000000000000: 00000002 00000000 00010000 0001 01 30868 /var/spool/slurmd/n1/n1_x.0
";

    #[test]
    fn steps_are_told_by_their_sockets() {
        let ours = |_, path: &Path| path.parent() == Some(Path::new("/var/spool/slurmd/n1"));
        let zero = StepNumber(0);
        let of_n1 = [(JobId(12), StepNumber::BATCH_SCRIPT), (JobId(12), zero), (JobId(14), zero)];
        assert_eq!(steps_in(LIST, "n1", &ours), of_n1.into());
        assert_eq!(steps_in(LIST, "n10", &ours), [(JobId(15), zero)].into());
        assert_eq!(steps_in("", "n1", &ours), HashSet::new());
    }

    #[test]
    fn a_step_that_one_answer_lacks_is_in_the_other() {
        let without = |job: &str| {
            let lines = LIST.lines().filter(|line| !line.contains(job));
            lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes()
        };
        let listed = |answers: [Option<Vec<u8>>; 2]| {
            let mut answers = answers.into_iter();
            let ours = |_, path: &Path| path.starts_with("/var/spool");
            let steps = steps_listed(|| answers.next()?, "n1", &ours)?;
            Some(steps.into_iter().map(|(job, _)| job).collect::<HashSet<_>>())
        };
        let both = Some([JobId(12), JobId(14)].into());
        assert_eq!(listed([Some(without("n1_14.")), Some(without("n1_12."))]), both);
        assert_eq!(listed([Some(without("n1_14.")), None]), None);
    }

    #[test]
    fn a_socket_dies_with_its_process_and_counts_only_in_roots_directory() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        std::fs::write(&conf, format!("SlurmdSpoolDir={}\n", dir.path().display())).unwrap();
        let env = |name: &str| (name == "SLURM_CONF").then(|| conf.display().to_string());
        let live = || jobs_with_steps("unit", &env);
        let socket = UnixListener::bind(dir.path().join("unit_77.0")).unwrap();
        let roots = std::fs::metadata(dir.path()).unwrap().uid() == 0;
        assert_eq!(live(), roots.then(|| [JobId(77)].into()));
        let of = |job| steps_of(JobId(job), "unit", &env);
        assert_eq!([of(77), of(7)], [roots.then(|| [StepNumber(0)].into()), roots.then(BTreeSet::new)]);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        assert_eq!(live(), None, "anybody could have made it");
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        drop(socket);
        assert!(dir.path().join("unit_77.0").exists(), "its file stays");
        // What another test starts meanwhile has the socket open, too, until it runs its program.
        let begin = std::time::Instant::now();
        while live() != roots.then(HashSet::new) && begin.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(live(), roots.then(HashSet::new));
        // Whose names are a line like those of the two steps, of which one has left its file.
        let _planted = ["77", "78"].map(|job| {
            let line = format!("\n0: 2 0 10000 1 01 1 {}/unit_{job}.0", dir.path().display());
            let planted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&line).unwrap()).unwrap();
            assert!(std::fs::read_to_string(SOCKETS).unwrap().contains(&line));
            planted
        });
        assert_eq!(live(), roots.then(HashSet::new));
    }
}
