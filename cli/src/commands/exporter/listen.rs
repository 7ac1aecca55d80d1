//! Connections: each carries one request, has a time limit, and goes if its client holds too many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::crowd::{Crowd, Limits};
use crate::outcome::Outcome;

/// How long a client gets to send its request.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a connection lasts, from its begin to the last byte of the answer. Slurm may take long to say why a job waits.
const WHOLE: Duration = Duration::from_secs(60);
/// Bytes of a request at most.
const LARGEST_REQUEST: usize = 16 << 10;
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is connected, and how to end each connection.
struct Guests {
    crowd: Crowd,
    tasks: HashMap<u64, AbortHandle>,
}

type SharedGuests = Arc<Mutex<Guests>>;

fn lock(guests: &SharedGuests) -> MutexGuard<'_, Guests> {
    guests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a connection out when its task ends, however it ends.
struct CountedConnection {
    guests: SharedGuests,
    number: u64,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut guests = lock(&self.guests);
        guests.crowd.leave(self.number);
        guests.tasks.remove(&self.number);
    }
}

/// Serves until the process is ended.
pub(super) async fn serve(listener: &TcpListener, router: &Router) -> Outcome {
    let crowd = Crowd::new(Limits::with_files(files()));
    let guests = Arc::new(Mutex::new(Guests { crowd, tasks: HashMap::new() }));
    loop {
        match listener.accept().await {
            Ok((stream, from)) => admit(&guests, stream, from.ip(), router.clone()),
            // A client that has gone already, or the system has no descriptor left.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        // Whoever has to go closes its connection before the next one comes.
        tokio::task::yield_now().await;
    }
}

fn admit(guests: &SharedGuests, stream: TcpStream, from: IpAddr, router: Router) {
    let mut now = lock(guests);
    let (number, goes) = now.crowd.enter(from);
    if let Some(task) = goes.and_then(|goes| now.tasks.remove(&goes)) {
        task.abort();
    }
    let place = CountedConnection { guests: Arc::clone(guests), number };
    // The task does not run, or end, before this thread waits.
    let task = tokio::spawn(answer(stream, router, place));
    now.tasks.insert(number, task.abort_handle());
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, router: Router, place: CountedConnection) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        lock(&place.guests).crowd.asked(place.number);
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST)
        .max_buf_size(LARGEST_REQUEST)
        .keep_alive(false);
    // A client that is late or speaks no HTTP is gone; there is nobody to tell.
    let _ = tokio::time::timeout(WHOLE, http.serve_connection(TokioIo::new(stream), service)).await;
}

/// How many files this process may have open. The limit is raised where it is too low for all connections and may be raised.
fn files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(u64::MAX);
    let wanted = Limits::FILES.min(most);
    match current {
        Some(current) if current < wanted => {
            let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
            if raised.is_ok() { wanted } else { current }
        }
        other => other.unwrap_or(u64::MAX),
    }
}
