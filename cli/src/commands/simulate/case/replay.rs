//! Begins and frees from a file, answered in order. The file may be the log of a task broker or what `--events` wrote.

use std::fmt::Write as _;
use std::path::Path;

use case_study::event::{self, RunEvent};
use case_study::{Node, policy};
use task_sched::{Among, Answer, Ask, Bytes, Event as Sched, Need, Order, Scheduler, TaskId, WorkerId};

use super::fields::{Fields, objects};
use crate::files::read_text;
use crate::outcome::{Failure, Outcome};
use task_sched::event_line::Begin;

/// Policies that bind whole jobs, which a file of tasks does not name.
const BINDING: [&str; 3] = ["sa", "cg", "slurm"];

/// Events that are no question.
const OTHERS: [&str; 8] = ["node", "layout", "job", "grant", "wait", "refuse", "crash", "end"];

/// A line of the file.
pub(super) enum ReplayLine {
    Begin(Begin),
    Free { t: f64, task: u64 },
}

pub(super) fn run(node: &Node, policies: &[String], order: Order, file: &Path) -> Result<Outcome, Failure> {
    let steps = parse(&file.display().to_string(), &read_text(file)?).map_err(Failure::new)?;
    let mut out = String::new();
    for name in policies {
        if BINDING.contains(&name.as_str()) {
            let what = format!("--policy {name}: binds whole jobs to devices, but a replay has tasks only");
            return Err(Failure::new(what).hint("tessera, alg3, alg2, case-mig or schedgpu"));
        }
        let chosen =
            policy::by_name(name).ok_or_else(|| Failure::new(format!("--policy {name}: unknown policy")))?;
        // A replay has tasks only: no limit of workers holds.
        let pool = node.pool(name).without_workers();
        out.push_str(&event::line(&RunEvent::node(chosen.name(), order, &pool, None)));
        let mut scheduler = Scheduler::new(pool, chosen, order);
        steps.iter().for_each(|step| answer(&mut scheduler, step, &mut out));
    }
    Ok(Outcome::ok(out))
}

fn answer(scheduler: &mut Scheduler, step: &ReplayLine, out: &mut String) {
    match *step {
        ReplayLine::Begin(ref begin) => {
            let answer = answer_begin(scheduler, begin);
            note_layout(scheduler, begin.t, out);
            let _ = writeln!(out, "{}", begin.json());
            out.push_str(&event::line(&answer));
        }
        ReplayLine::Free { t, task } => {
            let task = TaskId(task);
            out.push_str(&event::line(&RunEvent::Sched(Sched::Free { t, task })));
            if let Err(why) = scheduler.free(task) {
                out.push_str(&event::line(&RunEvent::Sched(Sched::Refuse { t, task, why: why.to_string() })));
                return;
            }
            let grants = scheduler.retry();
            note_layout(scheduler, t, out);
            for grant in grants {
                out.push_str(&event::line(&RunEvent::Sched(Sched::Grant {
                    t,
                    task: grant.task,
                    dev: grant.device,
                })));
            }
        }
    }
}

fn answer_begin(scheduler: &mut Scheduler, begin: &Begin) -> RunEvent {
    let (t, task, job) = (begin.t, TaskId(begin.task), WorkerId(begin.job));
    let need = match Need::new(Bytes(begin.mem), begin.blocks, begin.threads) {
        Err(e) => return RunEvent::Sched(Sched::Refuse { t, task, why: e.to_string() }),
        Ok(need) => need.with_managed(begin.managed),
    };
    let (among, job_mem) = (Among::ALL, need.mem());
    let ask = Ask { task, job, need, job_mem, bound: None, among, isolated: false, holds: false };
    match scheduler.begin(ask) {
        Answer::Granted(dev) => RunEvent::Sched(Sched::Grant { t, task, dev }),
        Answer::Waits => RunEvent::Sched(Sched::Wait { t, task }),
        Answer::Refused(why) => RunEvent::Sched(Sched::Refuse { t, task, why: why.to_string() }),
        Answer::Crashed => RunEvent::Crash { t, task },
    }
}

/// Instances are made before what they were made for.
fn note_layout(scheduler: &mut Scheduler, t: f64, out: &mut String) {
    if scheduler.take_remade() {
        out.push_str(&event::line(&RunEvent::layout(t, scheduler.pool())));
    }
}

/// Reads a file of begins and frees. A line without `t` happens at 0.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<ReplayLine>, String> {
    let (mut steps, mut errors) = (Vec::new(), Vec::new());
    for object in objects(file, text) {
        match object {
            Ok((place, map)) => {
                let known: &[&str] = match map.get("ev").and_then(|ev| ev.as_str()) {
                    // What somebody else decided.
                    Some(ev) if OTHERS.contains(&ev) => continue,
                    Some("free") => &["ev", "t", "task", "pid", "uuid"],
                    _ => &["ev", "t", "task", "job", "mem", "managed", "blocks", "threads", "pid"],
                };
                let mut fields = Fields::new(&place, "", &map, known);
                steps.extend(step(&mut fields));
                errors.append(&mut fields.errors);
            }
            Err(e) => errors.push(e),
        }
    }
    if errors.is_empty() { Ok(steps) } else { Err(errors.join("\n")) }
}

fn step(fields: &mut Fields<'_>) -> Option<ReplayLine> {
    let t = if fields.has("t") { fields.seconds("t") } else { Some(0.0) };
    match fields.text("ev")? {
        "begin" => {
            let (task, job) = (fields.whole("task"), fields.whole("job"));
            let (mem, blocks, threads) =
                (fields.whole("mem"), fields.whole("blocks"), fields.whole("threads"));
            let managed = fields.managed();
            let (t, task, job, mem, managed) = (t?, task?, job?, mem?, managed?);
            Some(ReplayLine::Begin(Begin { t, task, job, mem, managed, blocks: blocks?, threads: threads? }))
        }
        "free" => Some(ReplayLine::Free { task: fields.whole("task")?, t: t? }),
        other => {
            fields.error("ev", &format!("found \"{other}\"; expected \"begin\" or \"free\""));
            None
        }
    }
}
