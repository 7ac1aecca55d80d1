//! A simulated node with its broker, and programs that run there with the library preloaded.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use task_control::status::TaskState;
use task_control::{Broker, Device, Job, Status};
use tempfile::TempDir;

pub(crate) const JOB: u32 = 12;

/// What cargo built last, beside the tests or above them.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let candidates = test.ancestors().skip(1).take(2).map(|dir| dir.join(name)).filter(|path| path.exists());
    let newest = candidates.max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("{name} is missing: cargo build -p nvml-sim -p cuda-sim -p cudart-sim"))
}

pub(crate) fn ok(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

pub(crate) fn wait<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = get() {
            return it;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The client, linked with the driver or not, compiled once.
pub(crate) fn program(how: &str) -> &'static Path {
    static MADE: OnceLock<(TempDir, [PathBuf; 2])> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interposed/program.c");
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../sim/cuda-sim/include");
        let compile = |name: &str, arguments: &[&str]| {
            let out = dir.path().join(name);
            let mut cc = Command::new("cc");
            cc.args(["-Wall", "-Werror", include, source, "-pthread", "-o"]).arg(&out).args(arguments);
            ok(&mut cc);
            out
        };
        let driver = built("libcuda.so");
        let made = [compile("linked", &["-DLINKED", driver.to_str().unwrap()]), compile("loose", &["-ldl"])];
        (dir, made)
    });
    &made.1[usize::from(how != "link")]
}

/// A node with simulated A30s of 24 GB, and its broker.
pub(crate) struct Node {
    dir: TempDir,
    uuids: Vec<String>,
    parent: Option<Child>,
}

impl Node {
    pub(crate) fn new(gpus: u32) -> Node {
        let mut node = Node::without_broker(gpus);
        let log = node.path("events").display().to_string();
        node.start(&["--log", &log]);
        node
    }

    pub(crate) fn without_broker(gpus: u32) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("node.toml"), format!("[[gpus]]\nmodel = \"a30-24gb\"\ncount = {gpus}\n")).unwrap();
        std::fs::create_dir(at("lib")).unwrap();
        for (from, to) in [
            ("libnvidia_ml.so", "libnvidia-ml.so.1"),
            ("libcuda.so", "libcuda.so.1"),
            ("libcudart.so", "libcudart.so.12"),
            ("libtessera_task.so", "libtessera_task.so"),
        ] {
            std::fs::copy(built(from), at("lib").join(to)).unwrap();
        }
        let mut create = Command::new(built("nvml-sim"));
        create.arg("create").arg("--node").arg(at("node.toml")).arg("--state").arg(at("state"));
        ok(create.arg("--root").arg(at("root")).args(["--name", "n1"]));
        let mut show = Command::new(built("nvml-sim"));
        let shown = ok(show.args(["show", "--json", "--state"]).arg(at("state")));
        let text = String::from_utf8(shown.stdout).unwrap();
        let mut uuids: Vec<String> = Vec::new();
        for (from, _) in text.match_indices("GPU-") {
            let uuid = text[from..from + 40].to_owned();
            if !uuids.contains(&uuid) {
                uuids.push(uuid);
            }
        }
        assert_eq!(uuids.len(), gpus as usize);
        let node = Node { dir, uuids, parent: None };
        node.listen_as_mps();
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn uuid(&self, gpu: usize) -> &str {
        &self.uuids[gpu]
    }

    /// Listens where the MPS daemon would, until this program ends: the broker grants nothing on a device without one.
    fn listen_as_mps(&self) {
        std::fs::create_dir(self.path("pipe")).unwrap();
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let listener = rustix::net::socket_with(family, kind, flags, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(self.path("pipe/control")).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 64).unwrap();
        std::thread::spawn(move || {
            // It ends each call at once: programs that ask for its limits would wait for an answer.
            while rustix::net::accept_with(&listener, flags).is_ok() {}
        });
    }

    pub(crate) fn start(&mut self, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera-broker"));
        command.arg("--run-dir").arg(self.path("run")).arg("--nvml").arg(self.path("lib/libnvidia-ml.so.1"));
        command.args(arguments).env("NVML_SIM_STATE", self.path("state"));
        self.parent = Some(command.stderr(Stdio::null()).spawn().unwrap());
        wait("an answer", || self.broker().status().ok());
    }

    pub(crate) fn broker(&self) -> Broker {
        Broker::at(&self.path("run"), Duration::from_secs(5))
    }

    pub(crate) fn status(&self) -> Status {
        wait("an answer", || self.broker().status().ok())
    }

    /// Tells the broker of a job that may use all GPUs, as one group.
    pub(crate) fn add(&self, gpu_mem_mib: Option<u64>) {
        let device = |uuid: &String| Device {
            uuid: uuid.clone(),
            group: "g0".to_owned(),
            mps_pipe: Some(self.path("pipe")),
            memory_mib: 24 << 10,
            sms: 56,
            workers: 8,
        };
        let devices = self.uuids.iter().map(device).collect();
        self.broker().add(&Job { job: JOB, uid: 0, seats: 4, gpu_mem_mib, devices }).unwrap();
    }

    /// Tasks: state and MiB.
    pub(crate) fn tasks(&self) -> Vec<(TaskState, u64)> {
        let jobs = self.status().jobs;
        jobs.iter().flat_map(|job| &job.tasks).map(|task| (task.state, task.mem_mib)).collect()
    }

    pub(crate) fn leased(&self) -> u64 {
        self.status().devices.iter().map(|device| device.leased_mib).sum()
    }

    /// Waits until nothing is held, waited for or quarantined, and nobody is on a device.
    pub(crate) fn assert_clean(&self) {
        self.assert_clean_but_for(0);
    }

    /// The same, where so many live processes had tasks before: they stay on their devices.
    pub(crate) fn assert_clean_but_for(&self, workers: u32) {
        wait("an empty pool", || {
            let status = self.status();
            let is_clean =
                status.devices.iter().all(|d| d.leased_mib + d.quarantined_mib == 0 && d.workers == workers);
            (is_clean && status.jobs.iter().all(|job| job.tasks.is_empty())).then_some(())
        });
        let refusals: Vec<String> = self.log().into_iter().filter(|l| l.contains("\"result\":2")).collect();
        assert_eq!(refusals, Vec::<String>::new(), "the driver never ran out of memory");
    }

    /// The driver's log.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A command that finds the node's driver, not the broker.
    pub(crate) fn plain(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for name in ["CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "TESSERA_TASK_SOCKET", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command.env("NVML_SIM_STATE", self.path("state")).env("LD_LIBRARY_PATH", self.path("lib"));
        command.env("CUDA_SIM_LOG", self.path("log"));
        command
    }

    /// A command of the job, as `tasks` starts it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = self.plain(program);
        command.env("TESSERA_TASK_SOCKET", task_control::socket(&self.path("run"), JOB));
        command.env("LD_PRELOAD", self.path("lib/libtessera_task.so"));
        command
    }

    /// What the client prints, and its lines on standard error.
    pub(crate) fn run(&self, how: &str, verbs: &str) -> (String, String) {
        let mut command = self.command(program(how));
        let output = command.arg(how).args(verbs.split_whitespace()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{verbs}: {} {stderr}", output.status);
        (String::from_utf8(output.stdout).unwrap(), stderr)
    }

    /// Starts the client.
    pub(crate) fn spawn(&self, how: &str, verbs: &str) -> Running {
        let mut command = self.command(program(how));
        command.arg(how).args(verbs.split_whitespace());
        self.start_program(command)
    }

    /// Starts a program whose input and output the test has.
    pub(crate) fn start_program(&self, mut command: Command) -> Running {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Running {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stderr: child.stderr.take().unwrap(),
            child,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(status) = self.broker().status() {
            kill(status.parent);
            kill(status.child);
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

/// A client that runs; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Running {
    /// Its next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads until it waits.
    pub(crate) fn until_it_waits(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line() {
                line if line == "waiting" => return lines,
                line if line.is_empty() => panic!("it ended after {lines:?}: {}", self.errors()),
                line => lines.push(line),
            }
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut text).unwrap();
        text
    }

    /// Lets it end, and returns the rest of its output and what it wrote to standard error.
    pub(crate) fn finish(mut self) -> (String, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        let errors = self.errors();
        assert!(self.child.wait().unwrap().success(), "{rest}{errors}");
        (rest, errors)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
