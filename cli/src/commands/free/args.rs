//! The command line of `tessera free`.

use std::path::PathBuf;

use clap::Args;
use geometry::size::parse_mib;

/// Show what could start now, and where
///
/// For each kind of request, shows how many such jobs could start now if no others came: MIG instances, the least memory and then the
/// fewest SMs first, shares of the site's default size, and whole GPUs by number. A GPU's SMs are its multiprocessors: "14 of 108" is
/// about an eighth of an A100. Nodes are listed in the order in which a job gets them; nodes with room for the same number of jobs are
/// on one line. Each line ends with the options to ask for one. You can join only your own shares. Without --partition the nodes are
/// those of your default partition, if that has GPUs. The limits of tessera.toml apply, for your own user, default account and default
/// QOS. NOW is what its limits on running jobs leave and, if Slurm enforces limits (AccountingStorageEnforce), what those leave: of your
/// QOS, your association, its accounts and the partition's QOS; the last lines list these limits with their use. Cores and host memory
/// are not considered.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera free
  tessera free --gpu-mem 20G            what has at least 20 GB
  tessera free --partition debug        as a job there, under its limits
  tessera free --node n[1-4]")]
pub(crate) struct FreeArgs {
    /// Only shapes with at least this memory, and shares of this size
    #[arg(long = "gpu-mem", alias = "mem", value_name = "SIZE", value_parser = parse_mib)]
    pub(crate) mem: Option<u64>,
    /// Only this partition's nodes, under its limits
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Apply tessera.toml's limits of this account
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    /// Apply Slurm's limits of this QOS instead of those of your default one
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub(crate) qos: Option<String>,
    /// Only these nodes, a hostlist such as n[1-2]
    #[arg(long, value_name = "NODES")]
    pub(crate) node: Option<String>,
    /// Read layouts from FILE (- for standard input) instead of asking Slurm
    ///
    /// Each line has a node's name and its layout, as sinfo -O nodelist,extra prints them. Every node in it counts as taking
    /// jobs in every partition, and all shares as your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
