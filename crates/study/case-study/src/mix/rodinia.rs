//! CASE's Rodinia commands and mixes.

use super::draw::Draw;
use crate::devices::V100;
use crate::sim::{Job, Phase};
use task_sched::Bytes;
use task_sched::Device;
use task_sched::{Need, WorkerId};

const RODINIA: &str = include_str!("../../data/rodinia.csv");
const MIXES: &str = include_str!("../../data/mixes.csv");
const RATES: &str = include_str!("../../data/first-fit.csv");
const FITS: &str = include_str!("../../data/fits.csv");

/// The K80's mixes of the artefact that have commands of known rates.
pub const K80_MIXES: [&str; 4] = ["medium_0", "medium_1", "large_0", "large_1"];

/// The machines of CASE section 5, and the K80 of the artefact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Two P100.
    P100,
    /// Four V100.
    V100,
    /// A K80, which is two GPUs of 12 GiB. No time is known of it: jobs take what they take on a P100, and only ratios can be
    /// compared.
    K80,
}

impl Machine {
    /// Lists its GPUs.
    #[must_use]
    pub fn devices(self) -> Vec<Device> {
        match self {
            Machine::P100 => vec![Device::P100; 2],
            Machine::V100 => vec![V100; 4],
            Machine::K80 => {
                let usable = Bytes(11_000 << 20);
                vec![Device { mem: usable, sms: 13, blocks_per_sm: 16, ..Device::P100 }; 2]
            }
        }
    }

    /// Part of a process's life before its task begins, fitted to the mean of Fig. 6's bars of CASE on this machine.
    #[must_use]
    pub fn host_share(self) -> f64 {
        match self {
            Machine::P100 | Machine::K80 => P100_HOST_SHARE,
            Machine::V100 => V100_HOST_SHARE,
        }
    }

    /// Part of a Rodinia task's time in which it holds the device, fitted to the slowdown that the artefact has for CASE on this
    /// machine: the mean of its kernels' and its copies'.
    #[must_use]
    pub fn demand(self) -> f64 {
        match self {
            Machine::P100 | Machine::K80 => P100_DEMAND,
            Machine::V100 => V100_DEMAND,
        }
    }

    /// The column of `first-fit.csv`.
    fn column(self) -> usize {
        match self {
            Machine::P100 | Machine::K80 => 1,
            Machine::V100 => 2,
        }
    }

    /// Name in `fits.csv`.
    fn name(self) -> &'static str {
        match self {
            Machine::P100 | Machine::K80 => "p100",
            Machine::V100 => "v100",
        }
    }
}

const P100_HOST_SHARE: f64 = 0.47;
const V100_HOST_SHARE: f64 = 0.45;
const P100_DEMAND: f64 = 0.35;
const V100_DEMAND: f64 = 0.14;

/// A command of CASE Table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Family and size: `backprop-8388608`.
    pub id: &'static str,
    /// The benchmark.
    pub family: &'static str,
    /// Work relative to the family's smallest command.
    pub size: f64,
    /// Memory and the largest launch.
    pub need: Need,
    /// Above 4 GiB.
    pub is_large: bool,
}

/// The lines of a table without its head, split at commas.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split(',').collect())
}

fn command(row: &[&'static str]) -> Option<Command> {
    let [id, family, size, _args, mem, blocks, threads, large] = row else { return None };
    let need = Need::new(Bytes(mem.parse().ok()?), blocks.parse().ok()?, threads.parse().ok()?).ok()?;
    Some(Command { id, family, size: size.parse().ok()?, need, is_large: *large == "1" })
}

/// The 17 commands of Table 1, by memory.
#[must_use]
pub fn commands() -> Vec<Command> {
    rows(RODINIA).filter_map(|row| command(&row)).collect()
}

/// Seconds per unit of size of each family on one machine, and those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(Vec<(&'static str, f64)>);

impl Rates {
    /// The rates of `first-fit.csv`.
    #[must_use]
    pub fn first(machine: Machine) -> Self {
        let read = |row: Vec<&'static str>| Some((row[0], row.get(machine.column())?.parse().ok()?));
        Self(rows(RATES).filter_map(read).collect())
    }

    /// The twenty fits of `fits.csv`, each of which reproduces Table 7's single assignment as well.
    #[must_use]
    pub fn fits(machine: Machine) -> Vec<Self> {
        let head: Vec<&'static str> = FITS.lines().next().unwrap_or_default().split(',').skip(1).collect();
        let of_machine = rows(FITS).filter(|row| row[0] == machine.name());
        let read = |row: Vec<&'static str>| {
            let values = row[1..].iter().filter_map(|cell| cell.parse().ok());
            Self(head.iter().copied().zip(values).collect())
        };
        of_machine.map(read).collect()
    }

    fn of(&self, name: &str) -> f64 {
        self.0.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, rate)| *rate)
    }

    /// Seconds that a command takes alone, start to end.
    #[must_use]
    pub fn life(&self, command: &Command) -> f64 {
        self.of("start-up") + self.of(command.family) * command.size
    }
}

/// Seconds that a command takes alone, start to end.
#[must_use]
pub fn life(command: &Command, machine: Machine) -> f64 {
    Rates::first(machine).life(command)
}

/// A command as a job that arrives at 0: the host's share of its life, then its task.
#[must_use]
pub fn job(id: u64, command: &Command, machine: Machine) -> Job {
    job_with(id, command, machine, &Rates::first(machine))
}

fn job_with(id: u64, command: &Command, machine: Machine, rates: &Rates) -> Job {
    let (life, host) = (rates.life(command), machine.host_share());
    let gpu = Phase::Gpu { seconds: life * (1.0 - host), need: command.need, demand: machine.demand() };
    Job {
        id: WorkerId(id),
        name: command.id.to_owned(),
        arrival: 0.0,
        isolated: false,
        mem: command.need.mem(),
        phases: vec![Phase::Host(life * host), gpu],
    }
}

/// The jobs of one of CASE Table 2's mixes, `W1` to `W8`, in order; none for another name.
#[must_use]
pub fn rodinia(name: &str, machine: Machine) -> Vec<Job> {
    rodinia_with(name, machine, &Rates::first(machine))
}

/// Gives those jobs with other rates. The artefact's mixes of [`K80_MIXES`] are known, too.
#[must_use]
pub fn rodinia_with(name: &str, machine: Machine, rates: &Rates) -> Vec<Job> {
    let commands = commands();
    let of_mix = rows(MIXES).filter(|row| row[0] == name);
    let found = of_mix.filter_map(|row| commands.iter().find(|c| c.id == row[2]));
    (0..).zip(found).map(|(id, command)| job_with(id, command, machine, rates)).collect()
}

/// A random mix of `large` large commands to `small` small ones, `n` jobs in all, in turn large and small as in Table 2's
/// recipe. The seed alone decides which.
#[must_use]
pub fn rodinia_random(large: usize, small: usize, n: usize, seed: u64, machine: Machine) -> Vec<Job> {
    let (big, little): (Vec<Command>, Vec<Command>) = commands().into_iter().partition(|c| c.is_large);
    let mut draw = Draw::new(seed);
    let pools = [big, little];
    let turn = [0].repeat(large).into_iter().chain([1].repeat(small)).cycle().take(n);
    let picks: Vec<&Command> = turn.filter_map(|which| draw.pick(&pools[which])).collect();
    (0..).zip(picks).map(|(id, command)| job(id, command, machine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_whole() {
        assert_eq!(commands().len(), 17);
        assert_eq!(commands().iter().filter(|c| c.is_large).count(), 10);
        let sizes: Vec<usize> = (1..=8).map(|i| rodinia(&format!("W{i}"), Machine::P100).len()).collect();
        assert_eq!(sizes, [16, 16, 16, 16, 32, 32, 32, 32]);
        assert!(commands().iter().all(|c| life(c, Machine::P100) > 1.0 && life(c, Machine::V100) > 1.0));
        assert!(rodinia("W9", Machine::V100).is_empty());
        assert!(K80_MIXES.iter().all(|name| rodinia(name, Machine::K80).len() == 16));
        for machine in [Machine::P100, Machine::V100] {
            let fits = Rates::fits(machine);
            assert_eq!(fits.len(), 20);
            assert!(fits.iter().all(|fit| fit.0.len() == 8 && commands().iter().all(|c| fit.life(c) > 0.5)));
        }
    }

    #[test]
    fn a_random_mix_has_its_ratio() {
        let mix = rodinia_random(2, 1, 128, 7, Machine::V100);
        let large = |job: &&Job| commands().iter().any(|c| c.id == job.name && c.is_large);
        assert_eq!((mix.len(), mix.iter().filter(large).count()), (128, 86));
        assert_eq!(mix, rodinia_random(2, 1, 128, 7, Machine::V100));
        assert_ne!(mix, rodinia_random(2, 1, 128, 8, Machine::V100));
        assert!(rodinia_random(0, 0, 128, 7, Machine::V100).is_empty());
    }
}
