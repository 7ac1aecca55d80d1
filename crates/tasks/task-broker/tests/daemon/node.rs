//! A node with simulated GPUs, its broker, and processes that speak to it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use task_control::status::TaskState;
use task_control::{Broker, Device, Job, Status};
use task_wire::{Begin, REPLY_LEN, Reply, Request, Text};

pub(crate) const GIB: u64 = 1 << 30;

/// How long a test waits for anything that has to come. A busy machine may need most of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens where an MPS daemon would, and starts a server for each line of its input.
const MPS: &str = "import socket,subprocess,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n\
                   s.bind(sys.argv[1]); s.listen()\nfor line in sys.stdin:\n \
                   print(subprocess.Popen(['sleep','600'],stdin=subprocess.DEVNULL,stdout=2).pid,flush=True)";

/// A node with simulated GPUs, and its broker.
pub(crate) struct Node {
    pub(crate) dir: tempfile::TempDir,
    library: PathBuf,
    /// Stands for the MPS daemon of its GPU.
    mps: Option<Child>,
    pub(crate) parent: Option<Child>,
    pub(crate) uuid: String,
    /// Of all GPUs; jobs share the first.
    uuids: Vec<String>,
}

/// The simulator's programs, built beside this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // A library stands beside the tests too, and above them only if it was asked for by name.
    let found = test.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing: cargo build -p nvml-sim"))
}

impl Node {
    pub(crate) fn new() -> Node {
        Node::of(1)
    }

    pub(crate) fn of(gpus: u32) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("node.toml"), format!("[[gpus]]\nmodel = \"a30-24gb\"\ncount = {gpus}\n")).unwrap();
        std::fs::create_dir(at("lib")).unwrap();
        let library = at("lib").join("libnvidia-ml.so.1");
        std::os::unix::fs::symlink(built("libnvidia_ml.so"), &library).unwrap();
        let mut create = Command::new(built("nvml-sim"));
        create.arg("create").arg("--node").arg(at("node.toml")).arg("--state").arg(at("state"));
        let created = create.arg("--root").arg(at("root")).args(["--name", "n1"]).output().unwrap();
        assert!(created.status.success(), "{created:?}");
        let mut show = Command::new(built("nvml-sim"));
        let shown = show.args(["show", "--json", "--state"]).arg(at("state")).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let mut uuids: Vec<String> =
            text.match_indices("GPU-").map(|(at, _)| text[at..at + 40].to_owned()).collect();
        uuids.dedup();
        let uuid = uuids[0].clone();
        let mut node = Node { dir, library, mps: None, parent: None, uuid, uuids };
        node.start_mps();
        node
    }

    pub(crate) fn pipe(&self) -> PathBuf {
        self.dir.path().join("pipe")
    }

    pub(crate) fn start_mps(&mut self) {
        let _ = std::fs::remove_dir_all(self.pipe());
        std::fs::create_dir(self.pipe()).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", MPS]).arg(self.pipe().join("control"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        self.mps = Some(python.spawn().unwrap());
        let path = self.pipe().join("control");
        wait("the MPS daemon", || Client::connect(&path));
    }

    /// Lets the MPS daemon start a server, which the test has to end: its process id.
    pub(crate) fn start_server(&mut self) -> u32 {
        let mps = self.mps.as_mut().unwrap();
        mps.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        BufReader::new(mps.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    pub(crate) fn kill_mps(&mut self) {
        let mut mps = self.mps.take().unwrap();
        mps.kill().unwrap();
        mps.wait().unwrap();
    }

    pub(crate) fn started() -> Node {
        let mut node = Node::new();
        node.start();
        node
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera-broker"));
        command.arg("--run-dir").arg(self.run_dir()).arg("--nvml").arg(&self.library);
        command
            .arg("--log")
            .arg(self.dir.path().join("events"))
            .env("NVML_SIM_STATE", self.dir.path().join("state"));
        command
    }

    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    pub(crate) fn start_with(&mut self, options: &[&str]) {
        self.parent = Some(self.command().args(options).stderr(Stdio::null()).spawn().unwrap());
        wait("an answer", || self.broker().status().ok());
    }

    pub(crate) fn broker(&self) -> Broker {
        Broker::at(&self.run_dir(), PATIENCE)
    }

    pub(crate) fn status(&self) -> Status {
        wait("an answer", || self.broker().status().ok())
    }

    /// A GPU as jobs are told of it. Only the first has an MPS daemon.
    pub(crate) fn device(&self, gpu: usize) -> Device {
        Device {
            uuid: self.uuids[gpu].clone(),
            group: format!("g{gpu}"),
            mps_pipe: (gpu == 0).then(|| self.pipe()),
            memory_mib: 24 << 10,
            sms: 56,
            workers: 8,
        }
    }

    pub(crate) fn add(&self, job: u32, uid: u32) {
        self.add_on(job, uid, &[0]);
    }

    pub(crate) fn add_on(&self, job: u32, uid: u32, gpus: &[usize]) {
        let devices = gpus.iter().map(|gpu| self.device(*gpu)).collect();
        self.broker().add(&Job { job, uid, seats: 4, gpu_mem_mib: None, devices }).unwrap();
    }

    pub(crate) fn client(&self, job: u32) -> Client {
        wait("a connection", || Client::connect(&task_control::socket(&self.run_dir(), job)))
    }

    /// Whether what the broker wrote into its log is legal.
    pub(crate) fn assert_sound(&self) {
        let account = case_study::audit::daemon(&self.events());
        assert!(account.violations.is_empty() && account.begun > 0, "{account:?}\n{}", self.events());
    }

    pub(crate) fn events(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("events")).unwrap()
    }

    /// Runs the simulator's own command.
    pub(crate) fn sim(&self, args: &[&str]) {
        let mut sim = Command::new(built("nvml-sim"));
        let state = self.dir.path().join("state");
        assert!(sim.args(args).arg("--state").arg(state).status().unwrap().success(), "{args:?}");
    }

    /// Shows a process to NVML, as CUDA would.
    pub(crate) fn uses(&self, pid: u32, mib: u64) {
        let (pid, mib) = (pid.to_string(), mib.to_string());
        self.sim(&["proc", "add", "--gpu", "0", "--pid", &pid, "--memory-mib", &mib, "--mps"]);
    }

    /// A file or folder of the broker's.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.run_dir().join("tasks").join(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(status) = self.broker().status() {
            kill(status.parent);
            kill(status.child);
        }
        if let Some(mps) = &mut self.mps {
            let _ = mps.kill();
            let _ = mps.wait();
        }
        if let Some(parent) = &mut self.parent {
            let _ = parent.kill();
            let _ = parent.wait();
        }
    }
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

pub(crate) fn wait<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = get() {
            return it;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) struct Client(OwnedFd);

impl Client {
    pub(crate) fn connect(path: &Path) -> Option<Client> {
        let fd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .ok()?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path).ok()?).ok()?;
        // An answer that does not come is a hang-up to the test.
        rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))
            .ok()?;
        Some(Client(fd))
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> bool {
        rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL).is_ok()
    }

    /// `None` once it is hung up.
    pub(crate) fn reply(&self) -> Option<Reply> {
        let mut buffer = [0; REPLY_LEN];
        match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, 0)) | Err(_) => None,
            Ok(_) => Some(Reply::decode(&buffer).unwrap()),
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        let mut buffer = [0; REPLY_LEN];
        rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT)
            .is_err_and(|e| e == rustix::io::Errno::AGAIN)
    }

    pub(crate) fn begin(&self, nonce: u64, mem: u64) -> bool {
        let bound = Text::EMPTY;
        let begin = Begin {
            image: 1,
            nonce,
            mem,
            managed: 0,
            blocks: 8,
            threads: 64,
            whole: false,
            sticky: false,
            bound,
        };
        self.send(&Request::Begin(begin).encode())
    }

    pub(crate) fn free(&self, nonce: u64) -> bool {
        self.send(&Request::Free { image: 1, nonce }.encode())
    }

    pub(crate) fn granted(&self, nonce: u64) -> u64 {
        match self.reply() {
            Some(Reply::Granted(grant)) if grant.nonce == nonce => grant.task,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn states(status: &Status) -> Vec<(TaskState, u64)> {
    status.jobs.iter().flat_map(|job| &job.tasks).map(|task| (task.state, task.mem_mib)).collect()
}

/// Starts a program until it has this process number, which nobody has. Needs a process namespace of the test's own.
pub(crate) fn with_number(pid: u32, start: impl Fn() -> Child) -> Child {
    // The kernel may give the number to a thread of this test first.
    let heir = (0..1000).find_map(|_| {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut heir = start();
        if heir.id() == pid {
            return Some(heir);
        }
        heir.kill().unwrap();
        heir.wait().unwrap();
        None
    });
    heir.expect("the same number again")
}

/// Whether this program runs in a process namespace of its own, where the kernel can be told which number comes next. If not,
/// it runs the test of this name in one.
pub(crate) fn is_in_namespace(name: &str) -> bool {
    const INSIDE: &str = "TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(std::env::current_exe().unwrap());
    let done = inside.args([name, "--exact", "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{done:?}");
    false
}

/// Kills and waits until the process is gone.
pub(crate) fn kill_and_wait(pid: u32) {
    kill(pid);
    wait("an end", || node_driver::process::start_time_of(pid).is_none().then_some(()));
}

/// Another process with a task: this program again, as [`waits_in_another_process`].
pub(crate) struct Waiter(pub(crate) Child);

impl Waiter {
    /// Waits for memory in job 12, and ends once it has it.
    pub(crate) fn start(node: &Node, mem: u64) -> Waiter {
        Waiter(Waiter::command(node, mem).spawn().unwrap())
    }

    /// Waits for memory in job 12, and holds it.
    pub(crate) fn holding(node: &Node, mem: u64) -> Waiter {
        let waiter = Waiter(Waiter::command(node, mem).env("TEST_HOLD", "1").spawn().unwrap());
        let mib = mem >> 20;
        wait("a grant", || states(&node.status()).contains(&(TaskState::Running, mib)).then_some(()));
        waiter
    }

    pub(crate) fn command(node: &Node, mem: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "waits_in_another_process", "--nocapture"]).stdout(Stdio::null());
        command
            .env("TEST_SOCKET", task_control::socket(&node.run_dir(), 12))
            .env("TEST_MEM", mem.to_string());
        command
    }

    pub(crate) fn granted(mut self) {
        assert!(self.0.wait().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
