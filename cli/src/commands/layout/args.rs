//! The command line of `tessera layout`.

use std::path::PathBuf;

use clap::Args;

use crate::render::colour::ColorWhen;

/// Draw each GPU as its slices
///
/// Shows what the controller publishes for the nodes of tessera.toml: which instances there are, who has them, and what
/// is free. Each GPU is a row of its placement units; a GPU that is cut has its profiles above and their holders below.
/// "job 12" has an instance alone, "mps 13 14" share one, "idle" is kept for the next job of its shape.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera layout --node n[1-2]
  tessera layout --svg layout.svg
  sinfo -h -O nodelist:20,extra:4000 | tessera layout --from -")]
pub(crate) struct LayoutArgs {
    /// Only these nodes, a hostlist such as n[1-2]
    #[arg(long, value_name = "NODES")]
    pub(crate) node: Option<String>,
    /// Read layouts from FILE instead of asking Slurm, - for standard input
    ///
    /// A node's name and its layout per line, as sinfo -O nodelist,extra prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Ask this node's driver and journal instead of Slurm, as root
    #[arg(long, conflicts_with = "from")]
    pub(crate) live: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "svg")]
    pub(crate) json: bool,
    /// Write a picture to FILE, - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWhen,
}
