//! What the plugins of slurmctld share. Bindings stay each plugin's own: Slurm's internal structs differ between releases,
//! and a plugin names the ones that it reads.
//!
//! A plugin looks up every symbol that it needs when it is loaded ([`required`]). If one is missing, it says so and refuses
//! to load: it would otherwise let jobs start without what they asked for.

pub use crate::ffi::heap::{Heap, entries};
pub use crate::ffi::symbols::{MissingSymbol, in_slurmctld, item, required, struct_at, text};
