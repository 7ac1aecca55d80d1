//! Slurm's structs and functions, behind types that safe code may use.
//!
//! Lowest first: `host` and `version`, what is read of accounts and jobs by pointers, and what is written.

pub(crate) mod accounts;
pub(crate) mod apply;
pub(crate) mod call;
pub(crate) mod fit;
pub(crate) mod host;
pub(crate) mod jobs;
pub(crate) mod licenses;
pub(crate) mod records;
pub(crate) mod version;
