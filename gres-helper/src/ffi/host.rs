//! What this plugin takes from slurmctld, looked up by name: unit tests have none of it.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use plugin_rt::{symbol, text};

use super::sys;

type Find = unsafe extern "C" fn(*mut c_char) -> *mut sys::part_record_t;
type Duplicate = unsafe extern "C" fn(*const c_char) -> *mut c_char;
type Free = unsafe extern "C" fn(*mut *mut c_void);
type Grow = unsafe extern "C" fn(
    *mut *mut c_void,
    usize,
    usize,
    bool,
    bool,
    *const c_char,
    c_int,
    *const c_char,
) -> *mut c_void;

/// The functions and globals used.
pub(super) struct Host {
    duplicate: Duplicate,
    free: Free,
    grow: Grow,
    find_partition: Find,
    default_partition: NonNull<*mut c_char>,
    conf: NonNull<sys::slurm_conf_t>,
}

// SAFETY: addresses of functions and globals of the process, the same for every thread; the globals are only read
// inside hooks, where slurmctld holds the configuration and partition locks.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// slurmctld's; `None` in any other process.
    pub(super) fn get() -> Option<&'static Self> {
        static HOST: OnceLock<Option<Host>> = OnceLock::new();
        HOST.get_or_init(Self::look_up).as_ref()
    }

    fn look_up() -> Option<Self> {
        let function = |name| symbol(name).map(NonNull::as_ptr);
        Some(Self {
            // SAFETY: src/common/xstring.h: `char *xstrdup(const char *)`.
            duplicate: unsafe { std::mem::transmute::<*mut c_void, Duplicate>(function(c"slurm_xstrdup")?) },
            // SAFETY: src/common/xmalloc.h: `void slurm_xfree(void **)`.
            free: unsafe { std::mem::transmute::<*mut c_void, Free>(function(c"slurm_xfree")?) },
            // SAFETY: src/common/xmalloc.h: `slurm_xrecalloc`.
            grow: unsafe { std::mem::transmute::<*mut c_void, Grow>(function(c"slurm_xrecalloc")?) },
            // SAFETY: src/slurmctld/slurmctld.h: `part_record_t *find_part_record(char *)`.
            find_partition: unsafe {
                std::mem::transmute::<*mut c_void, Find>(function(c"find_part_record")?)
            },
            default_partition: symbol(c"default_part_name")?.cast(),
            conf: symbol(c"slurm_conf")?.cast(),
        })
    }

    /// A copy in memory that Slurm frees; null for text with a NUL in it.
    pub(super) fn duplicate(&self, text: &str) -> *mut c_char {
        match CString::new(text) {
            // SAFETY: xstring.h: copies a NUL-terminated string.
            Ok(text) => unsafe { (self.duplicate)(text.as_ptr()) },
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// Replaces a string that Slurm allocated.
    pub(super) fn replace(&self, field: &mut *mut c_char, text: &str) {
        let new = self.duplicate(text);
        self.drop_string(field);
        *field = new;
    }

    /// Frees a string that Slurm allocated and leaves null.
    pub(super) fn drop_string(&self, field: &mut *mut c_char) {
        // SAFETY: xmalloc.h: null, or memory that Slurm allocated; xfree leaves null.
        unsafe { (self.free)(std::ptr::from_mut(field).cast()) };
    }

    /// Gives an array that Slurm allocated, or null, room for `n` pointers.
    pub(super) fn grow(&self, array: &mut *mut *mut c_char, n: usize) {
        let (file, function) = (c"tessera".as_ptr(), c"request".as_ptr());
        let array = std::ptr::from_mut(array).cast();
        // SAFETY: xmalloc.h: memory that Slurm allocated, or null; it ends the process rather than fail.
        unsafe { (self.grow)(array, n, size_of::<*mut c_char>(), true, false, file, 0, function) };
    }

    /// The name of the default partition.
    pub(super) fn default_partition(&self) -> Option<String> {
        // SAFETY: src/slurmctld/slurmctld.h: `extern char *default_part_name`, under the partition lock.
        let name = unsafe { self.default_partition.read() };
        // SAFETY: null or NUL-terminated.
        unsafe { text(name) }
    }

    fn partition(&self, name: &str) -> Option<&sys::part_record_t> {
        let name = CString::new(name).ok()?;
        // SAFETY: slurmctld.h: only reads the name; hooks run under the partition lock.
        let record = unsafe { (self.find_partition)(name.as_ptr().cast_mut()) };
        // SAFETY: null or a live record.
        unsafe { record.as_ref() }.filter(|r| r.magic == sys::PART_MAGIC)
    }

    /// Whether the partition gives whole nodes (`OverSubscribe=EXCLUSIVE`).
    pub(super) fn is_exclusive(&self, name: &str) -> bool {
        self.partition(name).is_some_and(|p| p.max_share == 0)
    }

    /// The nodes of a partition; `None` for an unknown one or a list that cannot be read.
    pub(super) fn partition_nodes(&self, name: &str) -> Option<BTreeSet<String>> {
        let record = self.partition(name)?;
        // SAFETY: null or NUL-terminated.
        let nodes = unsafe { text(record.nodes) }?;
        site_config::hostlist::expand(&nodes).ok().map(|list| list.into_iter().collect())
    }

    /// Path of slurm.conf, and when slurmctld last read it.
    pub(super) fn configuration(&self) -> Option<(String, i64)> {
        // SAFETY: src/common/read_config.h: `extern slurm_conf_t slurm_conf`, under the configuration lock.
        let conf = unsafe { self.conf.as_ref() };
        // SAFETY: null or NUL-terminated.
        Some((unsafe { text(conf.slurm_conf) }?, conf.last_update))
    }
}
