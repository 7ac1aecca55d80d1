//! The root of the command line. It knows every command; no command knows it.

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::change::{self, ChangeArgs};
use crate::commands::check::{self, CheckArgs};
use crate::commands::completions::{self, CompletionsArgs, ManPagesArgs};
use crate::commands::discover::{self, DiscoverArgs};
use crate::commands::doctor::{self, DoctorArgs};
use crate::commands::explain::{self, ExplainArgs};
use crate::commands::exporter::{self, ExporterArgs};
use crate::commands::fit::{self, FitCommand};
use crate::commands::free::{self, FreeArgs};
use crate::commands::history::{self, HistoryArgs};
use crate::commands::idle::{self, IdleArgs};
use crate::commands::layout::{self, LayoutArgs};
use crate::commands::links::{self, LinksArgs};
use crate::commands::node::{self, NodeCommand};
use crate::commands::papers::{self, PapersArgs};
use crate::commands::plan::{self, PlanArgs, PlanStudy};
use crate::commands::planner::{self, PlannerArgs};
use crate::commands::power::{self, PowerCommand, PowerStudy};
use crate::commands::profiles::{self, ProfilesArgs};
use crate::commands::report::{self, ReportArgs};
use crate::commands::score::{self, ScoreArgs};
use crate::commands::setup::{self, SetupArgs};
use crate::commands::simulate::{self, SimulateCommand};
use crate::commands::tasks::{self, TasksArgs};
use crate::commands::times::{self, TimesArgs};
use crate::commands::top::{self, TopArgs};
use crate::commands::topology::{self, TopologyCommand};
use crate::commands::traffic::{self, TrafficArgs};
use crate::commands::usage::{self, UsageArgs};
use crate::commands::why::{self, WhyArgs};
use crate::globals::Globals;
use crate::groups::grouped;
use crate::outcome::{Failure, Outcome};

/// See and explain what Tessera does with a cluster's GPUs
///
/// Tessera gives Slurm jobs MIG instances made at job start, shares with cooperative memory limits, and well-linked
/// sets of whole GPUs. This command shows the layout of each GPU, explains why a request gets what it gets, writes the
/// configuration for new nodes and checks that everything agrees.
///
/// Results go to stdout, messages to stderr. Exit status: 0 for success, 1 for a problem that you or the site can fix,
/// 2 for wrong usage, 70 for a bug in tessera.
#[derive(Parser)]
#[command(name = "tessera", version, max_term_width = 100, disable_help_subcommand = true, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tessera layout                   every GPU of the cluster, drawn
  tessera free                     what could start now, and where
  tessera why 4711                 why this job waits, and until when
  tessera change 4711 --gpu-mem=5G let a job that waits ask for less
  tessera top                      nodes and jobs, live
  tessera report 4711              what this job got and used
  tessera explain --gpu-mem=10G    what this job would get, and why
  tessera profiles a100-40gb       what an A100 can be cut into
  tessera check                    is tessera.toml good?
  tessera discover --format all    configuration for this machine's GPUs
  tessera setup                    what Slurm's files need for Tessera
  tessera doctor                   does everything agree?";

#[derive(Subcommand)]
enum Command {
    Layout(LayoutArgs),
    Free(FreeArgs),
    Why(WhyArgs),
    Change(Box<ChangeArgs>),
    Top(TopArgs),
    Report(ReportArgs),
    Usage(UsageArgs),
    Idle(IdleArgs),
    History(HistoryArgs),
    Explain(Box<ExplainArgs>),
    Tasks(TasksArgs),
    Discover(DiscoverArgs),
    Doctor(DoctorArgs),
    Setup(SetupArgs),
    Plan(Box<PlanArgs>),
    Planner(PlannerArgs),
    Exporter(ExporterArgs),
    Times(TimesArgs),
    Traffic(TrafficArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Power(PowerCommand),
    Profiles(ProfilesArgs),
    Check(CheckArgs),
    /// Do by hand what Slurm's prolog and epilog do on a node
    ///
    /// Run these as root on the node. --node names it; the default is SLURMD_NODENAME, else the host name.
    #[command(subcommand, arg_required_else_help = true)]
    Node(NodeCommand),
    /// Simulate, score and fit, away from the running cluster
    ///
    /// What the papers behind Tessera do, on files: policies on past or made-up jobs, models fitted to measurements, pictures of
    /// links. Only `lab power calibrate` submits jobs: it measures on a node of yours.
    #[command(subcommand, arg_required_else_help = true)]
    Lab(LabCommand),
    /// Answers as below `lab`.
    #[command(flatten)]
    Directly(LabDirectly),
    Completions(CompletionsArgs),
    ManPages(ManPagesArgs),
}

/// The laboratory. Its commands also go without the word `lab`.
#[derive(Subcommand)]
enum LabCommand {
    #[command(flatten)]
    Directly(LabDirectly),
    Papers(PapersArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Power(PowerStudy),
    #[command(subcommand, arg_required_else_help = true)]
    Plan(PlanStudy),
}

/// Commands of the laboratory whose words no other command has.
#[derive(Subcommand)]
enum LabDirectly {
    Score(ScoreArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Simulate(SimulateCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Topology(TopologyCommand),
    // Its name before 0.1 was `lint`.
    #[command(alias = "lint")]
    Links(LinksArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Fit(FitCommand),
}

impl Cli {
    /// Reads the arguments of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&root().try_get_matches()?)
    }
}

/// The command with all below it. Those of the laboratory stand below `lab` alone in help, manual pages and completions.
pub(crate) fn root() -> clap::Command {
    grouped(hide::<LabDirectly>(Cli::command()).mut_subcommand("power", hide::<PowerStudy>))
}

/// Hides the commands of `S` among those of `command`.
fn hide<S: Subcommand>(command: clap::Command) -> clap::Command {
    let named: Vec<String> = S::augment_subcommands(clap::Command::new(""))
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    named.into_iter().fold(command, |whole, name| whole.mut_subcommand(name, |one| one.hide(true)))
}

fn run_lab(command: &LabCommand, globals: &Globals) -> Result<Outcome, Failure> {
    match command {
        LabCommand::Directly(command) => run_directly(command, globals),
        LabCommand::Papers(args) => papers::run(args),
        LabCommand::Power(command) => power::study(command, globals),
        LabCommand::Plan(command) => plan::study(command),
    }
}

fn run_directly(command: &LabDirectly, globals: &Globals) -> Result<Outcome, Failure> {
    match command {
        LabDirectly::Score(args) => score::run(args, globals),
        LabDirectly::Simulate(command) => simulate::run(command, globals),
        LabDirectly::Topology(command) => topology::run(command, globals),
        LabDirectly::Links(args) => links::run(args, globals),
        LabDirectly::Fit(command) => fit::run(command, globals),
    }
}

/// Runs the command that was given.
pub(crate) fn run(cli: &Cli) -> Result<Outcome, Failure> {
    let globals = &cli.globals;
    match &cli.command {
        Command::Layout(args) => layout::run(args, globals),
        Command::Free(args) => free::run(args, globals),
        Command::Why(args) => why::run(args, globals),
        Command::Change(args) => change::run(args, globals),
        Command::Top(args) => top::run(args, globals),
        Command::Report(args) => report::run(args, globals),
        Command::Usage(args) => usage::run(args, globals),
        Command::Idle(args) => idle::run(args, globals),
        Command::History(args) => history::run(args, globals),
        Command::Explain(args) => explain::run(args, globals),
        Command::Tasks(args) => tasks::run(args, globals),
        Command::Discover(args) => discover::run(args, globals),
        Command::Doctor(args) => doctor::run(args, globals),
        Command::Setup(args) => setup::run(args, globals),
        Command::Node(command) => node::run(command, globals),
        Command::Plan(args) => plan::run(args, globals),
        Command::Planner(args) => planner::run(args, globals),
        Command::Exporter(args) => exporter::run(args, globals),
        Command::Times(args) => times::run(args, globals),
        Command::Traffic(args) => traffic::run(args, globals),
        Command::Lab(command) => run_lab(command, globals),
        Command::Directly(command) => run_directly(command, globals),
        Command::Power(command) => power::run(command, globals),
        Command::Check(args) => check::run(args, globals),
        Command::Profiles(args) => profiles::run(args),
        Command::Completions(args) => completions::run(args, &mut root()),
        Command::ManPages(args) => completions::man_pages(args, root()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the texts below the options, of this command and those below it, with the command's name.
    fn tails(command: &clap::Command, all: &mut Vec<(String, String)>) {
        all.extend(
            command.get_after_long_help().map(|text| (command.get_name().to_owned(), text.to_string())),
        );
        command.get_subcommands().for_each(|below| tails(below, all));
    }

    #[test]
    fn each_command_that_help_shows_is_in_one_group() {
        let groups = &crate::groups::GROUPS;
        let mut named: Vec<&str> = groups.iter().flat_map(|group| [group.1, group.2].concat()).collect();
        named.sort_unstable();
        let root = root();
        let shown = root.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name);
        let mut shown: Vec<&str> = shown.collect();
        shown.sort_unstable();
        assert_eq!(named, shown);
        assert_eq!(groups.iter().map(|group| group.1.len()).sum::<usize>(), 12);
    }

    #[test]
    fn examples_fit_a_terminal_of_80_columns() {
        let mut all = Vec::new();
        tails(&Cli::command(), &mut all);
        let wide =
            |text: &str| text.lines().filter(|line| line.chars().count() > 80).map(str::to_owned).collect();
        let wide: Vec<(String, Vec<String>)> =
            all.into_iter().map(|(name, text)| (name, wide(&text))).collect();
        assert!(wide.len() > 10);
        assert!(wide.iter().all(|(_, lines)| lines.is_empty()), "{wide:#?}");
    }
}
