//! The account that Slurm charges a job to whose user names none: it fills that in only after this plugin.

use std::ffi::{CStr, c_char, c_int, c_void};

use plugin_rt::{symbol, text};

use super::sys;

type Lock = unsafe extern "C" fn(*mut sys::assoc_mgr_lock_t);
type FillIn = unsafe extern "C" fn(
    *mut c_void,
    *mut sys::slurmdb_user_rec_t,
    c_int,
    *mut *mut sys::slurmdb_user_rec_t,
    bool,
) -> c_int;

/// The user's default account, from slurmctld's copy of the accounting database: nothing is asked over the network.
/// `None` without slurmdbd, or for a user it does not know.
pub(super) fn default_of(uid: u32) -> Option<String> {
    let function = |name: &CStr| symbol(name).map(|f| f.as_ptr());
    let (lock, unlock, fill_in) =
        (function(c"assoc_mgr_lock")?, function(c"assoc_mgr_unlock")?, function(c"assoc_mgr_fill_in_user")?);
    // SAFETY: src/common/assoc_mgr.h: `void assoc_mgr_lock(assoc_mgr_lock_t *)`.
    let lock = unsafe { std::mem::transmute::<*mut c_void, Lock>(lock) };
    // SAFETY: as above: `void assoc_mgr_unlock(assoc_mgr_lock_t *)`.
    let unlock = unsafe { std::mem::transmute::<*mut c_void, Lock>(unlock) };
    // SAFETY: as above: `int assoc_mgr_fill_in_user(void *, slurmdb_user_rec_t *, int, slurmdb_user_rec_t **, bool)`.
    let fill_in = unsafe { std::mem::transmute::<*mut c_void, FillIn>(fill_in) };

    // SAFETY: a plain struct of lock levels, 0 is none [assoc_mgr.h].
    let mut locks: sys::assoc_mgr_lock_t = unsafe { std::mem::zeroed() };
    locks.user = sys::READ_LOCK;
    // SAFETY: slurmdb.h: a plain struct of numbers and pointers, for which zero is "not said".
    let mut user: sys::slurmdb_user_rec_t = unsafe { std::mem::zeroed() };
    user.uid = uid;

    // SAFETY: assoc_mgr.h: taken after slurmctld's own locks, which job_submit runs under.
    unsafe { lock(&raw mut locks) };
    // SAFETY: assoc_mgr.c: under the lock for users it only looks through the list, and needs no connection. What it
    // puts into `user` belongs to the list.
    unsafe { fill_in(std::ptr::null_mut(), &raw mut user, 0, std::ptr::null_mut(), true) };
    // SAFETY: null or NUL-terminated, and copied under the lock.
    let account = unsafe { text(user.default_acct.cast::<c_char>()) };
    // SAFETY: as taken above.
    unsafe { unlock(&raw mut locks) };
    account.filter(|account| !account.is_empty())
}
