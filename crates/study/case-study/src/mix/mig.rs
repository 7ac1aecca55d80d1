//! CASE-MIG's systems and mixes.

use std::fmt;

use super::draw::Draw;
use super::rodinia::{Command, Machine, commands, life};
use crate::sim::{Job, Phase};
use task_sched::Bytes;
use task_sched::Device;
use task_sched::{Need, WorkerId};

/// Seconds that a training job takes on its instance, from start to end. Fitted.
pub const TRAINING_SECONDS: f64 = 15.0;

/// Part of a task's time in which it holds its instance, fitted to the mean slowdown of Table 2, 2.2 %. On whole GPUs tasks slow each
/// other more; why they should not on an instance, the paper does not say.
const MIG_DEMAND: f64 = 0.025;

/// The systems of CASE-MIG Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// An A30 as four `1g.6gb`, 32 jobs.
    A,
    /// Two of them, 64 jobs.
    B,
    /// Four of them, 128 jobs.
    C,
    /// An A100 of 40 GB as two `2g.10gb` and three `1g.5gb`, 32 jobs.
    D,
}

/// Isolated jobs to others: 2 to 1 is `Ratio(2, 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub usize, pub usize);

impl Ratio {
    /// The paper's, from isolated jobs alone to none.
    pub const ALL: [Ratio; 7] =
        [Ratio(1, 0), Ratio(4, 1), Ratio(2, 1), Ratio(1, 1), Ratio(1, 2), Ratio(1, 4), Ratio(0, 1)];

    /// True if it has both kinds: the paper takes its means over these.
    #[must_use]
    pub fn is_mixed(self) -> bool {
        self.0 > 0 && self.1 > 0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl System {
    /// Returns its letter in the paper.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            System::A => "A",
            System::B => "B",
            System::C => "C",
            System::D => "D",
        }
    }

    /// Lists its instances in the paper's layout, GPU by GPU.
    #[must_use]
    pub fn devices(self) -> Vec<Device> {
        let instances = |model, profile, n| Device::instance(model, profile).into_iter().cycle().take(n);
        match self {
            System::A => instances("a30-24gb", "1g.6gb", 4).collect(),
            System::B => instances("a30-24gb", "1g.6gb", 8).collect(),
            System::C => instances("a30-24gb", "1g.6gb", 16).collect(),
            System::D => {
                instances("a100-40gb", "2g.10gb", 2).chain(instances("a100-40gb", "1g.5gb", 3)).collect()
            }
        }
    }

    /// CASE's workers: the sum over the instances.
    #[must_use]
    pub fn workers(self) -> usize {
        self.devices().iter().map(|device| device.max_workers.unwrap_or(1) as usize).sum()
    }

    /// Jobs of a batch.
    #[must_use]
    pub fn batch(self) -> usize {
        match self {
            System::A | System::D => 32,
            System::B => 64,
            System::C => 128,
        }
    }
}

/// Values that a job may be drawn from: memory, largest launch and seconds of its life.
struct DrawnJob {
    name: String,
    need: Need,
    seconds: f64,
}

/// A command with `factor` times its memory and grid. Its time stays: the paper gains more from smaller jobs, so they are not
/// shorter in proportion.
fn scaled(command: &Command, factor: f64) -> Option<DrawnJob> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
    let times = |n: u64| (n as f64 * factor) as u64;
    let need = &command.need;
    let need =
        Need::new(Bytes(times(need.mem().0)), times(need.blocks()).max(1), need.threads().into()).ok()?;
    let name = if factor < 1.0 { format!("{}/{factor:.2}", command.id) } else { command.id.to_owned() };
    Some(DrawnJob { name, need, seconds: life(command, Machine::V100) })
}

/// Kinds with their weights.
type Pool = Vec<(DrawnJob, u32)>;

/// The pool of jobs that share, from CASE Table 1. Systems A to C: up to 6 GB, and `small` adds sizes down to 0.3 GB, halves
/// and quarters of the smallest commands, because no smaller ones are printed. System D: up to 10 GB, of which 7 of 15 have
/// 5 GB or more, as section 3.3 says.
fn shared(system: System, small: bool) -> Pool {
    let commands = commands();
    let gb = |n: u64| Bytes(n * 1_000_000_000);
    let range =
        |from: Bytes, to: Bytes| commands.iter().filter(move |c| from <= c.need.mem() && c.need.mem() < to);
    let of = |from: Bytes, to: Bytes, share: usize| -> Pool {
        let kinds: Vec<DrawnJob> = range(from, to).filter_map(|c| scaled(c, 1.0)).collect();
        // Each range has its share of the draws, whatever the number of its commands.
        let weight = u32::try_from(840 * share / kinds.len().max(1)).unwrap_or(1);
        kinds.into_iter().map(|kind| (kind, weight)).collect()
    };
    let mut pool = match system {
        System::D => of(gb(0), gb(5), 8).into_iter().chain(of(gb(5), gb(10), 7)).collect(),
        _ => of(gb(0), gb(6), 1),
    };
    if small {
        let weight = pool.first().map_or(1, |(_, weight)| *weight);
        let fractions =
            commands.iter().filter(|c| c.size <= 1.0).flat_map(|c| [scaled(c, 0.5), scaled(c, 0.25)]);
        let small = fractions.flatten().filter(|kind| kind.need.mem() >= Bytes(300_000_000));
        pool.extend(small.map(|kind| (kind, weight)));
    }
    pool
}

/// The pool of training jobs. On an A30 four of about 2 GB, as section 3.2 says. On the A100, 2 of 5 have 5 to 10 GB and take
/// "significantly longer" (section 3.3): here the middle of that range, and a time in proportion to the memory. Their
/// launches are not printed and do not matter: they have their instance to themselves.
fn training(system: System) -> Pool {
    let kind = |name: &str, mb: u64, seconds: f64| {
        let need = Need::new(Bytes(mb * 1_000_000), 4096, 256).ok()?;
        Some((DrawnJob { name: name.to_owned(), need, seconds }, 1))
    };
    let small = ["gan", "cnn", "rnn", "resnet"].map(|name| kind(name, 2_000, TRAINING_SECONDS));
    let large = ["resnet152", "vgg16"].map(|name| kind(name, 7_500, TRAINING_SECONDS * 7.5 / 2.0));
    match system {
        System::D => small.into_iter().take(3).chain(large).flatten().collect(),
        _ => small.into_iter().flatten().collect(),
    }
}

/// A batch: in turn, isolated training jobs and others, each drawn from its pool.
#[must_use]
pub fn mig(system: System, ratio: Ratio, small: bool, seed: u64) -> Vec<Job> {
    let pools = [training(system), shared(system, small)];
    let mut draw = Draw::new(seed);
    let turn = [0].repeat(ratio.0).into_iter().chain([1].repeat(ratio.1)).cycle().take(system.batch());
    let picks: Vec<(usize, &DrawnJob)> =
        turn.filter_map(|pool| draw.weighed(&pools[pool]).map(|kind| (pool, kind))).collect();
    let job = |(id, (pool, kind)): (u64, (usize, &DrawnJob))| {
        let host = if pool == 0 { 0.0 } else { Machine::V100.host_share() };
        let gpu = Phase::Gpu { seconds: kind.seconds * (1.0 - host), need: kind.need, demand: MIG_DEMAND };
        Job {
            id: WorkerId(id),
            name: kind.name.clone(),
            arrival: 0.0,
            isolated: pool == 0,
            mem: kind.need.mem(),
            phases: vec![Phase::Host(kind.seconds * host), gpu],
        }
    };
    (0..).zip(picks).map(job).collect()
}
