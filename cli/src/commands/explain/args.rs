//! The command line of `tessera explain`.

use clap::Args;

use super::request::RequestArgs;
use crate::options::model_and_count;

/// Explain what a request would get, and why
///
/// Takes the options of sbatch and asks the engine that places real jobs. It prints what each node says: what the job would
/// get there now and why, which jobs must end first, or why the node can never run it. For one node, or with --all, it also
/// prints every candidate with its score or with the rule that excludes it. The best candidate leaves the most placements to
/// other jobs: positions at which some profile still fits. Nodes are listed in the order in which the job gets them. A job on
/// several nodes (-N) needs that number of nodes with room at once. Exit status 1 if the job could not start now.
///
/// If Slurm answers, the nodes are as they are now, and the limits are those of your own default partition and account. If
/// one of Slurm's own limits keeps the job, such as slices at once in a QOS, the answer names it, its use, and the users that
/// use it. Without an answer of Slurm, and with --empty, all nodes are taken as empty.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera explain --gpu-mem=10G
  tessera explain -p gpu -N2 --gpus-per-node=4 -t 2:00:00
  tessera explain --node n1 --gpu-isolation=mig:2g.10gb --gpu-instances=2
  tessera explain --gpu a100-40gb,8 --links dgx-v --gpus-per-node=3
  tessera explain --gpu a30-24gb --gpu-mem=6G \\
    --busy 'tessera gpu0=mig[1g.6gb@0:job12]'")]
pub(crate) struct ExplainArgs {
    /// Ask these nodes of tessera.toml, such as n[1-4]; by default all
    #[arg(short = 'w', long, alias = "nodelist", value_name = "NODES", conflicts_with = "model")]
    pub(crate) node: Option<String>,
    /// Ask a made-up node with N GPUs of this model instead of one of tessera.toml
    #[arg(long = "gpu", alias = "model", value_name = "MODEL[,N]", value_parser = model_and_count, conflicts_with_all = ["reservation", "constraint", "exclude"])]
    pub(crate) model: Option<(String, usize)>,
    // The number of GPUs before 0.1, now behind the model.
    #[arg(long, hide = true, value_name = "N", requires = "model", value_parser = gpu_count)]
    pub(crate) count: Option<usize>,
    /// Interconnect of that node
    #[arg(long, value_name = "SYSTEM", requires = "model", default_value = "pcie")]
    pub(crate) links: String,
    /// Fail where no Slurm answers, instead of taking the nodes as empty
    #[arg(long, conflicts_with_all = ["model", "busy"])]
    pub(crate) live: bool,
    /// Take all nodes as empty
    #[arg(long, conflicts_with_all = ["live", "model", "busy", "reservation", "constraint"])]
    pub(crate) empty: bool,
    /// Print the candidates of every node
    #[arg(long)]
    pub(crate) all: bool,
    /// Use this layout as the node's state, as sinfo -O extra prints it
    ///
    /// All shares in it count as your own.
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["reservation", "constraint"])]
    pub(crate) busy: Option<String>,
    /// Apply the limits of this partition
    #[arg(short = 'p', long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) partition: Option<String>,
    /// Apply the limits of this account
    #[arg(short = 'A', long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) account: Option<String>,
    /// Apply Slurm's limits of this QOS instead of those of your default one
    #[arg(short = 'q', long, value_name = "NAME", conflicts_with_all = ["model", "empty", "busy"])]
    pub(crate) qos: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

fn gpu_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=64).contains(n)).ok_or_else(|| "expected 1 to 64".to_owned())
}
