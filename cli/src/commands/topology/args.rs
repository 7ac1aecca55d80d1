//! The command line of `tessera topology`.

use clap::{Args, Subcommand};
use topology::GpuSet;

use crate::options::{self, Sensitivity};

/// Show how a node's GPUs are linked
#[derive(Subcommand)]
pub(crate) enum TopologyCommand {
    /// Print links as a table, GB/s in one direction
    Show(TopologyGraphArgs),
    /// Draw the graph as SVG, on standard output
    Svg(TopologyGraphArgs),
}

// A doc comment here would take the place of the command's own.
#[derive(Args)]
pub(crate) struct TopologyGraphArgs {
    /// A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node
    #[arg(value_name = "NAME|FILE|NODE")]
    pub(super) topology: String,
    /// Mark the set that this many GPUs would get
    #[arg(long, value_name = "N", value_parser = options::gpu_count)]
    pub(super) gpus: Option<usize>,
    /// Draw next to it the set that Slurm from 24.05 takes by itself, if gres.conf has Links and no Cores
    #[arg(long, requires = "gpus")]
    pub(super) slurm: bool,
    /// The job's pattern, as in `tessera score`
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::options::pattern)]
    pub(super) pattern: topology::Pattern,
    /// Whether bandwidth matters to the job
    #[arg(long, value_name = "HOW", default_value = "sensitive")]
    pub(super) bandwidth: Sensitivity,
    /// GPUs in use, such as 0,3-5
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = options::gpu_list)]
    pub(super) busy: GpuSet,
}
