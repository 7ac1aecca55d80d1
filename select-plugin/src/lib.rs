//! `select_cons_tres.so`: Slurm's own select/cons_tres underneath, Tessera's placement on top.
//!
//! Slurm compares `SelectType` with the string `cons_tres` in many places, so this plugin takes that name, lies in a
//! directory of its own that comes first in `PluginDir`, finds the real plugin in the rest of `PluginDir`, and
//! forwards every symbol to it. slurmd and the commands load it as well: there it only forwards.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod commit;
mod config;
mod engine;
mod ffi;
mod narrow;
mod patience;
#[cfg(test)]
mod tests;
mod view;
