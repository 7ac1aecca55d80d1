//! `tessera plan` without a command: flags that say what the commands do. Scripts of earlier releases use them.

use std::path::PathBuf;

use clap::{Arg, Args};

use super::args::{
    CarryArgs, CompareArgs, GpuArgs, Mode, OutputArgs, PolicyArgs, RealityArgs, SearchArgs, ShowArgs,
    SubmitArgs,
};

// A doc comment here would take the place of the command's own.
#[derive(Args)]
#[command(
    next_help_heading = "Without a command",
    mut_arg("policy", |arg| arg.conflicts_with("compare")),
    mut_arg("script", with_submit),
    mut_arg("overhead", with_submit),
    mut_arg("time_limit", with_submit),
    mut_arg("dry_run", with_submit),
    mut_arg("wait", with_submit),
    mut_arg("record", with_submit),
    mut_arg("sbatch", with_submit),
    mut_args(|arg| arg.hide_short_help(true)),
)]
pub(super) struct Flags {
    /// Read jobs from FILE, - for standard input; alone the same as `tessera plan show FILE`
    #[arg(long, value_name = "FILE", required_unless_present = "reality")]
    tasks: Option<PathBuf>,
    #[command(flatten)]
    gpu: GpuArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// The same as `tessera lab plan compare`
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    compare: bool,
    /// The same as `tessera plan submit`
    #[arg(long, requires = "on", conflicts_with_all = ["compare", "json", "svg"])]
    submit: bool,
    /// Plan on these GPUs as they are now: a node of tessera.toml and its GPUs, such as n1 or n1:0-3,5
    #[arg(long, value_name = "NODE[:GPUS]", requires = "submit", conflicts_with = "gpu")]
    on: Vec<String>,
    #[command(flatten)]
    carry: CarryArgs,
    /// The same as `tessera plan reality PLAN`
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["tasks", "gpu", "on", "submit", "compare", "svg"])]
    reality: Option<String>,
}

fn with_submit(arg: Arg) -> Arg {
    arg.requires("submit")
}

impl Flags {
    /// The command that the flags stand for.
    pub(super) fn mode(&self) -> Mode {
        let (gpu, policy, search) = (self.gpu.clone(), self.policy.clone(), self.search.clone());
        // clap has asked for tasks unless the plan is one that was carried out.
        let tasks = self.tasks.clone().unwrap_or_else(|| PathBuf::from("-"));
        if let Some(plan) = self.reality.clone() {
            return Mode::Reality(RealityArgs { plan, json: self.output.json });
        }
        if self.submit {
            let (on, carry) = (self.on.clone(), self.carry.clone());
            return Mode::Submit(SubmitArgs { tasks, on, policy, search, carry });
        }
        if self.compare {
            return Mode::Compare(CompareArgs { tasks, gpu, search });
        }
        Mode::Show(ShowArgs { tasks, gpu, policy, search, output: self.output.clone() })
    }
}
