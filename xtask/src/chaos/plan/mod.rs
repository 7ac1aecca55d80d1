//! Events of a run: submissions and faults, in the order that a seed gives. Pure: the same seed is the same sequence.
//!
//! A run is made of rounds. In each, jobs are submitted, one thing goes wrong, more jobs are submitted, what went wrong is
//! mended, and everything is looked at. Now and then all jobs may end, and the cluster must then be as it was in the
//! beginning.

mod dice;
pub(super) mod fault;
mod kinds;

use std::collections::VecDeque;

use dice::Dice;
pub(super) use fault::{
    Ailment, Broker, Daemon, Driver, Fault, FileChange, FullOf, JobState, Node, Pick, Work,
};
pub(super) use kinds::{KINDS, OrderKind, Promise, Size};

/// A job to be submitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    /// Counts from 0. It is in the job's name, because Slurm may give a job id twice.
    pub(super) number: u32,
    /// Index of the user, 0 or 1.
    pub(super) user: u32,
    /// Index in [`KINDS`].
    pub(super) kind: usize,
    /// How long its script sleeps, in seconds.
    pub(super) seconds: u32,
    /// How it ends when it is told to.
    pub(super) manner: Manner,
}

impl Order {
    pub(super) fn kind(&self) -> &'static OrderKind {
        &KINDS[self.kind]
    }
}

/// How a script ends when Slurm tells it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// At once.
    Meek,
    /// After some seconds, in which it still uses its GPUs, as for a checkpoint.
    Stubborn,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A job is submitted.
    Submit(Order),
    /// Something goes wrong. The number counts from 1.
    Strike(u32, Fault),
    /// Sets right what went wrong last, as an administrator would.
    Mend,
    /// Everything is looked at while jobs run.
    Check,
    /// All jobs end; then everything is looked at.
    Rest,
}

/// An event, and how long to wait afterwards.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) event: Event,
    pub(super) then_ms: u32,
}

/// Rounds between two rests.
const ROUNDS: u32 = 12;

/// An endless sequence.
#[derive(Debug)]
pub(super) struct Plan {
    dice: Dice,
    round: u32,
    orders: u32,
    /// Faults of the present deck: each kind comes once before any comes again.
    deck: Vec<usize>,
    queue: VecDeque<Step>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), round: 0, orders: 0, deck: Vec::new(), queue: VecDeque::new() }
    }

    fn push(&mut self, event: Event, then_ms: u32) {
        self.queue.push_back(Step { event, then_ms });
    }

    fn round(&mut self) {
        self.round += 1;
        let (before, after) = (self.dice.between(3, 10), self.dice.between(2, 8));
        for _ in 0..before {
            self.submission();
        }
        // Half of the faults meet jobs that start, the others jobs that run.
        let pause = if self.dice.percent(50) { 200 } else { self.dice.between(1_000, 4_000) };
        if let Some(last) = self.queue.back_mut() {
            last.then_ms = pause;
        }
        let fault = self.fault();
        // Jobs have time to begin while a GPU is left out.
        let (least, most) = if matches!(fault, Fault::GpuSick(..)) { (8_000, 14_000) } else { (300, 5_000) };
        let lasts = self.dice.between(least, most);
        self.push(Event::Strike(self.round, fault), 100);
        for _ in 0..after {
            self.submission();
        }
        if let Some(last) = self.queue.back_mut() {
            last.then_ms = lasts;
        }
        self.push(Event::Mend, 100);
        self.push(Event::Check, 0);
        if self.round.is_multiple_of(ROUNDS) {
            self.push(Event::Rest, 0);
        }
    }

    fn submission(&mut self) {
        let dice = &mut self.dice;
        let order = Order {
            number: self.orders,
            user: dice.below(2),
            kind: dice.index(KINDS.len()),
            // Mostly short, so that much begins and ends; some outlive several faults.
            seconds: if dice.percent(85) { dice.between(0, 8) } else { dice.between(15, 30) },
            manner: if dice.percent(25) { Manner::Stubborn } else { Manner::Meek },
        };
        self.orders += 1;
        let then_ms = self.dice.between(0, 400);
        self.push(Event::Submit(order), then_ms);
    }

    fn fault(&mut self) -> Fault {
        if self.deck.is_empty() {
            self.deck = (0..FAULTS.len()).collect();
        }
        let card = self.deck.swap_remove(self.dice.index(self.deck.len()));
        FAULTS[card](&mut self.dice)
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.queue.is_empty() {
            self.round();
        }
        self.queue.pop_front()
    }
}

fn node(dice: &mut Dice) -> Node {
    Node(dice.index(2))
}

fn pick(dice: &mut Dice) -> Pick {
    Pick(dice.below(1_000))
}

fn driver(dice: &mut Dice, what: Driver) -> Fault {
    // n2 has four GPUs, n1 eight.
    let gpu = if dice.percent(50) { None } else { Some(dice.below(4)) };
    Fault::Driver(node(dice), gpu, what)
}

/// The ways in which a GPU becomes unhealthy. Those that requeue its jobs come in half of the cases.
const AILMENTS: [Ailment; 10] = [
    Ailment::Xid(48),
    Ailment::Xid(79),
    Ailment::Xid(79),
    Ailment::Xid(95),
    Ailment::AsksForReset(95),
    Ailment::AsksForReset(119),
    Ailment::Ecc,
    Ailment::RemapFailed,
    Ailment::Hot,
    Ailment::Told,
];

/// Draws one of these on a GPU that both nodes have.
fn sick(dice: &mut Dice, all: &[Ailment]) -> Fault {
    let (node, gpu) = (node(dice), dice.below(4));
    Fault::GpuSick(node, gpu, all[dice.index(all.len())])
}

/// Minutes, of one node or of all.
fn clock(dice: &mut Dice, sign: i64) -> Fault {
    let node = if dice.percent(50) { None } else { Some(node(dice)) };
    Fault::Clock(node, sign * i64::from(dice.between(60, 240)))
}

/// Faults, one of each kind; those that hit slurmctld and slurmd, and unhealthy GPUs, come twice as often.
const FAULTS: [fn(&mut Dice) -> Fault; 45] = [
    |d| Fault::Cancel(JobState::Pending, pick(d)),
    |d| Fault::Cancel(JobState::Running, pick(d)),
    |d| Fault::Cancel(JobState::Completing, pick(d)),
    |d| Fault::CancelYoung(d.between(0, 800)),
    |d| Fault::CancelAll(d.below(2)),
    |d| Fault::Requeue(pick(d)),
    |d| Fault::Hold(pick(d)),
    |d| Fault::Limit(pick(d)),
    |d| Fault::Drain(node(d)),
    |d| Fault::Down(node(d)),
    |_| Fault::Kill(Daemon::Slurmctld),
    |_| Fault::Kill(Daemon::Slurmctld),
    |_| Fault::Restart(Daemon::Slurmctld),
    |d| Fault::Kill(Daemon::Slurmd(node(d))),
    |d| Fault::Kill(Daemon::Slurmd(node(d))),
    |d| Fault::Restart(Daemon::Slurmd(node(d))),
    |_| Fault::Takeover { killed: false },
    |_| Fault::Takeover { killed: true },
    |d| Fault::KillStep(node(d), pick(d)),
    |d| Fault::KillWork(node(d), Work::Prolog),
    |d| Fault::KillWork(node(d), Work::Epilog),
    |d| Fault::KillWork(node(d), Work::Reconciliation),
    |d| Fault::KillMps(node(d), pick(d)),
    |d| Fault::KillBroker(node(d), d.one_of([Broker::Child, Broker::Parent, Broker::Both])),
    |_| Fault::Reconfigure(FileChange::Same),
    |_| Fault::Reconfigure(FileChange::Changed),
    |_| Fault::Reconfigure(FileChange::Broken),
    |_| Fault::Reconfigure(FileChange::Shrunken),
    |d| driver(d, Driver::Busy),
    |d| {
        let what = d.one_of([Driver::OutOfResources, Driver::ListTimeout]);
        driver(d, what)
    },
    |d| driver(d, Driver::Refusing),
    |d| driver(d, Driver::Lost),
    |d| driver(d, Driver::Slow),
    |d| Fault::DiskFull(node(d)),
    |d| clock(d, 1),
    |d| clock(d, -1),
    |d| Fault::FatEnvironments(d.below(2), d.below(1_000)),
    |d| Fault::FullRunDir(node(d), FullOf::Bytes),
    |d| Fault::FullRunDir(node(d), FullOf::Inodes),
    |d| Fault::ForkStorm(node(d), d.below(2)),
    |_| Fault::IdleConnections,
    // Not the last GPU of a node, after which none shifts.
    |d| Fault::GpuShifted(node(d), d.below(3)),
    |d| sick(d, &AILMENTS),
    |d| sick(d, &AILMENTS),
    |d| sick(d, &[Ailment::Storm]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn steps(seed: u64, count: usize) -> Vec<Step> {
        Plan::new(seed).take(count).collect()
    }

    #[test]
    fn a_seed_repeats_its_sequence_and_another_differs() {
        assert_eq!(steps(7, 2_000), steps(7, 2_000));
        assert_ne!(steps(7, 200), steps(8, 200));
    }

    #[test]
    fn every_fault_and_kind_of_job_comes_up_before_long() {
        let steps = steps(1, 4_000);
        let faults: BTreeSet<&str> = steps
            .iter()
            .filter_map(|step| match &step.event {
                Event::Strike(_, fault) => Some(fault.name()),
                _ => None,
            })
            .collect();
        let kinds: BTreeSet<usize> = steps
            .iter()
            .filter_map(|step| match &step.event {
                Event::Submit(order) => Some(order.kind),
                _ => None,
            })
            .collect();
        assert_eq!(kinds.len(), KINDS.len());
        assert_eq!(faults, BTreeSet::from(fault::NAMES));
    }

    #[test]
    fn every_fault_is_mended_and_looked_at_before_the_next() {
        let mut open = false;
        for step in steps(3, 2_000) {
            match step.event {
                Event::Strike(..) => {
                    assert!(!open);
                    open = true;
                }
                Event::Check => open = false,
                Event::Rest => assert!(!open),
                Event::Submit(_) | Event::Mend => {}
            }
        }
    }

    #[test]
    fn orders_and_faults_are_counted() {
        let steps = steps(5, 500);
        let numbers: Vec<u32> = steps
            .iter()
            .filter_map(|step| match &step.event {
                Event::Submit(order) => Some(order.number),
                _ => None,
            })
            .collect();
        assert!(numbers.iter().copied().eq(0..u32::try_from(numbers.len()).unwrap()));
    }
}
