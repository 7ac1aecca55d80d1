//! A month of jobs as sacct would print them, the same for the same seed.
//!
//! Four of ten jobs ask for one GPU or several, the others for 4 to 30 GB of one: a site whose users have learnt to ask for what
//! they need. Run times spread evenly over orders of magnitude, about from a minute to three days. Jobs come by day more than by
//! night. All run times are multiplied by one factor, so that whole GPUs for all would keep the site busy to the stated percentage.

/// The columns that `tessera` reads.
#[cfg_attr(test, allow(dead_code, reason = "its helper for other tests"))]
#[path = "../../../../cli/src/slurm/sacct/columns.rs"]
mod columns;

use std::fmt::Write as _;

pub(super) const JOBS: u32 = 20_000;
pub(super) const NODES: u32 = 50;
/// Number of GPUs of each node.
const GPUS: u32 = 8;
/// Midnight of 1 October 2026, UTC.
const BEGIN: f64 = 1_790_812_800.0;
const DAY: f64 = 86_400.0;
const DAYS: f64 = 30.0;
/// Run times, s.
const SHORTEST: f64 = 60.0;
const LONGEST: f64 = 3.0 * DAY;

/// Request of a job, by how many of a hundred: memory of a part in GB, or GPUs on each of some nodes.
enum MonthAsk {
    Part(u32),
    Gpus(u32, u32),
}

const ASKS: [(u64, MonthAsk); 9] = [
    (22, MonthAsk::Part(4)),
    (18, MonthAsk::Part(9)),
    (14, MonthAsk::Part(18)),
    (6, MonthAsk::Part(30)),
    (27, MonthAsk::Gpus(1, 1)),
    (6, MonthAsk::Gpus(2, 1)),
    (4, MonthAsk::Gpus(4, 1)),
    (2, MonthAsk::Gpus(8, 1)),
    (1, MonthAsk::Gpus(8, 2)),
];

pub(super) fn site() -> String {
    nodes("mig = \"dynamic\"\ninterconnect = \"pcie\"\n")
}

/// Half of each node's GPUs are cut once and for all, so that every part that jobs ask for has an instance.
pub(super) fn fixed_site() -> String {
    let gpu = "[\"4g.20gb@0\", \"2g.10gb@4\", \"1g.5gb@6\"]";
    nodes(&format!("static = {{ \"0-3\" = {gpu} }}\n"))
}

fn nodes(rest: &str) -> String {
    let last = NODES - 1;
    format!("[[nodes]]\nnames = \"n[0-{last}]\"\ngpu = \"a100-40gb\"\ncount = {GPUS}\n{rest}")
}

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        let below = u32::try_from(self.next() % (1 << 24)).unwrap_or(0);
        f64::from(below) / f64::from(1 << 24)
    }

    /// Seconds between two bounds, evenly over orders of magnitude.
    fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.part())
    }

    /// A time of the month; from 8 to 20 hours three times as many as in the other half of a day.
    fn time(&mut self) -> f64 {
        let day = (self.part() * DAYS).floor();
        let hour = if self.next().is_multiple_of(4) { 20.0 } else { 8.0 } + self.part() * 12.0;
        BEGIN + day * DAY + hour * 3600.0
    }

    fn ask(&mut self) -> &'static MonthAsk {
        let mut at = self.next() % 100;
        for (share, ask) in &ASKS {
            if at < *share {
                return ask;
            }
            at -= share;
        }
        &ASKS[0].1
    }
}

/// A job.
struct Made {
    submit: f64,
    ran: f64,
    /// Time limit in run times: users ask for up to four times as long as they need.
    limit: f64,
    user: u64,
    ask: &'static MonthAsk,
}

impl Made {
    fn gpus(&self) -> u32 {
        match self.ask {
            MonthAsk::Part(_) => 1,
            MonthAsk::Gpus(gpus, nodes) => gpus * nodes,
        }
    }
}

/// The month of a seed. `load` is what the jobs would take if each had whole GPUs, as a part of what there is.
pub(super) fn table(seed: u64, load: f64) -> String {
    let mut random = Random(seed);
    // The first numbers of near seeds are near each other.
    for _ in 0..8 {
        random.next();
    }
    let mut jobs: Vec<Made> = (0..JOBS).map(|_| made(&mut random)).collect();
    jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    let asked: f64 = jobs.iter().map(|job| job.ran * f64::from(job.gpus())).sum();
    let factor = load * f64::from(NODES * GPUS) * DAYS * DAY / asked;
    let mut out = String::new();
    for (job, id) in jobs.iter().zip(1..) {
        line(&mut out, id, job, job.ran * factor);
    }
    out
}

fn made(random: &mut Random) -> Made {
    let (submit, ran) = (random.time(), random.magnitude(SHORTEST, LONGEST));
    Made { submit, ran, limit: 1.0 + 3.0 * random.part(), user: random.next() % 60, ask: random.ask() }
}

fn line(out: &mut String, id: u32, job: &Made, ran: f64) {
    let (submit, limit, user) = (job.submit, ran * job.limit / 60.0, format!("user{}", job.user));
    let (asked, nodes, comment) = match job.ask {
        MonthAsk::Part(gb) => {
            let asks = format!("tessera: asks v1 iso=auto mem={}", gb * 954);
            (format!("cpu=8,gres/shard={gb},mem=64G,node=1"), 1, asks)
        }
        MonthAsk::Gpus(_, nodes) => {
            (format!("cpu=8,gres/gpu={},mem=64G,node={nodes}", job.gpus()), *nodes, String::new())
        }
    };
    let number = |seconds: f64| format!("{seconds:.0}");
    for (column, width) in columns::COLUMNS {
        let value = match column {
            "JobIDRaw" => id.to_string(),
            "User" => user.clone(),
            "State" => "COMPLETED".to_owned(),
            // A made-up month has no starts of its own.
            "Submit" | "Eligible" | "Start" => number(submit),
            "ElapsedRaw" => number(ran),
            "TimelimitRaw" => number(limit.ceil()),
            "NNodes" => nodes.to_string(),
            "ReqTRES" => asked.clone(),
            "AdminComment" => comment.clone(),
            _ => String::new(),
        };
        let _ = write!(out, "{value:>width$} ");
    }
    out.push('\n');
}
