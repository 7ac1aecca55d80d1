//! TCP ports nobody listens on.

use std::net::TcpListener;

use crate::error::HarnessError;

/// Below the range the kernel gives to clients, so that none of them takes a port between look and use.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Finds `count` free ports. Clusters started at the same time begin their search at different places.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, HarnessError> {
    let size = u32::from(RANGE.end - RANGE.start);
    let offset = u16::try_from(std::process::id().wrapping_mul(97) % size).unwrap_or_default();
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    let ports: Vec<u16> = (RANGE.start + offset..RANGE.end)
        .chain(RANGE.start..RANGE.start + offset)
        .filter(is_free)
        .take(count)
        .collect();
    if ports.len() == count {
        return Ok(ports);
    }
    Err(HarnessError::Unexpected(format!("no {count} free ports between {} and {}", RANGE.start, RANGE.end)))
}
