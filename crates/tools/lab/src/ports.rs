//! TCP ports that no other cluster uses.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::error::HarnessError;

/// Below the range the kernel gives to clients, so that no client takes a port between the look and its use.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Distance between the ports at which two processes begin to look: their ids differ.
const STRIDE: u32 = 97;

/// The ports of this process, each held by an abstract Unix socket of its number until the process ends. A daemon opens
/// its port only later, and not at all between a kill and its next start; the socket tells other test programs that the
/// port is taken.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Finds `count` free ports, and holds them until this process ends.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, HarnessError> {
    let size = u32::from(RANGE.end - RANGE.start);
    let first = std::process::id().wrapping_mul(STRIDE);
    let candidates = (0..size).map(|step| {
        let offset = first.wrapping_add(step) % size;
        RANGE.start + u16::try_from(offset).unwrap_or_default()
    });
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let found: Vec<(u16, UnixListener)> =
        candidates.filter_map(|port| Some((port, hold(port)?))).take(count).collect();
    if found.len() < count {
        let what = format!("no {count} free ports between {} and {}", RANGE.start, RANGE.end);
        return Err(HarnessError::Unexpected(what));
    }
    let ports = found.iter().map(|(port, _)| *port).collect();
    held.extend(found.into_iter().map(|(_, socket)| socket));
    Ok(ports)
}

/// Finds so many free ports one after the other, and holds them until this process ends.
pub(crate) fn block(count: usize) -> Result<std::ops::Range<u16>, HarnessError> {
    let missing = || {
        HarnessError::Unexpected(format!(
            "no {count} free ports in a row between {} and {}",
            RANGE.start, RANGE.end
        ))
    };
    let count =
        u16::try_from(count).ok().filter(|count| *count <= RANGE.end - RANGE.start).ok_or_else(missing)?;
    let mut first = RANGE.start;
    let mut found: Vec<UnixListener> = Vec::new();
    for port in RANGE {
        match hold(port) {
            Some(socket) => found.push(socket),
            None => (first, found) = (port + 1, Vec::new()),
        }
        if found.len() == usize::from(count) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            return Ok(first..first + count);
        }
    }
    Err(missing())
}

/// Holds a port, if no other process holds it and nobody listens on it.
fn hold(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("tessera-lab-port-{port}")).ok()?;
    let socket = UnixListener::bind_addr(&name).ok()?;
    TcpListener::bind(("0.0.0.0", port)).is_ok().then_some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let first = free(3).unwrap();
        assert_eq!(first.len(), 3);
        assert!(first.iter().all(|port| hold(*port).is_none()), "a held port was given again");
        assert!(free(3).unwrap().iter().all(|port| !first.contains(port)));
    }

    #[test]
    fn a_block_has_ports_in_a_row_that_nobody_else_gets() {
        let block = block(5).unwrap();
        assert_eq!(block.len(), 5);
        assert!(block.clone().all(|port| hold(port).is_none()));
        assert!(free(3).unwrap().iter().all(|port| !block.contains(port)));
        let refused = super::block(20_000).unwrap_err().to_string();
        assert_eq!(refused, "no 20000 free ports in a row between 20000 and 32000");
    }
}
