//! The version of Slurm's commands.

use std::sync::OnceLock;

use plugin_stamp::said;
use slurm_tables::Version;

use super::command::run;

/// Asks squeue for its version, once; `None`: it does not answer.
pub(crate) fn known() -> Option<Version> {
    /// A squeue that does not answer is asked again: the exporter runs for months.
    static KNOWN: OnceLock<Version> = OnceLock::new();
    let ask = || said::of_program(&run("squeue", &["--version"]).ok()?);
    KNOWN.get().copied().or_else(|| ask().map(|version| *KNOWN.get_or_init(|| version)))
}
