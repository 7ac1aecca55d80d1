//! Connections to the exporter that say half a request and wait.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::command::run;
use lab::{Cluster, HarnessError, User};

/// More than an exporter with [`OPEN_FILES`] can have open.
const CONNECTIONS: usize = 300;
const OPEN_FILES: u32 = 256;

/// How long an exporter may take to begin to listen.
const START: Duration = Duration::from_secs(20);

/// Asks for the metrics from an address of its own, in 20 s at most, and prints the answer's first line. `$1`: the port.
const ASK: &str = "import socket, sys\n\
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20, ('127.0.0.9', 0))\n\
    s.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')\n\
    print(s.recv(15).decode())\n";

/// An exporter and the connections to it. Both end with this.
#[derive(Debug)]
pub(super) struct Idle {
    exporter: Child,
    port: u16,
    connections: Vec<TcpStream>,
}

impl Idle {
    /// Starts an exporter that may open few files, and connects until it takes no more, or often enough.
    pub(super) fn begin(cluster: &Cluster) -> Result<Self, HarnessError> {
        let failed = |source| HarnessError::Start { program: "tessera exporter".to_owned(), source };
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(failed)?.port();
        let mut command = cluster.command(User::Root, "prlimit")?;
        command.args([&format!("--nofile={OPEN_FILES}"), "tessera", "--config"]);
        command.arg(cluster.layout().etc("tessera.toml"));
        command.args(["exporter", "--listen", &format!("127.0.0.1:{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut idle = Self { exporter: command.spawn().map_err(failed)?, port, connections: Vec::new() };
        let begin = Instant::now();
        while begin.elapsed() < START && TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        for _ in 0..CONNECTIONS {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
            // The exporter may have closed it already.
            drop(stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:"));
            idle.connections.push(stream);
        }
        Ok(idle)
    }

    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Describes the fault of the answer to another client, while the connections are open.
    pub(super) fn problem(&self) -> Result<Option<String>, HarnessError> {
        let done = run(Command::new("python3").args(["-c", ASK, &self.port.to_string()]))?;
        let is_good = done.stdout.starts_with("HTTP/1.1 200");
        let last = done.stderr.lines().last().unwrap_or_default().to_owned();
        Ok((!is_good).then(|| format!("{}{last}", done.stdout.trim())))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.exporter.kill());
        drop(self.exporter.wait());
    }
}
