//! Symbols that this plugin takes from the process that loads it: globals and functions of slurmctld and libslurmfull.
//!
//! They are looked up by name when first needed, never linked: the same file is loaded by slurmd and the commands,
//! which lack some of them, and unit tests have none.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use geometry::JobId;
use plugin_rt::symbol;
use slurm_numbers as numbers;
use slurm_tables::{Bitmap, ListOf, RecordView};
use slurmctld_rt::{BitString, Bits, BitsAt, Heap, List, Lists, item, text};

use super::records::{Conf, Job, Node};

/// Ends slurmctld with a line in its log. Returns where there is no Slurm.
pub(crate) fn fatal(text: &str) {
    type Fatal = unsafe extern "C" fn(*const c_char, ...);
    let Ok(text) = CString::new(text) else { return };
    if let Some(f) = symbol(c"slurm_fatal") {
        // SAFETY: src/common/log.h: `void fatal(const char *, ...)`, a printf-like function.
        let fatal = unsafe { std::mem::transmute::<*mut c_void, Fatal>(f.as_ptr()) };
        // SAFETY: the format is constant and takes one string, which is NUL-terminated and outlives the call.
        unsafe { fatal(c"%s".as_ptr(), text.as_ptr()) };
    }
}

/// A string of `slurm_conf`, copied. Slurm fills it before it loads any plugin.
pub(crate) fn conf_string(field: fn(Conf) -> Option<String>) -> Option<String> {
    field(conf()?)
}

/// slurm.conf as slurmctld has read it.
fn conf() -> Option<Conf> {
    let conf = symbol(c"slurm_conf")?;
    // SAFETY: src/common/read_config.h: `extern slurm_conf_t slurm_conf`, alive as long as the process.
    unsafe { Conf::at(conf.as_ptr()) }
}

slurmctld_rt::slurmctlds! {
    /// The functions and globals taken from slurmctld, with the prototypes of Slurm's headers.
    pub(crate) struct Host {
        part bits: Bits;
        part lists: Lists;
        part heap: Heap;
        fn free_job_resources = c"free_job_resources", "src/common/job_resources.h": fn(*mut *mut c_void);
        fn preempt_mode = c"slurm_job_preempt_mode", "src/slurmctld/preempt.h, in 24.11 src/interfaces/preempt.h":
            fn(*mut c_void) -> u16;
        fn find_node = c"find_node_record2", "src/common/node_conf.h": fn(*mut c_char) -> *mut c_void;
        fn find_partition = c"find_part_record", "src/slurmctld/slurmctld.h": fn(*mut c_char) -> *mut c_void;
        fn find_job = c"find_job_record", "src/slurmctld/slurmctld.h": fn(u32) -> *mut c_void;
        fn find_component = c"find_het_job_record", "src/slurmctld/slurmctld.h": fn(u32, u32) -> *mut c_void;
        static table = c"node_record_table_ptr", "src/common/node_conf.h": *mut *mut c_void;
        static count = c"node_record_count", "src/common/node_conf.h": c_int;
        static all_jobs = c"job_list", "src/slurmctld/slurmctld.h": *mut List;
        static completing_nodes = c"cg_node_bitmap", "src/slurmctld/slurmctld.h": *mut BitString;
        static last_node_update = c"last_node_update", "src/common/node_conf.h": libc::time_t;
        static last_job_update = c"last_job_update", "src/slurmctld/slurmctld.h": libc::time_t;
    }
}

impl Host {
    /// A bit string that a record has.
    pub(crate) fn bits(&self, bits: Bitmap) -> BitsAt<'_> {
        self.bits.of(bits)
    }

    /// The records of a list that a record has.
    pub(crate) fn records<T: RecordView>(&self, list: ListOf<T>) -> Vec<T> {
        self.lists.of(list)
    }

    /// Number of slots in the node table.
    pub(crate) fn node_count(&self) -> usize {
        // SAFETY: node_conf.h: `extern int node_record_count`; hooks run under the node lock.
        usize::try_from(unsafe { self.count.read() }).unwrap_or(0)
    }

    /// A node's record; `None` for an empty slot.
    pub(crate) fn node(&self, index: usize) -> Option<Node> {
        if index >= self.node_count() {
            return None;
        }
        // SAFETY: node_conf.h: `extern node_record_t **node_record_table_ptr`.
        let table = unsafe { self.table.read() };
        // SAFETY: the table has `node_record_count` slots.
        let slot = unsafe { item(table, index) }?;
        // SAFETY: null or a record; hooks run under the node lock.
        unsafe { Node::at(slot) }
    }

    /// Tells whether the site has Slurm take the least loaded nodes for all jobs (`CR_LLN`).
    pub(crate) fn takes_least_loaded(&self) -> bool {
        conf().is_some_and(|conf| conf.select_type_param() & numbers::SELECT_LLN != 0)
    }

    /// Writes a node's scheduling weight, as cons_tres itself does in a test.
    pub(crate) fn set_weight(&self, index: usize, weight: u64) {
        if let Some(node) = self.node(index) {
            // SAFETY: a field of the node table; a test runs under the node lock, and only Slurm's own test reads it.
            unsafe { node.sched_weight_at().write(weight) };
        }
    }

    /// Every node that has a name, with its place in the node table.
    pub(crate) fn named_nodes(&self) -> impl Iterator<Item = (usize, String, Node)> {
        (0..self.node_count()).filter_map(|i| {
            let node = self.node(i)?;
            Some((i, name_of(node)?, node))
        })
    }

    /// A node's place in the node table.
    pub(crate) fn index_of(&self, node: Node) -> Option<usize> {
        (0..self.node_count()).find(|i| self.node(*i).is_some_and(|at| at.address() == node.address()))
    }

    /// The node of that name, to be written to.
    pub(super) fn node_by_name(&self, name: &str) -> Option<Node> {
        let wanted = CString::new(name).ok()?;
        // SAFETY: node_conf.h: only reads the name; hooks run under the node lock.
        let node = unsafe { (self.find_node)(wanted.as_ptr().cast_mut()) };
        // SAFETY: null, or a record of the node table.
        let node = unsafe { Node::at(node) }?;
        // Slurm also finds a node by its host's name.
        (name_of(node).as_deref() == Some(name)).then_some(node)
    }

    /// Every job slurmctld knows.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        // SAFETY: slurmctld.h: `extern List job_list`; hooks run under the job lock.
        self.listed(unsafe { self.all_jobs.read() })
    }

    /// The jobs of a list that slurmctld hands to a hook, or has itself.
    pub(super) fn listed(&self, list: *mut List) -> Vec<Job> {
        // SAFETY: null or a live list.
        let jobs = unsafe { self.lists.elements::<c_void>(list) };
        // SAFETY: its elements are records of live jobs; hooks run under the job lock.
        jobs.into_iter().filter_map(|job| unsafe { Job::at(job) }).collect()
    }

    /// The address of a partition's record; null if there is none.
    pub(crate) fn partition(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: slurmctld.h: only reads the name; hooks run under the partition lock.
        unsafe { (self.find_partition)(name.as_ptr().cast_mut()) }
    }

    /// A job's record.
    pub(crate) fn job(&self, id: JobId) -> Option<Job> {
        // SAFETY: slurmctld.h: finds a job under the job lock.
        let job = unsafe { (self.find_job)(id.0) };
        // SAFETY: null or live.
        unsafe { Job::at(job) }
    }

    /// Tells whether a job's epilog is not over on a node.
    pub(crate) fn completing(&self, index: usize) -> bool {
        // SAFETY: slurmctld.h: `extern bitstr_t *cg_node_bitmap`.
        let bits = unsafe { self.completing_nodes.read() };
        // SAFETY: null or live.
        unsafe { self.bits.at(bits) }.test(index)
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
    }

    /// Tells slurmctld that node records have changed, so that `sinfo` gets them anew.
    pub(super) fn nodes_changed(&self) {
        // SAFETY: node_conf.h: `extern time_t last_node_update`; hooks run under the node lock.
        unsafe { self.last_node_update.write(self.now().cast_signed()) };
    }

    /// Tells slurmctld that job records have changed. Backfill sleeps on while nothing has.
    pub(super) fn jobs_changed(&self) {
        // SAFETY: slurmctld.h: `extern time_t last_job_update`; hooks run under the job lock.
        unsafe { self.last_job_update.write(self.now().cast_signed()) };
    }
}

/// A node's name and its `extra`. They are not copied: every node is asked in every test.
pub(crate) fn texts(_lives: &Host, node: Node) -> [&[u8]; 2] {
    // SAFETY: Slurm's strings are null or NUL-terminated, and nothing changes them during the hook.
    let bytes = |text: *const c_char| unsafe { if text.is_null() { c"" } else { CStr::from_ptr(text) } };
    [bytes(node.name()).to_bytes(), bytes(node.extra()).to_bytes()]
}

/// A node's name; `None` for a deleted node.
pub(crate) fn name_of(node: Node) -> Option<String> {
    // SAFETY: null or NUL-terminated.
    unsafe { text(node.name()) }
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
