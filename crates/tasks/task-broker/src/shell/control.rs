//! Root's connections.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use task_control::message::{Answer, Line, MAX_REQUEST, Request, VERSION};

use super::files::give;

/// Longest time that root's programs get to read an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection of root's, and what it has sent of a line.
pub(super) struct Control {
    pub(super) stream: UnixStream,
    read: Vec<u8>,
}

/// Outcome of a read from root's connection.
pub(super) enum Came {
    Request(Request),
    Unreadable(String),
    Nothing,
    HungUp,
}

impl Control {
    pub(super) fn new(stream: UnixStream) -> std::io::Result<Control> {
        stream.set_nonblocking(true)?;
        Ok(Control { stream, read: Vec::new() })
    }

    pub(super) fn receive(&mut self) -> Came {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Came::HungUp,
            Ok(n) => self.read.extend_from_slice(&buffer[..n]),
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(_) => return Came::HungUp,
        }
        match self.read.iter().position(|b| *b == b'\n') {
            None if self.read.len() > MAX_REQUEST => Came::HungUp,
            None => Came::Nothing,
            Some(end) => {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                match serde_json::from_slice::<Line>(&line) {
                    Ok(line) if line.v == VERSION => Came::Request(line.request),
                    Ok(line) => Came::Unreadable(format!(
                        "version {} is not {VERSION}, which this broker speaks",
                        line.v
                    )),
                    Err(e) => Came::Unreadable(format!("the request cannot be read: {e}")),
                }
            }
        }
    }

    /// Sends an answer. `false` where the peer is gone or does not read.
    pub(super) fn send(&mut self, answer: &Answer) -> bool {
        let Ok(mut line) = serde_json::to_vec(answer) else { return false };
        line.push(b'\n');
        let sent =
            self.stream.set_nonblocking(false).and_then(|()| self.stream.set_write_timeout(Some(PATIENCE)));
        let sent = sent.and_then(|()| self.stream.write_all(&line));
        sent.and_then(|()| self.stream.set_nonblocking(true)).is_ok()
    }
}

/// Listens for root.
pub(super) fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    give(path, rustix::process::geteuid().as_raw())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
