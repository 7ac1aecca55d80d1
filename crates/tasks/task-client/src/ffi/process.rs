//! State and mode of a process.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsString, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use super::lazy_objects::Lazy;
use crate::account::Account;
use crate::client::Client;
use crate::mode::{self, Mode};

/// A task of this process that has its device.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) nonce: u64,
    pub(super) uuid: String,
    pub(super) ordinal: u64,
    /// Device's context, which the process keeps; 0 where there was none.
    pub(super) context: u64,
}

/// Lease of a process that asks for nothing itself.
pub(super) struct HeldDevice {
    /// Limit of its allocations; `None` if it is alone on its device.
    pub(super) account: Option<Account>,
    pub(super) uuid: String,
}

/// State of a process; a forked child makes its own.
pub(super) struct Process {
    pub(super) client: Client,
    pub(super) live: Mutex<BTreeMap<i64, Live>>,
    /// Held by the thread that gets the process its device.
    pub(super) admitting: Mutex<()>,
    held: OnceLock<HeldDevice>,
    pub(super) lazy: Lazy,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The process that initialised CUDA; 0 before.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

impl Process {
    /// Lease, once it has its device.
    pub(super) fn held(&self) -> Option<&HeldDevice> {
        self.held.get()
    }

    pub(super) fn hold(&self, held: HeldDevice) {
        // Whoever calls has `admitting` and has looked.
        let _ = self.held.set(held);
        INITIALISED.store(std::process::id(), Ordering::Release);
    }
}

/// A number that the kernel draws at each `exec`.
fn image() -> u64 {
    // SAFETY: getauxval(3): no preconditions.
    let at = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let at = std::ptr::with_exposed_provenance::<u64>(usize::try_from(at).unwrap_or(0));
    if at.is_null() {
        return 0;
    }
    // SAFETY: getauxval(3): AT_RANDOM is the address of 16 random bytes, which stay where they are.
    unsafe { at.read_unaligned() }
}

/// A variable of the environment, without the standard library's lock: a child may have been forked while another thread held
/// it.
fn variable(name: &CStr) -> Option<OsString> {
    // SAFETY: getenv(3): a C string. That no other thread changes the environment meanwhile is what CUDA relies on too.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv(3): null or a C string of the environment.
    (!value.is_null()).then(|| OsString::from_vec(unsafe { CStr::from_ptr(value) }.to_bytes().to_vec()))
}

/// This process's state; `None` outside a job of kind `gpu-tasks`.
pub(super) fn process() -> Option<&'static Process> {
    let known = PROCESS.load(Ordering::Acquire);
    // SAFETY: the pointer is null or from `Box::into_raw` below, and what it points to is never freed.
    if let Some(process) = unsafe { known.as_ref() }.filter(|process| process.client.is_ours()) {
        return Some(process);
    }
    // A lock that another thread held while the parent forked would never be opened: the child leaves all of it alone.
    let socket = variable(c"TESSERA_TASK_SOCKET").filter(|socket| !socket.is_empty())?;
    let client = Client::new(Path::new(&socket), image());
    let process = Process {
        client,
        live: Mutex::default(),
        admitting: Mutex::default(),
        held: OnceLock::new(),
        lazy: Lazy::default(),
    };
    let new = Box::into_raw(Box::new(process));
    let now = match PROCESS.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(other) => other,
    };
    // SAFETY: as above; another thread's was made for this process too.
    unsafe { now.as_ref() }
}

/// Tells whether this process or the one that forked it has a lease.
pub(super) fn is_anything_held() -> bool {
    INITIALISED.load(Ordering::Relaxed) != 0
}

/// Tells whether a parent had initialised CUDA when it forked this process, which can then not use it: CUDA C++ Programming Guide,
/// "fork".
pub(super) fn was_initialised_by_parent() -> bool {
    let by = INITIALISED.load(Ordering::Acquire);
    by != 0 && by != std::process::id()
}

/// Mode of the library in this process. Forks keep it, as they keep the environment of their start.
pub(super) fn mode() -> Mode {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    const ALL: [(u8, Mode); 3] = [(1, Mode::Off), (2, Mode::Probed), (3, Mode::Whole)];
    let known = KNOWN.load(Ordering::Acquire);
    if let Some((_, mode)) = ALL.iter().find(|(number, _)| *number == known) {
        return *mode;
    }
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    let (socket, preload) = (text(c"TESSERA_TASK_SOCKET"), text(c"LD_PRELOAD"));
    let mode = mode::mode(socket.as_deref(), preload.as_deref(), needed);
    let number = ALL.iter().find(|(_, other)| *other == mode).map_or(0, |(number, _)| *number);
    KNOWN.store(number, Ordering::Release);
    mode
}

/// The libraries that the loaded objects say they need.
fn needed() -> Vec<&'static str> {
    let mut all: Vec<&'static str> = Vec::new();
    // SAFETY: dl_iterate_phdr(3): the function gets the pointer that is passed here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add_needed), (&raw mut all).cast()) };
    all
}

extern "C" fn add_needed(info: *mut libc::dl_phdr_info, _: usize, all: *mut c_void) -> c_int {
    let add = || {
        // SAFETY: dl_iterate_phdr(3): a valid object for the time of this call.
        let info = unsafe { info.as_ref() }?;
        // SAFETY: `needed` passes its list, which nobody else uses meanwhile.
        let all = unsafe { all.cast::<Vec<&'static str>>().as_mut() }?;
        // SAFETY: dl_iterate_phdr(3): so many headers are there.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let start = info.dlpi_addr.wrapping_add(dynamic.p_vaddr);
        all.extend(needed_of(info.dlpi_addr, start));
        Some(())
    };
    add();
    0
}

/// `DT_NULL`, `DT_NEEDED` and `DT_STRTAB` of elf.h.
const NULL: i64 = 0;
const NEEDED: i64 = 1;
const STRINGS: i64 = 5;

/// The names in an object's dynamic section at `start`.
fn needed_of(base: u64, start: u64) -> Vec<&'static str> {
    let entry = |index: u64| {
        let at = usize::try_from(start.wrapping_add(index * 16)).unwrap_or(0);
        // SAFETY: elf(5): the dynamic section of a loaded object is a list of pairs that DT_NULL ends; no index goes beyond.
        unsafe { std::ptr::with_exposed_provenance::<(i64, u64)>(at).read() }
    };
    let entries: Vec<(i64, u64)> = (0..).map(entry).take_while(|(tag, _)| *tag != NULL).collect();
    let Some((_, strings)) = entries.iter().find(|(tag, _)| *tag == STRINGS) else { return Vec::new() };
    // The C library has made it an address, except in objects of the kernel's.
    let strings = if *strings < base { base + strings } else { *strings };
    let name = |offset: &u64| {
        let at = usize::try_from(strings.wrapping_add(*offset)).unwrap_or(0);
        // SAFETY: elf(5): an offset into the table of strings; a loaded object's stay while it is loaded, and nobody keeps
        // the names longer than `mode` takes.
        unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(at)) }.to_str().ok()
    };
    entries.iter().filter(|(tag, _)| *tag == NEEDED).filter_map(|(_, offset)| name(offset)).collect()
}
