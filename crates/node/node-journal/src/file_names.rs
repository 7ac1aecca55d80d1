//! Names of the journal's files.

use geometry::JobId;

pub(crate) fn daemon_file(key: &str) -> String {
    format!("{key}.json")
}

/// A UUID is the driver's, and the name of a file in our own folder: nothing but its letters, digits and dashes gets there.
pub(crate) fn cap_file(uuid: &str) -> String {
    format!("{}.json", plain(uuid))
}

/// The name of a file about a GPU, without its ending.
pub(crate) fn plain(uuid: &str) -> String {
    uuid.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

pub(crate) fn file_of(job: JobId) -> String {
    format!("{job}.json")
}

/// The job of a file in `jobs/` or `bad/`; `None` for a file that is no job's.
pub(crate) fn job_of(file: &str) -> Option<JobId> {
    file.split('.').next()?.parse().ok().map(JobId)
}
