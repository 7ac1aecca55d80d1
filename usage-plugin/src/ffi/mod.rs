//! Everything C: the symbols that Slurm looks up, and what is read from and written to its structs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::{Mutex, PoisonError};

use plugin_rt::{Chain, guard_ok, log, symbol, text};

use crate::peaks::Value;
use crate::step::{NoSample, Step, extern_of};

include!(concat!(env!("OUT_DIR"), "/sys.rs"));

plugin_rt::exported_text!(plugin_name, "Tessera: GPU memory and utilisation of jobs");
plugin_rt::exported_text!(plugin_type, "acct_gather_interconnect/tessera");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

/// The Slurm that the structs were read from: the loader refuses any other.
#[unsafe(no_mangle)]
static plugin_version: u32 = sys::SLURM_VERSION_NUMBER;

const SUCCESS: c_int = 0;

/// The step or node that this process serves.
enum Serves {
    /// Nobody has asked yet.
    Unknown,
    /// No extern step, or one whose node is not Tessera's.
    Nothing,
    Step(Box<Step>),
}

static SERVES: Mutex<Serves> = Mutex::new(Serves::Unknown);

#[unsafe(no_mangle)]
extern "C" fn init() -> c_int {
    plugin_rt::install_panic_hook();
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn fini() -> c_int {
    guard_ok("fini", (), || {
        *SERVES.lock().unwrap_or_else(PoisonError::into_inner) = Serves::Nothing;
    });
    SUCCESS
}

/// Profiles of the network are other plugins'.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_node_update() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_interconnect_p_get_data(data: *mut sys::acct_gather_data_t) -> c_int {
    guard_ok("get_data", (), || {
        // A panic while it was held has been logged; what the step has seen so far is still right.
        let mut serves = SERVES.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*serves, Serves::Unknown) {
            *serves = begin();
        }
        let Serves::Step(step) = &mut *serves else { return };
        if let Err(why) = step.look() {
            // Once for each job: after that the numbers are missing, or the driver answers again.
            let line = format!("job {}: GPU usage was not sampled: {}", step.job, Chain(&why));
            if mem::replace(&mut step.failed, true) { log::debug(line) } else { log::error(line) }
        }
        for (name, value) in [(c"gpumem", step.peaks.memory()), (c"gpuutil", step.peaks.busy())] {
            if let (Some(value), Some(position)) = (value, position(name)) {
                // SAFETY: common_jag.c: `data` has an element for every TRES that assoc_mgr knows, in its order.
                unsafe { write(data, position, value) };
            }
        }
    });
    SUCCESS
}

/// # Safety
///
/// `data` is null or has more than `position` elements, which nobody else uses meanwhile.
unsafe fn write(data: *mut sys::acct_gather_data_t, position: usize, value: Value) {
    if data.is_null() {
        return;
    }
    // SAFETY: the caller's promise: inside the array.
    let element = unsafe { data.add(position) };
    // SAFETY: as above, and nobody else has it.
    if let Some(element) = unsafe { element.as_mut() } {
        element.size_read = value.usage_in;
        element.size_write = value.usage_out;
    }
}

/// Finds out whose daemon this is.
fn begin() -> Serves {
    let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let Some(job) = extern_of(&String::from_utf8_lossy(&command_line)) else { return Serves::Nothing };
    let Some(node) = node_name() else {
        log::error("GPU usage is not accounted: this Slurm does not tell the node's name");
        return Serves::Nothing;
    };
    match Step::new(job, node) {
        Ok(step) => Serves::Step(Box::new(step)),
        Err(why) => {
            let line = format!("job {job}: GPU usage is not accounted: {}", Chain(&why));
            // Sites without Tessera's GPUs on some nodes list the plugin all the same.
            if matches!(why, NoSample::Unmanaged(_)) {
                log::debug(line)
            } else {
                log::error(line)
            }
            Serves::Nothing
        }
    }
}

/// This node's name in Slurm, as slurmstepd has it from slurmd.
fn node_name() -> Option<String> {
    let conf = symbol(c"conf")?.cast::<*const u8>();
    // SAFETY: slurmd.h: `extern slurmd_conf_t *conf`, which slurmstepd sets before it loads plugins and never changes.
    let conf = unsafe { conf.read() };
    if conf.is_null() {
        return None;
    }
    // SAFETY: slurmd.h: the struct is there, and the offset is the field's.
    let field = unsafe { conf.add(sys::TESSERA_NODE_NAME as usize) }.cast::<*const c_char>();
    // SAFETY: as above; it is initialised, and aligned as C aligns it.
    let name = unsafe { field.read() };
    // SAFETY: slurmd.h: null, or a NUL-terminated string that lives as long as the struct.
    unsafe { text(name) }
}

type FindTres = unsafe extern "C" fn(*mut sys::slurmdb_tres_rec_t, bool) -> c_int;

/// Finds Slurm's position of `gres/NAME`; `None` where AccountingStorageTRES does not name it.
fn position(name: &'static CStr) -> Option<usize> {
    let find = symbol(c"assoc_mgr_find_tres_pos")?;
    // SAFETY: assoc_mgr.h: `int assoc_mgr_find_tres_pos(slurmdb_tres_rec_t *tres_rec, bool locked)`.
    let find = unsafe { mem::transmute::<*mut c_void, FindTres>(find.as_ptr()) };
    let text = |text: &'static CStr| text.as_ptr().cast_mut().cast::<c_char>();
    // Zeros, because it has one field more from 25.11 on.
    // SAFETY: slurmdb.h: numbers and pointers, for which zeros are 0 and null.
    let mut tres = unsafe { mem::zeroed::<sys::slurmdb_tres_rec_t>() };
    (tres.name, tres.type_) = (text(name), text(c"gres"));
    // SAFETY: as above: it compares the record's strings and keeps nothing; jobacct_gather holds none of its locks here.
    let position = unsafe { find(&raw mut tres, false) };
    usize::try_from(position).ok()
}

/// There is nothing to configure in acct_gather.conf.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_options(_options: *mut *mut c_void, _count: *mut c_int) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_set(_table: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_values(_list: *mut c_void) {}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    /// Slurm ends where a plugin lacks one of the symbols that it looks up.
    #[test]
    fn every_symbol_that_slurm_looks_up_is_here() {
        let asked: &[&str] = &include!(concat!(env!("OUT_DIR"), "/asked.rs"));
        let source = include_str!("mod.rs");
        assert_eq!(asked.len(), 5, "{asked:?}");
        for name in asked {
            assert!(source.contains(&format!("extern \"C\" fn {name}(")), "{name}");
        }
    }

    #[test]
    fn outside_slurm_nothing_is_found_and_nothing_written() {
        assert_eq!(position(c"gpumem"), None);
        // SAFETY: null is allowed.
        unsafe { write(null_mut(), 3, Value { usage_in: 1, usage_out: 1 }) };
        // SAFETY: as above.
        assert_eq!(unsafe { acct_gather_interconnect_p_get_data(null_mut()) }, SUCCESS);
    }
}
