//! The site's `tessera.toml` on disk: read ([`tessera_toml`]), and kept for the time when it is bad ([`last_good`]).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod last_good;
pub mod tessera_toml;
