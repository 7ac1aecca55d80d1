//! Reports of a stream while it runs.

use protocol::Grant;

/// Something that happened. `job` is a position in the list of jobs; times in ms.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<'a> {
    /// A job starts.
    Start {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
        /// Nodes, as positions in the site, with the grant on each.
        parts: &'a [(usize, Grant)],
    },
    /// A job found no place at once, or never will.
    Drop {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
    },
    /// A job ends, or is stopped to start elsewhere.
    End {
        /// The job.
        job: usize,
        /// When.
        at_ms: u64,
    },
}
