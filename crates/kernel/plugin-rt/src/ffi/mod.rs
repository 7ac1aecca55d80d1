//! The hosting process: its symbols, its strings, its variadic log functions.
//!
//! Symbols are looked up rather than linked, so that the same crate works in slurmctld, slurmd and the commands, and
//! in tests where there is no Slurm. The log functions are those `slurm/spank.h` declares; libslurmfull has them all.

pub(crate) mod symbols;

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::level::Level;
use symbols::symbol;

/// `extern void slurm_info(const char *format, ...)` and its siblings (`slurm_error` returns an int, which a caller
/// may ignore in the C ABI).
type Printf = unsafe extern "C" fn(*const c_char, ...) -> c_int;

/// Hands one line to the hosting process; without Slurm it is dropped.
pub(crate) fn slurm_sink(level: Level, line: &CStr) {
    let _dropped = hand_over(level, line);
}

/// Hands one line to the hosting process, and returns whether that has taken it.
fn hand_over(level: Level, line: &CStr) -> bool {
    let Some(print) = resolve(function_of(level)) else { return false };
    // SAFETY: slurm/spank.h: a printf-like function; the format is constant and takes one string, which is
    // NUL-terminated and outlives the call.
    unsafe { print(c"%s".as_ptr(), line.as_ptr()) };
    true
}

/// Slurm's function for lines of a level.
fn function_of(level: Level) -> &'static CStr {
    match level {
        Level::Error => c"slurm_error",
        Level::Info => c"slurm_info",
        Level::Verbose => c"slurm_verbose",
        Level::Debug => c"slurm_debug",
        Level::User => c"slurm_spank_log",
    }
}

fn resolve(name: &CStr) -> Option<Printf> {
    let address = symbol(name)?;
    // SAFETY: only the log functions named above are asked for, and slurm/spank.h gives them this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, Printf>(address.as_ptr()) })
}

/// Text that Slurm reads as `const char name[]`: the bytes and a NUL.
#[repr(transparent)]
#[derive(Debug)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// `text` with a NUL after it; `N` is its length and one more.
    #[must_use]
    pub const fn new(text: &str) -> Self {
        assert!(text.len() + 1 == N, "one byte for the NUL");
        let mut bytes = [0; N];
        let mut i = 0;
        while i < text.len() {
            bytes[i] = text.as_bytes()[i];
            i += 1;
        }
        Self(bytes)
    }
}

/// Exports text that Slurm's plugin loader reads: `exported_text!(plugin_type, "spank")`.
#[macro_export]
macro_rules! exported_text {
    ($name:ident, $text:expr) => {
        /// Read by Slurm's plugin loader, or by `tessera doctor` in the file.
        #[unsafe(no_mangle)]
        static $name: $crate::Text<{ $text.len() + 1 }> = $crate::Text::new($text);
    };
}

/// Exports `plugin_version`, and declares a function that reads it. Slurm loads a plugin only if this is its own version number. A build
/// leaves it 0; `tessera setup` stamps the number of the installed Slurm into the file.
#[macro_export]
macro_rules! stamped_version {
    () => {
        /// The Slurm that this file is stamped for: the loader refuses any other.
        #[unsafe(no_mangle)]
        static plugin_version: u32 = 0;
    };
    ($vis:vis fn $name:ident) => {
        $crate::stamped_version!();

        /// Gives the number that the file is stamped with.
        $vis fn $name() -> u32 {
            // SAFETY: the static above; volatile, because the compiler has not seen what the file is stamped with.
            unsafe { std::ptr::read_volatile(&raw const plugin_version) }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slurm_no_line_is_taken() {
        for level in [Level::Error, Level::Info, Level::Verbose, Level::Debug, Level::User] {
            assert!(!hand_over(level, c"nobody hears this"), "{level:?}");
        }
    }

    #[test]
    fn exported_text_ends_in_a_nul() {
        assert_eq!(Text::<3>::new("n1").0, *b"n1\0");
    }
}
