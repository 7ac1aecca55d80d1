//! `tessera planner`: sizes, places and order of pending moldable jobs, every interval.

mod args;
mod carry;
mod decide;
mod jobs;
mod order;
mod site;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use placement::Request;
use placement::far::STEPS_PER_MS;
use placement::planned::{encode_asks, instant, parse_plan};
use site_config::SiteConfig;

pub(crate) use args::PlannerArgs;
use decide::{Choice, Decided};
use jobs::Pending;
use order::Rank;

use crate::args::Cli;
use crate::outcome::{Failure, Outcome, status};
use crate::times::{Learnt, sacct};
use crate::{clock, site as config_file, slurm, squeue};

/// How many intervals a plan counts: two may be missed before jobs run as they asked.
const LIVES: u64 = 3;
/// A plan counts at least so many seconds, for `--once`.
const SHORTEST: u64 = 600;
/// How many seconds after its planned begin a job may still not have started, at least.
const GRACE: u64 = 60;
/// A place is free if a job could begin there in so many µs: instances have to be made and unmade.
const AT_ONCE: u64 = 5_000_000;
/// How often learnt times are asked for again.
const LEARN_AGAIN: Duration = Duration::from_secs(600);

/// One cluster's planner.
struct Planner<'a> {
    args: &'a PlannerArgs,
    config: SiteConfig,
    /// Whether Nice orders jobs and does nothing else: under priority/basic an update also sends a job to the end.
    multifactor: bool,
    /// Nice of each pending job when it was first seen.
    own_nice: HashMap<u32, i64>,
    /// What jobs asked while they were pending: how long they run on what they got without a plan.
    asked: HashMap<u32, Request>,
    /// Jobs that did not start although their planned place was free, and when they are planned again, in seconds since
    /// the epoch.
    stuck: HashMap<u32, u64>,
    /// Jobs that looked like that in the last round.
    suspects: HashSet<u32>,
    learnt: Learnt,
    learnt_at: Option<Instant>,
}

/// What one round did.
struct Round {
    lines: Vec<String>,
    failed: bool,
}

pub(crate) fn run(args: &PlannerArgs, cli: &Cli) -> Result<Outcome, Failure> {
    let config = config_file::load(cli.config.as_deref())?;
    let settings = slurm::run("scontrol", &["show", "config"])?;
    let setting = |key: &str| slurm::setting(&settings, key).unwrap_or_default().to_owned();
    let _lock = if args.dry_run { None } else { Some(lock(args, &setting("StateSaveLocation"))?) };
    let multifactor = setting("PriorityType") == "priority/multifactor";
    let mut planner = Planner {
        args,
        config,
        multifactor,
        own_nice: HashMap::new(),
        asked: HashMap::new(),
        stuck: HashMap::new(),
        suspects: HashSet::new(),
        learnt: Learnt::default(),
        learnt_at: None,
    };
    if args.once {
        let round = planner.round()?;
        return Ok(Outcome { text: round.lines.concat(), status: u8::from(round.failed) });
    }
    serve(&mut planner)
}

/// Rounds until SIGTERM or SIGINT.
fn serve(planner: &mut Planner<'_>) -> Result<Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::new(format!("cannot wait for signals: {e}")))?;
    }
    status(&format!("tessera planner: planning every {} s\n", planner.args.interval.as_secs_f64()));
    let mut last_error = String::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        match planner.round() {
            Ok(round) => {
                last_error.clear();
                status(&round.lines.concat());
            }
            // slurmctld may be away for a while: said once, tried again.
            Err(e) if e.what() != last_error => {
                status(&e.to_string());
                e.what().clone_into(&mut last_error);
            }
            Err(_) => {}
        }
        while !stop.load(Ordering::Relaxed) && begin.elapsed() < planner.args.interval {
            thread::sleep(Duration::from_millis(100));
        }
    }
    status("tessera planner: ends; plans lapse by themselves\n");
    Ok(Outcome::ok(""))
}

/// Keeps a second planner out for as long as the file is open.
fn lock(args: &PlannerArgs, state_dir: &str) -> Result<File, Failure> {
    let path = args.lock.clone().unwrap_or_else(|| PathBuf::from(state_dir).join("tessera-planner.lock"));
    let shown = path.display();
    let wrong = |e: std::io::Error| {
        Failure::new(format!("cannot hold {shown}: {e}"))
            .hint("run as root or SlurmUser where slurmctld runs, or name another file with --lock")
    };
    let file = File::create(&path).map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Failure::new(format!("another planner is running: it holds {shown}")))
        }
        Err(std::fs::TryLockError::Error(e)) => Err(wrong(e)),
    }
}

impl Planner<'_> {
    fn round(&mut self) -> Result<Round, Failure> {
        let now = clock::epoch_seconds();
        let jobs = squeue::jobs(None)?;
        self.stuck.retain(|_, until| *until > now);
        self.suspects.retain(|id| jobs.iter().any(|j| j.id == *id));
        let free = |p: &Pending| !self.stuck.contains_key(&p.job.id);
        let pending: Vec<Pending> = jobs.iter().filter_map(jobs::pending).filter(free).collect();
        self.own_nice.retain(|id, _| pending.iter().any(|p| p.job.id == *id));
        self.asked.retain(|id, _| jobs.iter().any(|j| j.id == *id && !j.ended()));
        for p in &pending {
            self.own_nice.entry(p.job.id).or_insert(p.job.nice);
            self.asked.insert(p.job.id, p.request.clone());
        }
        let mut round = Round { lines: Vec::new(), failed: false };
        if pending.is_empty() {
            return Ok(round);
        }
        self.learn(&pending, &mut round);
        let gpus = site::gpus(&self.config, &jobs, &self.asked, now)?;
        let steps =
            u64::try_from(self.args.budget.as_millis()).unwrap_or(u64::MAX).saturating_mul(STEPS_PER_MS);
        let decided = decide::decide(&pending, gpus, &self.learnt, steps)
            .map_err(|e| Failure::new(format!("cannot plan: {e}")))?;
        self.carry_out(&decided, &pending, &jobs, now, &mut round);
        Ok(round)
    }

    /// Asks sacct for times, if a job needs them and not all too often.
    fn learn(&mut self, pending: &[Pending], round: &mut Round) {
        let needed = pending.iter().any(|p| p.request.times.is_empty());
        if !needed || self.learnt_at.is_some_and(|at| at.elapsed() < LEARN_AGAIN) {
            return;
        }
        self.learnt_at = Some(Instant::now());
        match sacct(self.args.since) {
            Ok(past) => self.learnt = Learnt::of(past),
            Err(e) => round.lines.push(format!("no times of job profiles: {}\n", e.what())),
        }
    }

    fn carry_out(
        &mut self,
        decided: &Decided,
        pending: &[Pending],
        jobs: &[squeue::Job],
        now: u64,
        round: &mut Round,
    ) {
        let until = now + (LIVES * self.args.interval.as_secs()).max(SHORTEST);
        for (standing, choices) in &decided.batches {
            for choice in choices {
                let Some(p) = pending.iter().find(|p| p.job.id == choice.job) else { continue };
                self.set_plan(choice, p, now, until, round);
            }
            if self.multifactor {
                let mine: Vec<u32> =
                    pending.iter().filter(|p| p.standing() == *standing).map(|p| p.job.id).collect();
                self.set_order(choices, &mine, jobs, round);
            }
        }
        for (job, why) in &decided.left {
            if self.args.once {
                round.lines.push(format!("job {job}: not planned: {why}\n"));
            }
        }
    }

    /// Writes the plan unless it stands there already and counts long enough.
    fn set_plan(&mut self, choice: &Choice, p: &Pending, now: u64, until: u64, round: &mut Round) {
        let old = parse_plan(&p.job.comment).ok().flatten();
        let same = |plan: &placement::planned::Plan| {
            plan.size == choice.size && plan.place.as_ref() == Some(&choice.place)
        };
        let grace = (2 * self.args.interval.as_secs()).max(GRACE);
        let late = |plan: &placement::planned::Plan| plan.begin.is_some_and(|begin| begin + grace < now);
        if choice.begin < AT_ONCE && old.as_ref().is_some_and(|plan| same(plan) && late(plan)) {
            // Seen twice: the place may have come free just now.
            if self.args.once || !self.suspects.insert(p.job.id) {
                self.take_back(choice, p, now, round);
                return;
            }
        } else {
            self.suspects.remove(&p.job.id);
        }
        let fresh = now + self.args.interval.as_secs() * (LIVES - 1);
        if old.as_ref().is_some_and(|plan| same(plan) && plan.until > fresh.min(until - SHORTEST / 2)) {
            return;
        }
        let comment = carry::comment(choice, &p.asks, now, until);
        if !self.args.dry_run
            && let Err(why) = carry::update(p.job.id, &format!("AdminComment={comment}"))
        {
            round.failed = true;
            round.lines.push(format!("job {}: slurmctld refuses the plan: {why}\n", p.job.id));
            return;
        }
        if old.as_ref().is_some_and(same) {
            return;
        }
        let before = old.map_or("no plan before".to_owned(), |plan| format!("{} before", plan.size));
        let at = |micros: u64| instant(now + micros / 1_000_000);
        round.lines.push(format!(
            "job {} of {}: {} at {}:{}, {} to {} ({before}; of {})\n",
            p.job.id,
            p.job.user,
            choice.size,
            choice.place.node,
            choice.place.start,
            at(choice.begin),
            at(choice.end),
            sizes(p),
        ));
    }

    /// Gives up on a plan whose place is free while the job does not start: cores, memory or something else is missing
    /// there, and without a plan the job may find it elsewhere.
    fn take_back(&mut self, choice: &Choice, p: &Pending, now: u64, round: &mut Round) {
        self.stuck.insert(p.job.id, now + SHORTEST);
        let field = format!("AdminComment={}", encode_asks(&p.asks));
        let done = if self.args.dry_run { Ok(()) } else { carry::update(p.job.id, &field) };
        let at = format!("{} at {}:{}", choice.size, choice.place.node, choice.place.start);
        round.lines.push(match done {
            Ok(()) => {
                format!("job {}: does not start on {at}, which is free: its plan is taken back\n", p.job.id)
            }
            Err(why) => {
                round.failed = true;
                format!("job {}: slurmctld refuses to take its plan back: {why}\n", p.job.id)
            }
        });
    }

    /// Puts the jobs of one standing, `mine`, in the planned order.
    fn set_order(&self, choices: &[Choice], mine: &[u32], jobs: &[squeue::Job], round: &mut Round) {
        let rank = |c: &Choice| {
            let job = jobs.iter().find(|j| j.id == c.job)?;
            let own_nice = self.own_nice.get(&c.job).copied().unwrap_or(job.nice);
            Some(Rank { job: c.job, priority: job.priority, nice: job.nice, own_nice })
        };
        let ranks: Vec<Rank> = choices.iter().filter_map(rank).collect();
        let other = |j: &&squeue::Job| j.state == "PENDING" && j.priority > 0 && !mine.contains(&j.id);
        let others: Vec<u64> = jobs.iter().filter(other).map(|j| j.priority).collect();
        for (job, nice) in order::nices(&ranks, &others) {
            let done = if self.args.dry_run { Ok(()) } else { carry::update(job, &format!("Nice={nice}")) };
            match done {
                Ok(()) => round.lines.push(format!("job {job}: nice {nice}, to run in the planned order\n")),
                Err(why) => {
                    round.failed = true;
                    round.lines.push(format!("job {job}: slurmctld refuses nice {nice}: {why}\n"));
                }
            }
        }
    }
}

/// What the job can run on, for people.
fn sizes(p: &Pending) -> String {
    match &p.request.job_profile {
        Some(name) if p.request.times.is_empty() => format!("job profile {name}"),
        _ => p.request.listed(),
    }
}
