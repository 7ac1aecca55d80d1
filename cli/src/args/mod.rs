//! The command line.

mod node;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use node::NodeCommand;

use crate::request::RequestArgs;

/// See and explain what Tessera does with a cluster's GPUs
///
/// Tessera gives Slurm jobs MIG instances made at job start, memory-limited shares and well-linked sets of whole GPUs.
/// This command shows the layout of each GPU, explains why a request gets what it gets, writes the configuration for
/// new nodes and checks that everything agrees.
///
/// Results go to stdout, messages to stderr. Exit status: 0 for success, 1 for something you or the site can put
/// right, 2 for wrong usage, 70 for a bug in tessera.
#[derive(Parser)]
#[command(name = "tessera", version, max_term_width = 100, disable_help_subcommand = true, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Read this tessera.toml
    ///
    /// Without it: the file that TESSERA_CONF names, else tessera.toml beside the file that SLURM_CONF names, else
    /// /etc/slurm/tessera.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tessera layout                   every GPU of the cluster, drawn as slices
  tessera explain --gpu-mem=10G    what such a job would get, and why
  tessera profiles a100-40gb       what an A100 can be cut into
  tessera check                    is tessera.toml good?
  tessera discover --format all    configuration for this machine's GPUs
  tessera doctor                   does everything agree?";

#[derive(Subcommand)]
pub(crate) enum Command {
    Layout(LayoutArgs),
    Explain(ExplainArgs),
    Discover(DiscoverArgs),
    Doctor(DoctorArgs),
    Plan(Box<crate::plan::PlanArgs>),
    Planner(crate::planner::PlannerArgs),
    Times(crate::times::TimesArgs),
    Score(crate::score::ScoreArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Simulate(crate::simulate::SimulateCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Topology(crate::topology::TopologyCommand),
    Lint(crate::lint::LintArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Fit(crate::fit::FitCommand),
    Profiles(ProfilesArgs),
    Check(CheckArgs),
    /// Do by hand what Slurm's prolog and epilog do on a node
    ///
    /// For root, on the node: SLURMD_NODENAME or the host name says which one, or --node.
    #[command(subcommand, arg_required_else_help = true)]
    Node(NodeCommand),
    /// Print the completion script of a shell
    ///
    /// For bash, put it where bash-completion looks: `tessera completions bash > /etc/bash_completion.d/tessera`.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// When to use colour.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// List GPU models and their MIG profiles
///
/// Without MODEL: every model known. With one: memory, SMs, shards and placements of each of its profiles. A placement
/// is where an instance may begin, and how many units of the GPU it takes from there.
#[derive(Args)]
pub(crate) struct ProfilesArgs {
    /// A model's key or NVML name, such as a100-40gb or "NVIDIA A100-SXM4-40GB"
    pub(crate) model: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check tessera.toml
///
/// Reports every error at once, each with its line, the place and what would do. Exit status 1 if there is one. slurmctld
/// refuses to start with such a file.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The file; without it the one that --config, TESSERA_CONF or SLURM_CONF lead to
    pub(crate) file: Option<PathBuf>,
}

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

/// Write the configuration for this machine's GPUs
///
/// Asks the NVIDIA driver for GPUs and links and prints what tessera.toml, gres.conf and slurm.conf need. Bandwidth is
/// GB/s in one direction. A node whose links are those of a known system gets its name, another a matrix. The TOML can
/// also be kept in a file of its own and named by discovered = "FILE". Exit status 1 if there is a GPU of an unknown model.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera discover >> /etc/slurm/tessera.toml
  tessera discover --format gres >> /etc/slurm/gres.conf")]
pub(crate) struct DiscoverArgs {
    /// Name to write; without it SLURMD_NODENAME or the host name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "toml")]
    pub(crate) format: Format,
}

/// What discover prints.
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

/// Check that journal, driver, device nodes, MPS and Slurm agree
///
/// Without --node, every node of tessera.toml is compared with what Slurm says of it; on a node, and as root, its journal,
/// driver, device nodes and MPS daemons are looked at too. A line per disagreement, beginning with "bad", and exit status 1
/// if there is one; one that may be a job just starting or ending is looked at again for two seconds. Nothing is changed: `tessera node reconcile` sets right what no live job owns.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Only this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
