//! Loads Slurm's own plugin.

#[macro_use]
pub(crate) mod forward;

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_rt::own_file;
use slurm_tables::Version;
use slurmctld_rt::fit::conf_texts;

use crate::find::{RealError, check, find};

/// Marks a plugin that stands in front of another, so that a copy of it elsewhere in `PluginDir` is not taken for Slurm's.
const MARKER: &CStr = c"tessera_version";

/// Slurm's own plugin of the same name, once it is loaded.
#[derive(Debug)]
pub struct Real {
    file: &'static str,
    handle: AtomicPtr<c_void>,
}

impl Real {
    /// The plugin in the files of this name; not loaded yet. The plugin in front of it exports `tessera_version`.
    #[must_use]
    pub const fn new(file: &'static str) -> Self {
        Self { file, handle: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Loads it, once; later calls do nothing. `slurm` is the version that it must have, `names` are the functions.
    ///
    /// # Errors
    ///
    /// `PluginDir` has none that can be loaded and has both.
    pub fn load(
        &self,
        slurm: Version,
        names: &mut dyn Iterator<Item = &'static str>,
    ) -> Result<(), RealError> {
        if self.handle().is_none() {
            let names: Vec<&str> = names.collect();
            let own = own_file();
            let dirs = own.as_deref().and_then(plugin_dirs).ok_or(RealError::NoPluginDir)?;
            let handle = find(self.file, &dirs, own.as_deref(), |path| open(path, slurm, &names))?;
            self.handle.store(handle.as_ptr(), Ordering::Release);
        }
        Ok(())
    }

    /// The address of a symbol of it.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        in_handle(self.handle()?, name)
    }

    /// The dynamic linker's handle of it; never closed.
    pub fn handle(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.handle.load(Ordering::Acquire))
    }
}

/// `PluginDir` of slurm.conf: the text in `slurm_conf` that names the directory of this plugin, whose file is `own`. This needs no
/// table of Slurm's structures: every process that loads the plugin, in every version, has to find Slurm's own.
fn plugin_dirs(own: &Path) -> Option<String> {
    let dir = own.parent()?;
    conf_texts().find(|text| text.split(':').any(|named| Path::new(named) == dir))
}

/// Opens a plugin; `None` if it is another copy of this one.
fn open(path: PathBuf, slurm: Version, names: &[&'static str]) -> Result<Option<NonNull<c_void>>, RealError> {
    let Ok(file) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(RealError::Load { path, why: "its name has a NUL in it".to_owned() });
    };
    // SAFETY: dlopen of a plugin from a directory the admin named; lazily bound, as Slurm itself does
    // (src/common/plugin.c), because commands lack symbols that only slurmctld has.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY) };
    let Some(handle) = NonNull::new(handle) else {
        return Err(RealError::Load { path, why: dl_error() });
    };
    if in_handle(handle, MARKER).is_some() {
        return Ok(None);
    }
    let has = |name: &str| CString::new(name).is_ok_and(|name| in_handle(handle, &name).is_some());
    // SAFETY: src/common/plugin.c reads `const uint32_t plugin_version` of every plugin, so Slurm's own has it.
    let version = || in_handle(handle, c"plugin_version").map(|at| unsafe { at.cast::<u32>().read() });
    check(path, slurm.0, names, has, version)?;
    Ok(Some(handle))
}

fn in_handle(handle: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: POSIX dlsym: a handle that dlopen gave and that is never closed, and a NUL-terminated name.
    NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) })
}

fn dl_error() -> String {
    // SAFETY: POSIX dlerror: a string or null, valid until the next dl call of this thread.
    let text: *const c_char = unsafe { libc::dlerror() };
    // SAFETY: null or NUL-terminated, copied at once.
    unsafe { plugin_rt::text(text) }.unwrap_or_else(|| "unknown error of the dynamic linker".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_lacks_a_symbol_is_not_forwarded_to() {
        let other = open(PathBuf::from("libm.so.6"), Version::new(22, 5, 8), &["init"]);
        assert!(matches!(other, Err(RealError::Incomplete { symbol: "init", .. })), "{other:?}");
    }
}
