//! The queue: who starts when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use geometry::JobId;

use crate::class::Classes;
use crate::node::{ReplayedNode, UNLIMITED_S};
use crate::{Host, Instances, Job, NodeChoice, Ran, Site};

/// Most jobs for which nodes are kept at once.
pub const MOST_RESERVED: usize = 64;

/// Runs the jobs on the site, which has no others. An entry per job, in their order; `None`: even the empty site has no room for it.
///
/// Nodes are kept for so many jobs that wait, at most [`MOST_RESERVED`]. `progress` is called as jobs end or turn out to have no room,
/// with how many did so.
#[must_use]
pub fn replay(
    site: &Site,
    jobs: &[Job],
    reserved: usize,
    progress: &mut dyn FnMut(usize),
) -> Vec<Option<Ran>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| jobs[*job].submit);
    let mut replay = Replay::new(site, jobs, reserved.min(MOST_RESERVED));
    let mut coming = VecDeque::from(order);
    let mut done = 0;
    while let Some(now) = replay.next_event(coming.front().map(|job| jobs[*job].submit)) {
        done += replay.end_jobs(now);
        while let Some(job) = coming.front().copied().filter(|job| jobs[*job].submit <= now) {
            coming.pop_front();
            if replay.ever(job) {
                replay.waiting.push(job);
            } else {
                done += 1;
            }
        }
        replay.start_jobs(now);
        progress(done);
    }
    replay.ran
}

struct Replay<'a> {
    site: &'a Site,
    jobs: &'a [Job],
    classes: Classes,
    places: Vec<ReplayedNode>,
    /// By class, on how many nodes a job of it could run if they were empty.
    possible: Vec<usize>,
    /// For how many jobs that wait nodes are kept.
    reserved: usize,
    /// In the order of submission.
    waiting: Vec<usize>,
    /// When running jobs end.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    ran: Vec<Option<Ran>>,
}

/// Nodes that are kept for a job that waits.
struct Reservation {
    /// When it has them at the latest.
    from: u64,
    nodes: Vec<usize>,
}

/// The job as the engine knows it: no job has the number 0.
fn id(job: usize) -> JobId {
    JobId(u32::try_from(job + 1).unwrap_or(u32::MAX))
}

impl<'a> Replay<'a> {
    fn new(site: &'a Site, jobs: &'a [Job], reserved: usize) -> Self {
        let classes = Classes::new(jobs, !site.hosts.is_empty());
        let count = classes.asks.len();
        let hosts = site.hosts.iter().copied().chain(std::iter::repeat(Host::BOUNDLESS));
        let mut places: Vec<ReplayedNode> =
            site.nodes.iter().zip(hosts).map(|(node, host)| ReplayedNode::new(node, host, count)).collect();
        let on = |(class, ask): (usize, _), places: &mut [ReplayedNode]| {
            let asked = (ask, classes.needs[class]);
            places.iter_mut().filter_map(|place| place.fits(class, asked, &site.policy).then_some(())).count()
        };
        let possible = classes.asks.iter().enumerate().map(|entry| on(entry, &mut places)).collect();
        let (waiting, ends, ran) = (Vec::new(), BinaryHeap::new(), vec![None; jobs.len()]);
        Self { site, jobs, classes, places, possible, reserved, waiting, ends, ran }
    }

    fn ever(&self, job: usize) -> bool {
        self.jobs[job].nodes <= self.possible[self.classes.of[job]]
    }

    fn next_event(&self, submit: Option<u64>) -> Option<u64> {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        end.into_iter().chain(submit).min()
    }

    fn end_jobs(&mut self, now: u64) -> usize {
        let before = self.ends.len();
        while let Some(Reverse((_, job))) = self.ends.peek().copied().filter(|Reverse((end, _))| *end <= now)
        {
            self.ends.pop();
            for (node, _) in self.ran[job].iter().flat_map(|ran| &ran.parts) {
                self.places[*node].end(id(job));
            }
        }
        before - self.ends.len()
    }

    /// Goes through the queue once.
    fn start_jobs(&mut self, now: u64) {
        let mut reserved: Vec<Reservation> = Vec::new();
        // What cannot start on so many nodes now cannot start later in this round: by class, the reservations that kept it from
        // nodes, and the nodes that were too many.
        let mut too_many: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.classes.asks.len()];
        for job in std::mem::take(&mut self.waiting) {
            let class = self.classes.of[job];
            let latest = now.saturating_add(limit(&self.jobs[job]));
            // A bit for each reservation before which it might not end.
            let meets = |(at, r): (usize, &Reservation)| if latest > r.from { 1_u64 << at } else { 0 };
            let met = reserved.iter().enumerate().map(meets).fold(0, |all, one| all | one);
            let wanted = self.jobs[job].nodes;
            let known = too_many[class].iter().any(|(kept, n)| kept & met == *kept && wanted >= *n);
            if !known {
                let kept: Vec<usize> =
                    reserved.iter().filter(|r| latest > r.from).flat_map(|r| &r.nodes).copied().collect();
                if let Some(nodes) = self.room(job, &kept) {
                    self.start(job, now, &nodes);
                    continue;
                }
                too_many[class].push((met, wanted));
            }
            if reserved.len() < self.reserved {
                reserved.extend(self.soonest(job, &reserved));
            }
            self.waiting.push(job);
        }
    }

    /// Picks, of the nodes without `kept` that have room for the job, those that the site's rule prefers.
    fn room(&mut self, job: usize, kept: &[usize]) -> Option<Vec<usize>> {
        let class = self.classes.of[job];
        let (ask, wanted) = (&self.classes.asks[class], self.jobs[job].nodes);
        let all = self.places.iter_mut().enumerate().filter(|(node, _)| !kept.contains(node));
        let fill = match self.site.choice {
            NodeChoice::Rank(fill) if wanted == 1 => Some(fill),
            NodeChoice::Rank(_) | NodeChoice::Slurm => None,
        };
        let (policy, knows_hosts) = (&self.site.policy, !self.site.hosts.is_empty());
        let asked = (ask, self.classes.needs[class]);
        let fit = all.filter_map(|(node, place)| {
            place.fits(class, asked, policy).then(|| {
                let cost = fill.and_then(|fill| Some(place.cost(class, ask, policy)?.under(fill)));
                // Known CPUs: the fewest that are free. Else the most that jobs have.
                let free = if knows_hosts { place.free_cpus() } else { u64::MAX - place.cpus() };
                (cost, free, node)
            })
        });
        let mut fit: Vec<_> = fit.collect();
        if fit.len() < wanted {
            return None;
        }
        if wanted > 0 && wanted < fit.len() {
            fit.select_nth_unstable(wanted - 1);
        }
        fit.truncate(wanted);
        fit.sort_unstable();
        Some(fit.into_iter().map(|(.., node)| node).collect())
    }

    /// The nodes that have room for the job soonest, of those that are kept for no other.
    fn soonest(&mut self, job: usize, others: &[Reservation]) -> Option<Reservation> {
        let class = self.classes.of[job];
        let (ask, wanted) = (&self.classes.asks[class], self.jobs[job].nodes);
        let free = |node: &usize| others.iter().all(|r| !r.nodes.contains(node));
        let each = self.places.iter_mut().enumerate().filter(|(node, _)| free(node));
        let asked = (ask, self.classes.needs[class]);
        let times = each.filter_map(|(n, place)| Some((place.soonest(class, asked, &self.site.policy)?, n)));
        let mut times: Vec<(u64, usize)> = times.collect();
        times.sort_unstable();
        if times.len() < wanted {
            return None;
        }
        times.truncate(wanted);
        let from = times.last()?.0;
        Some(Reservation { from, nodes: times.into_iter().map(|(_, node)| node).collect() })
    }

    fn start(&mut self, job: usize, now: u64, nodes: &[usize]) {
        let latest = now.saturating_add(limit(&self.jobs[job]));
        let ask = node_state::Ask { uid: self.jobs[job].uid, ..self.classes.ask(job, id(job)) };
        let (mut parts, mut instances) = (Vec::new(), Instances::default());
        let Job { cpus, mem_mib, .. } = self.jobs[job];
        let held = (latest, Host { cpus, mem_mib });
        for node in nodes {
            if let Some((grant, done)) = self.places[*node].start(&ask, &self.site.policy, held) {
                parts.push((*node, grant));
                instances += done;
            }
        }
        self.ends.push(Reverse((now.saturating_add(self.jobs[job].run_s), job)));
        self.ran[job] = Some(Ran { start: now, parts, instances });
    }
}

/// How long the scheduler expects the job to run at most. Slurm lets a job overrun its limit by moments.
fn limit(job: &Job) -> u64 {
    job.limit_s.unwrap_or(UNLIMITED_S).max(job.run_s)
}
