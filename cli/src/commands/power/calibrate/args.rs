//! The command line of `tessera lab power calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use power::Cap;
use power_study::calibration::Design;
use topology::GpuSet;

use crate::options;

/// Measure applications on a node by Slurm jobs, and fit its power model
///
/// APPS is CSV with the header app,seconds,command: the application's name in the counters, about how long a run takes alone
/// on a whole GPU, and the shell command of one run, which goes to the end of its line. Give at least six applications, better
/// twenty of all kinds. Each is measured alone on a whole GPU, alone on an instance of the whole GPU and on each smaller part, and
/// beside the next one of the file, under every cap, three runs each. A run beside another application counts only if that one ran
/// all the while.
///
/// A command may measure its own seconds, without its start-up, and write them to the file that TESSERA_SECONDS names.
///
/// The jobs belong to the user who runs this command, on a node that they share with no other user. The node must see DIR, and
/// no other user may write to it. DIR keeps what was measured: after an interruption the same command goes on. At the end it has
/// counters.csv, runs.csv and the model, as `power_model` in tessera.toml takes it. Options after -- go to sbatch.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power calibrate --apps apps.csv --node n1 --out calibration \\
    --dry-run
  tessera lab power calibrate --apps apps.csv --node n1 --out calibration \\
    -- --partition=gpu --cpus-per-task=8")]
pub(crate) struct CalibrateArgs {
    /// The applications
    #[arg(long, value_name = "APPS")]
    pub(super) apps: PathBuf,
    /// The node whose GPUs are measured
    #[arg(long, value_name = "NODE")]
    pub(super) node: String,
    /// How many caps
    #[arg(long, value_name = "DESIGN", default_value = "paper")]
    pub(super) design: DesignName,
    /// The directory of what was measured, on a file system that the node shares
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// The counters of the applications; by default those of the site's `[power]`
    #[arg(long, value_name = "COUNTERS")]
    pub(super) counters: Option<PathBuf>,
    /// Measure on these GPUs of the node at the same time, such as 0,2-3; by default on all
    #[arg(long = "only-gpus", alias = "gpus", value_name = "GPUS", value_parser = options::gpu_list)]
    pub(super) gpus: Option<GpuSet>,
    /// The caps, W, instead of the design's
    #[arg(long, value_name = "W", value_delimiter = ',')]
    pub(super) caps: Option<Vec<Cap>>,
    /// Only say what would be measured, and how long that takes
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Further options of sbatch
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    pub(super) sbatch: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DesignName {
    /// 150 to 250 W by 20, as the paper
    Paper,
    /// 150 and 250 W
    Small,
}

impl DesignName {
    pub(super) fn design(self) -> Design {
        match self {
            Self::Paper => Design::Paper,
            Self::Small => Design::Small,
        }
    }
}
