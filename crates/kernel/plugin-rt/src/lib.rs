//! Code that Tessera's Slurm plugins share: a guard round every entry point, the log facade, the panic hook, the reader of
//! files that people name ([`read_file`]).
//!
//! Slurm's daemons are other people's processes. Three rules follow, and this crate holds them in one place:
//!
//! - nothing unwinds into C: every hook runs inside [`guard()`];
//! - a failure is one line in Slurm's own log, with its causes ([`Chain`]), never a message on stderr;
//! - text from users (job names, option values) is data: it is passed through a constant `"%s"`.
//!
//! Each cdylib links its own copy of this crate, so the panic hook and the sink are per plugin.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "the hosting process's symbols and log functions")]
mod ffi;
mod guard;
pub mod kept_file;
mod level;
pub mod log;
pub mod read_file;

pub use error_chain::Chain;
pub use ffi::Text;
pub use ffi::symbols::{own_file, symbol, symbol_size, text};
pub use guard::{guard, guard_ok, install_panic_hook, set_job};
