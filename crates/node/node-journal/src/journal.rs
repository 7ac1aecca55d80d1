//! The open journal.

use std::path::Path;
use std::time::Duration;

use geometry::JobId;
use rustix::fs::Mode;

use crate::cap::CapRecord;
use crate::energy::EnergyRecord;
use crate::entry::{DaemonRecord, Entry};
use crate::file_names::{file_of, file_of_key, job_of};
use crate::folder::{Contents, DamagedFile, Folder, Outlive};
use crate::own_dirs::{self, StateError};

/// The open journal.
pub struct Journal {
    jobs: Folder,
    daemons: Folder,
    caps: Folder,
    energy: Folder,
    bad: Folder,
    boot: String,
}

impl Journal {
    /// Opens the journal, making its directories where they are missing.
    ///
    /// # Errors
    ///
    /// A directory cannot be made, is not ours, or may be written by others; the kernel does not say which boot this is.
    pub fn open(state_dir: &Path) -> Result<Self, StateError> {
        let state = own_dirs::own(state_dir, Mode::RWXU)?;
        let folder = |name| Folder::open(&state, state_dir, name);
        let boot = boot_id(Path::new("/proc/sys/kernel/random/boot_id"))?;
        Ok(Self {
            jobs: folder("jobs")?,
            daemons: folder("daemons")?,
            caps: folder("caps")?,
            energy: folder("energy")?,
            bad: folder("bad")?,
            boot,
        })
    }

    /// This boot's id.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// A job's entry. One that cannot be understood counts as absent: [`Self::jobs`] reports it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer Tessera wrote it.
    pub fn job(&self, job: JobId) -> Result<Option<Entry>, StateError> {
        Ok(self.jobs.read(&file_of(job))?.and_then(Result::ok))
    }

    /// Every job's entry, by job id, and the files that could not be understood.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read, or a newer Tessera wrote a file.
    pub fn jobs(&self) -> Result<Contents<Entry>, StateError> {
        Ok(self.jobs.read_all()?.sorted_by_key(|e: &Entry| e.job))
    }

    /// Writes a job's entry; its content is on disk before it replaces the old one.
    ///
    /// # Errors
    ///
    /// It cannot be written: no job may be started.
    pub fn store(&self, entry: &Entry) -> Result<(), StateError> {
        self.jobs.write(&file_of(entry.job()), entry, Outlive::Machine)
    }

    /// Writes a job's entry before a change that only matters while the machine runs. A power failure may leave the file empty.
    pub fn note(&self, entry: &Entry) -> Result<(), StateError> {
        self.jobs.write(&file_of(entry.job()), entry, Outlive::Process)
    }

    /// Gives the time since a job's entry was last written; `None`: the entry is not there, or the clock was set back.
    #[must_use]
    pub fn age(&self, job: JobId) -> Option<Duration> {
        let path = self.jobs.path_of(&file_of(job));
        std::fs::symlink_metadata(path).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Forgets a job: what it had is taken back.
    ///
    /// # Errors
    ///
    /// A file cannot be removed or renamed.
    pub fn remove(&self, job: JobId) -> Result<(), StateError> {
        for (_, file) in self.lost_files()?.iter().filter(|(lost, _)| *lost == job) {
            self.job_is_over(file)?;
        }
        self.jobs.remove(&file_of(job))
    }

    /// A daemon's record. One that cannot be understood counts as absent: [`Self::daemons`] reports it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer Tessera wrote it.
    pub fn daemon(&self, key: &str) -> Result<Option<DaemonRecord>, StateError> {
        Ok(self.daemons.read(&file_of_key(key))?.and_then(Result::ok))
    }

    /// Every daemon's record, by key, and the files that could not be understood.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read, or a newer Tessera wrote a file.
    pub fn daemons(&self) -> Result<Contents<DaemonRecord>, StateError> {
        self.daemons.read_all()
    }

    /// Writes a daemon's record.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn store_daemon(&self, record: &DaemonRecord) -> Result<(), StateError> {
        self.daemons.write(&file_of_key(&record.key), record, Outlive::Process)
    }

    /// Forgets a daemon.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub fn remove_daemon(&self, key: &str) -> Result<(), StateError> {
        self.daemons.remove(&file_of_key(key))
    }

    /// Reads the record of a GPU's power limit. A file that cannot be understood counts as absent: [`Self::caps`] reports it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer Tessera wrote it.
    pub fn cap(&self, uuid: &str) -> Result<Option<CapRecord>, StateError> {
        Ok(self.caps.read(&file_of_key(uuid))?.and_then(Result::ok))
    }

    /// Every changed power limit, and the files that could not be understood.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read, or a newer Tessera wrote a file.
    pub fn caps(&self) -> Result<Contents<CapRecord>, StateError> {
        self.caps.read_all()
    }

    /// Writes what a GPU's power limit was, is and will be; it is on disk before the limit changes.
    pub fn store_cap(&self, record: &CapRecord) -> Result<(), StateError> {
        self.caps.write(&file_of_key(&record.uuid), record, Outlive::Machine)
    }

    /// Forgets a GPU's power limit: it is as it was found, or somebody else's.
    pub fn remove_cap(&self, uuid: &str) -> Result<(), StateError> {
        self.caps.remove(&file_of_key(uuid))
    }

    /// Reads the record of a GPU's energy. A file that cannot be understood counts as absent.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer Tessera wrote it.
    pub fn energy(&self, uuid: &str) -> Result<Option<EnergyRecord>, StateError> {
        Ok(self.energy.read(&file_of_key(uuid))?.and_then(Result::ok))
    }

    /// Writes what is known of a GPU's energy.
    pub fn store_energy(&self, record: &EnergyRecord) -> Result<(), StateError> {
        self.energy.write(&file_of_key(&record.uuid), record, Outlive::Process)
    }

    /// Checks that jobs' entries can be read and written.
    ///
    /// # Errors
    ///
    /// They cannot be, for this reason.
    pub fn try_out(&self) -> Result<(), StateError> {
        self.jobs.try_out()?;
        self.daemons.try_out()?;
        let _ = self.jobs()?;
        let _ = self.daemons()?;
        self.caps().map(drop)
    }

    /// Jobs of whose resources nothing is known, and which may be live: they have no entry, and their files are damaged.
    /// `entries` and `damaged` are what [`Self::jobs`] has just returned.
    pub fn lost_jobs(&self, entries: &[Entry], damaged: &[DamagedFile]) -> Result<Vec<JobId>, StateError> {
        let name = |file: &DamagedFile| Some(file.path.file_name()?.to_string_lossy().into_owned());
        let now = damaged.iter().filter(|file| !is_of_earlier_boot(&file.path));
        let mut lost: Vec<JobId> = now.filter_map(name).filter_map(|n| job_of(&n)).collect();
        lost.extend(self.lost_files()?.into_iter().map(|(job, _)| job));
        lost.retain(|job| entries.iter().all(|e| e.job() != *job));
        Ok(lost)
    }

    /// Files of jobs in `bad/`, but for those of jobs that are known to be over: whatever a job of an earlier boot had on the GPUs is gone.
    pub fn lost_files(&self) -> Result<Vec<(JobId, String)>, StateError> {
        let open = self.bad.names()?.into_iter().filter(|name| !name.ends_with(OVER));
        let open = open.filter(|name| !is_of_earlier_boot(&self.bad.path_of(name)));
        Ok(open.filter_map(|name| Some((job_of(&name)?, name))).collect())
    }

    /// Notes that the job of a file in `bad/` is over, or has another entry now. The caller holds the node's lock or the
    /// job's.
    pub fn job_is_over(&self, file: &str) -> Result<(), StateError> {
        self.bad.rename(file, &format!("{file}{OVER}"))
    }

    /// Removes what writers that were killed left behind. The caller holds the node's lock.
    pub fn sweep(&self) -> Result<(), StateError> {
        self.jobs.sweep()?;
        self.daemons.sweep()?;
        self.caps.sweep()?;
        self.energy.sweep()
    }

    /// Moves damaged files of jobs to `bad/` and returns where they are then. The caller holds the node's lock.
    pub fn set_aside_jobs(&self, damaged: Vec<DamagedFile>) -> Result<Vec<DamagedFile>, StateError> {
        damaged.into_iter().map(|file| self.jobs.set_aside(&self.bad, file)).collect()
    }

    /// Moves damaged files of daemons aside.
    pub fn set_aside_daemons(&self, damaged: Vec<DamagedFile>) -> Result<Vec<DamagedFile>, StateError> {
        damaged.into_iter().map(|file| self.daemons.set_aside(&self.bad, file)).collect()
    }

    /// Moves one job's damaged file aside; the caller holds the job's lock, and is about to write its entry again.
    pub fn set_aside_job(&self, job: JobId) -> Result<Option<DamagedFile>, StateError> {
        match self.jobs.read::<Entry>(&file_of(job))? {
            Some(Err(damaged)) => self.jobs.set_aside(&self.bad, damaged).map(Some),
            Some(Ok(_)) | None => Ok(None),
        }
    }
}

/// Ending of the name of a file in `bad/` once its job is over.
const OVER: &str = ".over";

/// True for a file that was last written before the machine was started. A clock that was wrong by more than munge tolerates has let no job
/// start.
fn is_of_earlier_boot(path: &Path) -> bool {
    let written = std::fs::symlink_metadata(path).and_then(|file| file.modified());
    let age = written.ok().and_then(|at| at.elapsed().ok());
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = u64::try_from(boot.tv_sec).map_or(Duration::MAX, Duration::from_secs);
    age.is_some_and(|age| age > up + Duration::from_secs(1))
}

/// Reads the id of this boot. Without it every entry would seem to be of another one, and its job dead.
fn boot_id(path: &Path) -> Result<String, StateError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| StateError::Io { path: path.to_owned(), what: "read it", source })?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_is_not_known_is_not_another_one() {
        let error = boot_id(Path::new("/nonexistent/boot_id")).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/boot_id: cannot read it");
    }
}
