//! Waiting, always with an end.

use std::process::Child;
use std::time::{Duration, Instant};

/// A moment after which an operation gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
    /// Time that the operation was given, for messages.
    pub timeout: Duration,
}

impl Deadline {
    /// `timeout` from now.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self { end: Instant::now() + timeout, timeout }
    }

    /// True once it has passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Gives the time that is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Gives the deadline of this moment or `timeout` from now, whichever is first.
    #[must_use]
    pub fn at_most(&self, timeout: Duration) -> Self {
        Self::after(timeout.min(self.left()))
    }
}

/// Pauses that grow by half each time, from `first` to `longest`.
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Begins with `first`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// For something that another process is about to do: 0.5 ms to 10 ms.
    pub fn quick() -> Self {
        Self::new(Duration::from_micros(500), Duration::from_millis(10))
    }

    /// For the driver: 10 ms to 250 ms.
    pub fn driver() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_millis(250))
    }

    /// Sleeps; false, at once, when the deadline has passed.
    pub fn pause(&mut self, deadline: &Deadline) -> bool {
        if deadline.passed() {
            return false;
        }
        std::thread::sleep(self.next.min(deadline.left()));
        self.next = (self.next * 3 / 2).min(self.longest);
        true
    }
}

/// Longest wait for a child that was killed.
const DYING: Duration = Duration::from_secs(1);

/// Kills a child and waits until it has ended, for a second at most: users can keep its end back, by a trace of what runs as
/// them, or by a file system of theirs that does not answer. Such a child is left to end by itself.
pub fn kill_child(mut child: Child) {
    // Fails only for one that has ended.
    let _ = child.kill();
    let (deadline, mut backoff) = (Deadline::after(DYING), Backoff::quick());
    while matches!(child.try_wait(), Ok(None)) && backoff.pause(&deadline) {}
}
