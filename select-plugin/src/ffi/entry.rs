//! The symbols that Slurm reads and calls, except those that only forward.

use std::ffi::c_int;
use std::path::Path;

use plugin_rt::{Chain, guard_ok, log};
use slurmctld_rt::{MissingSymbol, in_slurmctld};

use super::host::Host;
use super::{hooks, host, prototypes, real, sys};
use crate::state;

plugin_rt::exported_text!(plugin_name, "Tessera: GPU placement on top of select/cons_tres");
plugin_rt::exported_text!(plugin_type, "select/cons_tres");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

/// The id of the plugin this one stands in front of.
#[unsafe(no_mangle)]
static plugin_id: u32 = sys::SELECT_PLUGIN_CONS_TRES;

/// The Slurm that the structs were read from: the loader refuses any other.
#[unsafe(no_mangle)]
static plugin_version: u32 = sys::SLURM_VERSION_NUMBER;

/// Names of the functions of Slurm's own plugin that are called: here, or in `prototypes`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().chain(prototypes::NAMES).copied()
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
    #[cfg(not(slurm_since = "25.05"))]
    "select_p_step_start",
    "select_p_select_nodeinfo_set_all",
];

const SUCCESS: c_int = sys::SLURM_SUCCESS as c_int;
const ERROR: c_int = sys::SLURM_ERROR;

around!(fn init() -> c_int, else SUCCESS, |real| {
    plugin_rt::install_panic_hook();
    if let Err(e) = real::load(&mut names()) {
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
    match places_jobs() {
        Ok(false) => return,
        Ok(true) => {}
        Err(missing) => {
            let saved = || host::conf_string(|c| c.state_save_location);
            guard_ok("init", (), || state::say_other_slurm(saved().as_deref()));
            let missing = missing.built_for(sys::SLURM_VERSION_NUMBER);
            return log::error(format_args!("select plugin: {missing}: GPUs are left to Slurm"));
        }
    }
    guard_ok("init", (), configure);
    if let Some(bad) = guard_ok("init", None, state::bad_at_reconfiguration) {
        host::fatal(&format!("tessera: {bad}"));
    }
}

/// Tells whether this process is slurmctld. Everywhere else the plugin only forwards, and in a slurmctld that lacks a symbol.
fn places_jobs() -> Result<bool, MissingSymbol> {
    let inside = in_slurmctld(sys::TESSERA_IS_SLURMCTLD)?;
    if inside { Host::found().as_ref().map(|_| true).map_err(Clone::clone) } else { Ok(false) }
}

/// Reads the configuration and, if it is new, starts from an empty state.
fn configure() {
    let Some(slurm_conf) = host::conf_string(|c| c.slurm_conf) else { return };
    let saved = host::conf_string(|c| c.state_save_location);
    state::configure(Path::new(&slurm_conf), saved.as_deref(), sys::SLURM_VERSION_NUMBER);
}

around!(fn select_p_reconfigure() -> c_int, else ERROR, |real| {
    if places_jobs() == Ok(true) {
        guard_ok("reconfigure", (), configure);
    }
    let rc = real();
    guard_ok("reconfigure", (), hooks::rebuild);
    rc
});

around!(fn select_p_job_begin(job: *mut sys::job_record_t) -> c_int, else ERROR, |real| {
    // If it may not, it stays pending, with reason Resources.
    if guard_ok("job_begin", false, || hooks::may_begin(job)) { real() } else { ERROR }
});

around!(fn select_p_select_nodeinfo_set(job: *mut sys::job_record_t) -> c_int, else ERROR, |real| {
    let rc = real();
    guard_ok("select_nodeinfo_set", (), || hooks::allocated(job));
    rc
});

around!(fn select_p_select_nodeinfo_set_all() -> c_int, else ERROR, |real| {
    guard_ok("select_nodeinfo_set_all", (), hooks::nodes_are_shown);
    real()
});

around!(fn select_p_job_fini(job: *mut sys::job_record_t) -> c_int, else ERROR, |real| {
    let rc = real();
    guard_ok("job_fini", (), || hooks::ended(job));
    rc
});

around!(
    fn select_p_job_resized(job: *mut sys::job_record_t, node: *mut sys::node_record_t) -> c_int,
    else ERROR,
    |real| {
        let rc = real();
        guard_ok("job_resized", (), || hooks::lost_node(job, node));
        rc
    }
);

#[cfg(not(slurm_since = "25.05"))]
around!(fn select_p_step_start(step: *mut sys::step_record_t) -> c_int, else ERROR, |real| {
    guard_ok("step_start", (), || hooks::step_starts(step));
    real()
});

around!(
    fn select_p_job_expand(from: *mut sys::job_record_t, to: *mut sys::job_record_t) -> c_int,
    else ERROR,
    |real| {
        if !guard_ok("job_expand", false, || hooks::may_merge(from, to)) {
            log::info("job_expand: jobs with GPUs cannot be merged");
            return ERROR;
        }
        real()
    }
);
