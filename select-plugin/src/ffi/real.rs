//! Finds and loads Slurm's own select_cons_tres.so.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_rt::slurmctld::version;

use super::{entry, host, sys};

/// The name of the file, which both plugins have.
const FILE: &str = "select_cons_tres.so";

/// Marks this plugin, so that a copy of it elsewhere in `PluginDir` is not taken for Slurm's.
#[unsafe(no_mangle)]
static tessera_select_marker: u8 = 1;

static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Why Slurm's own plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RealError {
    /// The host has no `slurm_conf`, or it has no plugin directory.
    #[error("no PluginDir is known here")]
    NoPluginDir,
    /// No directory has one.
    #[error(
        "no {FILE} other than this plugin in PluginDir={dirs}; append Slurm's own plugin directory to it"
    )]
    NotFound { dirs: String },
    /// It is of another Slurm, by its version.
    #[error("built for Slurm {}, but {path} is of Slurm {}", version(sys::SLURM_VERSION_NUMBER), version(*.found))]
    OfAnother {
        path: PathBuf,
        /// Its `plugin_version`.
        found: u32,
    },
    /// It is of another Slurm, by its symbols.
    #[error("built for Slurm {}, but {path} has no {symbol}", version(sys::SLURM_VERSION_NUMBER))]
    Incomplete {
        path: PathBuf,
        /// The first symbol that it lacks.
        symbol: &'static str,
    },
    /// The dynamic linker cannot load it.
    #[error("{path}: {why}")]
    Load {
        path: PathBuf,
        /// The dynamic linker's message.
        why: String,
    },
}

/// Loads Slurm's own plugin, once; later calls do nothing.
pub(super) fn load() -> Result<(), RealError> {
    if !HANDLE.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let dirs = host::conf_string(|c| c.plugindir).ok_or(RealError::NoPluginDir)?;
    let mut failed = None;
    for path in candidates(&dirs, own_file().as_deref()) {
        match open(&path) {
            Ok(Some(handle)) => {
                HANDLE.store(handle.as_ptr(), Ordering::Release);
                return Ok(());
            }
            Ok(None) => {}
            Err(e) => failed = Some(e),
        }
    }
    Err(failed.unwrap_or(RealError::NotFound { dirs }))
}

/// The address of a symbol of Slurm's own plugin.
pub(super) fn symbol(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    in_handle(ptr::NonNull::new(HANDLE.load(Ordering::Acquire))?, name)
}

/// Files of that name in the colon-separated `dirs`, without the file `own` under any name.
fn candidates(dirs: &str, own: Option<&Path>) -> Vec<PathBuf> {
    let identity = |p: &Path| p.metadata().ok().map(|m| (m.dev(), m.ino()));
    let own = own.and_then(identity);
    dirs.split(':')
        .filter(|d| !d.is_empty())
        .map(|d| Path::new(d).join(FILE))
        .filter(|p| identity(p).is_some_and(|id| Some(id) != own))
        .collect()
}

/// Opens a plugin; `None` if it is another copy of this one.
fn open(path: &Path) -> Result<Option<ptr::NonNull<c_void>>, RealError> {
    let fail = |why: String| RealError::Load { path: path.to_owned(), why };
    let file = CString::new(path.as_os_str().as_bytes()).map_err(|e| fail(e.to_string()))?;
    // SAFETY: dlopen of a plugin from a directory the admin named; lazily bound, as Slurm itself does
    // (src/common/plugin.c), because commands lack symbols that only slurmctld has.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY) };
    let Some(handle) = ptr::NonNull::new(handle) else {
        return Err(fail(dl_error()));
    };
    if in_handle(handle, c"tessera_select_marker").is_some() {
        return Ok(None);
    }
    let lacks = |name: &&str| CString::new(*name).map_or(true, |name| in_handle(handle, &name).is_none());
    if let Some(symbol) = entry::names().find(lacks) {
        return Err(RealError::Incomplete { path: path.to_owned(), symbol });
    }
    // SAFETY: src/common/plugin.c reads `const uint32_t plugin_version` of every plugin, so Slurm's own has it.
    match in_handle(handle, c"plugin_version").map(|version| unsafe { version.cast::<u32>().read() }) {
        Some(sys::SLURM_VERSION_NUMBER) => Ok(Some(handle)),
        found => Err(RealError::OfAnother { path: path.to_owned(), found: found.unwrap_or_default() }),
    }
}

fn in_handle(handle: ptr::NonNull<c_void>, name: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: POSIX dlsym: a handle that dlopen gave and that is never closed, and a NUL-terminated name.
    ptr::NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) })
}

fn dl_error() -> String {
    // SAFETY: POSIX dlerror: a string or null, valid until the next dl call of this thread.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error of the dynamic linker".to_owned();
    }
    // SAFETY: not null, NUL-terminated, copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The file this plugin was loaded from.
fn own_file() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr with an address inside this plugin and a place for the answer.
    let found = unsafe { libc::dladdr((&raw const tessera_select_marker).cast(), info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: zeroed above and all fields are valid when zero; dladdr has filled it.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated path that lives as long as this plugin is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_lacks_a_symbol_is_not_forwarded_to() {
        let other = open(Path::new("libm.so.6"));
        assert!(matches!(other, Err(RealError::Incomplete { symbol: "init", .. })), "{other:?}");
    }

    #[test]
    fn own_file_is_never_a_candidate_even_by_link() {
        let dir = std::env::temp_dir().join(format!("tessera-real-{}", std::process::id()));
        let (ours, theirs, alias) = (dir.join("ours"), dir.join("theirs"), dir.join("alias"));
        for d in [&ours, &theirs, &alias] {
            std::fs::create_dir_all(d).unwrap();
        }
        std::fs::write(ours.join(FILE), "a").unwrap();
        std::fs::write(theirs.join(FILE), "b").unwrap();
        std::os::unix::fs::symlink(ours.join(FILE), alias.join(FILE)).unwrap();
        let dirs = format!("{}:{}::{}:/nonexistent", ours.display(), alias.display(), theirs.display());
        let found = candidates(&dirs, Some(&ours.join(FILE)));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [theirs.join(FILE)]);
    }
}
