//! Names of the journal's files.

use geometry::JobId;

/// The file of a daemon, by its key, or about a GPU, by its UUID.
pub(crate) fn file_of_key(key: &str) -> String {
    format!("{}.json", plain(key))
}

/// The name without its ending. A UUID is the driver's, and the file is in our own folder: nothing but letters, digits and dashes gets there.
pub(crate) fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

pub(crate) fn file_of(job: JobId) -> String {
    format!("{job}.json")
}

/// The job of a file in `jobs/` or `bad/`; `None` for a file that is no job's.
pub(crate) fn job_of(file: &str) -> Option<JobId> {
    file.split('.').next()?.parse().ok().map(JobId)
}
