//! Symbols that this plugin takes from slurmctld, looked up by name: unit tests have none of it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use decision_counts::decisions::Cached;
use plugin_rt::{symbol, text};
use shared_pages::decisions;
use site_limits::amounts::time_limit;
use site_limits::slices::names_slices;
use slurm_limits::SlurmLimit;
use slurm_numbers as numbers;
use slurmctld_rt::{Heap, Lists};

use super::records::{AccountLocks, Conf, Node, Partition as PartitionRecord, User};
use super::{accounting, version};
use crate::node_lists::NodeLists;
use crate::submission::{JobOwner, Partition, Slurm};

slurmctld_rt::slurmctlds! {
    /// The functions and globals used.
    pub(super) struct Host {
        part heap: Heap;
        part lists: Lists;
        fn find_partition = c"find_part_record", "src/slurmctld/slurmctld.h": fn(*mut c_char) -> *mut c_void;
        fn find_node = c"find_node_record2", "src/common/node_conf.h": fn(*mut c_char) -> *mut c_void;
        fn lock_accounts = c"assoc_mgr_lock", "src/common/assoc_mgr.h": fn(*mut u64);
        fn unlock_accounts = c"assoc_mgr_unlock", "src/common/assoc_mgr.h": fn(*mut u64);
        fn fill_in_user = c"assoc_mgr_fill_in_user", "src/common/assoc_mgr.h": fn(
            *mut c_void, *mut u64, c_int, *mut *mut c_void, bool,
        ) -> c_int;
        static default_partition = c"default_part_name", "src/slurmctld/slurmctld.h": *mut c_char;
    }
}

/// The nodes of slurmctld's partitions.
static LISTS: LazyLock<Mutex<NodeLists>> = LazyLock::new(Mutex::default);

/// slurm.conf as slurmctld has read it.
pub(super) fn conf() -> Option<Conf> {
    let conf = symbol(c"slurm_conf")?;
    // SAFETY: src/common/read_config.h: `extern slurm_conf_t slurm_conf`, alive as long as the process; plugins run under its lock.
    unsafe { Conf::at(conf.as_ptr()) }
}

impl Host {
    /// Path of slurm.conf, slurmctld's own directory, and when slurmctld last read the file.
    pub(super) fn configuration(&self) -> Option<(String, Option<String>, i64)> {
        let conf = conf()?;
        Some((conf.slurm_conf()?, conf.state_save_location(), conf.last_update()))
    }
}

impl Host {
    /// Gives the name of a user, if the accounting has it.
    pub(super) fn user_name(&self, user: u32) -> Option<String> {
        self.of_user(user, |record| record.name().flatten())
    }

    /// Gives a text of a user's record in slurmctld's copy of the accounting database: nothing is asked over the network. Slurm fills
    /// in a job's account only after this plugin.
    fn of_user(&self, user: u32, field: fn(User) -> Option<String>) -> Option<String> {
        let (Some(of_locks), Some(of_users)) = (AccountLocks::described(), User::described()) else {
            return None;
        };
        // Plain structs of numbers and pointers, for which zero is "none" and "not said".
        let mut locks = vec![0_u64; of_locks.size.div_ceil(8)];
        let mut record = vec![0_u64; of_users.size.div_ceil(8)];
        let (locks, record) = (locks.as_mut_ptr(), record.as_mut_ptr());
        // SAFETY: a zeroed struct of this size, which lives to the end of this function.
        let held = unsafe { AccountLocks::at(locks) }?;
        // SAFETY: as above.
        let user_record = unsafe { User::at(record) }?;
        // SAFETY: fields of these structs.
        unsafe { held.user_at().write(numbers::READ_LOCK) };
        // SAFETY: as above.
        unsafe { user_record.uid_at().write(user) };

        // SAFETY: assoc_mgr.h: taken after slurmctld's own locks, which job_submit runs under.
        unsafe { (self.lock_accounts)(locks) };
        // SAFETY: assoc_mgr.c: under the lock for users it only looks through the list, and needs no connection. What it
        // puts into `record` belongs to the list.
        unsafe { (self.fill_in_user)(std::ptr::null_mut(), record, 0, std::ptr::null_mut(), true) };
        let found = field(user_record);
        // SAFETY: as taken above.
        unsafe { (self.unlock_accounts)(locks) };
        found.filter(|found| !found.is_empty())
    }

    /// Gives slurmctld's record of a partition.
    fn partition_record(&self, name: &str) -> Option<PartitionRecord> {
        let name = CString::new(name).ok()?;
        // SAFETY: slurmctld.h: only reads the name; hooks run under the partition lock.
        let record = unsafe { (self.find_partition)(name.as_ptr().cast_mut()) };
        // SAFETY: null or a live record.
        unsafe { PartitionRecord::at(record) }.filter(|record| record.is_marked())
    }
}

impl Slurm for Host {
    fn default_partition(&self) -> Option<String> {
        // SAFETY: src/slurmctld/slurmctld.h: `extern char *default_part_name`, under the partition lock.
        let name = unsafe { self.default_partition.read() };
        // SAFETY: null or NUL-terminated.
        unsafe { text(name) }
    }

    fn partition(&self, name: &str) -> Option<Partition> {
        let record = self.partition_record(name)?;
        // A panic while it was held has been logged; what is known is then whole, or missing.
        let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = record.nodes().and_then(|list| lists.names(&list));
        decisions::say_kept(Cached::NodeNames, lists.count());
        let times = [record.default_time(), record.max_time()];
        let minutes = time_limit(numbers::NO_VAL, times[0], times[1], numbers::NO_VAL);
        let most_minutes = time_limit(times[1], times[1], times[1], numbers::NO_VAL);
        Some(Partition { nodes, exclusive: record.max_share() == 0, minutes, most_minutes })
    }

    fn node_gres(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: node_conf.h: only reads the name; hooks run under the node lock.
        let record = unsafe { (self.find_node)(name.as_ptr().cast_mut()) };
        // SAFETY: null or a live record.
        unsafe { Node::at(record) }.filter(|record| record.is_marked())?.config_ptr()?.gres()
    }

    fn default_account(&self, user: u32) -> Option<String> {
        self.of_user(user, User::default_acct)
    }

    fn limits(&self, owner: &JobOwner<'_>) -> Vec<SlurmLimit> {
        let record = self.partition_record(owner.partition);
        let qos = record.and_then(PartitionRecord::qos_ptr).unwrap_or(std::ptr::null_mut());
        accounting::limits(owner, qos).unwrap_or_default()
    }

    fn gres(&self, name: &str, count: u32) -> String {
        version::gres(name, count)
    }

    fn adds_gres(&self) -> bool {
        version::adds_gres()
    }

    fn counts_slices(&self) -> bool {
        conf().and_then(Conf::licenses).is_some_and(|all| names_slices(&all))
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lacks_a_symbol_says_which() {
        let missing = Host::found().as_ref().err().map(ToString::to_string);
        let expected = "this process has no symbol slurm_xstrdup; Tessera was built for another Slurm";
        assert_eq!(missing.as_deref(), Some(expected));
    }
}
