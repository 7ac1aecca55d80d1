//! The QOS of a job.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use slurm_tables::table::BadTable;
use slurm_tables::{Layout, Text, record};

use crate::fit::check;

record! {
    /// A QOS in slurmctld's copy of the accounting [slurm/slurmdb.h].
    struct Qos, QosLayout = "slurmdb_qos_rec" {
        name: Text;
    }
}

/// The first record was looked at, and is one.
static FITS: AtomicBool = AtomicBool::new(false);

/// Learns where the name lies.
///
/// # Errors
///
/// The table does not have it.
pub fn learn_qos(layout: &Layout) -> Result<(), BadTable> {
    Qos::learn(layout)
}

/// Gives the name of a QOS; `None` without one, and where a first look finds something else there.
///
/// # Safety
///
/// `qos` is the `qos_ptr` of a live job, and slurmctld's job lock is held: a QOS that is removed lives until no job has it
/// (`_remove_qos`, src/slurmctld/controller.c), and is never renamed.
#[must_use]
pub unsafe fn qos_name(qos: *const c_void) -> Option<String> {
    if qos.is_null() || !FITS.load(Ordering::Acquire) && check(Qos::described(), qos).is_err() {
        return None;
    }
    FITS.store(true, Ordering::Release);
    // SAFETY: the caller's promise; the first that there was is a record of this kind.
    unsafe { Qos::at(qos) }?.name()
}
