//! MPS control daemons: one per GPU or instance that jobs share.
//!
//! Started by the first share, ended after the last. A daemon runs as its jobs' user, in directories that only that
//! user can write to, so nothing that is found there is trusted: a process is ours when the kernel says that it runs
//! the site's MPS program as that user. Where users share a daemon it runs as root.

mod admit;
mod defaults;
mod error;
mod folders;
mod process;
mod reserve;
mod revive;

use std::time::Duration;

use geometry::JobId;
use rustix::fs::{AtFlags, CWD};
use rustix::process::Signal;

use crate::command::ToolRun;
use crate::settings::Settings;
use folders::{life_held, make_dirs, remove_dirs};
use node_driver::deadline::{Backoff, Deadline};
use node_driver::process::HeldProcess;
use node_journal::own_dirs::StateError;
use node_journal::{DaemonRecord, Entry, Journal, VERSION};

use admit::admit;
use defaults::Defaults;
pub use error::MpsError;
pub(crate) use folders::Paths;
pub use folders::{left_dirs, still_there};
pub use revive::{Revived, dead, has_clients, revive};

/// Longest time that a daemon gets to end by itself before it is killed.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time that a killed process gets to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(4);

/// Makes sure that the daemon `key` serves `device` for the entry's user. The answer is for the log.
pub(crate) fn ensure(
    settings: &Settings,
    journal: &Journal,
    key: &str,
    entry: &Entry,
    device: &str,
    deadline: &Deadline,
) -> Result<Option<String>, MpsError> {
    let (uid, gid) = if settings.share_between_users { (0, 0) } else { (entry.uid, entry.gid) };
    let boot = journal.boot().to_owned();
    let mut record = DaemonRecord {
        version: VERSION,
        boot,
        key: key.to_owned(),
        uid,
        gid,
        device: device.to_owned(),
        process: None,
    };
    if let Some(old) = journal.daemon(key)? {
        if runs(&old) && (DaemonRecord { process: None, ..old.clone() }) == record {
            share_changes(settings, journal, &old, entry.job(), true)?;
            return Ok(None);
        }
        stop(settings, journal, &old, Some(entry.job()))?;
    }
    journal.store_daemon(&record)?;
    let note = reserve::make_room(settings);
    start(settings, journal, &mut record, entry, deadline).map_err(|e| {
        if !reserve::is_short(settings) {
            return e;
        }
        MpsError::NoRoom {
            key: key.to_owned(),
            run_dir: settings.node.run_dir.clone(),
            largest: reserve::largest(settings),
            source: Box::new(e),
        }
    })?;
    Ok(note)
}

/// Starts a daemon and waits until it listens.
fn start(
    settings: &Settings,
    journal: &Journal,
    record: &mut DaemonRecord,
    entry: &Entry,
    deadline: &Deadline,
) -> Result<(), MpsError> {
    let (key, uid) = (record.key.clone(), record.uid);
    let life = make_dirs(settings, &key, uid, record.gid)?;
    admit_users(settings, journal, record, None)?;
    node_journal::crash::point("before MPS daemon");
    let run = |flags: &[&str]| control(settings, record, flags, "").output(&deadline.at_most(START_TIMEOUT));
    // Newer drivers need a flag to let users in at the same time; older ones end with an error at it.
    let shared = settings.share_between_users && run(&["-d", "-multiuser-server"]).is_ok();
    if !shared {
        run(&["-d"]).map_err(|e| MpsError::Start { key: key.clone(), source: e.into() })?;
    }
    drop(life);
    node_journal::crash::point("MPS daemon not recorded");
    let mut backoff = Backoff::quick();
    let held = loop {
        if let Some(held) = process::listener(settings, &key, uid) {
            break held;
        }
        if !backoff.pause(deadline) {
            stop(settings, journal, record, Some(entry.job()))?;
            return Err(MpsError::Silent { key, timeout_ms: deadline.timeout.as_millis() });
        }
    };
    record.process = Some((held.pid, held.start_time));
    journal.store_daemon(record)?;
    if let Some(defaults) = Defaults::of_shares(journal, &key, None)? {
        defaults.set(settings, record)?;
    }
    Ok(())
}

/// Longest time that the control program gets to turn itself into a daemon.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Adapts a daemon that runs to a share that comes (`stays`) or goes: who may reach it, and what its clients get at most.
pub(crate) fn share_changes(
    settings: &Settings,
    journal: &Journal,
    record: &DaemonRecord,
    job: JobId,
    stays: bool,
) -> Result<(), MpsError> {
    admit_users(settings, journal, record, (!stays).then_some(job.0))?;
    let all = Defaults::of_shares(journal, &record.key, None)?;
    let others = Defaults::of_shares(journal, &record.key, Some(job))?;
    let (before, now) = if stays { (others, all) } else { (all, others) };
    match now.filter(|_| now != before) {
        Some(defaults) => defaults.set(settings, record),
        None => Ok(()),
    }
}

/// Sets who may reach a daemon that users share. A daemon of one user has directories of that user.
pub fn admit_users(
    settings: &Settings,
    journal: &Journal,
    record: &DaemonRecord,
    gone: Option<u32>,
) -> Result<(), MpsError> {
    if record.uid == 0 { admit(settings, journal, &record.key, gone) } else { Ok(()) }
}

/// True while the recorded process lives. Nobody is asked to answer: users can keep a daemon from doing that.
pub fn runs(record: &DaemonRecord) -> bool {
    record.process.is_some_and(|(pid, start)| process::recorded(pid, start, record.uid).is_some())
}

/// A live job of the journal, other than `own`, that uses this daemon. A job whose file is damaged may use any.
pub(crate) fn holder(journal: &Journal, key: &str, own: Option<JobId>) -> Result<Option<JobId>, StateError> {
    let (entries, damaged) = journal.jobs()?.into_parts();
    let lost = journal.lost_jobs(&entries, &damaged)?.into_iter();
    let uses = |e: &&Entry| e.daemons().contains(&key);
    let users = entries.iter().filter(uses).filter(|e| e.holds() && e.boot == journal.boot());
    Ok(users.map(Entry::job).chain(lost).find(|job| Some(*job) != own))
}

/// Ends a daemon, asked first and killed then, and forgets it. `own` is the job that comes or goes, if one does.
///
/// # Errors
///
/// The daemon runs and another job uses it: nothing is done. Or its directories cannot be removed.
pub fn stop(
    settings: &Settings,
    journal: &Journal,
    record: &DaemonRecord,
    own: Option<JobId>,
) -> Result<(), MpsError> {
    if runs(record)
        && let Some(holder) = holder(journal, &record.key, own)?
    {
        return Err(MpsError::Held { key: record.key.clone(), holder });
    }
    let recorded = record.process.and_then(|(pid, start)| process::recorded(pid, start, record.uid));
    let found = recorded.or_else(|| process::listener(settings, &record.key, record.uid));
    node_journal::crash::point("before MPS quit");
    let gone = found.is_some_and(|daemon| {
        let asked = control(settings, record, &[], "quit\n").output(&Deadline::after(QUIT_TIMEOUT));
        asked.is_ok() && wait_end(&[&daemon], QUIT_TIMEOUT)
    });
    if !gone || life_held(settings, &record.key) {
        kill_all(settings, &record.key, record.uid);
    }
    node_journal::crash::point("MPS daemon ended, still recorded");
    remove_dirs(settings, &record.key)?;
    journal.remove_daemon(&record.key)?;
    Ok(())
}

/// Ends a daemon that is not recorded, whoever it runs as, and removes its directories.
pub fn stop_unrecorded(settings: &Settings, key: &str) -> Result<(), StateError> {
    let pipe = Paths::of(settings, key).pipe;
    if let Ok(stat) = rustix::fs::statat(CWD, &pipe, AtFlags::SYMLINK_NOFOLLOW) {
        kill_all(settings, key, stat.st_uid);
    }
    remove_dirs(settings, key)
}

/// Ends every process of a daemon, also one that is still between being forked and being a daemon: a prolog may
/// have been killed just after it started the control program.
fn kill_all(settings: &Settings, key: &str, uid: u32) {
    let deadline = Deadline::after(KILL_TIMEOUT);
    let mut backoff = Backoff::quick();
    let mut signal = Signal::TERM;
    loop {
        let left = process::all_of(settings, key, uid);
        for process in &left {
            process.signal(signal);
        }
        let ended = wait_end(&left.iter().collect::<Vec<_>>(), KILL_TIMEOUT / 4);
        if (ended && !life_held(settings, key)) || !backoff.pause(&deadline) {
            return;
        }
        signal = Signal::KILL;
    }
}

fn wait_end(processes: &[&HeldProcess], timeout: Duration) -> bool {
    let deadline = Deadline::after(timeout);
    let mut backoff = Backoff::quick();
    loop {
        if processes.iter().all(|p| !p.alive()) {
            return true;
        }
        if !backoff.pause(&deadline) {
            return false;
        }
    }
}

/// The control program, for this daemon, as its user.
fn control<'a>(settings: &Settings, record: &DaemonRecord, flags: &[&str], input: &'a str) -> ToolRun<'a> {
    let paths = Paths::of(settings, &record.key);
    ToolRun {
        program: settings.node.mps_control.clone(),
        args: flags.iter().map(|f| (*f).to_owned()).collect(),
        env: vec![
            ("CUDA_MPS_PIPE_DIRECTORY", paths.pipe.display().to_string()),
            ("CUDA_MPS_LOG_DIRECTORY", paths.log.display().to_string()),
            ("CUDA_VISIBLE_DEVICES", record.device.clone()),
        ],
        input,
        user: (record.uid != 0).then_some((record.uid, record.gid)),
    }
}
