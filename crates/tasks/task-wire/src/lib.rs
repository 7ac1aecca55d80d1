//! Messages between a program's GPU tasks and the node's task broker.
//!
//! A `SOCK_SEQPACKET` connection carries them, one per packet: requests of [`REQUEST_LEN`] bytes from the program, replies of
//! [`REPLY_LEN`] bytes from the broker. Numbers are little-endian. Bytes that no field covers are zero.
//!
//! A request names its task by a *nonce*, a number that the process uses once. A request that is sent again, because the
//! broker was restarted, has the same nonce and gets the same answer. *Who* asks stands in no message: the kernel says it
//! (`SO_PEERCRED`).

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bytes;
mod reply;
mod request;
mod text;

pub use reply::{Code, Grant, REPLY_LEN, Refused, Reply, Welcome};
pub use request::{Begin, REQUEST_LEN, Request};
pub use text::{Text, TextTooLong};

/// The version of both kinds of message.
pub const VERSION: u16 = 1;

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"TsTk";

/// A message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// No message of ours: a wrong length or wrong first bytes.
    NotOurs,
    /// A message of another version, which is given.
    Version(u16),
    /// A field has a value that does not exist.
    Malformed,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireError::NotOurs => f.write_str("not a message of Tessera's task broker"),
            WireError::Version(found) => {
                write!(f, "a message of version {found}; this side speaks version {VERSION}")
            }
            WireError::Malformed => f.write_str("a message with a field that has no meaning"),
        }
    }
}

impl std::error::Error for WireError {}
