//! Slurm's own functions that know the node of this machine.

use std::ffi::{CStr, CString, c_char};

use plugin_rt::{symbol, text};

/// Finds the node that a slurmd without `-N` serves: that whose NodeHostname in slurm.conf is this machine's host name, as slurmd
/// itself finds it. `None` where Slurm's functions do not say.
///
/// Source: `slurm_conf_get_nodename`, `char *(const char *)`, by the short host name, then
/// `slurm_conf_get_aliased_nodename`, `char *(void)`, then the former by `localhost` [22.05 to 26.05 `slurmd/slurmd.c`].
#[must_use]
pub fn configured_node_name() -> Option<String> {
    let by_host = symbol(c"slurm_conf_get_nodename")?;
    // SAFETY: Slurm's function of that name has this type in every series that has it [src/common/read_config.h].
    let by_host: extern "C" fn(*const c_char) -> *const c_char = unsafe { std::mem::transmute(by_host) };
    let named = |host: &CStr| {
        // SAFETY: null, or a NUL-terminated string that Slurm has allocated for its caller. These few bytes stay.
        unsafe { text(by_host(host.as_ptr())) }
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = CString::new(host.trim().split('.').next().unwrap_or_default()).ok();
    short.as_deref().and_then(named).or_else(aliased_node_name).or_else(|| named(c"localhost"))
}

/// The node that one of this machine's other names belongs to.
fn aliased_node_name() -> Option<String> {
    let by_alias = symbol(c"slurm_conf_get_aliased_nodename")?;
    // SAFETY: Slurm's function of that name has this type in every series that has it [src/common/read_config.h].
    let by_alias: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(by_alias) };
    // SAFETY: as in `configured_node_name`.
    unsafe { text(by_alias()) }
}
