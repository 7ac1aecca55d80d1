//! `tessera planner`: sizes, places and order of pending moldable jobs, every interval.

mod args;
mod carry;
mod decide;
mod jobs;
mod nice;
mod order;
mod reorder;
mod site;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use placement::far::STEPS_PER_MS;
use placement::planned::{asks, encode_asks, instant, parse_plan};
use site_config::SiteConfig;

pub(crate) use args::PlannerArgs;
use decide::{Choice, Decided};
use jobs::Pending;
use nice::Nices;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome, status};
use crate::runtimes::{Learnt, ends};
use crate::slurm::command::run as ask;
use crate::slurm::{sacct, scontrol, squeue};
use crate::{clock, site as config_file};

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
    /// Nice that it has given to pending jobs.
    nices: Nices,
    /// Where they are kept, and what keeps a second planner out; `None` in a dry run.
    lock: Option<File>,
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

pub(crate) fn run(args: &PlannerArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = config_file::load(globals.config.as_deref())?;
    let settings = ask("scontrol", &["show", "config"])?;
    let setting = |key: &str| scontrol::setting(&settings, key).unwrap_or_default().to_owned();
    let path = lock_path(args, &setting("StateSaveLocation"));
    let mut lock = if args.dry_run { None } else { Some(hold(&path)?) };
    // A dry run reads what it may.
    let nices = match &mut lock {
        Some(file) => Nices::read(file).map_err(|e| {
            Failure::new(format!("cannot read {}, which says what Nice jobs were given: {e}", path.display()))
                .hint("with another file, by --lock, the Nice that jobs have counts as their users'")
        })?,
        None => File::open(&path).and_then(|mut file| Nices::read(&mut file)).unwrap_or_default(),
    };
    let multifactor = setting("PriorityType") == "priority/multifactor";
    let mut planner = Planner {
        args,
        config,
        multifactor,
        nices,
        lock,
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

fn lock_path(args: &PlannerArgs, state_dir: &str) -> PathBuf {
    args.lock.clone().unwrap_or_else(|| PathBuf::from(state_dir).join("tessera-planner.lock"))
}

/// Keeps a second planner out for as long as the file is open.
fn hold(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let wrong = |e: std::io::Error| {
        Failure::new(format!("cannot hold {shown}: {e}"))
            .hint("run as root or SlurmUser where slurmctld runs, or name another file with --lock")
    };
    // Not truncated: it may be another planner's, and says which Nice an earlier one has given.
    let open = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = open.map_err(wrong)?;
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
        let mut round = Round { lines: Vec::new(), failed: false };
        self.without_limited_plans(&jobs, now, &mut round);
        let free = |p: &Pending| !self.stuck.contains_key(&p.job.id);
        let pending: Vec<Pending> = jobs.iter().filter_map(jobs::pending).filter(free).collect();
        let waiting: HashSet<u32> = jobs.iter().filter(|j| j.state == "PENDING").map(|j| j.id).collect();
        self.nices.keep(|id| waiting.contains(&id));
        if pending.is_empty() {
            self.give_back(&Decided::default(), &jobs, &mut round);
            return Ok(round);
        }
        self.learn(&pending, &jobs, &mut round);
        let gpus = site::gpus(&self.config, &ends::ends(&jobs, &self.learnt, now), &mut round.lines)?;
        let steps =
            u64::try_from(self.args.budget.as_millis()).unwrap_or(u64::MAX).saturating_mul(STEPS_PER_MS);
        let decided = decide::decide(&pending, gpus, &self.learnt, steps);
        self.carry_out(&decided, &pending, &jobs, now, &mut round);
        self.give_back(&decided, &jobs, &mut round);
        Ok(round)
    }

    /// Asks sacct for times, if a job needs them and not all too often.
    fn learn(&mut self, pending: &[Pending], jobs: &[squeue::Job], round: &mut Round) {
        let needed =
            pending.iter().any(|p| p.request.times.is_empty()) || jobs.iter().any(ends::needs_learnt);
        if !needed || self.learnt_at.is_some_and(|at| at.elapsed() < LEARN_AGAIN) {
            return;
        }
        self.learnt_at = Some(Instant::now());
        match sacct::completed(self.args.since) {
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
                let mine: HashSet<u32> =
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
        let begin = now + choice.begin / 1_000_000;
        // What is predicted is kept true, but not where the job may begin at any moment: see `late`.
        let holds = |plan: &placement::planned::Plan| {
            let far_off = plan.begin.is_some_and(|was| was.abs_diff(begin) > self.args.interval.as_secs());
            let any_moment = choice.begin < AT_ONCE && plan.begin.is_some_and(|was| was <= now);
            !far_off || any_moment
        };
        let lasts = |plan: &placement::planned::Plan| plan.until > fresh.min(until - SHORTEST / 2);
        if old.as_ref().is_some_and(|plan| same(plan) && holds(plan) && lasts(plan)) {
            return;
        }
        let comment = carry::comment(choice, &p.asks, now, until);
        if !self.args.dry_run
            && let Err(why) = scontrol::update(p.job.id, &format!("AdminComment={comment}"))
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
        let at = format!("{} at {}:{}", choice.size, choice.place.node, choice.place.start);
        self.unplan(p.job.id, &p.asks, &format!("does not start on {at}, which is free"), now, round);
    }

    /// Takes back the plans of jobs that a limit holds: it may be one of shards, within which the requested size is.
    fn without_limited_plans(&mut self, jobs: &[squeue::Job], now: u64, round: &mut Round) {
        for job in jobs.iter().filter(|job| jobs::is_limited(job)) {
            let planned = parse_plan(&job.comment).is_ok_and(|plan| plan.is_some());
            if let Some(asks) = asks(&job.comment).filter(|_| planned) {
                self.unplan(job.id, asks, &format!("waits by a limit ({})", job.reason), now, round);
            }
        }
    }

    fn unplan(&mut self, job: u32, asks: &str, why: &str, now: u64, round: &mut Round) {
        self.stuck.insert(job, now + SHORTEST);
        let field = format!("AdminComment={}", encode_asks(asks));
        let done = if self.args.dry_run { Ok(()) } else { scontrol::update(job, &field) };
        round.lines.push(match done {
            Ok(()) => format!("job {job}: {why}: its plan is taken back\n"),
            Err(refused) => {
                round.failed = true;
                format!("job {job}: slurmctld refuses to take its plan back: {refused}\n")
            }
        });
    }
}

/// What the job can run on, for people.
fn sizes(p: &Pending) -> String {
    match &p.request.job_profile {
        Some(name) if p.request.times.is_empty() => format!("job profile {name}"),
        _ => p.request.listed(),
    }
}
