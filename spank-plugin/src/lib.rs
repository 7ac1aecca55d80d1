//! `spank_tessera.so`: Tessera's options in the submitting commands, its work on the node, its environment in tasks.
//!
//! # Which hook does what, and what its failure does
//!
//! Slurm heeds an error only from a plugin that `plugstack.conf` calls `required`; the last column says what happens
//! to one called `optional`.
//!
//! | hook | process, user | does | on an error | under `optional` |
//! |---|---|---|---|---|
//! | `init` | sbatch, salloc, srun, slurmstepd | registers the options | the command or step fails | the option is unknown |
//! | `init` | slurmd, root | starts `tessera node reconcile`, detached | one log line; slurmd starts | the same |
//! | option callback | sbatch, salloc, srun, user | keeps the text; refuses in scrontab, which never asks further | the command ends, nothing is submitted | the same |
//! | `init_post_opt` | sbatch, salloc, srun, user | checks the options together, stores the request | one line per problem, the command ends itself with `SLURM_EXIT_ERROR` or 1 | the same |
//! | `init_post_opt` | slurmstepd, root | reads the step's share from the journal; makes it where slurmd has skipped the prolog; asks slurmctld on a node that is not in `tessera.toml`, if the job has asked for GPUs of ours | kept for `task_init` | the same |
//! | `job_prolog` | slurmstepd, root | realises the placement | **drains the node**: only if it is unfit for any job. What concerns one job is journalled. Without a journal the node takes no more jobs with GPUs | the job starts, `task_init` refuses |
//! | `task_init` | the task, user | sets the environment, says what was got | the step fails with the journalled reason | the task runs, without any GPU in its environment |
//! | `task_exit` | slurmstepd, root | tells in the job's log what the task broker noted | nothing is told | the same |
//! | `job_epilog` | slurmstepd, root | takes everything back | **drains the node**: only if the device files cannot be looked at. Without a journal as above | logged |
//!
//! `user_init` is not used: up to 23.02 its error does not reach srun. A panic in any hook is one log line and counts
//! as that hook's error.
//!
//! # Trust
//!
//! The request is the user's and is parsed strictly wherever it is read. The placement is believed only in prolog and
//! epilog, where slurmctld wrote it; see `check_placement.rs`. No option's text reaches a shell, a path (but for the file that
//! `--gpu-pattern=file:PATH` names, opened as the user) or a format string.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod args;
mod check_placement;
mod counters;
mod describe;
#[cfg(test)]
mod fake_spank;
#[expect(unsafe_code, reason = "Slurm's C interface; every block names whose promise it relies on")]
mod ffi;
mod gpu_plugins;
mod gpus_of_types;
mod hooks;
mod late_prolog;
mod notes;
mod prologs;
mod requeue;
mod salloc_shell;
mod shards;
mod share_of_process;
mod slurmd;
mod slurmstepd;
mod spank;
mod spawn_reconcile;
mod squeue;
mod step_instances;
mod submit;
mod task_gpus;
mod this_node;
