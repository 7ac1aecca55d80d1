//! Phases of a simulated job.

use task_sched::Bytes;
use task_sched::{Need, WorkerId};

/// A stretch of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Seconds without a device.
    Host(f64),
    /// A GPU task.
    Gpu {
        /// Seconds that it takes alone on a V100 or P100.
        seconds: f64,
        /// Memory and warps that its lease covers.
        need: Need,
        /// Part of that time in which its kernels hold the device, 0 to 1.
        demand: f64,
    },
}

/// A process: when it comes, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Number of the job, unique in a run.
    pub id: WorkerId,
    /// Name of its program, for people.
    pub name: String,
    /// Seconds from the run's begin.
    pub arrival: f64,
    /// True if it shares its device with nobody.
    pub isolated: bool,
    /// The memory that it declares; no task of it takes more.
    pub mem: Bytes,
    /// In order.
    pub phases: Vec<Phase>,
}

/// Why a job cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A time is negative or not a finite number.
    #[error("job {job}: {field} must be a number of seconds, 0 or more")]
    Time {
        /// The job's number.
        job: u64,
        /// `arrival`, `host` or `gpu`.
        field: &'static str,
    },
    /// A demand outside 0 to 1.
    #[error("job {job}: demand must be 0 to 1")]
    Demand {
        /// The job's number.
        job: u64,
    },
    /// A task above its job's declared memory.
    #[error("job {job}: a task needs {need}, above the {mem} that the job declares")]
    AboveJob {
        /// The job's number.
        job: u64,
        /// The task's memory.
        need: Bytes,
        /// The job's.
        mem: Bytes,
    },
    /// Two jobs of one number.
    #[error("job {job} comes twice")]
    Twice {
        /// The number.
        job: u64,
    },
}

impl Job {
    /// # Errors
    ///
    /// The first thing in it that no run could follow.
    pub fn check(&self) -> Result<(), JobError> {
        let job = self.id.0;
        let time = |field, seconds: f64| match seconds.is_finite() && seconds >= 0.0 {
            true => Ok(()),
            false => Err(JobError::Time { job, field }),
        };
        time("arrival", self.arrival)?;
        for phase in &self.phases {
            match phase {
                Phase::Host(seconds) => time("host", *seconds)?,
                Phase::Gpu { seconds, need, demand } => {
                    time("gpu", *seconds)?;
                    if !(0.0..=1.0).contains(demand) {
                        return Err(JobError::Demand { job });
                    }
                    if need.mem() > self.mem {
                        return Err(JobError::AboveJob { job, need: need.mem(), mem: self.mem });
                    }
                }
            }
        }
        Ok(())
    }
}
