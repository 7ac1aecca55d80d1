//! The command line of `tessera why`.

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
    /// The job's number, such as 4711; of a task of an array, such as 4711_2
    #[arg(value_name = "JOBID", value_parser = number)]
    pub(crate) job: Number,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A job, or a task of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(super) job: u32,
    pub(super) task: Option<u32>,
}

fn number(text: &str) -> Result<Number, String> {
    let (job, task) = text.split_once('_').map_or((text, None), |(job, task)| (job, Some(task)));
    let read =
        |digits: &str| digits.parse().map_err(|_| "expected a number such as 4711 or 4711_2".to_owned());
    Ok(Number { job: read(job)?, task: task.map(read).transpose()? })
}
