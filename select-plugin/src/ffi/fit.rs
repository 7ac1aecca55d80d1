//! The tables held against this slurmctld, before a record is read by them.
//!
//! A table that is wrong may have any address for any field. So the first records are looked at in a way that cannot crash: each is
//! to have its size, its mark, and pointers, texts, lists and bit strings where the table says; and slurmctld is to find it by the
//! name or number that is read there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use geometry::JobId;
use plugin_rt::Chain;
use slurm_tables::{ListOf, Record, own_layout};
use slurmctld_rt::fit::{Unfit, check, conf_fits};

use super::host::{Host, conf_string, name_of};
use super::records::{self, Conf, Details, Gres, Job, JobGres, Node, NodeGres, Partition, Resources};
use super::version;
use crate::limited::NO_JOB;
use crate::reminder::Reminder;
use crate::structs::complaint;

/// Nodes that are looked at.
const NODES: usize = 8;

/// Why the tables cannot be used, with what says so.
static UNFIT: OnceLock<(String, Mutex<Reminder>)> = OnceLock::new();
static LEARNT: AtomicBool = AtomicBool::new(false);
static NODES_FIT: AtomicBool = AtomicBool::new(false);

/// Learns where fields lie, and compares slurm.conf with that. If that fails, it is said at once, and then once a minute.
pub(crate) fn learns() -> bool {
    match learn() {
        Ok(()) => true,
        Err(why) => {
            let why = complaint(&version::slurm().to_string(), &Chain(&why).to_string());
            UNFIT.get_or_init(|| (why, Mutex::default()));
            remind();
            false
        }
    }
}

/// Says again, once a minute, that nothing is known of the structures.
pub(crate) fn remind() {
    if let Some((why, reminder)) = UNFIT.get() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        reminder.lock().unwrap_or_else(PoisonError::into_inner).say(now, &|| why.clone());
    }
}

fn learn() -> Result<(), Unfit> {
    records::learn(&own_layout(version::slurm())?)?;
    conf_fits(Conf::described(), || conf_string(Conf::plugindir))?;
    LEARNT.store(true, Ordering::Release);
    Ok(())
}

/// Tells whether fields are known.
pub(crate) fn is_learnt() -> bool {
    LEARNT.load(Ordering::Acquire)
}

/// Compares records of nodes, once: the first that there are.
pub(crate) fn nodes(host: &Host) -> Result<(), Unfit> {
    if NODES_FIT.load(Ordering::Acquire) {
        return Ok(());
    }
    let (mut looked, mut named) = (false, false);
    for node in (0..host.node_count()).filter_map(|index| host.node(index)).take(NODES) {
        Node::check(Some(node))?;
        // A node that was deleted has no name.
        let name = name_of(node);
        (looked, named) = (true, named || name.is_some());
        if name.is_some_and(|name| {
            host.node_by_name(&name).is_none_or(|found| found.address() != node.address())
        }) {
            return Err(Unfit::Named("node"));
        }
        entries(host, node.gres_list(), NodeGres::described())?;
    }
    if looked && !named {
        return Err(Unfit::Named("node"));
    }
    NODES_FIT.store(looked, Ordering::Release);
    Ok(())
}

/// Compares the record of a job, and those that it points to; false: it is no job's, so that it cannot be compared.
pub(crate) fn job(host: &Host, job: Job) -> Result<bool, Unfit> {
    Job::check(Some(job))?;
    let id = JobId(job.job_id());
    if id == NO_JOB {
        return Ok(false);
    }
    if host.job(id).is_none_or(|found| found.address() != job.address()) {
        return Err(Unfit::Named("job"));
    }
    Details::check(job.details())?;
    Partition::check(job.part_ptr())?;
    Resources::check(job.job_resrcs())?;
    if let Some(part) = job.part_ptr()
        && part.name().is_none_or(|name| host.partition(&name) != part.address())
    {
        return Err(Unfit::Named("partition"));
    }
    entries(host, job.gres_list_req(), JobGres::described())?;
    entries(host, job.gres_list_alloc(), JobGres::described())?;
    Ok(true)
}

/// Compares the entries of a list of GRES, and their data. The list was found to be one.
fn entries(host: &Host, list: ListOf<Gres>, data: Option<&Record>) -> Result<(), Unfit> {
    for entry in host.records(list) {
        Gres::check(Some(entry))?;
        check(data, entry.gres_data())?;
    }
    Ok(())
}
