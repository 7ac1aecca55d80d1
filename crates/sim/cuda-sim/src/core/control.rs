//! Limits that an MPS control daemon has for its clients, asked of the daemon itself.
//!
//! A real client has them from the daemon's server. There is no server here, and NVIDIA's control daemon is a real one: it answers
//! whoever speaks as its own command line does. That language is not documented. As nvidia-cuda-mps-control of driver 535 speaks it, by
//! strace: the daemon says `OUTBHELL`, the caller `OUTBCRED` and the word 4; then the caller sends a length of 8 bytes and a command
//! line, gets the word 0 and an answer, if there is one, and a length of 0 ends the talk with the word 1.

use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::mps::bytes;

/// Longest wait for each answer. A daemon that is silent has no limits: a real client waits for ever.
const PATIENCE: Duration = Duration::from_secs(10);
/// Says that a command line comes.
const COMMAND_LINE: u32 = 4;

/// Most that a daemon lets each of its clients have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Percent of the SMs.
    pub threads: Option<f64>,
    /// Device memory by the daemon's ordinals, bytes.
    pub memory: Vec<Option<u64>>,
}

impl Limits {
    /// Asks the daemon that listens in a directory, about its first `devices` devices.
    #[must_use]
    pub fn of(pipe_directory: &Path, devices: usize) -> Self {
        let ask = |words: &str| ask(pipe_directory, words);
        // The percentage is always told: a daemon that is silent about it is not asked again.
        let Some(threads) = ask("get_default_active_thread_percentage") else { return Self::default() };
        let memory = |device| bytes(ask(&format!("get_default_device_pinned_mem_limit {device}"))?.trim());
        Self { threads: threads.trim().parse().ok(), memory: (0..devices).map(memory).collect() }
    }
}

/// The answer to a command; `None` if there is none in time.
fn ask(pipe_directory: &Path, words: &str) -> Option<String> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE)).ok()?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(pipe_directory.join("control")).ok()?).ok()?;
    let send = |bytes: &[u8]| rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL).ok();
    receive(&socket).filter(|hello| hello.starts_with(b"OUTBHELL"))?;
    send(b"OUTBCRED\0")?;
    send(&COMMAND_LINE.to_ne_bytes())?;
    let line = format!("{words}\n\0");
    send(&(line.len() as u64).to_ne_bytes())?;
    send(line.as_bytes())?;
    send(&0_u64.to_ne_bytes())?;
    let answer = receive(&socket)?;
    let text = answer.strip_prefix(&0_u32.to_ne_bytes()[..])?;
    // A caller that leaves before the talk has ended spoils the daemon's next one.
    let _ = receive(&socket);
    Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}

fn receive(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 4096];
    let (length, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    buffer.truncate(length);
    Some(buffer)
}
