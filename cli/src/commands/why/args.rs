//! The command line of `tessera why`.

use std::fmt;

use clap::Args;

/// Say why a job waits, and when it could start
///
/// For a pending job: what it asks for, Slurm's reason, and for each node what holds the GPUs that the job needs, which jobs
/// must end first and when that is expected, and what would start at once instead. The expected end of a job comes from its
/// plan, the run time that it states, or its time limit. Jobs of higher priority may take the room first. Slurm alone decides
/// on cores and memory: if the GPUs are free, look at Slurm's reason. Nodes that the job rules out (--constraint,
/// --exclude, a GPU type) are left out. Nodes with room are listed in the order in which the job gets them. For a running
/// job it says what the job has, and why it is on its node. If a limit of Slurm keeps the job, the answer names the limit's
/// use and its users. Exit status 1 if the job can start on no node, or a limit never lets it start.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera why 4711
  tessera why 4711 --json")]
pub(crate) struct WhyArgs {
    /// The job's number, such as 4711; of a task of an array, such as 4711_2; of a component of a heterogeneous job, such as 4711+1
    #[arg(value_name = "JOBID", value_parser = number)]
    pub(crate) job: Number,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A job, a task of an array, or a component of a heterogeneous job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(super) job: u32,
    pub(super) task: Option<u32>,
    /// Number of the heterogeneous job that it is a component of, if it was named by that.
    pub(super) leader: Option<u32>,
}

impl Number {
    pub(super) fn of(job: u32) -> Self {
        Self { job, task: None, leader: None }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.task, self.leader) {
            (Some(task), _) => write!(f, "{}_{task}", self.job),
            (None, Some(leader)) => write!(f, "{leader}+{}", self.job.saturating_sub(leader)),
            (None, None) => write!(f, "{}", self.job),
        }
    }
}

fn number(text: &str) -> Result<Number, String> {
    let read = |digits: &str| {
        digits.parse::<u32>().map_err(|_| "expected a number such as 4711, 4711_2 or 4711+1".to_owned())
    };
    // Slurm gives components numbers one after the other.
    if let Some((leader, component)) = text.split_once('+') {
        let leader = read(leader)?;
        let job = leader.saturating_add(read(component)?);
        return Ok(Number { leader: Some(leader), ..Number::of(job) });
    }
    let (job, task) = text.split_once('_').map_or((text, None), |(job, task)| (job, Some(task)));
    Ok(Number { task: task.map(read).transpose()?, ..Number::of(read(job)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_the_number_that_squeue_shows() {
        let read = |text: &str| number(text).map(|number| (number.job, number.leader, number.to_string()));
        assert_eq!(read("43+1"), Ok((44, Some(43), "43+1".to_owned())));
        assert_eq!(read("43_1"), Ok((43, None, "43_1".to_owned())));
        assert_eq!(read("43"), Ok((43, None, "43".to_owned())));
        assert!(["43+", "+1", "43+x", "43_1+1"].iter().all(|text| read(text).is_err()));
    }
}
