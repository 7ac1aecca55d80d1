//! A stream and an event.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) context: u64,
    pub(super) flags: u32,
    pub(super) priority: i32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) context: u64,
    pub(super) recorded: Option<Instant>,
}
