//! Processes that we started. Ids are reused, so each id is used together with its process's start time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{HarnessError, at};

/// A process that was started here. Another process may have its id later, but not its id and its start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Name of the process, `slurmd-n1` for instance.
    pub name: String,
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub since: u64,
}

impl Started {
    /// The running process `pid`, or `None` if it has ended.
    #[must_use]
    pub fn of(name: &str, pid: i32) -> Option<Self> {
        Some(Self { name: name.to_owned(), pid, since: stat(pid)?.since })
    }

    /// True if it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|now| now.since == self.since && now.is_alive())
    }

    /// Sends it a signal, if it is still the same process.
    pub fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may end between the look and the call; then there is nothing to do.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, makes it end after `patience`, and waits until it is gone.
    pub fn end(&self, patience: Duration) {
        self.signal(Signal::TERM);
        self.wait_end(patience);
        self.signal(Signal::KILL);
        // The kernel ends it, unless a device that does not answer holds it.
        self.wait_end(Duration::from_secs(30));
    }

    fn wait_end(&self, limit: Duration) {
        let begin = Instant::now();
        while self.is_alive() && begin.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// State of the first thread.
    state: char,
    parent: i32,
    /// Number of threads that have not ended, and the first one.
    threads: u32,
    since: u64,
}

impl Stat {
    /// The first thread is a zombie as long as others go on without it, also while one of them calls `execve`.
    fn is_alive(&self) -> bool {
        self.state != 'Z' || self.threads > 1
    }
}

fn stat(pid: i32) -> Option<Stat> {
    let read = || parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    // The first thread has no threads just when it is gone: its process has ended, or another thread has taken its place.
    read().filter(|now| now.threads > 0).or_else(read)
}

/// Reads `/proc/PID/stat` (proc(5)): the fields 3, 4, 20 and 22.
fn parse(text: &str) -> Option<Stat> {
    // The command name stands in parentheses and may itself hold any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        since: fields.get(19)?.parse().ok()?,
    })
}

/// The file in which a cluster's daemons are recorded, one `name pid since` per line.
#[derive(Debug, Clone)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    pub(crate) fn new(dir: &Path) -> Self {
        Self(dir.join("pids"))
    }

    /// All processes recorded, in the order they were started.
    pub(crate) fn read(&self) -> Vec<Started> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let pid = words.next()?.parse().ok()?;
            Some(Started { name, pid, since: words.next()?.parse().ok()? })
        };
        text.lines().filter_map(parse).collect()
    }

    /// Records a process; an older one of the same name is forgotten.
    pub(crate) fn add(&self, process: &Started) -> Result<(), HarnessError> {
        let mut all = self.read();
        all.retain(|other| other.name != process.name);
        all.push(process.clone());
        let text: String = all.iter().map(|p| format!("{} {} {}\n", p.name, p.pid, p.since)).collect();
        at(&self.0, fs::write(&self.0, text))
    }
}

/// Programs that can outlive the process that started them. A slurmctld of 24.11 that is told to reconfigure starts another one,
/// which is in no pid file.
const LEFTOVERS: [&str; 6] =
    ["slurmstepd", "nvidia-cuda-mps", "tessera-broker", "slurmd", "slurmctld", "slurmscriptd"];

/// Processes of the cluster in `dir` that may be in no pid file: step daemons with their jobs, MPS daemons, task brokers, and
/// daemons that others have started.
///
/// A process belongs to the cluster if it is a daemon that can outlive its parent, and its environment or command line names `dir`, or if
/// `dir` is mounted for it (24.11's step daemons overwrite their environment with their title). Descendants of such a
/// process belong to the cluster too.
#[must_use]
pub fn leftovers(dir: &Path) -> Vec<Started> {
    let mark = dir.as_os_str().as_encoded_bytes();
    let holds = |bytes: Vec<u8>| names(&bytes, mark);
    let mut all: Vec<(i32, i32, bool)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(stat) = stat(pid) else { continue };
        let proc = entry.path();
        let comm = fs::read_to_string(proc.join("comm")).unwrap_or_default();
        let ours = LEFTOVERS.iter().any(|name| comm.starts_with(name))
            && (fs::read(proc.join("environ")).is_ok_and(holds)
                || fs::read(proc.join("cmdline")).is_ok_and(holds)
                || fs::read(proc.join("mountinfo")).is_ok_and(|mounts| is_mounted(&mounts, mark)));
        all.push((pid, stat.parent, ours));
    }
    // /proc may list a child before its parent, so repeat until nothing is added.
    loop {
        let heads: Vec<i32> = all.iter().filter(|(_, _, ours)| *ours).map(|(pid, _, _)| *pid).collect();
        let before = heads.len();
        for (_, parent, ours) in &mut all {
            *ours |= heads.contains(parent);
        }
        if all.iter().filter(|(_, _, ours)| *ours).count() == before {
            return heads.into_iter().filter_map(|pid| Started::of("leftover", pid)).collect();
        }
    }
}

/// True if a text names `dir` or something below it, and not only another directory whose name begins alike.
fn names(text: &[u8], dir: &[u8]) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let here = |at: usize| text[at..].starts_with(dir) && !text.get(at + dir.len()).is_some_and(goes_on);
    (0..text.len()).any(here)
}

/// True if `dir` is a mount point in this mountinfo(5), whose fifth word names it.
fn is_mounted(mounts: &[u8], dir: &[u8]) -> bool {
    let point = |line: &[u8]| line.split(|b| *b == b' ').nth(4).is_some_and(|point| point == dir);
    mounts.split(|b| *b == b'\n').any(point)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::command::PATIENCE;
    use crate::threads::Running;

    /// [`crate::threads`], started to do this.
    struct Threads {
        running: Running,
        process: Started,
        _dir: tempfile::TempDir,
    }

    impl Threads {
        fn start(what: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let program = crate::threads::build(dir.path()).unwrap();
            let running = Running::start(Command::new(&program).arg(what)).unwrap();
            let process = Started::of(what, running.0.id().cast_signed()).unwrap();
            Self { running, process, _dir: dir }
        }

        /// Looks until its first thread is a zombie. It has to be alive at every look.
        fn wait_for_zombie(&mut self) {
            let begin = Instant::now();
            while stat(self.process.pid).unwrap().state != 'Z' {
                assert!(self.process.is_alive() && begin.elapsed() < PATIENCE);
            }
            assert!(self.running.0.try_wait().unwrap().is_none());
        }
    }

    #[test]
    fn a_process_lives_on_without_its_first_thread() {
        let mut threads = Threads::start("linger");
        threads.wait_for_zombie();
        assert!(threads.process.is_alive());
        threads.process.signal(Signal::KILL);
        let begin = Instant::now();
        while threads.process.is_alive() {
            assert!(begin.elapsed() < PATIENCE, "all its threads have ended, and nobody has waited for it");
        }
    }

    /// As slurmd 24.11 does when it is reconfigured.
    #[test]
    fn a_process_lives_while_another_thread_calls_exec() {
        let mut threads = Threads::start("exec");
        for _ in 0..20 {
            threads.wait_for_zombie();
            for _ in 0..1000 {
                assert!(threads.process.is_alive());
            }
        }
    }

    #[test]
    fn a_zombie_with_one_thread_has_ended() {
        let text = |state: char, threads: u32| {
            let rest = "15144 25943 0 -1 4227084 127 0 0 0 0 0 0 0 20 0";
            format!("15186 (a) Z (b) {state} 15144 {rest} {threads} 0 6096793 0 0 184467\n")
        };
        let read = |state, threads| parse(&text(state, threads)).unwrap();
        assert_eq!(read('Z', 2), Stat { state: 'Z', parent: 15144, threads: 2, since: 6_096_793 });
        assert!(read('Z', 2).is_alive() && read('S', 1).is_alive() && !read('Z', 1).is_alive());
        assert_eq!(parse("15186 (a) Z 15144 100"), None);
    }

    #[test]
    fn a_broker_of_the_cluster_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tessera-broker");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut broker = Command::new(&program).arg("60").spawn().unwrap();
        let found = leftovers(dir.path());
        broker.kill().unwrap();
        broker.wait().unwrap();
        assert!(found.iter().any(|process| process.pid == broker.id().cast_signed()), "{found:?}");
    }

    /// As a reconfiguration on 24.11 leaves it when its cluster ends.
    #[test]
    fn a_slurmctld_that_another_one_has_started_ends_with_its_cluster() {
        let [dir, programs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let program = programs.path().join("slurmctld");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let start = |dir: &Path| {
            let mut command = Command::new(&program);
            command.arg("600").env("SLURM_CONF", dir.join("etc/slurm.conf")).spawn().unwrap()
        };
        let (mut own, mut strangers) = (start(dir.path()), start(programs.path()));
        crate::cluster::end(dir.path());
        let ended = own.try_wait().unwrap();
        let runs = strangers.try_wait().unwrap();
        for child in [&mut own, &mut strangers] {
            // The own one has ended.
            let _ = child.kill();
            child.wait().unwrap();
        }
        assert!(ended.is_some() && runs.is_none(), "{ended:?}, {runs:?}");
    }

    #[test]
    fn a_directory_whose_name_begins_alike_is_another() {
        let environment = b"A=b\0SLURM_CONF=/tmp/a-10/etc/slurm.conf\0";
        assert!(names(environment, b"/tmp/a-10") && !names(environment, b"/tmp/a-1"));
        assert!(
            names(b"-D\0/tmp/a", b"/tmp/a") && names(b"/tmp/a-1:/tmp/a", b"/tmp/a") && !names(b"", b"/a")
        );
    }

    #[test]
    fn a_mount_beneath_a_directory_is_not_of_it() {
        let mounts = b"21 1 0:20 / / rw - ext4 /dev/vda rw\n\
            602 598 254:0 /tmp/a /tmp/a rw,relatime - ext4 /dev/vda rw\n\
            603 598 0:51 / /tmp/b/run rw - tmpfs tmpfs rw\n";
        assert!(
            is_mounted(mounts, b"/tmp/a") && !is_mounted(mounts, b"/tmp/b") && !is_mounted(mounts, b"/tmp")
        );
    }
}
