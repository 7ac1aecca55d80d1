//! slurmctld of a large site: Slurm alone and with Tessera, in turn, on the same slurmds, with the same jobs.
//!
//! A round begins with an empty slurmctld, fills every GPU and core, and lets so many jobs wait. Then it measures each phase
//! alone. Jobs have allocations and no processes, so that the figures are slurmctld's own.

mod backfill;
mod changes;
mod client;
mod counters;
mod figures;
mod jobs;
mod machine;
mod node_words;
mod round;
mod submissions;

use lab::artefacts::Profile;
use lab::fleet::{Controller, Fleet, Options};

use super::{Bench, table};
use crate::cluster::guardian;
use crate::command::TaskError;
use client::Client;
use figures::Figures;
use round::Round;

/// The sizes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Nodes of eight GPUs, a multiple of [`NODES_STEP`].
    pub(super) nodes: usize,
    /// Jobs that wait.
    pub(super) pending: usize,
}

/// The jobs that fill a fleet leave nothing over in so many nodes.
pub(super) const NODES_STEP: usize = 20;

/// How often a round does what takes seconds.
#[derive(Debug, Clone, Copy)]
struct Repeats {
    /// Cycles of backfill for each kind of job.
    cycles: usize,
    /// Turns of both controllers on the same jobs.
    turns: usize,
    /// Restarts and reconfigurations.
    restarts: usize,
    /// Commands and queries of each kind.
    commands: usize,
}

impl Size {
    /// A small fleet shows that all of it works; its times say nothing.
    fn repeats(self) -> Repeats {
        /// Nodes from which times are worth something.
        const LARGE: usize = 200;
        if self.nodes < LARGE {
            return Repeats { cycles: 1, turns: 1, restarts: 1, commands: 3 };
        }
        Repeats { cycles: 3, turns: 5, restarts: 3, commands: 30 }
    }
}

/// Reads `--nodes`.
pub(super) fn parse_nodes(text: &str) -> Result<usize, String> {
    let nodes: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    if nodes == 0 || !nodes.is_multiple_of(NODES_STEP) || nodes > machine::MOST_NODES {
        return Err(format!("a multiple of {NODES_STEP}, at most {}, is wanted", machine::MOST_NODES));
    }
    Ok(nodes)
}

/// Reads `--pending`.
pub(super) fn parse_pending(text: &str) -> Result<usize, String> {
    let pending: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    let (least, most) = (jobs::ALL_KINDS, machine::MOST_PENDING);
    if (least..=most).contains(&pending) { Ok(pending) } else { Err(format!("{least} to {most} are wanted")) }
}

/// Reads a kind of `--only`: the name of its partition without the first letter.
pub(super) fn parse_kind(text: &str) -> Result<&'static str, String> {
    let named = jobs::KINDS.into_iter().find(|(partition, _)| partition.strip_prefix('p') == Some(text));
    named.map(|(partition, _)| partition).ok_or_else(|| "cpu, gpu, part or multi is wanted".to_owned())
}

/// Runs all rounds and prints the table.
pub(super) fn measure(bench: &Bench) -> Result<(), TaskError> {
    let size = Size { nodes: bench.nodes, pending: bench.pending };
    machine::check(size)?;
    let slurm = bench.which.set_up(crate::setup::Purpose::Tests)?;
    let version = slurm.version()?;
    let before = table::load();
    let mut fleet = lay_out(bench, slurm)?;
    let mut figures = Figures::default();
    let measured = all_rounds(bench, size, &mut fleet, &mut figures);
    let rows = figures.rows();
    if measured.is_err() {
        fleet.keep_files();
        eprintln!("scale: logs stay in {}", fleet.cluster().layout().at("log").display());
        eprintln!("scale: measured until then:\n{}", table::markdown(&rows));
    }
    measured?;
    let build = if bench.debug { "debug" } else { "release" };
    let head = format!(
        "Slurm {version}, {} nodes of {} GPUs, {} waiting jobs, rounds of each in turn: {}, {build} build",
        size.nodes,
        lab::fleet::GPUS_PER_NODE,
        size.pending,
        bench.repeat
    );
    let load = format!("{before} before, {} after", table::load());
    let markdown = || format!("{head}; load: {load}\n\n{}", table::markdown(&rows));
    table::print(&if bench.json { table::json(&rows, &load) } else { markdown() })
}

fn lay_out(bench: &Bench, slurm: lab::Slurm) -> Result<Fleet, TaskError> {
    // Every job of a round is known until the round's end.
    let most_jobs = 2 * bench.pending + 10 * bench.nodes + 1000;
    let options = Options {
        slurm,
        profile: if bench.debug { Profile::Debug } else { Profile::Release },
        nodes: bench.nodes,
        guardian: guardian()?,
        slurm_conf: format!("MaxJobCount={most_jobs}\n"),
    };
    Ok(options.lay_out()?)
}

fn all_rounds(bench: &Bench, size: Size, fleet: &mut Fleet, figures: &mut Figures) -> Result<(), TaskError> {
    eprintln!("scale: starts {} slurmds", size.nodes);
    fleet.start_nodes(|started| {
        if started % 100 == 0 {
            eprintln!("scale: {started} slurmds");
        }
    })?;
    let client = Client::build(fleet)?;
    for round in 0..bench.repeat {
        for (second, controller) in in_turn(round).into_iter().enumerate() {
            eprintln!("scale: round {} of {}, {controller}", round + 1, bench.repeat);
            let (number, sample) = (2 * round + second, round);
            let one = Round { fleet, client: &client, controller, number, sample, size, figures };
            match (&bench.only[..], controller) {
                ([], _) => one.run()?,
                (only, Controller::Tessera) => one.run_same_jobs(only)?,
                (_, Controller::Stock) => {}
            }
        }
    }
    Ok(())
}

/// The order of a round: what grows slower or faster during the run falls on both alike.
fn in_turn(round: usize) -> [Controller; 2] {
    let mut both = Controller::BOTH;
    if round % 2 == 1 {
        both.reverse();
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_filled_without_a_rest() {
        assert_eq!(parse_nodes("1000"), Ok(1000));
        for bad in ["0", "30", "x", "100000", "-20"] {
            assert!(parse_nodes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_kind_is_named_as_its_partition() {
        assert_eq!(["cpu", "multi"].map(parse_kind), [Ok("pcpu"), Ok("pmulti")]);
        assert!(parse_kind("pcpu").is_err() && parse_kind("").is_err());
    }

    #[test]
    fn each_controller_is_first_in_every_second_round() {
        assert_eq!(in_turn(0), [Controller::Stock, Controller::Tessera]);
        assert_eq!(in_turn(1), [Controller::Tessera, Controller::Stock]);
    }
}
