//! Memory that belongs to Slurm.

pub(crate) mod check;
pub(crate) mod field;
pub(crate) mod peek;
pub(crate) mod record;
