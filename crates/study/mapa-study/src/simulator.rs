//! MAPA's simulator (section 5.2): jobs in order of arrival on one node.
//!
//! Time is in cycles. The GPUs of a job that ends at a cycle are free in that cycle, and a job that arrives at a cycle may
//! start in it. The queue is first in, first out: no job passes a waiting one, except under [`Patience::Wait`].
//!
//! The simulator knows when a running job will end, as a controller knows it from time limits. This breaks ties among
//! sets.

use std::collections::VecDeque;

use crate::exact::choose;
use crate::first_set::FirstSets;
use mapa::{Match, Memo, Query};
use topology::{BandwidthModel, GpuSet, HardwareGraph, PCIE_GBPS, Pattern, Selection};

/// A line of a job file.
#[derive(Clone, Debug, PartialEq)]
pub struct SimJob {
    /// Number of GPUs that the job needs.
    pub gpus: usize,
    /// Pattern in which its ranks talk to each other.
    pub pattern: Pattern,
    /// Cycle of arrival.
    pub arrival: u64,
    /// Run time in cycles, as in the file.
    pub run: u64,
    /// True if it runs faster with more bandwidth between its GPUs.
    pub sensitive: bool,
    /// True if it counts as such a job when its GPUs are chosen.
    pub label: bool,
    /// The job's name in the file.
    pub name: String,
}

/// The first bad line of a job file: its number, from 1, and what the bad field should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: {1}")]
pub struct JobFileError(pub usize, pub &'static str);

/// Reads a job file: `GPUS,PATTERN,ARRIVAL,RUN,SENSITIVE,NAME` per line; the line is the job's number.
///
/// # Errors
///
/// [`JobFileError`] for the first bad line.
pub fn parse_jobs(text: &str) -> Result<Vec<SimJob>, JobFileError> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    lines.map(|(at, line)| parse_job(line).map_err(|expected| JobFileError(at + 1, expected))).collect()
}

fn parse_job(line: &str) -> Result<SimJob, &'static str> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [gpus, pattern, arrival, run, sensitive, name] = cells[..] else {
        return Err("expected six fields: GPUS,PATTERN,ARRIVAL,RUN,SENSITIVE,NAME");
    };
    let gpus = gpus.parse().ok().filter(|n| (1..=HardwareGraph::MOST_GPUS).contains(n));
    let cycles = |text: &str| text.parse().ok().filter(|t| *t < u64::MAX / 4);
    let sensitive = match sensitive {
        "0" => false,
        "1" => true,
        _ => return Err("SENSITIVE: expected 0 or 1"),
    };
    Ok(SimJob {
        gpus: gpus.ok_or("GPUS: expected 1 to 64")?,
        pattern: Pattern::by_name(pattern)
            .ok_or("PATTERN: expected ring, tree, chain, star, all, none or ring+tree")?,
        arrival: cycles(arrival).ok_or("ARRIVAL: expected a cycle, from 0")?,
        run: cycles(run).ok_or("RUN: expected a number of cycles")?,
        sensitive,
        label: sensitive,
        name: name.to_owned(),
    })
}

/// Behaviour of a sensitive job if only a poor set is free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Patience {
    /// It takes the best set that is free.
    Take,
    /// Under `preserve` it refuses a set of two or more GPUs with a poor EffBW, and the queue waits with it. MAPA's program
    /// does this at 12.335.
    Refuse {
        /// EffBW at or below this is poor, GB/s.
        least: f64,
        /// A job of one GPU, sensitive or not, also refuses it if no good link would remain among the other free GPUs. That
        /// program does this, too.
        last_links: bool,
    },
    /// It waits for a set above this EffBW (GB/s), at most so many cycles from when it could first have started. Other jobs
    /// pass it.
    Wait(f64, u64),
}

/// The rules of one simulation.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Policy that ranks the sets.
    pub policy: Selection,
    /// How EffBW is predicted.
    pub model: BandwidthModel,
    /// Behaviour of sensitive jobs if only a poor set is free.
    pub patience: Patience,
    /// Under `greedy`, a job takes the first of the sets that tie, as MAPA's program does, and not the one that leaves the best links.
    pub first_of_ties: bool,
    /// Share of a sensitive job's run time that is communication at 50 GB/s; `None`: run times are as in the file.
    pub communication: Option<f64>,
}

/// A job that ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Cycle of its start.
    pub start: u64,
    /// First cycle after it.
    pub end: u64,
    /// GPUs of the job, their order and scores.
    pub choice: Match,
}

/// EffBW beyond which a job gets no faster (MAPA section 5.1, on its Fig. 16), GB/s.
const FAST_ENOUGH: f64 = 50.0;

/// Run time of a job whose file says `run`.
///
/// Assumes that the file's time was measured at 50 GB/s or more, that `share` of it was communication in proportion
/// to 1/EffBW, and that nothing is gained above 50 GB/s or lost below PCIe's rate, which Equation 2 goes below.
fn run_time(job: &SimJob, choice: &Match, share: Option<f64>) -> u64 {
    let (Some(share), Some(eff)) = (share.filter(|_| job.sensitive && job.gpus > 1), choice.scores.eff_bw)
    else {
        return job.run;
    };
    let slower = 1.0 - share + share * FAST_ENOUGH / eff.clamp(PCIE_GBPS, FAST_ENOUGH);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cycles are far below 2^53"
    )]
    let cycles = (job.run as f64 * slower).round() as u64;
    cycles
}

struct SimState<'a> {
    graph: &'a HardwareGraph,
    jobs: &'a [SimJob],
    rules: Rules,
    free: GpuSet,
    /// GPUs of the running jobs that end first.
    next: GpuSet,
    memo: Memo,
    firsts: FirstSets,
    ran: Vec<Option<Ran>>,
    /// When a job that waits for a better set could first have started.
    waits_since: Vec<Option<u64>>,
}

/// Runs the jobs on an empty node; `None` for a job that has no set even there.
#[must_use]
pub fn simulate(graph: &HardwareGraph, jobs: &[SimJob], rules: Rules) -> Vec<Option<Ran>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|i| jobs[*i].arrival);
    let (ran, waits_since) = (vec![None; jobs.len()], vec![None; jobs.len()]);
    let mut state = SimState {
        graph,
        jobs,
        rules,
        free: graph.all(),
        next: GpuSet::EMPTY,
        memo: Memo::default(),
        firsts: FirstSets::default(),
        ran,
        waits_since,
    };
    let mut arrivals = VecDeque::from(order);
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut running: Vec<usize> = Vec::new();
    let mut now = 0;
    loop {
        running.retain(|i| {
            let done = state.ran[*i].as_ref().filter(|r| r.end <= now).map(|r| r.choice.gpus);
            state.free = GpuSet::from_bits(state.free.bits() | done.map_or(0, GpuSet::bits));
            done.is_none()
        });
        while arrivals.front().is_some_and(|i| jobs[*i].arrival <= now) {
            // A job that the idle node has no set for is turned away, and blocks nobody.
            queue.extend(arrivals.pop_front().filter(|i| state.choose(*i, graph.all()).is_some()));
        }
        state.start(&mut queue, &mut running, now);
        let ends = running.iter().filter_map(|i| state.ran[*i].as_ref()).map(|r| r.end);
        let deadlines = queue.iter().filter_map(|i| state.deadline(*i));
        let next = ends.chain(deadlines).chain(arrivals.front().map(|i| jobs[*i].arrival));
        match next.filter(|t| *t > now).min() {
            Some(t) => now = t,
            None => return state.ran,
        }
    }
}

impl SimState<'_> {
    fn deadline(&self, job: usize) -> Option<u64> {
        match self.rules.patience {
            Patience::Wait(_, cycles) => self.waits_since[job].map(|t| t.saturating_add(cycles)),
            _ => None,
        }
    }

    /// Starts jobs from the head of the queue until one must wait.
    fn start(&mut self, queue: &mut VecDeque<usize>, running: &mut Vec<usize>, now: u64) {
        let mut at = 0;
        while let Some(i) = queue.get(at).copied() {
            self.next = self.first_back(running);
            let Some(choice) = self.choose(i, self.free) else { return };
            if self.is_poor(i, &choice) {
                match self.rules.patience {
                    Patience::Wait(_, cycles)
                        if now < self.waits_since[i].unwrap_or(now).saturating_add(cycles) =>
                    {
                        self.waits_since[i].get_or_insert(now);
                        at += 1;
                        continue;
                    }
                    Patience::Refuse { .. } => return,
                    _ => {}
                }
            }
            queue.remove(at);
            self.free = GpuSet::from_bits(self.free.bits() & !choice.gpus.bits());
            let end = now + run_time(&self.jobs[i], &choice, self.rules.communication).max(1);
            self.ran[i] = Some(Ran { start: now, end, choice });
            running.push(i);
        }
    }

    fn first_back(&self, running: &[usize]) -> GpuSet {
        let runs = || running.iter().filter_map(|i| self.ran[*i].as_ref());
        let first = runs().map(|r| r.end).min();
        let bits = runs().filter(|r| Some(r.end) == first).fold(0, |bits, r| bits | r.choice.gpus.bits());
        GpuSet::from_bits(bits)
    }

    fn choose(&mut self, job: usize, free: GpuSet) -> Option<Match> {
        let (job, rules) = (&self.jobs[job], self.rules);
        let query = Query {
            graph: self.graph,
            free,
            next: self.next,
            n: job.gpus,
            pattern: &job.pattern,
            sensitive: job.label,
            policy: rules.policy,
            model: rules.model,
        };
        if rules.first_of_ties && rules.policy == Selection::Greedy {
            return self.firsts.choose(&query);
        }
        // Named patterns are always answered.
        self.memo.recall(&query, &[], || choose(&query).or_else(|_| mapa::choose(&query))).ok()
    }

    fn is_poor(&self, job: usize, choice: &Match) -> bool {
        let job = &self.jobs[job];
        let (least, last_links) = match self.rules.patience {
            Patience::Take => return false,
            Patience::Refuse { least, last_links } => (least, last_links),
            Patience::Wait(least, _) => (least, false),
        };
        if self.rules.policy != Selection::Preserve || self.free == self.graph.all() {
            return false;
        }
        match job.gpus {
            1 => last_links && choice.preserved_bw <= 0.0,
            _ => job.label && choice.scores.eff_bw.is_some_and(|eff| eff <= least),
        }
    }
}

/// Minimum, quartiles and maximum, interpolated between neighbours; `None` for no values.
#[must_use]
pub fn quartiles(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0, 1, 2, 3, 4].map(|quarter| {
        let (at, rest) = (last * quarter / 4, last * quarter % 4);
        let part = [0.0, 0.25, 0.5, 0.75][rest];
        sorted[at] + part * (sorted[(at + 1).min(last)] - sorted[at])
    }))
}
