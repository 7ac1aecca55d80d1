//! Slurm's own commands: running them and reading what they print.

pub(crate) mod assoc_mgr;
pub(crate) mod caller;
pub(crate) mod command;
pub(crate) mod constraint;
pub(crate) mod exclusive;
pub(crate) mod gres_type;
pub(crate) mod records;
pub(crate) mod reservations;
pub(crate) mod sacct;
pub(crate) mod sacctmgr;
pub(crate) mod sbatch;
pub(crate) mod scontrol;
pub(crate) mod sinfo;
pub(crate) mod squeue;
pub(crate) mod step_use;
pub(crate) mod tres;
pub(crate) mod version;
