//! The symbols that Slurm reads and calls, except those that differ between series.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::time::Instant;

use decision_counts::decisions::Hook;
use plugin_front::around;
use plugin_rt::{Chain, guard_ok, log};
use shared_pages::decisions::{count_hook, timed};
use slurm_numbers as numbers;
use slurm_tables::Version;
use slurmctld_rt::fit::state_dir;
use slurmctld_rt::{MissingSymbol, in_slurmctld};

use super::{REAL, prototypes};
use crate::ffi::host::Host;
use crate::ffi::records::{Conf, Job, Node, Step};
use crate::ffi::{fit, host, version};
use crate::live::hooks;
use crate::state;

plugin_rt::exported_text!(plugin_name, "Tessera: GPU placement on top of select/cons_tres");
plugin_rt::exported_text!(plugin_type, "select/cons_tres");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

/// The id of the plugin this one stands in front of.
#[unsafe(no_mangle)]
static plugin_id: u32 = numbers::SELECT_PLUGIN_CONS_TRES;

/// Names of the functions of Slurm's own plugin that are called in this version: here, or in `prototypes`.
pub(super) fn names(slurm: Version) -> impl Iterator<Item = &'static str> {
    let of_steps = (!slurm.since(25, 5)).then_some("select_p_step_start");
    NAMES.iter().copied().chain(of_steps).chain(prototypes::names(slurm))
}

const NAMES: &[&str] = &[
    "init",
    "fini",
    "select_p_reconfigure",
    "select_p_job_test",
    "select_p_job_begin",
    "select_p_select_nodeinfo_set",
    "select_p_job_fini",
    "select_p_job_resized",
    "select_p_job_expand",
    "select_p_select_nodeinfo_set_all",
];

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;

around!(fn init() -> c_int, else SUCCESS, |real| {
    plugin_rt::install_panic_hook();
    if let Err(e) = REAL.load(version::slurm(), &mut names(version::slurm())) {
        log::error(format_args!("select plugin: {}", Chain(&e)));
        return ERROR;
    }
    let rc = real();
    if rc == SUCCESS {
        begin();
    }
    rc
});

/// Begins to place jobs, in a slurmctld that has all that is needed for that.
fn begin() {
    let is_slurmctld = in_slurmctld(version::slurm().since(25, 5)).unwrap_or(false);
    if is_slurmctld && !guard_ok("init", false, fit::learns) {
        return guard_ok("init", (), || state::say_other_slurm(state_dir().as_deref()));
    }
    match places_jobs() {
        Ok(false) => return,
        Ok(true) => {}
        Err(missing) => {
            let saved = || host::conf_string(Conf::state_save_location);
            guard_ok("init", (), || state::say_other_slurm(saved().as_deref()));
            let missing = missing.built_for(version::slurm().0);
            return log::error(format_args!("select plugin: {missing}: GPUs are left to Slurm"));
        }
    }
    guard_ok("init", false, configure);
    if let Some(bad) = guard_ok("init", None, state::bad_at_reconfiguration) {
        host::fatal(&format!("tessera: {bad}"));
    }
}

/// Tells whether this process is slurmctld. Everywhere else the plugin only forwards, and in a slurmctld that lacks a symbol.
fn places_jobs() -> Result<bool, MissingSymbol> {
    let inside = in_slurmctld(version::slurm().since(25, 5))?;
    if inside && fit::is_learnt() {
        Host::found().as_ref().map(|_| true).map_err(Clone::clone)
    } else {
        Ok(false)
    }
}

/// Reads the configuration and, if it is new, starts from an empty state. Tells whether it is the one that the state is of.
fn configure() -> bool {
    let Some(slurm_conf) = host::conf_string(Conf::slurm_conf) else { return false };
    let saved = host::conf_string(Conf::state_save_location);
    state::configure(Path::new(&slurm_conf), saved.as_deref(), version::slurm().0)
}

around!(fn select_p_reconfigure() -> c_int, else ERROR, |real| {
    let began = Instant::now();
    let same_file = places_jobs() == Ok(true) && guard_ok("reconfigure", false, configure);
    let before = began.elapsed();
    let rc = real();
    let began = Instant::now();
    guard_ok("reconfigure", (), || hooks::rebuild(same_file));
    count_hook(Hook::Reconfigure, before + began.elapsed());
    rc
});

/// A job that a hook is about.
fn job_at(job: *const c_void) -> Option<Job> {
    // SAFETY: select.h: null or the record of a live job, under slurmctld's job lock.
    unsafe { Job::at(job) }
}

around!(fn select_p_job_begin(job: *mut c_void) -> c_int, else ERROR, |real| {
    // If it may not, it stays pending, with reason Resources.
    if timed(Hook::JobBegin, || guard_ok("job_begin", false, || hooks::may_begin(job_at(job)))) { real() } else { ERROR }
});

around!(fn select_p_select_nodeinfo_set(job: *mut c_void) -> c_int, else ERROR, |real| {
    let rc = real();
    timed(Hook::Allocated, || guard_ok("select_nodeinfo_set", (), || hooks::allocated(job_at(job))));
    rc
});

around!(fn select_p_select_nodeinfo_set_all() -> c_int, else ERROR, |real| {
    timed(Hook::NodesShown, || guard_ok("select_nodeinfo_set_all", (), hooks::nodes_are_shown));
    real()
});

around!(fn select_p_job_fini(job: *mut c_void) -> c_int, else ERROR, |real| {
    let rc = real();
    timed(Hook::JobEnded, || guard_ok("job_fini", (), || hooks::ended(job_at(job))));
    rc
});

around!(
    fn select_p_job_resized(job: *mut c_void, node: *mut c_void) -> c_int,
    else ERROR,
    |real| {
        let rc = real();
        // SAFETY: select.h: null or the record of a live node.
        let lost = || hooks::lost_node(job_at(job), unsafe { Node::at(node) });
        timed(Hook::JobResized, || guard_ok("job_resized", (), lost));
        rc
    }
);

around!(fn select_p_step_start(step: *mut c_void) -> c_int, else ERROR, |real| {
    // SAFETY: select.h: null or a live step, under slurmctld's job write lock.
    let starts = || hooks::step_starts(unsafe { Step::at(step) });
    timed(Hook::StepStart, || guard_ok("step_start", (), starts));
    real()
});

around!(
    fn select_p_job_expand(from: *mut c_void, to: *mut c_void) -> c_int,
    else ERROR,
    |real| {
        if !guard_ok("job_expand", false, || hooks::may_merge(job_at(from), job_at(to))) {
            log::info("job_expand: jobs with GPUs cannot be merged");
            return ERROR;
        }
        real()
    }
);

#[cfg(test)]
mod tests {
    use slurm_tables::{TABLES, Tables};

    use super::*;

    /// Slurm ends slurmctld if a plugin lacks a function that it looks up, and its own plugin has no other.
    #[test]
    fn every_release_finds_the_functions_that_it_looks_up() {
        let table = Tables::parse(TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            let mut ours: Vec<&str> =
                names(*release).filter(|name| !["init", "fini"].contains(name)).collect();
            ours.sort_unstable();
            assert_eq!(ours, layout.asked("select_p_"), "{release}");
            assert_eq!(layout.asked("plugin_id"), ["plugin_id"], "{release}");
        }
    }

    #[test]
    fn every_release_has_the_fields_that_are_read() {
        let table = Tables::parse(TABLES).unwrap();
        for release in &table.releases {
            crate::ffi::records::learn(&table.layout(*release).unwrap()).unwrap();
        }
    }
}
