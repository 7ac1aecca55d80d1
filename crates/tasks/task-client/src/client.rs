//! The connection to the broker, shared by the threads of a process.
//!
//! Each call sends its request and waits. Whoever finds nobody reading reads for all. When the connection breaks, because the
//! broker was restarted, each call sends its request again: the same nonce gets the same answer.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use task_wire::{Begin, Code, Grant, REPLY_LEN, Refused, Reply, Request, Welcome};

use crate::account::Leases;
use crate::no_device::NoDevice;

/// Time that a broker gets to come back.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// A connection that lasted longer was to a broker that served.
const SERVED: Duration = Duration::from_secs(1);

/// How far a begin is whose caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    New,
    Sent,
    Withdrawn,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<OwnedFd>>,
    /// Counts connections.
    generation: u64,
    is_read: bool,
    replies: BTreeMap<u64, Reply>,
    pending: BTreeMap<u64, Pending>,
}

/// A process's connection.
pub struct Client {
    socket: PathBuf,
    pid: u32,
    image: u64,
    next: AtomicU64,
    state: Mutex<ConnectionState>,
    changed: Condvar,
}

impl Client {
    /// A client of the broker that listens at `socket`, in program image `image`. Does nothing yet.
    #[must_use]
    pub fn new(socket: &Path, image: u64) -> Client {
        Client {
            socket: socket.to_owned(),
            pid: std::process::id(),
            image,
            next: AtomicU64::new(1),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Tells whether this is the process that made it, not a fork of it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Declaration of the job; `None` if there is no broker.
    pub fn hello(&self) -> Option<Welcome> {
        match self.call(0, &Request::Hello { image: self.image }) {
            Some(Reply::Welcome(welcome)) => Some(welcome),
            _ => None,
        }
    }

    /// Waits for a device. A nonce of 0 stands for a new one.
    ///
    /// # Errors
    ///
    /// No device will ever hold the task, there is no broker, or another thread withdrew it.
    pub fn begin(&self, begin: &Begin) -> Result<Grant, NoDevice> {
        let nonce = if begin.nonce == 0 { self.nonce() } else { begin.nonce };
        let reply = self.call(nonce, &Request::Begin(Begin { image: self.image, nonce, ..*begin }));
        let withdrawn = self.lock().pending.remove(&nonce) == Some(Pending::Withdrawn);
        match reply {
            Some(Reply::Granted(grant)) => Ok(grant),
            Some(Reply::Refused(refused)) if !withdrawn => Err(NoDevice::Refused(Box::new(refused))),
            Some(_) => Err(NoDevice::Withdrawn),
            None => Err(NoDevice::NoBroker),
        }
    }

    /// Ends a task. `false` where the broker did not know it.
    pub fn free(&self, nonce: u64) -> bool {
        let reply = self.call(nonce, &Request::Free { image: self.image, nonce });
        !matches!(reply, Some(Reply::Refused(Refused { code: Code::Unknown, .. })))
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        // No code that holds the lock panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, nonce: u64, request: &Request) -> Option<Reply> {
        let mut since = Instant::now();
        loop {
            let (connection, generation) = self.connection(&mut since)?;
            // Under the lock, so that what another thread withdraws is not sent after the withdrawal.
            let mut state = self.lock();
            let request = match state.pending.get_mut(&nonce) {
                Some(Pending::Withdrawn) => &Request::Free { image: self.image, nonce },
                Some(pending) => {
                    *pending = Pending::Sent;
                    request
                }
                None => request,
            };
            let is_sent = rustix::net::send(&*connection, &request.encode(), SendFlags::NOSIGNAL).is_ok();
            if !is_sent {
                break_off(&mut state, generation);
                self.changed.notify_all();
            }
            drop(state);
            let sent = Instant::now();
            if let Some(reply) = is_sent.then(|| self.answer(nonce, &connection, generation)).flatten() {
                return Some(reply);
            }
            // A broker that ended had served for a while. One that is full hangs up at once.
            if sent.elapsed() > SERVED {
                since = Instant::now();
            } else if since.elapsed() >= PATIENCE {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The reply to `nonce`; `None` once the connection broke.
    fn answer(&self, nonce: u64, connection: &OwnedFd, generation: u64) -> Option<Reply> {
        let mut state = self.lock();
        loop {
            if let Some(reply) = state.replies.remove(&nonce) {
                let is_withdrawn = state.pending.get(&nonce) == Some(&Pending::Withdrawn);
                if is_withdrawn && matches!(reply, Reply::Granted(_)) {
                    // The broker had granted it before it heard of the withdrawal, which it still answers.
                    continue;
                }
                if !is_withdrawn {
                    state.pending.remove(&nonce);
                }
                return Some(reply);
            }
            if state.generation != generation {
                return None;
            }
            if state.is_read {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_read = true;
            drop(state);
            let received = receive(connection);
            state = self.lock();
            state.is_read = false;
            match received {
                Some(reply) => drop(state.replies.insert(nonce_of(&reply), reply)),
                None => break_off(&mut state, generation),
            }
            self.changed.notify_all();
        }
    }

    /// The connection, made anew if there is none; `None` if the broker does not come back.
    fn connection(&self, since: &mut Instant) -> Option<(Arc<OwnedFd>, u64)> {
        loop {
            let mut state = self.lock();
            if let Some(connection) = &state.connection {
                return Some((Arc::clone(connection), state.generation));
            }
            match connect(&self.socket) {
                Ok(fd) => {
                    let connection = Arc::new(fd);
                    state.connection = Some(Arc::clone(&connection));
                    return Some((connection, state.generation));
                }
                // A broker that is started again makes its sockets again.
                Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) if since.elapsed() < PATIENCE => {}
                Err(_) => return None,
            }
            drop(state);
            std::thread::sleep(PAUSE);
        }
    }
}

impl Leases for Client {
    fn nonce(&self) -> u64 {
        let nonce = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().pending.insert(nonce, Pending::New);
        nonce
    }

    fn begin(&self, begin: &Begin) -> Result<Grant, NoDevice> {
        Client::begin(self, begin)
    }

    fn free(&self, nonce: u64) {
        Client::free(self, nonce);
    }

    fn withdraw(&self, nonce: u64) {
        let mut state = self.lock();
        let connection = state.connection.clone();
        let Some(pending) = state.pending.get_mut(&nonce) else { return };
        let was_sent = *pending == Pending::Sent;
        *pending = Pending::Withdrawn;
        if let Some(connection) = connection.filter(|_| was_sent) {
            let request = Request::Free { image: self.image, nonce };
            // If the connection broke, the thread that waits finds out and sends this instead.
            let _ = rustix::net::send(&*connection, &request.encode(), SendFlags::NOSIGNAL);
        }
    }
}

fn break_off(state: &mut ConnectionState, generation: u64) {
    if state.generation == generation {
        state.connection = None;
        state.generation += 1;
    }
}

fn connect(socket: &Path) -> Result<OwnedFd, Errno> {
    let fd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    Ok(fd)
}

/// The next reply; `None` where the broker hung up or speaks another version.
fn receive(connection: &OwnedFd) -> Option<Reply> {
    let mut buffer = [0; REPLY_LEN];
    loop {
        match rustix::net::recv(connection, &mut buffer[..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(_) | Ok((_, 0)) => return None,
            Ok((_, length)) => return Reply::decode(&buffer[..length.min(REPLY_LEN)]).ok(),
        }
    }
}

/// Number of the request that a reply answers. A welcome has no nonce, and no task has 0.
fn nonce_of(reply: &Reply) -> u64 {
    match reply {
        Reply::Granted(grant) => grant.nonce,
        Reply::Refused(refused) => refused.nonce,
        Reply::Freed { nonce } => *nonce,
        Reply::Welcome(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a broker with too many connections does. The call goes on for [`PATIENCE`].
    #[test]
    fn who_hangs_up_at_once_is_not_called_without_a_pause() {
        let path = std::env::temp_dir().join(format!("tessera-hangs-up-{}", std::process::id()));
        let flags = SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 8).unwrap();
        let client = Client::new(&path, 1);
        std::thread::spawn(move || client.hello());
        let began = Instant::now();
        let mut calls = 0;
        while calls < 20 {
            drop(rustix::net::accept(&listener).unwrap());
            calls += 1;
        }
        let paused = began.elapsed();
        std::fs::remove_file(&path).unwrap();
        assert!(paused >= PAUSE * (calls - 1) / 2, "{calls} calls within {paused:?}");
    }
}
