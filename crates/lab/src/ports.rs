//! TCP ports nobody listens on.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::HarnessError;

/// Below the range the kernel gives to clients, so that none of them takes a port between look and use.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Ports per process, so that two of them never look at the same ones: process ids differ.
const STRIDE: u32 = 97;

/// How many ports this process has looked at: none is looked at twice, since a daemon takes a while to open its port.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// Finds `count` free ports.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, HarnessError> {
    let size = u32::from(RANGE.end - RANGE.start);
    let first = std::process::id().wrapping_mul(STRIDE);
    let next = || {
        let offset = first.wrapping_add(LOOKED_AT.fetch_add(1, Ordering::Relaxed)) % size;
        RANGE.start + u16::try_from(offset).unwrap_or_default()
    };
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    let ports: Vec<u16> = (0..size).map(|_| next()).filter(is_free).take(count).collect();
    if ports.len() == count {
        return Ok(ports);
    }
    Err(HarnessError::Unexpected(format!("no {count} free ports between {} and {}", RANGE.start, RANGE.end)))
}
