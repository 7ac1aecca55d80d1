//! The command line of `tessera power`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use power::{Basis, Cap};

use super::calibrate::CalibrateArgs;
use super::guard::Guard;
use super::simulate::SimulateArgs;

/// Choose the partition and the power cap of a GPU from hardware counters
///
/// A model of Arima et al. (ICPP Workshops '22) predicts how fast applications run together on the parts of one GPU under
/// a power cap. Fit it once for each GPU model, to counters and measured runs; then choose for applications whose
/// counters are known.
///
/// A part is 4g, a GPU instance with its own cache and memory, or 4c, a compute instance that shares them. A state is
/// the parts in the order of the applications, such as 4c+3c; full is without MIG. Performance is relative to the
/// application alone without MIG and cap.
#[derive(Subcommand)]
pub(crate) enum PowerStudy {
    Import(ImportArgs),
    Calibrate(CalibrateArgs),
    Fit(FitArgs),
    Choose(ChooseArgs),
    Divide(DivideArgs),
    Simulate(SimulateArgs),
}

/// See power limits and budgets of the cluster's GPUs
///
/// Models of a GPU's power are made below `tessera lab power`.
#[derive(Subcommand)]
pub(crate) enum PowerCommand {
    Status(StatusArgs),
    /// Stands below `tessera lab power`.
    #[command(flatten)]
    Study(PowerStudy),
}

/// Print a line of counters from a profile of Nsight Compute
///
/// PROFILE is what ncu --csv prints, its raw page or its details page. The counters are means over all kernels, weighted by
/// their time. Append the line to the COUNTERS of `tessera lab power fit` and `tessera lab power choose`. Profile the application
/// alone on the whole GPU, without MIG and without a lower power cap.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power import --command
  tessera lab power import hgemm ncu.csv >> counters.csv")]
pub(crate) struct ImportArgs {
    /// The application's name in COUNTERS
    #[arg(value_name = "NAME", required_unless_present = "command")]
    pub(super) name: Option<String>,
    /// The profile, CSV
    #[arg(value_name = "PROFILE", required_unless_present = "command")]
    pub(super) profile: Option<PathBuf>,
    /// The GPU model that it was made on, as `tessera profiles` lists it
    #[arg(long, value_name = "MODEL", default_value = "a100-40gb")]
    pub(super) gpu: String,
    /// Print the profiler's command line instead
    #[arg(long)]
    pub(super) command: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Fit the model of a GPU to counters and measured runs
///
/// COUNTERS is CSV with the header app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8: percent of compute, memory and DRAM
/// throughput, L2 hit rate, occupancy, and use of the tensor cores in mixed, double and integer precision. It may hold
/// several GPUs and sources. Sources are never mixed: the fit takes one that has all applications, ncu first.
///
/// RUNS is CSV with the header state,cap_w,apps,rperf, such as 4c+3c,230,igemm4+stream,0.52+0.93 or
/// 4c,150,stream,0.98. With seconds instead of rperf, each application's line of state full at the highest cap is its
/// reference.
///
/// Every part and every combination of parts needs runs at every cap. Prints the errors of the model: on the runs it was
/// fitted to, and on runs whose applications were left out of the fit.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power fit counters.csv runs.csv --gpu a100-40gb --out model.json")]
pub(crate) struct FitArgs {
    /// The counters of the applications
    #[arg(value_name = "COUNTERS")]
    pub(super) counters: PathBuf,
    /// Their runs, alone and together
    #[arg(value_name = "RUNS")]
    pub(super) runs: PathBuf,
    /// The GPU model, as `tessera profiles` lists it
    #[arg(long, value_name = "MODEL")]
    pub(super) gpu: String,
    /// The functions of the counters: tessera, arima2022 or dcgm
    ///
    /// tessera is taken only if it predicts applications left out of the fit better than arima2022, the paper's; else the
    /// model has arima2022 and says why. dcgm is for counters from dcgm or gpm, which have neither memory throughput nor L2
    /// hit rate. The default is dcgm for such counters and tessera for others.
    #[arg(long, value_name = "BASIS")]
    pub(super) basis: Option<Basis>,
    /// The driver that the runs were measured under: `tessera doctor` compares it with the nodes'
    #[arg(long, value_name = "VERSION")]
    pub(super) driver: Option<String>,
    /// Write the model to this file
    #[arg(long, value_name = "MODEL")]
    pub(super) out: Option<PathBuf>,
    /// Print the model, JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Choose the state, and the power cap, for applications on one GPU
///
/// With --cap, chooses the state with the highest throughput under that cap. Without, chooses state and cap with the
/// highest throughput per watt. Each application keeps more than --alpha of its performance alone. The guard subtracts a
/// safety margin from each prediction: the 95th percentile of the model's error on applications that were left out of the fit.
/// Exit status 1 if nothing is allowed.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power choose --power-model model.json --counters counters.csv \\
    --apps igemm4,stream --cap 230
  tessera lab power choose --power-model model.json --counters counters.csv \\
    --apps igemm4,stream --alpha 0.4 --all")]
pub(crate) struct ChooseArgs {
    /// A model that `tessera lab power fit` wrote
    #[arg(long = "power-model", alias = "model", value_name = "MODEL")]
    pub(super) model: PathBuf,
    /// The counters of the applications
    #[arg(long, value_name = "COUNTERS")]
    pub(super) counters: PathBuf,
    /// The applications, two or more
    #[arg(long, value_name = "APPS", value_delimiter = ',', required = true)]
    pub(super) apps: Vec<String>,
    /// The power cap, W
    #[arg(long, value_name = "W")]
    pub(super) cap: Option<Cap>,
    /// The part of its performance alone that each application exceeds
    #[arg(long, value_name = "A", default_value_t = 0.2)]
    pub(super) alpha: f64,
    /// Whether alpha holds for cautious predictions
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    pub(super) guard: Guard,
    /// Also print all candidates
    #[arg(long)]
    pub(super) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Divide a budget of watts over GPUs
///
/// GROUPS has a line for each GPU: its name and its applications, such as `n1:0 hgemm+lud`. Chooses a cap and a state for
/// each, so that the caps add up to no more than the budget and the throughput of all is the highest. Each application
/// keeps more than --alpha, as with `tessera lab power choose`. If one GPU can have no cap,
/// nothing is chosen, and the exit status is 1.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power divide --power-model model.json --counters counters.csv \\
    --budget 12000 --groups groups")]
pub(crate) struct DivideArgs {
    /// A model that `tessera lab power fit` wrote
    #[arg(long = "power-model", alias = "model", value_name = "MODEL")]
    pub(super) model: PathBuf,
    /// The counters of the applications
    #[arg(long, value_name = "COUNTERS")]
    pub(super) counters: PathBuf,
    /// The budget of all GPUs together, W
    #[arg(long, value_name = "W")]
    pub(super) budget: u64,
    /// Who runs on which GPU
    #[arg(long, value_name = "GROUPS")]
    pub(super) groups: PathBuf,
    /// The part of its performance alone that each application exceeds
    #[arg(long, value_name = "A", default_value_t = 0.2)]
    pub(super) alpha: f64,
    /// Whether alpha holds for cautious predictions
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    pub(super) guard: Guard,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Show power limits and draw of this node's GPUs, and the site's power budgets
///
/// FOUND is the limit before any job's cap: the last job puts it back. SET is the limit that was set. ENFORCED is the limit
/// in force, which is lower if another tool limits the board out of band. Each job is shown with its cap. Needs root.
///
/// Then comes a line for each power budget: what its GPUs may draw together, what is committed, and what is free. The caps of
/// GPUs with jobs and the idle draw of the others are committed. On a machine that is not a node, every user can see the
/// budgets.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// The node's name
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
