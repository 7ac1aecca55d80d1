//! A plugin of Tessera's that stands in front of Slurm's own of the same name.
//!
//! Slurm loads the first file of a name in `PluginDir`. The directory with Tessera's plugins comes first there, so Slurm loads Tessera's
//! plugin, which finds Slurm's own in the rest of `PluginDir` ([`Real`]) and forwards every function to it ([`around!`], [`forward!`]).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "the dynamic linker, and calls of functions that it finds")]
mod ffi;
mod find;

pub use ffi::Real;
pub use ffi::forward::Slot;
pub use find::RealError;
#[doc(hidden)]
pub use slurm_tables::Version;
