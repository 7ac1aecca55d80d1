//! The answers to `nvmlDeviceGetMigMode` that Slurm's own plugin gets while it lists GPUs.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use plugin_rt::{guard_ok, log, own_file, symbol};
use slurm_tables::peek;

use crate::imports::{BadLibrary, Library};

/// The function that Slurm's own plugin asks.
const ASKED: &CStr = c"nvmlDeviceGetMigMode";

/// Slurm's plugin cannot be kept from asking.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotHidden {
    #[error("the dynamic linker does not say where Slurm's own gpu_nvml.so is")]
    Nowhere,
    #[error("Slurm's own gpu_nvml.so cannot be read")]
    Bad(#[from] BadLibrary),
    #[error("Slurm's own gpu_nvml.so has a pointer to nvmlDeviceGetMigMode that cannot be written")]
    ReadOnly,
    #[error("the driver's library has no {}", .0.to_string_lossy())]
    NoFunction(&'static CStr),
    #[error("Tessera's gpu_nvml.so cannot be kept loaded")]
    NotKept,
}

/// Pointers of Slurm's own plugin that lead to [`answer`], each with the value that it had. Dropped, they have it again.
pub(super) struct Hidden(Vec<(usize, usize)>);

/// Hides MIG on managed GPUs (by NVML's index, true) from the plugin with this handle.
///
/// # Errors
///
/// Nothing is hidden.
pub(super) fn hide(handle: NonNull<c_void>, managed: Vec<bool>) -> Result<Hidden, NotHidden> {
    let pointers = library(handle)?.pointers_to(ASKED)?;
    let mut hidden = Hidden(Vec::new());
    if !pointers.is_empty() {
        let driver = RealAnswers::find(handle, managed)?;
        *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }
    pointers.into_iter().try_for_each(|at| hidden.lead_here(at)).map(|()| hidden)
}

/// Keeps this plugin in memory after Slurm's last `dlclose`, as Slurm's own stays: no pointer may lead to where it was. For [`hide`].
///
/// # Errors
///
/// It cannot be kept.
pub(super) fn stay_loaded() -> Result<(), NotHidden> {
    let file = own_file()
        .and_then(|file| CString::new(file.as_os_str().as_bytes()).ok())
        .ok_or(NotHidden::NotKept)?;
    // SAFETY: dlopen(3) of this plugin, which is loaded already: nothing runs.
    let own =
        unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    if own.is_null() { Err(NotHidden::NotKept) } else { Ok(()) }
}

impl Hidden {
    fn lead_here(&mut self, at: usize) -> Result<(), NotHidden> {
        let mut before = [0; size_of::<usize>()];
        if !peek(at, &mut before) {
            return Err(NotHidden::Bad(BadLibrary::Unreadable));
        }
        let here: MigMode = answer;
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
/// `nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t, unsigned int *index)` [nvml.h].
type GetIndex = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;

/// `NVML_SUCCESS` and `NVML_ERROR_UNKNOWN`.
const SUCCESS: c_int = 0;
const UNKNOWN: c_int = 999;

/// The driver's functions, and the GPUs for which it is not asked.
struct RealAnswers {
    mig_mode: MigMode,
    index: GetIndex,
    managed: Vec<bool>,
}

/// Set before the first pointer leads to [`answer`], and never taken away.
static ANSWERS: Mutex<Option<RealAnswers>> = Mutex::new(None);

impl RealAnswers {
    /// Finds the functions that the plugin with this handle would call: slurmd loads NVML for all plugins, or the plugin does for itself.
    fn find(handle: NonNull<c_void>, managed: Vec<bool>) -> Result<Self, NotHidden> {
        let function = |name: &'static CStr| {
            // SAFETY: dlsym(3): a handle that dlopen gave and that is never closed, and a NUL-terminated name.
            let own = || NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) });
            symbol(name).or_else(own).ok_or(NotHidden::NoFunction(name))
        };
        let (mig_mode, index) = (function(ASKED)?, function(c"nvmlDeviceGetIndex")?);
        Ok(Self {
            // SAFETY: nvml.h: the function of that name has this type in every version.
            mig_mode: unsafe { std::mem::transmute::<*mut c_void, MigMode>(mig_mode.as_ptr()) },
            // SAFETY: as above.
            index: unsafe { std::mem::transmute::<*mut c_void, GetIndex>(index.as_ptr()) },
            managed,
        })
    }

    /// Tells whether Tessera manages a GPU; false if the driver does not know it.
    fn manages(&self, gpu: *mut c_void) -> bool {
        let mut index = 0;
        // SAFETY: nvml.h: a handle that NVML gave to Slurm's plugin, and a place for the answer.
        let known = unsafe { (self.index)(gpu, &raw mut index) } == SUCCESS;
        let managed = || self.managed.get(usize::try_from(index).ok()?);
        known && managed().is_some_and(|managed| *managed)
    }
}

/// Answers that MIG is off and stays off on managed GPUs. For others the driver answers.
unsafe extern "C" fn answer(gpu: *mut c_void, current: *mut c_uint, pending: *mut c_uint) -> c_int {
    guard_ok("nvmlDeviceGetMigMode", UNKNOWN, || {
        let driver = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(driver) = driver.as_ref() else { return UNKNOWN };
        if !driver.manages(gpu) {
            // SAFETY: the caller's promise, passed on: the arguments are those that Slurm gave.
            return unsafe { (driver.mig_mode)(gpu, current, pending) };
        }
        for mode in [current, pending] {
            // SAFETY: nvml.h: both are places for an answer; null is passed over.
            if let Some(mode) = unsafe { mode.as_mut() } {
                *mode = 0;
            }
        }
        SUCCESS
    })
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
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Stands for NVML, whose GPUs are all in MIG mode; a GPU is its index and 1.
    const DRIVER_SOURCE: &str = "int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending)\n\
                          { *current = 1; *pending = 1; return 0; }\n\
                          int nvmlDeviceGetIndex(void *gpu, unsigned *index)\n\
                          { *index = (unsigned long)gpu - 1; return gpu ? 0 : 2; }\n";
    /// Stands for Slurm's plugin: asks by a call, and by a pointer in its data.
    const PLUGIN: &str = "int nvmlDeviceGetMigMode(void *, unsigned *, unsigned *);\n\
                          int (*const in_data)(void *, unsigned *, unsigned *) = nvmlDeviceGetMigMode;\n\
                          int asks(void *gpu) { unsigned now = 7, then = 7, rc = nvmlDeviceGetMigMode(gpu, &now, &then);\n\
                          return rc * 100 + now * 10 + then; }\n\
                          int asks_by_pointer(void *gpu) { unsigned now = 7, then = 7, rc = in_data(gpu, &now, &then);\n\
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

    /// Asks for GPUs 0 to 3, and for one that the driver does not know.
    fn ask(handle: NonNull<c_void>, name: &CStr) -> [c_int; 5] {
        // SAFETY: a handle that is never closed.
        let found = NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) }).unwrap();
        // SAFETY: the functions above.
        let asks =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> c_int>(found.as_ptr()) };
        [1, 2, 3, 4, 0].map(|gpu| asks(gpu))
    }

    /// A single test: the driver's functions are found in the whole process, and what is hidden is one static.
    #[test]
    fn a_plugin_sees_no_mig_on_managed_gpus_while_it_is_hidden_however_it_was_linked() {
        let dir = tempfile::tempdir().unwrap();
        let silent = compile(dir.path(), "silent.so", "int other(void) { return 0; }\n", &[]);
        assert!(hide(silent, vec![true]).unwrap().0.is_empty(), "one that never asks is left alone");
        let (calls, _) = PLUGIN.split_once("int (*const").unwrap();
        let early = format!("{calls}int asks(void) {{ return nvmlDeviceGetMigMode(0, 0, 0); }}\n");
        let plugin = compile(dir.path(), "early.so", &early, &["-Wl,-z,lazy"]);
        let why = hide(plugin, vec![true]).map(drop).unwrap_err();
        assert!(matches!(why, NotHidden::NoFunction(_)), "{why}: no driver yet");

        compile(dir.path(), "driver.so", DRIVER_SOURCE, &[]);
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
                    assert_eq!(both(), [[11; 5]; 2], "{name}: the driver's answer");
                }
                let hidden = hide(plugin, vec![true, false, true]).unwrap();
                assert_eq!(both(), [[0, 11, 0, 11, 11]; 2], "{name}: GPUs 0 and 2 are hidden");
                drop(hidden);
                assert_eq!(both(), [[11; 5]; 2], "{name}: the driver's answer again");
            }
        }
    }

    #[test]
    fn a_place_that_is_not_there_is_not_written() {
        assert!(!write(8, 1) && !write(usize::MAX - 4096, 1));
    }
}
