//! The command line of `tessera discover`.

use clap::{Args, ValueEnum};

/// Write the configuration for this machine's GPUs
///
/// Asks the NVIDIA driver for GPUs and links, and prints what tessera.toml, gres.conf and slurm.conf need. Bandwidth is
/// GB/s in one direction. Links of a known system are written as its name, other links as a matrix. The TOML can also be
/// a file of its own, which tessera.toml names by discovered = "FILE". Exit status 1 if a GPU's model is unknown.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera discover >> /etc/slurm/tessera.toml
  tessera discover --format gres >> /etc/slurm/gres.conf")]
pub(crate) struct DiscoverArgs {
    /// Node name to write; by default SLURMD_NODENAME or the host name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "toml")]
    pub(crate) format: Format,
}

/// The file whose part `discover` prints.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// [[nodes]] of tessera.toml
    Toml,
    /// Lines of gres.conf
    Gres,
    /// Lines of slurm.conf
    Slurm,
    /// All of them
    All,
}
