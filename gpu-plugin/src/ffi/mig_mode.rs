//! The answer to `nvmlDeviceGetMigMode` that Slurm's own plugin gets while it lists GPUs.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use plugin_rt::{Chain, log};
use slurm_tables::peek;

use crate::imports::{BadLibrary, Library};

/// Slurm's plugin cannot be kept from asking.
#[derive(Debug, thiserror::Error)]
enum NotHidden {
    #[error("the dynamic linker does not say where it is")]
    Nowhere,
    #[error(transparent)]
    Bad(#[from] BadLibrary),
    #[error("its pointer to nvmlDeviceGetMigMode cannot be written")]
    ReadOnly,
}

/// Pointers of Slurm's own plugin that lead to [`is_off`], each with the value that it had. Dropped, they have it again.
pub(super) struct Hidden(Vec<(usize, usize)>);

/// Hides MIG from the plugin with this handle; `None`, and a line in the log, if that is not possible.
pub(super) fn hide(handle: NonNull<c_void>) -> Option<Hidden> {
    let tried = library(handle)
        .and_then(|library| library.pointers_to(c"nvmlDeviceGetMigMode").map_err(NotHidden::Bad));
    let hidden = tried.and_then(|pointers| {
        let mut hidden = Hidden(Vec::new());
        pointers.into_iter().try_for_each(|at| hidden.lead_here(at)).map(|()| hidden)
    });
    match hidden {
        Ok(hidden) => {
            log::verbose("gpu plugin: slurmd sees whole GPUs: while it looks for them, MIG counts as off");
            Some(hidden)
        }
        Err(why) => {
            log::error(format_args!(
                "gpu plugin: MIG is not hidden from Slurm's own gpu_nvml.so: {}; slurmd takes MIG instances for GPUs",
                Chain(&why)
            ));
            None
        }
    }
}

impl Hidden {
    fn lead_here(&mut self, at: usize) -> Result<(), NotHidden> {
        let mut before = [0; size_of::<usize>()];
        if !peek(at, &mut before) {
            return Err(NotHidden::Bad(BadLibrary::Unreadable));
        }
        let here: MigMode = is_off;
        if !write(at, here as usize) {
            return Err(NotHidden::ReadOnly);
        }
        self.0.push((at, usize::from_ne_bytes(before)));
        Ok(())
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let failed = self.0.iter().filter(|(at, before)| !write(*at, *before)).count();
        if failed > 0 {
            log::error(
                "gpu plugin: the pointer to nvmlDeviceGetMigMode stays with Tessera: MIG counts as off",
            );
        }
    }
}

/// `nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t, unsigned int *current, unsigned int *pending)` [nvml.h].
type MigMode = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;

/// Answers that MIG is off and stays off.
unsafe extern "C" fn is_off(_gpu: *mut c_void, current: *mut c_uint, pending: *mut c_uint) -> c_int {
    /// `NVML_SUCCESS`.
    const SUCCESS: c_int = 0;
    for mode in [current, pending] {
        // SAFETY: nvml.h: both are places for an answer; null is passed over.
        if let Some(mode) = unsafe { mode.as_mut() } {
            *mode = 0;
        }
    }
    SUCCESS
}

/// Asks the dynamic linker where a library is.
fn library(handle: NonNull<c_void>) -> Result<Library, NotHidden> {
    /// The beginning of `struct link_map` [link.h]: its other fields are the dynamic linker's own.
    #[repr(C)]
    struct LinkMap {
        base: usize,
        _name: usize,
        dynamic: usize,
    }
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: dlinfo(3): a handle that dlopen gave and that is never closed, and a place for the answer.
    let failed = unsafe { libc::dlinfo(handle.as_ptr(), libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    // SAFETY: dlinfo(3): the linker's record of the library, which lives as long as the handle.
    match unsafe { map.as_ref() } {
        Some(map) if failed == 0 => Ok(Library { base: map.base, dynamic: map.dynamic }),
        _ => Err(NotHidden::Nowhere),
    }
}

/// Writes a pointer of this process. A linker may have made its page read-only: it is made so again.
fn write(at: usize, value: usize) -> bool {
    if poke(at, value) {
        return true;
    }
    let Ok(page) = usize::try_from(
        // SAFETY: sysconf(3) has no preconditions.
        unsafe { libc::sysconf(libc::_SC_PAGESIZE) },
    ) else {
        return false;
    };
    let begin = at / page * page;
    // Two pages if the pointer lies across their border.
    let size = (at + size_of::<usize>() - begin).next_multiple_of(page);
    let protect = |how: c_int| {
        // SAFETY: mprotect(2): pages of a loaded library, which nothing executes and which keep their contents.
        unsafe { libc::mprotect(begin as *mut c_void, size, how) == 0 }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE) && {
        let written = poke(at, value);
        protect(libc::PROT_READ);
        written
    }
}

/// Writes a pointer where this process may write: the kernel does it and says if there is no such place.
fn poke(at: usize, value: usize) -> bool {
    let value = value.to_ne_bytes();
    let local = libc::iovec { iov_base: value.as_ptr().cast_mut().cast(), iov_len: value.len() };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: value.len() };
    // SAFETY: getpid(2) has no preconditions.
    let own = unsafe { libc::getpid() };
    // SAFETY: process_vm_writev(2): `local` is memory of this function's, `remote` a pointer that only the plugin's calls read; a place
    // that cannot be written is an error.
    let copied = unsafe { libc::process_vm_writev(own, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied) == Ok(value.len())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Stands for NVML, whose only GPU is in MIG mode.
    const DRIVER: &str = "int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending)\n\
                          { *current = 1; *pending = 1; return 0; }\n";
    /// Stands for Slurm's plugin: asks by a call, and by a pointer in its data.
    const PLUGIN: &str = "int nvmlDeviceGetMigMode(void *, unsigned *, unsigned *);\n\
                          int (*const in_data)(void *, unsigned *, unsigned *) = nvmlDeviceGetMigMode;\n\
                          int asks(void) { unsigned now = 7, then = 7, rc = nvmlDeviceGetMigMode(0, &now, &then);\n\
                          return rc * 100 + now * 10 + then; }\n\
                          int asks_by_pointer(void) { unsigned now = 7, then = 7, rc = in_data(0, &now, &then);\n\
                          return rc * 100 + now * 10 + then; }\n";

    fn compile(dir: &Path, name: &str, text: &str, more: &[&str]) -> NonNull<c_void> {
        let (source, library) = (dir.join(name).with_extension("c"), dir.join(name));
        std::fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).args(more);
        assert!(cc.status().unwrap().success());
        let file = CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: dlopen of a library without constructors; global, so that the plugins find the driver.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL) };
        NonNull::new(handle).unwrap()
    }

    fn ask(handle: NonNull<c_void>, name: &CStr) -> c_int {
        // SAFETY: a handle that is never closed.
        let found = NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) }).unwrap();
        // SAFETY: the functions above.
        let asks = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(found.as_ptr()) };
        asks()
    }

    use std::ffi::CStr;

    #[test]
    fn a_plugin_sees_no_mig_while_it_is_hidden_however_it_was_linked() {
        let dir = tempfile::tempdir().unwrap();
        compile(dir.path(), "driver.so", DRIVER, &[]);
        let ways: [(&str, &[&str]); 3] = [
            ("lazy.so", &["-Wl,-z,lazy"]),
            ("now.so", &["-Wl,-z,now", "-Wl,-z,relro"]),
            ("no-plt.so", &["-fno-plt", "-Wl,-z,now", "-Wl,-z,relro"]),
        ];
        for (name, how) in ways {
            let plugin = compile(dir.path(), name, PLUGIN, how);
            let both = || [c"asks", c"asks_by_pointer"].map(|name| ask(plugin, name));
            for before in [false, true] {
                if before {
                    assert_eq!(both(), [11, 11], "{name}: the driver's answer");
                }
                let hidden = hide(plugin).unwrap();
                assert_eq!(both(), [0, 0], "{name}: hidden");
                drop(hidden);
                assert_eq!(both(), [11, 11], "{name}: the driver's answer again");
            }
        }
    }

    #[test]
    fn a_plugin_that_never_asks_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = compile(dir.path(), "silent.so", "int other(void) { return 0; }\n", &[]);
        assert!(hide(plugin).unwrap().0.is_empty());
    }

    #[test]
    fn a_place_that_is_not_there_is_not_written() {
        assert!(!write(8, 1) && !write(usize::MAX - 4096, 1));
    }
}
