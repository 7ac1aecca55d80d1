//! What a begin and its free cost, and what a broker costs that nobody asks: `cargo xtask bench tasks` runs this.
//!
//! Prints one JSON object: microseconds of each begin with its free, for 1, 16 and 64 processes at a time; the same of two bare
//! round trips of packets of that size with an idle server, as the floor; milliseconds from a kill of the broker with 1,000
//! leases to its first answer; processor time and memory of a broker with a job that does nothing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops at the first surprise")]
#![allow(dead_code, reason = "the tests use the rest of `node`")]

#[path = "../tests/interposed/node.rs"]
mod node;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use node::{JOB, Node};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};
use task_control::{Device, Job, Status};
use task_wire::{Begin, REPLY_LEN, REQUEST_LEN, Text};
use tessera_task::client::Client;

/// Rounds of all clients together.
const ROUNDS: usize = 20_000;
const TURNS: usize = 5;
const LEASES: usize = 1000;
const KILLS: usize = 9;
const AT_A_TIME: [usize; 3] = [1, 16, 64];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("client") => client(Path::new(&words[2]), words[3].parse().unwrap()),
        Some("echo") => echo(Path::new(&words[2]), words[3].parse().unwrap()),
        Some("serve-echo") => serve_echo(Path::new(&words[2])),
        Some("hold") => hold(Path::new(&words[2])),
        // cargo's own words: `--bench`.
        _ => println!("{}", measure()),
    }
}

fn task() -> Begin {
    let bound = Text::EMPTY;
    Begin {
        image: 1,
        nonce: 0,
        mem: 2 << 20,
        managed: 0,
        blocks: 8,
        threads: 128,
        whole: false,
        sticky: false,
        bound,
    }
}

/// A process that begins and frees; it prints the microseconds of each round.
fn client(socket: &Path, count: usize) {
    let client = Client::new(socket, 1);
    let once = || {
        let begin = Instant::now();
        let grant = client.begin(&task()).unwrap();
        assert!(client.free(grant.nonce));
        begin.elapsed().as_secs_f64() * 1e6
    };
    rounds(count, once);
}

/// The floor: two round trips with a server that looks at nothing.
fn echo(socket: &Path, count: usize) {
    let fd = connect(socket);
    let once = || {
        let begin = Instant::now();
        for _ in 0..2 {
            rustix::net::send(&fd, &[1; REQUEST_LEN], SendFlags::NOSIGNAL).unwrap();
            rustix::net::recv(&fd, &mut [0; REPLY_LEN][..], RecvFlags::empty()).unwrap();
        }
        begin.elapsed().as_secs_f64() * 1e6
    };
    rounds(count, once);
}

fn rounds(count: usize, once: impl Fn() -> f64) {
    once();
    println!("ready");
    // Ends when all may begin.
    let _ = std::io::stdin().read(&mut [0]);
    let all: Vec<f64> = (0..count).map(|_| once()).collect();
    println!("{}", json!(all));
}

/// Takes leases and keeps them.
fn hold(socket: &Path) {
    let client = Client::new(socket, 1);
    for _ in 0..LEASES {
        client.begin(&task()).unwrap();
    }
    println!("held");
    std::thread::sleep(Duration::from_secs(600));
}

fn connect(path: &Path) -> OwnedFd {
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .unwrap();
    rustix::net::connect(&fd, &SocketAddrUnix::new(path).unwrap()).unwrap();
    fd
}

/// Answers every packet with one of a reply's size: one thread and epoll, as the broker has them.
fn serve_echo(path: &Path) {
    use rustix::event::epoll;
    let flags = SocketFlags::CLOEXEC;
    let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&listener, 128).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let watch = |fd: &OwnedFd, token| {
        epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN).unwrap();
    };
    watch(&listener, 0);
    let mut peers: Vec<Option<OwnedFd>> = vec![None];
    let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
    loop {
        // A signal may interrupt it.
        let _ = epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None);
        for token in events.drain(..).map(|event| event.data.u64()) {
            let Some(peer) = &peers[usize::try_from(token).unwrap()] else {
                let peer = rustix::net::accept(&listener).unwrap();
                watch(&peer, peers.len() as u64);
                peers.push(Some(peer));
                continue;
            };
            match rustix::net::recv(peer, &mut [0; REQUEST_LEN][..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(_) => epoll::delete(&epoll, peer).unwrap(),
                Ok(_) => drop(rustix::net::send(peer, &[1; REPLY_LEN], SendFlags::NOSIGNAL)),
            }
        }
    }
}

/// A broker with one job on one device that holds everybody.
fn served() -> Node {
    let mut node = Node::without_broker(1);
    node.start(&["--context-mib", "16"]);
    let device = Device {
        uuid: node.uuid(0).to_owned(),
        group: "g".to_owned(),
        mps_pipe: None,
        memory_mib: 24 << 10,
        sms: 56,
        workers: 128,
    };
    let uid = rustix::process::geteuid().as_raw();
    let job = Job { job: JOB, uid, seats: 4, gpu_mem_mib: None, devices: vec![device] };
    node.broker().add(&job).unwrap();
    node
}

/// Waits for a status like that.
fn becomes(node: &Node, wish: impl Fn(&Status) -> bool) -> Status {
    let start = Instant::now();
    loop {
        match node.broker().status() {
            Ok(status) if wish(&status) => return status,
            _ => assert!(start.elapsed() < Duration::from_secs(60), "the broker does not answer"),
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Runs `count` of ourselves as `mode`, and returns all their rounds, sorted.
fn together(mode: &str, socket: &Path, count: usize) -> Vec<f64> {
    let spawn = |_| {
        let mut me = Command::new(std::env::current_exe().unwrap());
        me.arg(mode).arg(socket).arg((ROUNDS / count).max(200).to_string());
        me.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..count).map(spawn).collect();
    // Each says that it is connected; then all begin at once.
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    for output in &mut outputs {
        assert_eq!(output.read_line(&mut String::new()).unwrap(), "ready\n".len());
    }
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let mut all: Vec<f64> = Vec::new();
    for (output, child) in outputs.iter_mut().zip(&mut children) {
        all.extend(serde_json::from_reader::<_, Vec<f64>>(output).unwrap());
        child.wait().unwrap();
    }
    all.sort_by(f64::total_cmp);
    all
}

fn quantile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Of a process with one thread: processor time, microseconds.
fn spent(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}

/// The page frames that a process has in memory, as root may see them.
fn frames(pid: u32) -> BTreeSet<u64> {
    const PAGE: u64 = 4096;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let pagemap = std::fs::File::open(format!("/proc/{pid}/pagemap")).unwrap();
    let ranges = maps.lines().filter(|line| !line.ends_with("[vsyscall]")).map(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        [from, to].map(|address| u64::from_str_radix(address, 16).unwrap() / PAGE)
    });
    let mut found = BTreeSet::new();
    for [from, to] in ranges {
        let mut entries = vec![0; usize::try_from((to - from) * 8).unwrap()];
        // Fewer where the range ended meanwhile.
        let length = pagemap.read_at(&mut entries, from * 8).unwrap();
        let entries = entries[..length].chunks_exact(8).map(|e| u64::from_le_bytes(e.try_into().unwrap()));
        // Bit 63: in memory; bits 0 to 54: where.
        found.extend(entries.filter(|entry| entry >> 63 == 1).map(|entry| entry & ((1 << 55) - 1)));
    }
    assert!(found.len() > 1, "only root sees page frames");
    found
}

/// Memory of processes, KiB: what each has (`VmRSS`), and what all have together, each page counted once.
fn memory(pids: &[u32]) -> Value {
    let resident = |pid: &u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let together: BTreeSet<u64> = pids.iter().flat_map(|pid| frames(*pid)).collect();
    json!({ "each": pids.iter().map(resident).collect::<Vec<_>>(), "together": together.len() * 4 })
}

fn measure() -> Value {
    let node = served();
    let socket = task_control::socket(&node.path("run"), JOB);
    let idle = becomes(&node, |_| true);
    std::thread::sleep(Duration::from_secs(1));
    let both = || spent(idle.child) + spent(idle.parent);
    let before = both();
    std::thread::sleep(Duration::from_secs(20));
    let idle_percent = (both() - before) / 20e6 * 100.0;
    let idle_kib = memory(&[idle.child, idle.parent]);
    let echo = node.path("echo");
    let mut me = Command::new(std::env::current_exe().unwrap());
    let mut server = me.arg("serve-echo").arg(&echo).spawn().unwrap();
    while !echo.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut begins = serde_json::Map::new();
    for count in AT_A_TIME {
        // In turn, so that what else the machine does meets both.
        let runs = (0..TURNS).map(|_| {
            let both =
                [("begin_free", "client", &socket, idle.child), ("echoes", "echo", &echo, server.id())];
            both.map(|(name, mode, path, pid)| {
                let before = spent(pid);
                let sorted = together(mode, path, count);
                let server = (spent(pid) - before) / sorted.len() as f64;
                let (p50, p99) = (quantile(&sorted, 50), quantile(&sorted, 99));
                (name, json!({ "p50": p50, "p99": p99, "server": server }))
            })
        });
        let runs: Vec<Value> = runs.map(|both| both.into_iter().collect()).collect();
        begins.insert(count.to_string(), runs.into());
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let (recoveries, full_kib) = recover(&node, &socket);
    json!({
        "clients_us": begins, "recovery_ms": recoveries, "leases": LEASES, "idle_percent": idle_percent,
        "idle_kib": idle_kib, "with_leases_kib": full_kib,
    })
}

/// Kills the broker under [`LEASES`] leases: milliseconds until it answers with all of them, and its memory then.
fn recover(node: &Node, socket: &Path) -> (Vec<f64>, Value) {
    let mut me = Command::new(std::env::current_exe().unwrap());
    let mut holder = me.arg("hold").arg(socket).stdout(Stdio::null()).spawn().unwrap();
    let has_all = |status: &Status| status.jobs.iter().any(|job| job.tasks.len() == LEASES);
    let mut recoveries = Vec::new();
    for _ in 0..KILLS {
        let child = becomes(node, has_all).child;
        // One that lived for less than a second is started again after a pause.
        std::thread::sleep(Duration::from_millis(1200));
        let start = Instant::now();
        kill(child);
        becomes(node, |status| status.child != child && has_all(status));
        recoveries.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let status = becomes(node, has_all);
    let full = memory(&[status.child, status.parent]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    (recoveries, full)
}
