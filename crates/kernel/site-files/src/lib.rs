//! The site's `tessera.toml` on disk: read ([`tessera_toml`]), kept for the time when it is bad ([`last_good`]),
//! and told from that of a slurmd without Tessera ([`loaded`]).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod last_good;
pub mod loaded;
pub mod tessera_toml;
