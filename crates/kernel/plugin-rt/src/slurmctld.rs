//! What the plugins of slurmctld share. Bindings stay each plugin's own: Slurm's internal structs differ between releases,
//! and a plugin names the ones that it reads.
//!
//! A plugin looks up every symbol that it needs when it is loaded ([`required`]). If one is missing, it says so in one line
//! and leaves all to Slurm: placing jobs by half would be worse.

pub use crate::ffi::heap::{Heap, entries, variable};
pub use crate::ffi::symbols::{MissingSymbol, in_slurmctld, item, required, struct_at, text, version};
