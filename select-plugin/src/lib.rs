//! `select_cons_tres.so`: Slurm's own select/cons_tres underneath, Tessera's placement on top.
//!
//! Slurm compares `SelectType` with the string `cons_tres` in many places, so this plugin takes that name, lies in a
//! directory of its own that comes first in `PluginDir`, finds the real plugin in the rest of `PluginDir`, and
//! forwards every symbol to it. slurmd and the commands load it as well: there it only forwards.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod effect;
mod engine;
mod entry;
#[expect(unsafe_code, reason = "Slurm's structs and functions")]
mod ffi;
mod job_test;
mod learnt;
mod lifecycle_hooks;
mod limited;
mod live;
mod memory;
mod narrow;
mod node_order;
mod patience;
mod place_on_node;
mod reminder;
mod seen;
mod site;
mod slices;
mod slurm;
mod slurm_rules;
mod state;
mod structs;
#[cfg(test)]
mod tests;
mod view;
mod whole_node;
