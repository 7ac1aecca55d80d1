//! The level that limits a job to the GPU memory that is counted for it.
//!
//! The job's log, `tessera explain`, `TESSERA_GPU_SHARE` and the pages all use these words.

use std::fmt;

/// The means that stops a process that asks for more memory than is counted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLevel {
    /// The GPU itself: an instance, or a whole GPU.
    Hardware,
    /// The kernel: the job's control group has a limit for the GPU's memory (`dmem.max`). No program evades it.
    Kernel,
    /// MPS. It limits each process by a variable that a program can take out of its environment.
    Mps,
    /// The preloaded library of GPU tasks, with the task broker. A program can evade it.
    Library,
    /// Nothing: other jobs are kept from memory that is counted for this one, but its processes can take more.
    Counted,
}

impl MemoryLevel {
    /// Returns the level of an MPS share, which MPS limits only where the site says so.
    #[must_use]
    pub fn of_share(limited_by_mps: bool) -> Self {
        if limited_by_mps { Self::Mps } else { Self::Counted }
    }

    /// Returns the level of the same job, whose control group the kernel holds to its memory if `by_kernel`.
    #[must_use]
    pub fn fenced(self, by_kernel: bool) -> Self {
        if by_kernel && self != Self::Hardware { Self::Kernel } else { self }
    }

    /// Returns the level of a process of GPU tasks, which only the preloaded library limits.
    #[must_use]
    pub fn of_tasks(preloaded: bool) -> Self {
        if preloaded { Self::Library } else { Self::Counted }
    }
}

impl fmt::Display for MemoryLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hardware => "hardware",
            Self::Kernel => "kernel",
            Self::Mps => "MPS, cooperative",
            Self::Library => "library, cooperative",
            Self::Counted => "counted",
        })
    }
}

/// Returns what each of `processes` processes may take of a share of `share_mib` MiB, so that together they cannot take more
/// than the share. It is never 0, which MPS could read as no limit.
#[must_use]
pub fn of_each_process(share_mib: u64, processes: u64) -> u64 {
    (share_mib / processes.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_holds_what_the_gpu_itself_does_not() {
        use MemoryLevel::{Counted, Hardware, Kernel, Library, Mps};
        assert_eq!(
            [Hardware, Kernel, Mps, Library, Counted].map(|level| level.fenced(false)),
            [Hardware, Kernel, Mps, Library, Counted]
        );
        assert_eq!(
            [Hardware, Kernel, Mps, Library, Counted].map(|level| level.fenced(true)),
            [Hardware, Kernel, Kernel, Kernel, Kernel]
        );
        assert_eq!(Kernel.to_string(), "kernel");
    }

    #[test]
    fn all_processes_together_have_the_share() {
        assert_eq!([0, 1, 3, 4].map(|n| of_each_process(2862, n)), [2862, 2862, 954, 715]);
        assert_eq!(of_each_process(3, 7), 1);
        for n in 1..3000 {
            assert!(of_each_process(2862, n) * n <= 2862 || n > 2862, "{n}");
        }
    }
}
