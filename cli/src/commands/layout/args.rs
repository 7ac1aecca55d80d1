//! The command line of `tessera layout`.

use std::path::PathBuf;

use clap::Args;

use crate::render::colour::ColorWhen;

/// Draw each GPU as its slices
///
/// Shows what the controller publishes for the nodes of tessera.toml: which instances exist, which jobs hold them, and
/// what is free. Each GPU is a row of placement units. If it is partitioned, the profiles are above and their holders
/// below: "job 12" holds an instance alone, "mps 13 14" share one, and "idle" is kept for the next job that needs it.
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
    /// Read layouts from FILE (- for standard input) instead of asking Slurm
    ///
    /// Each line has a node's name and its layout, as sinfo -O nodelist,extra prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Ask this node's driver and journal instead of Slurm; needs root
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
