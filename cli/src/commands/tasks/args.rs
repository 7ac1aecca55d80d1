//! The command line of `tessera tasks`.

use clap::Args;

/// Show the GPU tasks that run and wait in this node's pool
///
/// The pool is the devices that jobs with --gpu-isolation=gpu-tasks share. The first table has a line for each device: its memory,
/// what is promised to tasks (LEASED), what contexts and overuse take (OVERHEAD), what processes that have ended still hold
/// (QUARANTINED), the warps of its tasks, and the processes on it. The second has a line for each GPU task. Run it as root on
/// the node.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera tasks
  tessera tasks --json | jq '.jobs[] | select(.job == 1234)'")]
pub(crate) struct TasksArgs {
    /// The node's name; by default SLURMD_NODENAME, else the host name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
