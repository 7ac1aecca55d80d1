//! Numbers of a job's steps.

/// Number of a step in its job. `srun` numbers its steps from 0 on; the others have numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepNumber(pub u32);

impl StepNumber {
    /// `SLURM_BATCH_SCRIPT` of slurm/slurm.h.
    pub const BATCH_SCRIPT: Self = Self(0xffff_fffb);
    /// `SLURM_EXTERN_CONT` of slurm/slurm.h.
    pub const EXTERN: Self = Self(slurm_numbers::SLURM_EXTERN_CONT);
    /// `SLURM_INTERACTIVE_STEP` of slurm/slurm.h.
    pub const INTERACTIVE: Self = Self(0xffff_fffa);

    /// True for the batch script and the interactive step: they begin with their job, without `srun`, and have one task.
    #[must_use]
    pub fn is_job_script(self) -> bool {
        [Self::BATCH_SCRIPT, Self::INTERACTIVE].contains(&self)
    }
}
