//! `tessera plan reality`: plan against reality, when each task began and ended, and when it should have, as in the paper's Table 3.
//!
//! Planned times count from the plan's beginning, actual ones from the first job's begin. Slurm counts in seconds.

use protocol::AdminComment;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::find;
use super::record::{SubmittedPlan, SubmittedTask};
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::render::table;
use crate::slurm::{sacct, squeue};

/// How often `--wait` asks Slurm.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(what: &str, as_json: bool) -> Result<Outcome, Failure> {
    let (mut record, path) = find::plan(what)?;
    look(&mut record)?;
    if let Some(path) = path {
        // What is known now may be forgotten by Slurm when somebody asks next.
        let _ = record.write(&path);
    }
    if as_json {
        return Ok(Outcome::json(&value(&record), status(&record)));
    }
    Ok(Outcome { text: text(&record), status: status(&record) })
}

/// 0 if every task has ended well.
pub(super) fn status(record: &SubmittedPlan) -> u8 {
    u8::from(!record.jobs.iter().all(|e| e.state.as_deref() == Some("COMPLETED")))
}

/// Waits until every job has ended.
pub(super) fn follow(record: &mut SubmittedPlan) -> Result<(), Failure> {
    let mut failures = 0;
    let bar = Progress::new(record.jobs.len());
    loop {
        let looked = look(record);
        let over = record.jobs.iter().filter(|e| e.ended() || e.state.as_deref() == Some(GONE)).count();
        bar.at(over);
        match looked {
            Ok(()) if over == record.jobs.len() => return Ok(()),
            Ok(()) => failures = 0,
            // slurmctld may be away for a while; the jobs go on.
            Err(e) if failures > 60 => return Err(e),
            Err(_) => failures += 1,
        }
        thread::sleep(INTERVAL);
    }
}

/// The state of a job that neither slurmctld nor sacct knows.
const GONE: &str = "unknown";

/// Asks Slurm about the jobs that have not ended.
fn look(record: &mut SubmittedPlan) -> Result<(), Failure> {
    let open: Vec<u32> = record.jobs.iter().filter(|e| !e.ended()).map(|e| e.job).collect();
    if open.is_empty() {
        return Ok(());
    }
    let seen = squeue::jobs(Some(&open))?;
    let mut forgotten = Vec::new();
    for entry in record.jobs.iter_mut().filter(|e| !e.ended()) {
        match seen.iter().find(|j| j.id == entry.job) {
            Some(job) => note(entry, &job.state, job.start, job.end.filter(|_| job.ended()), &job.comment),
            None => forgotten.push(entry.job),
        }
    }
    if !forgotten.is_empty() {
        from_sacct(record, &forgotten)?;
    }
    Ok(())
}

fn note(entry: &mut SubmittedTask, state: &str, begin: Option<u64>, end: Option<u64>, comment: &str) {
    entry.state = Some(state.split(' ').next().unwrap_or(state).to_owned());
    entry.real_end = end;
    // A pending job has an expected begin; one cancelled before it began has its end as such.
    let never = state == "PENDING" || (state.starts_with("CANCELLED") && begin == end);
    entry.real_begin = begin.filter(|_| !never);
    entry.got =
        AdminComment::parse(comment).started().map(|started| started.got.clone()).or(entry.got.take());
}

/// Asks sacct about jobs that slurmctld has forgotten (`MinJobAge` after their end). Without accounting they stay
/// unknown.
fn from_sacct(record: &mut SubmittedPlan, ids: &[u32]) -> Result<(), Failure> {
    let columns = [("State", 32), ("Start", 22), ("End", 22), ("AdminComment", 2048)];
    let rows = sacct::rows(ids, columns)?;
    for entry in record.jobs.iter_mut().filter(|e| ids.contains(&e.job)) {
        match rows.get(&entry.job) {
            Some([state, start, end, comment]) => {
                note(entry, state, start.parse().ok(), end.parse().ok(), comment);
            }
            None => entry.state = Some(GONE.to_owned()),
        }
    }
    Ok(())
}

/// Returns the instant from which real times count.
fn zero(record: &SubmittedPlan) -> Option<u64> {
    record.jobs.iter().filter_map(|e| e.real_begin).min()
}

#[expect(clippy::cast_precision_loss, reason = "seconds since the epoch")]
fn since(zero: Option<u64>, at: Option<u64>) -> Option<f64> {
    Some(at? as f64 - zero? as f64)
}

fn makespan(record: &SubmittedPlan) -> Option<f64> {
    let end = record.jobs.iter().map(|e| e.real_end).max()?;
    since(zero(record), end).filter(|_| record.jobs.iter().all(SubmittedTask::ended))
}

/// How much later than planned, in percent of the plan.
fn deviation(planned: f64, real: Option<f64>) -> Option<f64> {
    real.map(|real| 100.0 * (real - planned) / planned)
}

pub(super) fn text(record: &SubmittedPlan) -> String {
    let zero = zero(record);
    let shown = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
    let heads = ["name", "job", "state", "instance", "begin", "actual", "end", "actual", "deviation"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut entries: Vec<&SubmittedTask> = record.jobs.iter().collect();
    entries.sort_by(|a, b| a.end.total_cmp(&b.end));
    for entry in entries {
        let (begin, end) = (since(zero, entry.real_begin), since(zero, entry.real_end));
        let off = deviation(entry.end, end).map_or("-".to_owned(), |d| format!("{d:+.2} %"));
        let moved = if entry.moved() == Some(true) { " (moved)" } else { "" };
        rows.push(vec![
            entry.task.clone(),
            entry.job.to_string(),
            entry.state.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{}{moved}", entry.place),
            format!("{:.2}", entry.begin),
            shown(begin, 0),
            format!("{:.2}", entry.end),
            shown(end, 0),
            off,
        ]);
    }
    table::render(&rows, &[1, 4, 5, 6, 7, 8]) + "\n" + &summary(record)
}

fn summary(record: &SubmittedPlan) -> String {
    let planned = record.makespan;
    let mut text = match makespan(record) {
        Some(real) => {
            let off = deviation(planned, Some(real)).unwrap_or(0.0);
            format!("{}: planned {planned:.2} s, actual {real:.0} s: {off:+.2} %\n", record.batch)
        }
        None => {
            let ended = record.jobs.iter().filter(|e| e.ended()).count();
            format!(
                "{}: planned {planned:.2} s; {ended} of {} jobs have ended\n",
                record.batch,
                record.jobs.len()
            )
        }
    };
    if let Some(extra) = extra(record) {
        let was = record.overhead;
        text += &format!("per job, in addition to its own time: planned {was:.2} s, actual {extra:.2} s\n");
    }
    let moved = record.jobs.iter().filter(|e| e.moved() == Some(true)).count();
    if moved > 0 {
        text += &format!("{moved} ran on another instance, because the planned one was taken\n");
    }
    let unknown: Vec<String> =
        record.jobs.iter().filter(|e| e.state.as_deref() == Some(GONE)).map(|e| e.job.to_string()).collect();
    if !unknown.is_empty() {
        text += &format!("neither slurmctld nor sacct knows these jobs any more: {}\n", unknown.join(" "));
    }
    text
}

/// Seconds that Slurm added to a task on average: from the end of the last job that it followed to its own end, less its
/// planned time. Only completed tasks count.
fn extra(record: &SubmittedPlan) -> Option<f64> {
    let zero = zero(record);
    let mut all = Vec::new();
    for entry in record.jobs.iter().filter(|e| e.state.as_deref() == Some("COMPLETED")) {
        let ends: Vec<Option<u64>> =
            record.jobs.iter().filter(|e| entry.after.contains(&e.job)).map(|e| e.real_end).collect();
        let Some(before) = ends.into_iter().collect::<Option<Vec<u64>>>().and_then(|e| e.into_iter().max())
        else {
            continue;
        };
        if let (Some(from), Some(to)) = (since(zero, Some(before)), since(zero, entry.real_end)) {
            all.push(to - from - (entry.end - entry.begin - record.overhead));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "as many as jobs")]
    let count = all.len() as f64;
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / count)
}

fn value(record: &SubmittedPlan) -> serde_json::Value {
    let zero = zero(record);
    let job = |e: &SubmittedTask| {
        let (begin, end) = (since(zero, e.real_begin), since(zero, e.real_end));
        json!({
            "task": e.task, "job": e.job, "state": e.state, "node": e.place.node, "gpu": e.place.gpu, "profile": e.place.profile,
            "start": e.place.start, "moved": e.moved(), "begin": e.begin, "end": e.end, "real_begin": begin,
            "real_end": end, "deviation_percent": deviation(e.end, end),
        })
    };
    let real = makespan(record);
    json!({
        "id": record.batch, "policy": record.policy, "makespan": record.makespan, "real_makespan": real,
        "deviation_percent": deviation(record.makespan, real), "overhead": record.overhead,
        "real_overhead": extra(record), "tasks": record.jobs.iter().map(job).collect::<Vec<_>>(),
    })
}
