//! The command line of `tessera layout`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::clock::often;
use crate::render::colour::ColorWhen;

/// Draw each GPU as its memory slices
///
/// Shows what the controller publishes for the nodes of tessera.toml: the instances, the jobs that have them, and what is
/// free. Each GPU is a row of memory slices. If it is partitioned, the profiles are above and their jobs below: "job 12"
/// has an instance alone, "mps 13 14" share one, and "idle" is kept for the next job that needs it. If there is room, each
/// job is followed by its user's name. More than 40 nodes are shown as groups that are used alike.
///
/// The last lines say how many GPUs and nodes have no job, and what fragmentation costs: how many more jobs of each shape
/// would fit if the running jobs were packed on as few GPUs as possible.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera layout --node n[1-2]
  tessera layout --user alice --watch
  tessera layout --svg layout.svg
  sinfo -h -O nodelist:20,extra:4000 | tessera layout --from -")]
pub(crate) struct LayoutArgs {
    /// Only these nodes, a hostlist such as n[1-2]
    #[arg(long, value_name = "NODES")]
    pub(crate) node: Option<String>,
    /// Only nodes of this partition
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "live"])]
    pub(crate) partition: Option<String>,
    /// Only nodes where this user's jobs run
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "live"])]
    pub(crate) user: Option<String>,
    /// Draw each node, however many there are
    #[arg(long, conflicts_with = "summary")]
    pub(crate) all: bool,
    /// Show groups of nodes that are used alike, however few there are
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    pub(crate) summary: bool,
    /// Show it again and again, until Ctrl-C
    #[arg(long, conflicts_with_all = ["from", "json", "svg"])]
    pub(crate) watch: bool,
    /// Ask Slurm every TIME, such as 5s or 1m
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "watch", value_parser = often)]
    pub(crate) every: Duration,
    /// Read layouts from FILE (- for standard input) instead of asking Slurm
    ///
    /// Each line has a node's name and its layout, as sinfo -O nodelist,extra prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Ask this node's driver and journal instead of Slurm; needs root
    #[arg(long = "here", alias = "live", conflicts_with = "from")]
    pub(crate) live: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "svg")]
    pub(crate) json: bool,
    /// Write a picture to FILE, - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Draw in the picture where an instance of PROFILE fits, and where it collides
    #[arg(long, value_name = "PROFILE", requires = "svg")]
    pub(crate) fits: Option<String>,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWhen,
}
