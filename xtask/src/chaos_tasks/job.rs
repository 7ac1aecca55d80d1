//! A job: its prolog, its processes, which of them are killed, its epilog.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use task_control::Job;

use super::draw;
use super::node::{MEMORY_MIB, TaskNode, kill};

/// A process that has not ended by then waits for ever.
const AT_MOST: Duration = Duration::from_secs(600);
/// The largest task of a job, MiB: up to half of a device.
const LARGEST_MIB: u64 = MEMORY_MIB / 2;

/// Plan of a job.
pub(super) struct JobPlan {
    number: u32,
    seed: u64,
    is_killed: bool,
    is_isolated: bool,
    processes: u64,
}

impl JobPlan {
    /// The plan of a job. One in ten is isolated; those have no process killed.
    pub(super) fn of(seed: u64, job: u64, is_killed: bool) -> JobPlan {
        let own = draw(seed, job);
        JobPlan {
            number: u32::try_from(job + 1).unwrap_or(u32::MAX),
            seed: own,
            is_killed,
            is_isolated: !is_killed && own.is_multiple_of(10),
            processes: 1 + (own >> 8) % 2,
        }
    }
}

/// Ends of jobs, counted.
#[derive(Default)]
pub(super) struct JobCounts {
    pub(super) completed: u64,
    pub(super) killed: u64,
    pub(super) starved: u64,
    pub(super) wrong: Vec<String>,
}

impl JobCounts {
    pub(super) fn add(&mut self, other: &JobCounts) {
        self.completed += other.completed;
        self.killed += other.killed;
        self.starved += other.starved;
        self.wrong.extend(other.wrong.iter().cloned());
    }

    fn wrong(what: String) -> JobCounts {
        JobCounts { wrong: vec![what], ..JobCounts::default() }
    }
}

/// Runs a job to its end.
pub(super) fn run(node: &TaskNode, plan: &JobPlan) -> JobCounts {
    let isolated = if plan.is_isolated { node.take_isolated() } else { None };
    if let Some(uuid) = isolated {
        let mut program = node.program();
        program.env("CUDA_VISIBLE_DEVICES", &uuid).args([&plan.seed.to_string(), "4"]);
        // Growth inside a task doubles and triples it.
        program.arg((MEMORY_MIB * 3 / 10).to_string()).arg(node.at("isolated"));
        let outcome = supervise(vec![program], plan);
        node.give_isolated(uuid);
        return outcome;
    }
    let devices = node.devices(plan.seed >> 16);
    if !node.has_broker() {
        let any = &devices[usize::try_from(plan.seed >> 24).unwrap_or(0) % devices.len()].uuid;
        return supervise(programs(node, plan, &("CUDA_VISIBLE_DEVICES", any.clone())), plan);
    }
    let uid = rustix::process::geteuid().as_raw();
    let job = Job { job: plan.number, uid, seats: 2, gpu_mem_mib: None, devices };
    if let Err(why) = node.ask(|broker| broker.add(&job)) {
        return JobCounts::wrong(format!("job {}: prolog: {why}", plan.number));
    }
    let socket = task_control::socket(&node.at("run"), plan.number).display().to_string();
    let mut outcome = supervise(programs(node, plan, &("TESSERA_TASK_SOCKET", socket)), plan);
    if let Err(why) = node.ask(|broker| broker.end(plan.number)) {
        outcome.wrong.push(format!("job {}: epilog: {why}", plan.number));
    }
    outcome
}

fn programs(node: &TaskNode, plan: &JobPlan, variable: &(&str, String)) -> Vec<Command> {
    let program = |i: u64| {
        // One that is to be killed does not end by itself before.
        let rounds = if plan.is_killed && i == 0 { 1_000_000 } else { 1 + draw(plan.seed, i) % 4 };
        let most = 64 + draw(plan.seed, i + 10) % LARGEST_MIB;
        let mut program = node.program();
        program.env(variable.0, &variable.1).arg(draw(plan.seed, i + 20).to_string());
        program.arg(rounds.to_string()).arg(most.to_string()).arg(node.at("programs"));
        program
    };
    (0..plan.processes).map(program).collect()
}

/// Starts processes, kills the first where planned, and waits for all.
fn supervise(programs: Vec<Command>, plan: &JobPlan) -> JobCounts {
    let begin = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for mut program in programs {
        match program.spawn() {
            Ok(child) => children.push(child),
            Err(e) => return JobCounts::wrong(format!("job {}: {e}", plan.number)),
        }
    }
    if let Some(first) = children.first_mut().filter(|_| plan.is_killed) {
        std::thread::sleep(Duration::from_millis(5 + draw(plan.seed, 30) % 800));
        kill(first.id());
    }
    let mut outcome = JobCounts::default();
    let mut ends = Vec::new();
    for child in &mut children {
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begin.elapsed() < AT_MOST => std::thread::sleep(Duration::from_millis(2)),
                _ => break None,
            }
        };
        if status.is_none() {
            outcome.starved = 1;
            kill(child.id());
            let _ = child.wait();
        }
        ends.push(status);
    }
    let is_well = |status: &Option<std::process::ExitStatus>| status.is_some_and(|status| status.success());
    let others = &ends[usize::from(plan.is_killed)..];
    if outcome.starved == 0 && !others.iter().all(is_well) {
        outcome.wrong.push(format!("job {}: its processes ended with {ends:?}", plan.number));
    }
    if outcome.starved == 0 {
        *(if plan.is_killed { &mut outcome.killed } else { &mut outcome.completed }) = 1;
    }
    outcome
}
