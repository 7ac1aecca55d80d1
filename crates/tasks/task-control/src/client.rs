//! The calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::message::{Answer, Ended, Line, Request, VERSION};
use crate::status::Status;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ControlError {
    /// No broker listens.
    #[error("{socket}: no task broker answers; the prolog of the node's next `gpu-tasks` job starts one")]
    NotRunning { socket: PathBuf },
    /// The broker did not answer in time.
    #[error("{socket}: the task broker did not answer within {waited_ms} ms")]
    Timeout { socket: PathBuf, waited_ms: u128 },
    /// The broker's own words.
    #[error("the task broker refuses: {0}")]
    Refused(String),
    /// A system call failed.
    #[error("{socket}: cannot speak to the task broker")]
    Io {
        socket: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The answer cannot be read: the broker is of another version.
    #[error("{socket}: the task broker's answer cannot be read; is it of another version?")]
    Garbled { socket: PathBuf },
}

/// The node's broker.
#[derive(Clone, Debug)]
pub struct Broker {
    socket: PathBuf,
    timeout: Duration,
}

/// Longest answer, bytes: 65,536 tasks of about 200 bytes.
const MAX_ANSWER: u64 = 16 << 20;

impl Broker {
    /// The broker of the node with this run directory. Each call gets `timeout`. Does nothing yet.
    #[must_use]
    pub fn at(run_dir: &Path, timeout: Duration) -> Broker {
        Broker { socket: crate::control_socket(run_dir), timeout }
    }

    /// Tells of a job; then its socket exists. The same job again is no error.
    ///
    /// # Errors
    ///
    /// No broker answers, or it refuses: another job of this number, a device that NVML does not show.
    pub fn add(&self, job: &Job) -> Result<(), ControlError> {
        self.done(Request::Add(job.clone()))
    }

    /// Ends a job: its tasks are over, and its socket is gone. An unknown job is no error.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn end(&self, job: u32) -> Result<Ended, ControlError> {
        match self.ask(Request::End { job })? {
            Answer::Ended(ended) => Ok(ended),
            other => Err(self.unexpected(other)),
        }
    }

    /// Asks who holds and waits for what.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub fn status(&self) -> Result<Status, ControlError> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(self.unexpected(other)),
        }
    }

    /// Stops a device from granting, with the reason; `None` lets it grant again.
    ///
    /// # Errors
    ///
    /// No broker answers, or it does not know the device.
    pub fn hold(&self, uuid: &str, why: Option<&str>) -> Result<(), ControlError> {
        self.done(Request::Hold { uuid: uuid.to_owned(), why: why.map(str::to_owned) })
    }

    /// Ends the broker.
    ///
    /// # Errors
    ///
    /// It refuses while it has jobs.
    pub fn stop(&self) -> Result<(), ControlError> {
        self.done(Request::Stop)
    }

    fn done(&self, request: Request) -> Result<(), ControlError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, answer: Answer) -> ControlError {
        match answer {
            Answer::Refused { why } => ControlError::Refused(why),
            _ => ControlError::Garbled { socket: self.socket.clone() },
        }
    }

    fn ask(&self, request: Request) -> Result<Answer, ControlError> {
        let start = Instant::now();
        let line = serde_json::to_vec(&Line { v: VERSION, request });
        let mut line = line.map_err(|e| self.io(e.into(), start))?;
        line.push(b'\n');
        let answer = self.exchange(&line, start).map_err(|e| self.io(e, start))?;
        serde_json::from_slice(&answer).map_err(|_| ControlError::Garbled { socket: self.socket.clone() })
    }

    fn exchange(&self, line: &[u8], start: Instant) -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(self.timeout))?;
        stream.write_all(line)?;
        let mut answer = Vec::new();
        let mut reader = BufReader::new(stream);
        while !answer.ends_with(b"\n") {
            let left = self.timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
            let left = left.ok_or(std::io::ErrorKind::TimedOut)?;
            reader.get_ref().set_read_timeout(Some(left))?;
            let room = MAX_ANSWER.saturating_sub(answer.len() as u64);
            let available = match reader.fill_buf() {
                // A process that is stopped and goes on has its wait ended, handlers or not.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                found => found?.len(),
            };
            if available == 0 || room == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let mut part = reader.by_ref().take(room.min(available as u64));
            part.read_until(b'\n', &mut answer)?;
        }
        Ok(answer)
    }

    fn io(&self, source: std::io::Error, start: Instant) -> ControlError {
        let socket = self.socket.clone();
        match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                ControlError::NotRunning { socket }
            }
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                ControlError::Timeout { socket, waited_ms: start.elapsed().as_millis() }
            }
            _ => ControlError::Io { socket, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_process_that_is_stopped_meanwhile_gets_its_answer() {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::at(dir.path(), Duration::from_secs(20));
        std::fs::create_dir(crate::folder(dir.path())).unwrap();
        let listener = UnixListener::bind(crate::control_socket(dir.path())).unwrap();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            BufReader::new(peer.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            let stop = "kill -STOP $1; sleep 0.02; kill -CONT $1";
            let own = std::process::id().to_string();
            for _ in 0..3 {
                let ended = std::process::Command::new("/bin/sh").args(["-c", stop, "sh", &own]).status();
                assert!(ended.unwrap().success());
            }
            peer.write_all(b"{\"answer\":\"done\"}\n").unwrap();
        });
        broker.stop().unwrap();
    }

    #[test]
    fn who_does_not_listen_or_answer_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::at(dir.path(), Duration::from_millis(50));
        assert!(matches!(broker.status(), Err(ControlError::NotRunning { .. })));
        std::fs::create_dir(crate::folder(dir.path())).unwrap();
        let listener = UnixListener::bind(crate::control_socket(dir.path())).unwrap();
        assert!(matches!(broker.stop(), Err(ControlError::Timeout { .. })));
        std::thread::spawn(move || {
            // The first connection is the one that timed out.
            let _ = listener.accept().unwrap();
            for answer in [
                "{\"answer\":\"refused\",\"why\":\"2 jobs\"}\n",
                "{\"answer\":\"ended\",\"left\":1,\"jobs\":0}\n",
                "x\n",
            ] {
                let (mut peer, _) = listener.accept().unwrap();
                BufReader::new(peer.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
                // In two parts.
                peer.write_all(&answer.as_bytes()[..1]).unwrap();
                std::thread::sleep(Duration::from_millis(5));
                peer.write_all(&answer.as_bytes()[1..]).unwrap();
            }
        });
        let broker = Broker { timeout: Duration::from_secs(5), ..broker };
        assert!(matches!(broker.stop(), Err(ControlError::Refused(why)) if why == "2 jobs"));
        assert_eq!(broker.end(1).unwrap(), Ended { left: 1, jobs: 0 });
        assert!(matches!(broker.status(), Err(ControlError::Garbled { .. })));
    }
}
