//! The symbols that Slurm looks up in this plugin.

mod calls;
mod prototypes;

/// Slurm's own select_cons_tres.so.
static REAL: plugin_front::Real = plugin_front::Real::new("select_cons_tres.so");
