//! Symbols of slurmctld, and the structs behind pointers.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use plugin_rt::symbol;
use slurm_numbers::IS_SLURMCTLD;
use slurm_tables::Version;

/// The hosting process lacks a symbol: it is another Slurm than the plugin was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process has no symbol {}; Tessera was built for another Slurm", .0.to_string_lossy())]
pub struct MissingSymbol(pub &'static CStr);

impl MissingSymbol {
    /// Describes the missing symbol in one line, for a plugin whose `plugin_version` is `number`. Slurm has compared that
    /// with its own version before it loaded the plugin, so this is a Slurm of the same number that somebody has changed.
    #[must_use]
    pub fn built_for(self, number: u32) -> String {
        let (version, symbol) = (Version(number), self.0.to_string_lossy());
        format!(
            "built for Slurm {version}, but this Slurm, which calls itself {version} too, has no symbol {symbol}"
        )
    }
}

/// The address of a symbol that the plugin cannot do without.
///
/// # Errors
///
/// The process has none of that name. The plugin is to say so and refuse to load.
pub fn required(name: &'static CStr) -> Result<NonNull<c_void>, MissingSymbol> {
    symbol(name).ok_or(MissingSymbol(name))
}

/// Tells whether the process is slurmctld, as Slurm itself tells by its program name. False in a process that is not Slurm's.
///
/// `by_bit`: this Slurm tells by its `IS_SLURMCTLD`, as from 25.05 on. The older Slurm has a `run_in_daemon` too, with other
/// arguments.
///
/// # Errors
///
/// The process is Slurm's and has no such function.
pub fn in_slurmctld(by_bit: bool) -> Result<bool, MissingSymbol> {
    if symbol(c"slurm_xrecalloc").is_none() {
        return Ok(false);
    }
    if !by_bit {
        let function = required(c"slurm_running_in_slurmctld")?;
        // SAFETY: src/common/run_in_daemon.h up to 24.11: `extern bool running_in_slurmctld(void)`.
        let ask =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> bool>(function.as_ptr()) };
        // SAFETY: as above; it reads the program's name.
        return Ok(unsafe { ask() });
    }
    let function = required(c"slurm_run_in_daemon")?;
    // SAFETY: src/common/run_in_daemon.h from 25.05, where alone `IS_SLURMCTLD` exists: `extern bool run_in_daemon(uint32_t)`.
    let ask =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> bool>(function.as_ptr()) };
    // SAFETY: as above; it compares the bit with the daemon's own.
    Ok(unsafe { ask(IS_SLURMCTLD) })
}

/// The struct behind a pointer; `None` for null.
///
/// # Safety
///
/// A pointer that is not null points to a live, initialised `T` that nothing writes to while the reference is used.
/// Slurm's promise for the records that it hands to a plugin of slurmctld: the caller holds the locks.
#[must_use]
pub unsafe fn struct_at<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
}

/// Element `index` of an array; `None` for a null array.
///
/// # Safety
///
/// An array that is not null has more than `index` initialised elements.
#[must_use]
pub unsafe fn item<T: Copy>(array: *const T, index: usize) -> Option<T> {
    if array.is_null() {
        return None;
    }
    // SAFETY: the caller's promise: inside the array.
    let element = unsafe { array.add(index) };
    // SAFETY: as above, initialised.
    Some(unsafe { element.read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn a_null_pointer_reads_as_none() {
        // SAFETY: null is allowed.
        assert!(unsafe { struct_at::<u32>(null()) }.is_none());
        // SAFETY: null is allowed.
        assert_eq!(unsafe { item::<u32>(null(), 7) }, None);
    }

    #[test]
    fn an_array_element_is_read_at_its_index() {
        let array = [1_u16, 2, 3];
        // SAFETY: three elements.
        assert_eq!(unsafe { item(array.as_ptr(), 2) }, Some(3));
    }

    #[test]
    fn symbols_are_found_or_named() {
        assert!(required(c"getenv").is_ok());
        assert_eq!((in_slurmctld(false), in_slurmctld(true)), (Ok(false), Ok(false)));
        assert_eq!(
            required(c"slurm_of_no_version").unwrap_err().to_string(),
            "this process has no symbol slurm_of_no_version; Tessera was built for another Slurm"
        );
        assert_eq!(
            MissingSymbol(c"job_list").built_for(0x1a_0503),
            "built for Slurm 26.05.3, but this Slurm, which calls itself 26.05.3 too, has no symbol job_list"
        );
    }
}
