//! Which jobs preemption ends, against the least possible and against Slurm's way; and how long the search may take, which
//! slurmctld spends under its locks.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark")]

use node_layout::layout_of;
use std::time::Duration;

use geometry::*;
use node_state::*;
use placement::*;
use protocol::*;
use topology::HardwareGraph;

/// The same numbers in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(n.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn node(n: usize) -> Node {
    let model = Model::find("a100-40gb").unwrap();
    let gpus = (0..n).map(|_| Gpu::new(model, MigPolicy::Dynamic)).collect();
    Node::new(gpus, HardwareGraph::uniform(n, 25.0))
}

fn ask(isolation: &str, mem: &str, gpus: u32, instances: u32) -> Ask {
    let mut request = Request::new(Isolation::parse(isolation).unwrap());
    request.mem_mib = size::parse_mib(mem).ok();
    request.gpus = Some(gpus).filter(|n| *n > 0);
    request.instances = instances;
    Ask { spread: Spread::ALIKE, ..Ask::new(JobId(1 << 20), Uid(1000), request) }
}

/// Jobs of this shape until none fits or there are so many; they count from `first`.
fn filled(node: &mut Node, ask: &Ask, first: u32, most: u32) -> u32 {
    for n in 0..most {
        let ask = Ask { job: JobId(first + n), ..ask.clone() };
        let Some(grant) = decide(node, &ask, &Policy::default()).chosen else { return n };
        node.apply(ask.job, ask.uid, &grant).unwrap();
    }
    most
}

fn victims(jobs: impl IntoIterator<Item = u32>, cores: impl Fn(u32) -> u64) -> Vec<Victim> {
    let of = |job| Victim { job: JobId(job), has: HostResources { cores: cores(job), memory_mib: 0 } };
    jobs.into_iter().map(of).collect()
}

/// The best of all sets, by trying each.
fn least(node: &Node, ask: &Ask, victims: &[Victim], lacks: HostResources) -> Option<Vec<JobId>> {
    let chosen = |set: u32| victims.iter().zip(0..).filter(move |(_, i)| set >> i & 1 == 1).map(|(v, _)| *v);
    let will_do = |set: &u32| {
        let mut node = node.clone();
        let mut cores = 0;
        for victim in chosen(*set) {
            node.release(victim.job);
            cores += victim.has.cores;
        }
        cores >= lacks.cores && fits(&node, ask, &Policy::default())
    };
    let best = (0..1_u32 << victims.len()).filter(will_do).min_by_key(|set| (set.count_ones(), *set))?;
    Some(chosen(best).map(|v| v.job).collect())
}

/// cons_tres takes the candidates in their order until there is room, and then every one of them that is on the node.
fn slurms(node: &Node, ask: &Ask, victims: &[Victim], lacks: HostResources) -> Option<usize> {
    let mut node = node.clone();
    let mut cores = 0;
    for n in 0..=victims.len() {
        if cores >= lacks.cores && fits(&node, ask, &Policy::default()) {
            return Some(n);
        }
        let victim = victims.get(n)?;
        node.release(victim.job);
        cores += victim.has.cores;
    }
    None
}

/// A node of two to four GPUs with at most twelve jobs of several kinds, in any order of importance, and a request that has
/// no room there.
fn random_case(random: &mut Random) -> (Node, Ask, Vec<Victim>, HostResources) {
    let shapes = [
        ask("mig:1g.5gb", "", 0, 1),
        ask("mig:2g.10gb", "", 0, 1),
        ask("mig:3g.20gb", "", 0, 1),
        ask("mps", "8G", 0, 1),
        ask("mps", "18G", 0, 1),
        ask("whole", "", 1, 1),
    ];
    let wants = [
        ask("mig:7g.40gb", "", 0, 1),
        ask("mig:3g.20gb", "", 0, 1),
        ask("mig:2g.10gb", "", 0, 4),
        ask("mps", "30G", 0, 1),
        ask("auto", "20G", 0, 1),
        ask("whole", "", 1, 1),
        ask("whole", "", 2, 1),
    ];
    loop {
        let mut node = node(2 + random.below(3));
        let (mut jobs, mut next) = (Vec::new(), 0);
        while jobs.len() < 12 && next < 20 {
            next += 1;
            let shape = random.pick(&shapes).clone();
            let shape = Ask { uid: Uid(1000 + u32::try_from(random.below(2)).unwrap()), ..shape };
            if filled(&mut node, &shape, next, 1) == 0 {
                break;
            }
            jobs.insert(random.below(jobs.len() + 1), next);
            // Others end meanwhile and leave holes.
            if random.below(4) == 0 {
                node.release(JobId(jobs.remove(random.below(jobs.len()))));
            }
        }
        let want = random.pick(&wants).clone();
        let cores: Vec<u64> = (0..40).map(|_| u64::try_from(random.below(6)).unwrap()).collect();
        let all: u64 = jobs.iter().map(|job| cores[*job as usize]).sum();
        let lacks = if random.below(3) == 0 { u64::try_from(random.below(8)).unwrap().min(all) } else { 0 };
        let lacks = HostResources { cores: lacks, memory_mib: 0 };
        if jobs.len() > 2 && !fits(&node, &want, &Policy::default()) {
            return (node, want, victims(jobs, |job| cores[job as usize]), lacks);
        }
    }
}

fn quality(cases: usize) {
    let mut random = Random(0x7e55e1a);
    let (mut sums, mut as_least, mut answered, mut more_than_slurm) = ([0_usize; 3], 0, 0, 0);
    for _ in 0..cases {
        let (node, ask, victims, lacks) = random_case(&mut random);
        let ours = least_victims(&node, &ask, &Policy::default(), &victims, lacks);
        let best = least(&node, &ask, &victims, lacks);
        assert_eq!(ours.is_some(), best.is_some(), "{}", layout_of(&node));
        let (Some(ours), Some(best)) = (ours, best) else { continue };
        let slurm = slurms(&node, &ask, &victims, lacks).unwrap();
        answered += 1;
        as_least += usize::from(ours == best);
        more_than_slurm += usize::from(ours.len() > slurm);
        for (sum, n) in sums.iter_mut().zip([ours.len(), best.len(), slurm]) {
            *sum += n;
        }
    }
    println!(
        "{answered} of {cases} random states where preemption helps: {as_least} the very set that an exhaustive search \
         finds; {} jobs end, {} is the least possible, {} by Slurm's rule; more than by Slurm's rule in {more_than_slurm}",
        sums[0], sums[1], sums[2]
    );
}

/// Nodes full of small jobs, and requests for which much must go.
fn hardest() -> Vec<(String, Node, Ask, Vec<Victim>, HostResources)> {
    let mut cases = Vec::new();
    for n in [8, 16] {
        let mut instances = node(n);
        let count = filled(&mut instances, &ask("mig:1g.5gb", "", 0, 1), 1, u32::MAX);
        let mut shares = node(n);
        let thin = Ask {
            request: Request { threads: Some(2), ..ask("mps", "900M", 0, 1).request },
            ..ask("mps", "", 0, 1)
        };
        let many = filled(&mut shares, &thin, 1, u32::MAX);
        let half = u32::try_from(n / 2).unwrap();
        let all = u32::try_from(n).unwrap();
        let wants = [
            ("7g", ask("mig:7g.40gb", "", 0, 1)),
            ("3g", ask("mig:3g.20gb", "", 0, 1)),
            ("half of the GPUs whole", ask("whole", "", half, 1)),
            ("all GPUs but one whole", ask("whole", "", all - 1, 1)),
            ("6 x 2g", ask("mig:2g.10gb", "", 0, 6)),
            ("7g on every GPU", ask("mig:7g.40gb", "", 0, all)),
            ("auto 39G", ask("auto", "39G", 0, 1)),
            ("mps 39G", ask("mps", "39G", 0, 1)),
        ];
        for (what, want) in wants {
            for (kind, node, jobs) in [("instances", &instances, count), ("shares", &shares, many)] {
                for cores in [0, u64::from(jobs)] {
                    let lacks = HostResources { cores, memory_mib: 0 };
                    // Of many sizes, so that none can be spared by counting.
                    let victims = victims(1..=jobs, |job| u64::from(job * 7 % 5));
                    let name = format!("{n} GPUs, {jobs} {kind}, {what}, {cores} cores lacking");
                    cases.push((name, node.clone(), want.clone(), victims, lacks));
                }
            }
        }
    }
    cases
}

/// Processor time of this thread: other work on the machine does not count.
fn busy() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

fn best_of<T>(n: usize, mut f: impl FnMut() -> T) -> (T, Duration) {
    let mut runs = (0..n).map(|_| {
        let start = busy();
        (f(), busy() - start)
    });
    let first = runs.next().unwrap();
    let least = runs.map(|(_, took)| took).fold(first.1, Duration::min);
    (first.0, least)
}

/// A running job as slurmctld keeps it: its nodes and its cores as bit maps.
struct Running {
    nodes: Vec<bool>,
    cores: Vec<bool>,
}

const CORES: usize = 64;

impl Running {
    /// What it has on a node. Its place among the job's nodes is counted, and so are its cores there.
    fn on(&self, node: usize) -> HostResources {
        if !self.nodes[node] {
            return HostResources::default();
        }
        let place = self.nodes[..node].iter().filter(|has| **has).count();
        let cores = self.cores[place * CORES..][..CORES].iter().filter(|has| **has).count() as u64;
        HostResources { cores, memory_mib: cores * 500 }
    }
}

/// Jobs on one or two of so many nodes.
fn running(random: &mut Random, jobs: usize, nodes: usize) -> Vec<Running> {
    let one = |_| {
        let mut on = vec![false; nodes];
        for _ in 0..=random.below(2) {
            on[random.below(nodes)] = true;
        }
        let count = on.iter().filter(|has| **has).count();
        Running { nodes: on, cores: (0..count * CORES).map(|_| random.below(16) == 0).collect() }
    };
    (0..jobs).map(one).collect()
}

/// What a job lacks of cores and memory, beside a plain sum over every job and node.
fn lacks() {
    let mut random = Random(0x1ac5);
    for (jobs, nodes, weighed) in [(1000, 100, 1), (10_000, 1000, 1), (10_000, 1000, 32), (10_000, 100, 100)]
    {
        let running = running(&mut random, jobs, nodes);
        let empty = HostResources { cores: CORES as u64, memory_mib: 64_000 };
        let needs = vec![Needs { empty, needed: empty }; weighed];
        let (found, took) = best_of(15, || lacking(&needs, &running, |job, at| job.on(at)));
        let plain = || {
            let had = |at| running.iter().map(|job| job.on(at)).fold(empty, HostResources::minus);
            (0..weighed).map(|at| empty.minus(had(at))).collect::<Vec<_>>()
        };
        let (want, reference) = best_of(15, plain);
        assert_eq!(found, want);
        println!(
            "{jobs} jobs on {nodes} nodes, {weighed} weighed: what lacks {took:?}, {:.2} times a plain sum",
            took.as_secs_f64() / reference.as_secs_f64()
        );
    }
}

fn main() {
    lacks();
    let policy = Policy::default();
    let mut worst = (Duration::ZERO, String::new());
    for (name, node, ask, victims, lacks) in hardest() {
        let (ending, took) = best_of(15, || least_victims(&node, &ask, &policy, &victims, lacks));
        let (_, one) = best_of(200, || fits(&node, &ask, &policy));
        println!(
            "{name}: {} end, {took:?}, {:.0} times one look at the node",
            ending.map_or("none".to_owned(), |jobs| jobs.len().to_string()),
            took.as_secs_f64() / one.as_secs_f64()
        );
        if took > worst.0 {
            worst = (took, name);
        }
    }
    println!("longest: {:?}, {}", worst.0, worst.1);
    quality(if std::env::args().any(|arg| arg == "--bench") { 3000 } else { 300 });
}
