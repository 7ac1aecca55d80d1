//! What differs in Slurm's structs and texts between series. The function that differs stands in `prototypes`; together the two are all
//! there is to look at when a new series comes. `slurm_since = "24.05"` holds for 24.05 and later.

use slurmctld_rt::is_exclusive;

use super::sys;

/// True if slurmctld frees `extra` of a submission twice (`_copy_job_desc_to_job_record`).
pub(super) const FREES_EXTRA_TWICE: bool = !cfg!(slurm_since = "23.02");

/// One entry of `tres_per_node`.
pub(super) fn gres(name: &str, count: u32) -> String {
    let kind = if cfg!(slurm_since = "23.11") { "gres/" } else { "gres:" };
    format!("{kind}{name}:{count}")
}

/// `--exclusive`.
pub(super) fn exclusive(whole_node: u8) -> bool {
    is_exclusive(whole_node, sys::WHOLE_NODE_REQUIRED, cfg!(slurm_since = "24.05"))
}
