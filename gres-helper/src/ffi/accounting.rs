//! Limits that slurmctld keeps of a job, read from its copy of the accounting database: nothing is asked over the network.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use plugin_rt::text;
use slurm_limits::{Holder, LimitKind, QosRecord, SLICES, SlurmLimit, in_force};
use slurm_numbers as numbers;
use slurm_tables::Record;
use slurmctld_rt::fit::check;
use slurmctld_rt::item;

use super::records::{AllLocks, Association, AssociationUsage, Qos};
use super::version;
use crate::submission::JobOwner;

slurmctld_rt::slurmctlds! {
    /// The functions and globals used: a slurmctld that lacks one tells no limits.
    pub(super) struct Accounting {
        fn lock = c"assoc_mgr_lock", "src/common/assoc_mgr.h": fn(*mut u64);
        fn unlock = c"assoc_mgr_unlock", "src/common/assoc_mgr.h": fn(*mut u64);
        fn fill_in_association = c"assoc_mgr_fill_in_assoc", "src/common/assoc_mgr.h": fn(
            *mut c_void, *mut u64, c_int, *mut *mut c_void, bool,
        ) -> c_int;
        fn fill_in_qos = c"assoc_mgr_fill_in_qos", "src/common/assoc_mgr.h": fn(
            *mut c_void, *mut u64, c_int, *mut *mut c_void, bool,
        ) -> c_int;
        fn default_qos = c"assoc_mgr_get_default_qos_info", "src/common/assoc_mgr.h": fn(*mut c_void, *mut u64);
        static enforced = c"accounting_enforce", "src/slurmctld/slurmctld.h": u16;
        static n_tres = c"g_tres_count", "src/common/assoc_mgr.h": u32;
        static tres_names = c"assoc_mgr_tres_name_array", "src/common/assoc_mgr.h": *mut *mut c_char;
    }
}

/// TRES of which a job's amount is known at submission.
const TRES: [&str; 4] = ["gres/gpu", "gres/shard", SLICES, "node"];
/// Most TRES that are looked through.
const MOST_TRES: usize = 1024;
/// Most accounts above each other that are followed.
const MOST_ACCOUNTS: usize = 64;

/// The first records were looked at, and are such records.
static FIT: AtomicBool = AtomicBool::new(false);

/// Gives the limits that hold for a job of this owner, those that count before others first; none if slurmctld keeps none.
/// `partition_qos`: the record of its partition's QOS, or null.
pub(super) fn limits(owner: &JobOwner<'_>, partition_qos: *mut c_void) -> Option<Vec<SlurmLimit>> {
    let slurmctld = Accounting::get()?;
    // SAFETY: slurmctld.h: set when slurmctld reads its configuration, under whose lock hooks run.
    let enforced = unsafe { slurmctld.enforced.read() };
    if enforced & numbers::ACCOUNTING_ENFORCE_LIMITS == 0 {
        return None;
    }
    let read = Locked::take(slurmctld, enforced & numbers::ACCOUNTING_ENFORCE_SAFE != 0)?;
    let own = read.association(owner)?;
    let qos = read.qos(owner.qos, own)?;
    // SAFETY: null or the live QOS of a live partition: `_remove_qos` takes it from partitions under the lock for QOS.
    let of_partition = unsafe { Qos::at(partition_qos) };
    let [of_partition, qos] = [of_partition, Some(qos)].map(|qos| Some(read.of_qos(qos?, own)));
    Some(in_force(of_partition, qos, read.of_accounts(own)))
}

/// The copy of the accounting, under its locks for reading. They are taken after slurmctld's own, as slurmctld itself does it when it
/// looks up a job's association.
struct Locked<'a> {
    slurmctld: &'a Accounting,
    locks: Vec<u64>,
    /// Places of [`TRES`] in each list of amounts.
    tres: Vec<(usize, &'static str)>,
    /// A list of amounts: one for each TRES of the cluster.
    amounts: Record,
    safe: bool,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: assoc_mgr.h: the locks that `take` has taken.
        unsafe { (self.slurmctld.unlock)(self.locks.as_mut_ptr()) };
    }
}

impl<'a> Locked<'a> {
    fn take(slurmctld: &'a Accounting, safe: bool) -> Option<Self> {
        let mut locks = vec![0_u64; AllLocks::described()?.size.div_ceil(8)];
        // SAFETY: a zeroed struct of this size, for which zero is "no lock".
        let wanted = unsafe { AllLocks::at(locks.as_mut_ptr()) }?;
        for place in [wanted.assoc_at(), wanted.qos_at(), wanted.tres_at(), wanted.user_at()] {
            // SAFETY: a field of this struct.
            unsafe { place.write(numbers::READ_LOCK) };
        }
        // SAFETY: assoc_mgr.h: a struct of locks; this thread holds none of them.
        unsafe { (slurmctld.lock)(locks.as_mut_ptr()) };
        // SAFETY: assoc_mgr.h: a global, under the lock for TRES.
        let n = unsafe { slurmctld.n_tres.read() } as usize;
        // SAFETY: as above: null or an array of so many names.
        let names = unsafe { slurmctld.tres_names.read() };
        let amounts = Record {
            structure: "list of amounts",
            size: n.saturating_mul(8),
            magic: None,
            fields: Vec::new(),
        };
        let mut taken = Self { slurmctld, locks, tres: Vec::new(), amounts, safe };
        for at in 0..n.min(MOST_TRES) {
            // SAFETY: inside the array.
            let name = unsafe { item(names, at) }.unwrap_or(null_mut());
            // SAFETY: null or NUL-terminated.
            let name = unsafe { text(name) }.unwrap_or_default();
            taken.tres.extend(TRES.iter().filter(|tres| **tres == name).map(|tres| (at, *tres)));
        }
        Some(taken)
    }

    /// Finds the association that slurmctld will charge the job to.
    fn association(&self, owner: &JobOwner<'_>) -> Option<Association> {
        // Slurm knows names of accounts in small letters only.
        let account = owner.account.map(|name| CString::new(name.to_ascii_lowercase())).transpose().ok()?;
        let partition = CString::new(owner.partition).ok()?;
        let mut wanted = vec![0_u64; Association::described()?.size.div_ceil(8)];
        // SAFETY: a zeroed struct of this size, as slurmctld itself begins with one (`_job_create`).
        let view = unsafe { Association::at(wanted.as_mut_ptr()) }?;
        let account = account.as_ref().map_or(null(), |name| name.as_ptr());
        // SAFETY: a field of this struct; the name lives to the end of this function.
        unsafe { view.acct_at().write(account.cast_mut()) };
        // SAFETY: as above.
        unsafe { view.partition_at().write(partition.as_ptr().cast_mut()) };
        // SAFETY: as above.
        unsafe { view.uid_at().write(owner.user) };
        let (nothing, mut found) = (null_mut(), null_mut());
        // SAFETY: assoc_mgr.c: under the locks it only looks through the list, and needs no connection. It puts pointers of the list into
        // `wanted`, and frees none.
        unsafe {
            (self.slurmctld.fill_in_association)(nothing, wanted.as_mut_ptr(), 0, &raw mut found, true)
        };
        // SAFETY: null or a live record, under the lock for associations.
        let found = unsafe { Association::at(found) }?;
        let is_one = || Association::check(Some(found)).and_then(|()| AssociationUsage::check(found.usage()));
        (FIT.load(Ordering::Acquire) || is_one().is_ok()).then_some(found)
    }

    /// Finds the QOS that slurmctld will give the job.
    fn qos(&self, named: Option<&str>, own: Association) -> Option<Qos> {
        let name = named.map(|name| CString::new(name.to_ascii_lowercase())).transpose().ok()?;
        let mut wanted = vec![0_u64; Qos::described()?.size.div_ceil(8)];
        let record = wanted.as_mut_ptr();
        // SAFETY: a zeroed struct of this size.
        let view = unsafe { Qos::at(record) }?;
        match &name {
            // SAFETY: a field of this struct; the name lives to the end of this function.
            Some(name) => unsafe { view.name_at().write(name.as_ptr().cast_mut()) },
            // SAFETY: assoc_mgr.h: a live association and a record that it fills in.
            None => unsafe { (self.slurmctld.default_qos)(own.address(), record) },
        }
        let mut found = null_mut();
        // SAFETY: assoc_mgr.c: as for an association.
        unsafe { (self.slurmctld.fill_in_qos)(null_mut(), record, 0, &raw mut found, true) };
        // SAFETY: null or a live record, under the lock for QOS.
        let found = unsafe { Qos::at(found) }?;
        if !FIT.load(Ordering::Acquire) && Qos::check(Some(found)).is_err() {
            return None;
        }
        FIT.store(true, Ordering::Release);
        Some(found)
    }

    /// Adds the limits of a list of amounts; one that is no block of the right size has none.
    fn amounts(&self, list: *mut u64, kind: LimitKind, holder: &Holder, into: &mut Vec<SlurmLimit>) {
        if list.is_null() || check(Some(&self.amounts), list.cast()).is_err() {
            return;
        }
        for (at, tres) in &self.tres {
            // SAFETY: the list has an amount for each TRES, as was just found.
            let most = unsafe { item(list, *at) }.filter(|most| *most < numbers::NO_VAL64);
            into.extend(
                most.filter(|_| *tres != SLICES || version::counts_slices()).map(|most| SlurmLimit {
                    kind,
                    tres: (*tres).to_owned(),
                    most,
                    holder: holder.clone(),
                }),
            );
        }
    }

    fn of_qos(&self, qos: Qos, own: Association) -> QosRecord<SlurmLimit> {
        let name = qos.name().unwrap_or_default();
        let [account, user] = [own.acct(), own.user()].map(Option::unwrap_or_default);
        let whole = Holder::Qos(name.clone());
        let of_user = Holder::UserOfQos(user, name.clone());
        let of_account = Holder::AccountOfQos(account, name.clone());
        let mut all = Vec::new();
        for (list, kind, holder) in [
            (qos.max_tres_pj_ctld(), LimitKind::PerJob, &whole),
            (qos.max_tres_pn_ctld(), LimitKind::PerNode, &whole),
            (qos.min_tres_pj_ctld(), LimitKind::Least, &whole),
            (qos.max_tres_pu_ctld(), LimitKind::Together, &of_user),
            (qos.max_tres_pa_ctld(), LimitKind::Together, &of_account),
            (qos.grp_tres_ctld(), LimitKind::Together, &whole),
            (qos.max_tres_mins_pj_ctld(), LimitKind::MinutesPerJob, &whole),
            (qos.grp_tres_mins_ctld(), LimitKind::Minutes { safe: self.safe }, &whole),
            (qos.grp_tres_run_mins_ctld(), LimitKind::RunMinutes, &whole),
        ] {
            self.amounts(list, kind, holder, &mut all);
        }
        number(qos.max_wall_pj(), LimitKind::WallPerJob, &whole, &mut all);
        number(qos.grp_jobs(), LimitKind::Jobs, &whole, &mut all);
        number(qos.max_jobs_pu(), LimitKind::Jobs, &of_user, &mut all);
        number(qos.max_jobs_pa(), LimitKind::Jobs, &of_account, &mut all);
        let factor = f64::from_bits(qos.limit_factor());
        QosRecord {
            name,
            limits: all,
            over_partition: qos.flags() & numbers::QOS_FLAG_OVER_PART_QOS != 0,
            factor: (factor < f64::from(numbers::INFINITE)).then_some(factor),
        }
    }

    /// Reads the limits of the job's association and of the accounts above it.
    fn of_accounts(&self, own: Association) -> Vec<SlurmLimit> {
        let mut all = Vec::new();
        let (mut next, mut above) = (Some(own), 0);
        while let Some(association) = next.filter(|_| above < MOST_ACCOUNTS) {
            let account = association.acct().unwrap_or_default();
            let holder = association
                .user()
                .map_or(Holder::Account(account.clone()), |user| Holder::User(user, account));
            let minutes = LimitKind::Minutes { safe: self.safe };
            self.amounts(association.grp_tres_ctld(), LimitKind::Together, &holder, &mut all);
            self.amounts(association.grp_tres_mins_ctld(), minutes, &holder, &mut all);
            self.amounts(association.grp_tres_run_mins_ctld(), LimitKind::RunMinutes, &holder, &mut all);
            number(association.grp_jobs(), LimitKind::Jobs, &holder, &mut all);
            if above == 0 {
                // Those of the accounts above are passed on to their users.
                self.amounts(association.max_tres_ctld(), LimitKind::PerJob, &holder, &mut all);
                self.amounts(association.max_tres_pn_ctld(), LimitKind::PerNode, &holder, &mut all);
                self.amounts(association.max_tres_mins_ctld(), LimitKind::MinutesPerJob, &holder, &mut all);
                number(association.max_wall_pj(), LimitKind::WallPerJob, &holder, &mut all);
                number(association.max_jobs(), LimitKind::MaxJobs, &holder, &mut all);
            }
            // Each association that slurmctld keeps has its usage.
            next = association.usage().and_then(AssociationUsage::parent_assoc_ptr);
            above += 1;
        }
        all
    }
}

/// Adds a limit on a single number, if it is set.
fn number(most: u32, kind: LimitKind, holder: &Holder, into: &mut Vec<SlurmLimit>) {
    if most < numbers::NO_VAL {
        into.push(SlurmLimit { kind, tres: String::new(), most: most.into(), holder: holder.clone() });
    }
}
