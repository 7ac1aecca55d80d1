//! What this plugin takes from the process that loads it: globals and functions of slurmctld and libslurmfull.
//!
//! They are looked up by name when first needed, never linked: the same file is loaded by slurmd and the commands,
//! which lack some of them, and unit tests have none.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use plugin_rt::slurmctld::{Heap, MissingSymbol, item, required, text};
use plugin_rt::symbol;

use super::sys;

/// A list of Slurm's; only ever handled by pointer.
pub(super) type List = c_void;

/// Ends slurmctld with a line in its log. Returns where there is no Slurm.
pub(super) fn fatal(text: &str) {
    type Fatal = unsafe extern "C" fn(*const c_char, ...);
    let Ok(text) = CString::new(text) else { return };
    if let Some(f) = symbol(c"slurm_fatal") {
        // SAFETY: src/common/log.h: `void fatal(const char *, ...)`, a printf-like function.
        let fatal = unsafe { std::mem::transmute::<*mut c_void, Fatal>(f.as_ptr()) };
        // SAFETY: the format is constant and takes one string, which is NUL-terminated and outlives the call.
        unsafe { fatal(c"%s".as_ptr(), text.as_ptr()) };
    }
}

/// One string of `slurm_conf`, copied. Slurm fills it before it loads any plugin.
pub(super) fn conf_string(field: fn(&sys::slurm_conf_t) -> *mut c_char) -> Option<String> {
    let conf = symbol(c"slurm_conf")?.cast::<sys::slurm_conf_t>();
    // SAFETY: src/common/read_config.h: `extern slurm_conf_t slurm_conf`, alive as long as the process.
    let found = field(unsafe { conf.as_ref() });
    // SAFETY: Slurm's strings are null or NUL-terminated.
    unsafe { text(found) }
}

macro_rules! host {
    ($(#[doc = $doc:literal] $field:ident = $symbol:literal: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions taken from slurmctld, with the prototypes of Slurm's headers.
        pub(super) struct Host {
            /// Strings and arrays that slurmctld frees.
            pub(super) heap: Heap,
            $(#[doc = $doc] pub(super) $field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            nodes: NonNull<*mut *mut sys::node_record_t>,
            node_count: NonNull<c_int>,
            jobs: NonNull<*mut List>,
            completing: NonNull<*mut sys::bitstr_t>,
            nodes_changed: NonNull<libc::time_t>,
            jobs_changed: NonNull<libc::time_t>,
        }

        impl Host {
            /// The functions of this process; `None` unless it has every one of them.
            pub(super) fn get() -> Option<&'static Self> {
                Self::found().as_ref().ok()
            }

            /// Gives the functions, or the first symbol that the process lacks. Looked up once.
            pub(super) fn found() -> &'static Result<Self, MissingSymbol> {
                static HOST: OnceLock<Result<Host, MissingSymbol>> = OnceLock::new();
                HOST.get_or_init(Self::look_up)
            }

            fn look_up() -> Result<Self, MissingSymbol> {
                $(let $field = {
                    let address = required($symbol)?;
                    // SAFETY: the prototype is the one in the header named beside the field.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(
                            address.as_ptr(),
                        )
                    }
                };)*
                Ok(Self {
                    heap: Heap::look_up()?,
                    $($field,)*
                    nodes: required(c"node_record_table_ptr")?.cast(),
                    node_count: required(c"node_record_count")?.cast(),
                    jobs: required(c"job_list")?.cast(),
                    completing: required(c"cg_node_bitmap")?.cast(),
                    nodes_changed: required(c"last_node_update")?.cast(),
                    jobs_changed: required(c"last_job_update")?.cast(),
                })
            }
        }
    };
}

host! {
    #[doc = "src/common/bitstring.h"]
    bit_test = c"slurm_bit_test": fn(*mut sys::bitstr_t, i64) -> c_int;
    #[doc = "src/common/bitstring.h"]
    bit_size = c"slurm_bit_size": fn(*mut sys::bitstr_t) -> i64;
    #[doc = "src/common/bitstring.h"]
    bit_set = c"slurm_bit_set": fn(*mut sys::bitstr_t, i64);
    #[doc = "src/common/bitstring.h"]
    bit_clear = c"slurm_bit_clear": fn(*mut sys::bitstr_t, i64);
    #[doc = "src/common/list.h"]
    list_iterator_create = c"slurm_list_iterator_create": fn(*mut List) -> *mut c_void;
    #[doc = "src/common/list.h"]
    list_next = c"slurm_list_next": fn(*mut c_void) -> *mut c_void;
    #[doc = "src/common/list.h"]
    list_iterator_destroy = c"slurm_list_iterator_destroy": fn(*mut c_void);
    #[doc = "src/common/list.h"]
    list_create = c"slurm_list_create": fn(*const c_void) -> *mut List;
    #[doc = "src/common/list.h"]
    list_append = c"slurm_list_append": fn(*mut List, *mut c_void);
    #[doc = "src/common/list.h"]
    list_flush = c"slurm_list_flush": fn(*mut List) -> c_int;
    #[doc = "src/common/job_resources.h"]
    free_job_resources = c"free_job_resources": fn(*mut *mut sys::job_resources_t);
    #[doc = "src/slurmctld/preempt.h, in 24.11 src/interfaces/preempt.h"]
    preempt_mode = c"slurm_job_preempt_mode": fn(*mut sys::job_record_t) -> u16;
    #[doc = "src/common/node_conf.h"]
    find_node_record = c"find_node_record2": fn(*mut c_char) -> *mut sys::node_record_t;
    #[doc = "src/slurmctld/slurmctld.h"]
    find_job_record = c"find_job_record": fn(u32) -> *mut sys::job_record_t;
}

// SAFETY: addresses of functions and of globals of the process, the same for every thread; what they point to is
// only touched inside hooks, where slurmctld holds the locks that belong to it.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// The elements of a list, in its order; none for null.
    ///
    /// # Safety
    ///
    /// `list` is null or a live list, which nothing changes during the call.
    pub(super) unsafe fn elements<T>(&self, list: *mut List) -> Vec<*mut T> {
        let mut found = Vec::new();
        if list.is_null() {
            return found;
        }
        // SAFETY: list.h; the list is live.
        let iterator = unsafe { (self.list_iterator_create)(list) };
        loop {
            // SAFETY: the iterator made above.
            let element = unsafe { (self.list_next)(iterator) };
            if element.is_null() {
                break;
            }
            found.push(element.cast());
        }
        // SAFETY: the iterator made above, destroyed once.
        unsafe { (self.list_iterator_destroy)(iterator) };
        found
    }

    /// The bits below `limit` that are set; none for null.
    ///
    /// # Safety
    ///
    /// `bits` is null or a live bit string.
    pub(super) unsafe fn bits_set(&self, bits: *mut sys::bitstr_t, limit: usize) -> Vec<usize> {
        // SAFETY: the caller's promise.
        let size = unsafe { self.size(bits) }.min(limit);
        // SAFETY: the caller's promise; below the size.
        (0..size).filter(|i| unsafe { self.test(bits, *i) }).collect()
    }

    /// The length of a bit string; 0 for null.
    ///
    /// # Safety
    ///
    /// `bits` is null or a live bit string.
    pub(super) unsafe fn size(&self, bits: *mut sys::bitstr_t) -> usize {
        if bits.is_null() {
            return 0;
        }
        // SAFETY: the caller's promise.
        usize::try_from(unsafe { (self.bit_size)(bits) }).unwrap_or(0)
    }

    /// Tells whether a bit is set; false for null and for a bit beyond the end.
    ///
    /// # Safety
    ///
    /// `bits` is null or a live bit string.
    pub(super) unsafe fn test(&self, bits: *mut sys::bitstr_t, index: usize) -> bool {
        // SAFETY: the caller's promise.
        if index >= unsafe { self.size(bits) } {
            return false;
        }
        let Ok(index) = i64::try_from(index) else { return false };
        // SAFETY: not null, since its size is not 0, and inside.
        unsafe { (self.bit_test)(bits, index) != 0 }
    }

    /// Sets or clears a bit; nothing for one beyond the end.
    ///
    /// # Safety
    ///
    /// `bits` is null or a live bit string that the hook may write to.
    pub(super) unsafe fn put(&self, bits: *mut sys::bitstr_t, index: usize, value: bool) {
        // SAFETY: the caller's promise.
        if index >= unsafe { self.size(bits) } {
            return;
        }
        let Ok(index) = i64::try_from(index) else { return };
        let change = if value { self.bit_set } else { self.bit_clear };
        // SAFETY: not null, since its size is not 0, and inside.
        unsafe { change(bits, index) }
    }

    /// Number of slots in the node table.
    pub(super) fn node_count(&self) -> usize {
        // SAFETY: src/common/node_conf.h: `extern int node_record_count`; hooks run under the node lock.
        usize::try_from(unsafe { self.node_count.read() }).unwrap_or(0)
    }

    /// A node record; `None` for an empty slot.
    pub(super) fn node(&self, index: usize) -> Option<NonNull<sys::node_record_t>> {
        if index >= self.node_count() {
            return None;
        }
        // SAFETY: src/common/node_conf.h: `extern node_record_t **node_record_table_ptr`.
        let table = unsafe { self.nodes.read() };
        // SAFETY: the table has `node_record_count` slots.
        unsafe { item(table, index) }.and_then(NonNull::new)
    }

    /// The node of that name.
    pub(super) fn node_by_name(&self, name: &str) -> Option<NonNull<sys::node_record_t>> {
        let name = CString::new(name).ok()?;
        // SAFETY: node_conf.h: only reads the name; hooks run under the node lock.
        let node = NonNull::new(unsafe { (self.find_node_record)(name.as_ptr().cast_mut()) })?;
        // Slurm also finds a node by its host's name.
        // SAFETY: a record of the node table.
        let found = unsafe { node.as_ref() }.name;
        // SAFETY: null or NUL-terminated.
        (unsafe { text(found) }.as_deref().map(str::as_bytes) == Some(name.as_bytes())).then_some(node)
    }

    /// Every job slurmctld knows.
    pub(super) fn jobs(&self) -> Vec<*mut sys::job_record_t> {
        // SAFETY: src/slurmctld/slurmctld.h: `extern List job_list`.
        let list = unsafe { self.jobs.read() };
        // SAFETY: null or live; hooks run under the job lock.
        unsafe { self.elements(list) }
    }

    /// Tells whether a job's epilog is not over on a node.
    pub(super) fn completing(&self, index: usize) -> bool {
        // SAFETY: src/slurmctld/slurmctld.h: `extern bitstr_t *cg_node_bitmap`.
        let bits = unsafe { self.completing.read() };
        // SAFETY: null or live.
        unsafe { self.test(bits, index) }
    }

    /// Seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        // SAFETY: time(2) with no place to store.
        u64::try_from(unsafe { libc::time(ptr::null_mut()) }).unwrap_or(0)
    }

    /// Tells slurmctld that node records have changed, so that `sinfo` gets them anew.
    pub(super) fn nodes_changed(&self) {
        // SAFETY: time(2) with no place to store.
        let now = unsafe { libc::time(ptr::null_mut()) };
        // SAFETY: src/common/node_conf.h: `extern time_t last_node_update`; hooks run under the node lock.
        unsafe { self.nodes_changed.write(now) };
    }

    /// Tells slurmctld that job records have changed. Backfill sleeps on while nothing has.
    pub(super) fn jobs_changed(&self) {
        // SAFETY: time(2) with no place to store.
        let now = unsafe { libc::time(ptr::null_mut()) };
        // SAFETY: src/slurmctld/slurmctld.h: `extern time_t last_job_update`; hooks run under the job lock.
        unsafe { self.jobs_changed.write(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lacks_a_symbol_says_which() {
        let missing = Host::found().as_ref().err().map(ToString::to_string);
        let expected = "this process has no symbol slurm_bit_test; Tessera was built for another Slurm";
        assert_eq!(missing.as_deref(), Some(expected));
    }
}
