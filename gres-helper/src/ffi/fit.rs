//! The tables held against this slurmctld, before a description or a record is read by them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};

use plugin_rt::{Chain, log};
use slurm_tables::Misfit;
use slurm_tables::own_layout;
use slurmctld_rt::fit::{Unfit, check, conf_fits};

use super::host;
use super::records::{self, Conf, Desc, Details, Job};
use super::version;

/// Knowledge of the structures.
static KNOWN: AtomicU8 = AtomicU8::new(NOTHING);
const NOTHING: u8 = 0;
/// Places of fields. No description was seen yet.
const LEARNT: u8 = 1;
/// Descriptions are as they are known here.
const FITS: u8 = 2;
/// Descriptions are different.
const OTHER: u8 = 3;

/// Learns where fields lie, and compares slurm.conf with that.
pub(super) fn learn() -> Result<(), Unfit> {
    let layout = own_layout(version::slurm())?;
    records::learn(&layout)?;
    if let Err(lacks) = records::learn_limits(&layout) {
        log::verbose(format_args!("job submit plugin: limits of Slurm are not told: {lacks}"));
    }
    conf_fits(Conf::described(), || host::conf()?.plugindir())?;
    KNOWN.store(LEARNT, Ordering::Release);
    Ok(())
}

/// Tells whether a description can be read. The first one decides, and says so if it cannot.
pub(super) fn reads(desc: *const c_void) -> bool {
    if KNOWN.load(Ordering::Acquire) != LEARNT {
        return KNOWN.load(Ordering::Acquire) == FITS;
    }
    let checked = described(desc);
    KNOWN.store(if checked.is_ok() { FITS } else { OTHER }, Ordering::Release);
    checked.inspect_err(|why| say(&Unfit::Other(why.clone()))).is_ok()
}

/// Compares a description. One that slurmctld has not got from a client need not be a block of its own.
fn described(desc: *const c_void) -> Result<(), Misfit> {
    match check(Desc::described(), desc) {
        Err(Misfit::Size { has: 0, .. }) => {
            Desc::described().map_or(Ok(()), |known| known.check_fields(desc.addr()))
        }
        other => other,
    }
}

/// Tells whether the record of a job can be read, which is to be changed: each is looked at.
pub(super) fn reads_job(job: *const c_void) -> bool {
    let whole = check(Job::described(), job).and_then(|()| {
        // SAFETY: null, or a job's record, as was just found.
        Details::check(unsafe { Job::at(job) }.and_then(Job::details))
    });
    whole.is_ok()
}

/// Says that nothing is read, once.
pub(super) fn say(why: &Unfit) {
    let slurm = version::slurm();
    log::error(format_args!(
        "job submit plugin: this is no Slurm {slurm} as it was published: {}: all jobs are left to Slurm",
        Chain(why)
    ));
}
