//! CASE's Rodinia commands and mixes.

use super::draw::Draw;
use crate::sim::{Job, Phase};
use task_sched::Bytes;
use task_sched::Device;
use task_sched::{Need, WorkerId};

/// Part of a process's life before its task begins.
pub const HOST_SHARE: f64 = 0.46;

/// Part of a Rodinia task's time in which its kernels hold the device.
pub const RODINIA_DEMAND: f64 = 0.2;

const RODINIA: &str = include_str!("../../data/rodinia.csv");
const MIXES: &str = include_str!("../../data/mixes.csv");
const RATES: &str = include_str!("../../data/first-fit.csv");

/// The two machines of CASE section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Two P100.
    P100,
    /// Four V100.
    V100,
}

impl Machine {
    /// Its GPUs.
    #[must_use]
    pub fn devices(self) -> Vec<Device> {
        match self {
            Machine::P100 => vec![Device::P100; 2],
            Machine::V100 => vec![Device::V100; 4],
        }
    }

    /// The column of `first-fit.csv`.
    fn column(self) -> usize {
        match self {
            Machine::P100 => 1,
            Machine::V100 => 2,
        }
    }
}

/// One command of CASE Table 1.
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

/// Seconds that a command takes alone, start to end.
#[must_use]
pub fn life(command: &Command, machine: Machine) -> f64 {
    let rate = |name: &str| {
        let row = rows(RATES).find(|row| row[0] == name);
        row.and_then(|row| row[machine.column()].parse::<f64>().ok()).unwrap_or(0.0)
    };
    rate("start-up") + rate(command.family) * command.size
}

/// A command as a job that arrives at 0: the host's share of its life, then its task.
#[must_use]
pub fn job(id: u64, command: &Command, machine: Machine) -> Job {
    let life = life(command, machine);
    let gpu = Phase::Gpu { seconds: life * (1.0 - HOST_SHARE), need: command.need, demand: RODINIA_DEMAND };
    Job {
        id: WorkerId(id),
        name: command.id.to_owned(),
        arrival: 0.0,
        isolated: false,
        mem: command.need.mem(),
        phases: vec![Phase::Host(life * HOST_SHARE), gpu],
    }
}

/// The jobs of one of CASE Table 2's mixes, `W1` to `W8`, in order; none for another name.
#[must_use]
pub fn rodinia(name: &str, machine: Machine) -> Vec<Job> {
    let commands = commands();
    let of_mix = rows(MIXES).filter(|row| row[0] == name);
    let found = of_mix.filter_map(|row| commands.iter().find(|c| c.id == row[2]));
    (0..).zip(found).map(|(id, command)| job(id, command, machine)).collect()
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
