//! Lists the steps on this node and their jobs, from the kernel's list of sockets.
//!
//! A slurmstepd listens on `SlurmdSpoolDir/NODE_JOB.STEP` for as long as it lives, a batch script's and an extern
//! step's too [`stepd_api.c`, 22.05 and 24.11]. Its file stays behind when it is killed; the kernel's list of bound
//! sockets does not keep it. Users can bind sockets with such names as well, but not in a directory that is root's; and
//! as the kernel prints names as they are, one with a newline in it looks like a line of its own: so each is called.
//! Several slurmds on one machine differ by node name, several clusters by the directory that slurm.conf names.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use geometry::JobId;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::slurm_conf;

use crate::step_number::StepNumber;

const SOCKETS: &str = "/proc/net/unix";
/// Longest list that is read: half a million sockets. Users make sockets, and a longer list counts as one that the kernel does not tell.
const LONGEST_LIST: u64 = 64 << 20;

/// Jobs with a live step on `node`. `None` where the kernel does not tell, or where others than root can write to Slurm's
/// directory: an empty set would mean that every job is dead. `env` is slurmd's environment: `SLURM_CONF`.
#[must_use]
pub fn jobs_with_steps(node: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<HashSet<JobId>> {
    Some(live(node, env, &|_, _| true)?.into_iter().map(|step| step.job).collect())
}

/// Steps of `job` that live on `node` and are `wanted`, with their components: 0, but for heterogeneous steps. `None` as in
/// [`jobs_with_steps`].
#[must_use]
pub fn steps_of(
    job: JobId,
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
    wanted: &dyn Fn(StepNumber) -> bool,
) -> Option<BTreeSet<(StepNumber, u32)>> {
    let listed = live(node, env, &|of, step| of == job && wanted(step))?;
    Some(listed.into_iter().map(|step| (step.number, step.component)).collect())
}

/// A step that the kernel's list names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListedStep {
    job: JobId,
    number: StepNumber,
    component: u32,
    /// Path of the socket on which its daemon listens.
    path: PathBuf,
}

impl ListedStep {
    /// Reads the path that a socket was bound to: `SPOOL/NODE_JOB.STEP`, for a component of a heterogeneous step with `.COMPONENT`.
    fn at(path: &str, node: &str) -> Option<Self> {
        let path = PathBuf::from(path);
        let rest = path.file_name()?.to_str()?.strip_prefix(node)?.strip_prefix('_')?;
        let (job, step) = rest.split_once('.')?;
        let mut numbers = step.split('.');
        let number = StepNumber(numbers.next()?.parse().ok()?);
        let component = numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let job = JobId(job.parse().ok()?);
        Some(Self { job, number, component, path })
    }
}

/// Steps on `node` that are `wanted`.
fn live(
    node: &str,
    env: &dyn Fn(&str) -> Option<String>,
    wanted: &dyn Fn(JobId, StepNumber) -> bool,
) -> Option<HashSet<ListedStep>> {
    let spool = env("SLURM_CONF")
        .and_then(|path| slurm_conf::read(path.as_ref()))
        .and_then(|conf| slurm_conf::named_spool_dir(&conf, node));
    if spool.as_ref().is_some_and(|dir| !only_roots(dir)) {
        return None;
    }
    let in_spool = |dir: &Path| spool.as_ref().is_none_or(|spool| spool.as_path() == dir) && only_roots(dir);
    let mut listed = steps_listed(|| bounded(File::open(SOCKETS).ok()?, LONGEST_LIST), node)?;
    listed.retain(|step| {
        wanted(step.job, step.number) && step.path.parent().is_some_and(in_spool) && may_listen(&step.path)
    });
    Some(listed)
}

/// The kernel tells its sockets in pieces, and one that goes between two pieces can hide another that stays: it is asked
/// twice, and both answers count.
fn steps_listed(mut read: impl FnMut() -> Option<Vec<u8>>, node: &str) -> Option<HashSet<ListedStep>> {
    // Paths are bytes; a name that is not UTF-8 is nobody's stepd.
    let mut steps = || Some(steps_in(&String::from_utf8_lossy(&read()?), node));
    Some(&steps()? | &steps()?)
}

/// Reads a list; `None`: it cannot be read, or is longer than `most` bytes.
fn bounded(list: impl Read, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = list.take(most + 1).read_to_end(&mut bytes).ok()?;
    (length as u64 <= most).then_some(bytes)
}

/// From `/proc/net/unix`, whose eighth column is the path that a socket was bound to.
fn steps_in(sockets: &str, node: &str) -> HashSet<ListedStep> {
    let step_of = |line: &str| ListedStep::at(line.split_ascii_whitespace().nth(7)?, node);
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

    /// The steps of a list whose sockets are in n1's directory.
    fn told(sockets: &str, node: &str) -> Vec<(u32, StepNumber, u32)> {
        let ours = |step: &ListedStep| step.path.parent() == Some(Path::new("/var/spool/slurmd/n1"));
        let steps = steps_in(sockets, node).into_iter().filter(ours);
        let mut all: Vec<_> = steps.map(|step| (step.job.0, step.number, step.component)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn steps_are_told_by_their_sockets() {
        let zero = StepNumber(0);
        assert_eq!(told(LIST, "n1"), [(12, zero, 0), (12, StepNumber::BATCH_SCRIPT, 0), (14, zero, 1)]);
        assert_eq!(told(LIST, "n10"), [(15, zero, 0)]);
        assert_eq!(told("", "n1"), []);
    }

    #[test]
    fn a_list_that_users_make_too_long_is_none() {
        let list = LIST.as_bytes();
        let most = |bytes: usize| bounded(list, bytes as u64);
        assert_eq!([most(list.len()), most(list.len() - 1)], [Some(list.to_vec()), None]);
    }

    #[test]
    fn a_step_that_one_answer_lacks_is_in_the_other() {
        let without = |job: &str| {
            let lines = LIST.lines().filter(|line| !line.contains(job));
            lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes()
        };
        let listed = |answers: [Option<Vec<u8>>; 2]| {
            let mut answers = answers.into_iter();
            let steps = steps_listed(|| answers.next()?, "n1")?;
            let ours = steps.into_iter().filter(|step| step.path.starts_with("/var/spool"));
            Some(ours.map(|step| step.job).collect::<HashSet<_>>())
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
        let of = |job| steps_of(JobId(job), "unit", &env, &|_| true);
        assert_eq!([of(77), of(7)], [roots.then(|| [(StepNumber(0), 0)].into()), roots.then(BTreeSet::new)]);
        assert_eq!(steps_of(JobId(77), "unit", &env, &|_| false), roots.then(BTreeSet::new));
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
