//! The command line of `tessera explain`.

use clap::Args;

use super::request::RequestArgs;

/// Explain what a request would get, and why
///
/// Takes the options of sbatch and asks the engine that decides for real jobs. For each node: what would be given and
/// why, what it counts for in Slurm, and every candidate with its score, or with what rules it out. Less lost is better: a
/// placement is a place where some profile could still be put. Exit status 1 if no node could give it now.
///
/// Nodes are taken as empty unless --live or --busy says otherwise.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera explain --gpu-mem=10G
  tessera explain --node n1 --live --gpu-isolation=mig:2g.10gb --gpu-instances=2
  tessera explain --model a100-40gb --count 8 --links dgx-v --gpus=3
  tessera explain --model a30-24gb --busy 'tessera gpu0=mig[1g.6gb@0:job12]' --gpu-mem=6G")]
pub(crate) struct ExplainArgs {
    /// Ask this node of tessera.toml; without it the first of each set
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) node: Option<String>,
    /// Ask a node with GPUs of this model instead of one of tessera.toml
    #[arg(long, value_name = "KEY")]
    pub(crate) model: Option<String>,
    /// GPUs of that node
    #[arg(long, value_name = "N", requires = "model", default_value = "1", value_parser = gpu_count)]
    pub(crate) count: usize,
    /// Interconnect of that node
    #[arg(long, value_name = "SYSTEM", requires = "model", default_value = "pcie")]
    pub(crate) links: String,
    /// Take nodes as they are now
    #[arg(long, conflicts_with = "model")]
    pub(crate) live: bool,
    /// Take the node as this layout says, in the words of sinfo -O extra
    ///
    /// Every share in it is taken to be the asking user's.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) busy: Option<String>,
    /// Hold the request to the limits of this partition
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) partition: Option<String>,
    /// Hold the request to the limits of this account
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) account: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

fn gpu_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=64).contains(n)).ok_or_else(|| "expected 1 to 64".to_owned())
}
