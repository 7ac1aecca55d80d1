//! The skeleton of the two accounting plugins: the symbols that both export ([`accounting_plugin!`]), the step that a process
//! serves ([`ServedStep`]), and where its node keeps journal and driver ([`AccountedNode`]).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod exported;
mod node;
mod served_step;

pub use exported::missing_symbols;
pub use node::{AccountedNode, NotAccounted};
pub use served_step::ServedStep;

#[doc(hidden)]
pub use plugin_rt;
