//! The driver's part of a prolog's time: our own time is measured without it.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Time that this thread has spent in the driver's library so far, loading it included.
#[must_use]
pub fn driver_time() -> Duration {
    TIME.get()
}

pub(super) fn count_since(start: Instant) {
    TIME.set(TIME.get() + start.elapsed());
}
