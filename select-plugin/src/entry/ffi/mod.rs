//! Everything of these symbols: no other module has any.

mod calls;
mod prototypes;

/// Slurm's own select_cons_tres.so.
static REAL: plugin_front::Real = plugin_front::Real::new("select_cons_tres.so");
