//! Finds the plan of `tessera plan reality`: by its record's file, by its name, or by its jobs.
//!
//! A submitted job has its part of the plan in its Comment, a job of the planner in its AdminComment.

use protocol::{AdminComment, CommentBody};
use std::fs;
use std::path::{Path, PathBuf};

use protocol::plan::PlannedPlace;

use super::note;
use super::place::Place;
use super::record::{SubmittedPlan, SubmittedTask};
use crate::options::range;
use crate::outcome::Failure;
use crate::slurm::{sacct, squeue};

/// The plan, and its record's file if it has one.
pub(super) fn plan(what: &str) -> Result<(SubmittedPlan, Option<PathBuf>), Failure> {
    let path = Path::new(what);
    let in_file = if path.exists() { Some(SubmittedPlan::read(path)) } else { None };
    match in_file {
        Some(Ok(record)) => Ok((record, Some(path.to_owned()))),
        // A plan has the name of its tasks' file.
        Some(Err(e)) => named(what)?.ok_or(e),
        None => match ids(what) {
            Some(ids) => of_jobs(&ids).map(|record| (record, None)),
            None => named(what)?.ok_or_else(|| {
                Failure::new(format!("{what}: no such file, and no plan of that name"))
                    .hint("give the file that `tessera plan submit` wrote, or jobs such as 12,15-20")
            }),
        },
    }
}

/// Reads `12,15-20`.
fn ids(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for part in text.split(',') {
        ids.extend(range(part).filter(|r| r.end() - r.start() <= 10_000)?);
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// The latest plan of a name: among the records in this directory, else among the caller's own jobs that Slurm still
/// knows. Other users' jobs do not count: their Comments may say anything.
fn named(name: &str) -> Result<Option<(SubmittedPlan, Option<PathBuf>)>, Failure> {
    let files = fs::read_dir(".").into_iter().flatten().flatten().map(|file| file.path());
    let is_record = |path: &PathBuf| path.extension().is_some_and(|e| e == "json");
    let records = files.filter(is_record).filter_map(|path| Some((SubmittedPlan::read(&path).ok()?, path)));
    let newest =
        records.filter(|(record, _)| record.batch == name).max_by_key(|(record, _)| record.submitted);
    if let Some((record, path)) = newest {
        return Ok(Some((record, Some(path))));
    }
    let found: Vec<_> =
        squeue::comments(None)?.into_iter().filter_map(|(job, comment)| note::parse(&comment, job)).collect();
    let found = found.into_iter().filter(|(record, _)| record.batch == note::plain(name));
    let mut plans: Vec<(SubmittedPlan, Vec<SubmittedTask>)> = Vec::new();
    for (record, entry) in found {
        match plans.iter_mut().find(|(known, _)| known.submitted == record.submitted) {
            Some((_, entries)) => entries.push(entry),
            None => plans.push((record, vec![entry])),
        }
    }
    let newest = plans.into_iter().max_by_key(|(record, _)| record.submitted);
    Ok(newest.map(|(record, entries)| (record.with(entries), None)))
}

/// The plan of these jobs, which must be one.
fn of_jobs(ids: &[u32]) -> Result<SubmittedPlan, Failure> {
    let mut comments = squeue::comments(Some(ids))?;
    let mut seen = squeue::jobs(Some(ids))?;
    let forgotten: Vec<u32> = ids.iter().copied().filter(|id| seen.iter().all(|job| job.id != *id)).collect();
    if !forgotten.is_empty() {
        // Comment is only there where the site keeps it: AccountingStoreFlags=job_comment.
        let kept = sacct::rows(&forgotten, [("Comment", 1024)])?;
        comments.extend(kept.into_iter().map(|(id, [comment])| (id, comment)));
        let job = |(id, [comment]): (u32, [String; 1])| squeue::QueuedJob {
            id,
            comment,
            ..squeue::QueuedJob::default()
        };
        seen.extend(sacct::rows(&forgotten, [("AdminComment", 2048)])?.into_iter().map(job));
    }
    let mut plan: Option<SubmittedPlan> = None;
    let mut entries = Vec::new();
    let same = |a: &SubmittedPlan, b: &SubmittedPlan| a.batch == b.batch && a.submitted == b.submitted;
    for &id in ids {
        let noted =
            comments.iter().find(|(job, _)| *job == id).and_then(|(job, comment)| note::parse(comment, *job));
        let of_planner = || seen.iter().find(|job| job.id == id).and_then(planners);
        // Ranges go over other people's jobs as well.
        let Some((record, entry)) = noted.or_else(of_planner) else { continue };
        let first = plan.get_or_insert_with(|| record.clone());
        if !same(first, &record) {
            let what = format!("job {id} belongs to plan {}, others to {}", record.batch, first.batch);
            return Err(Failure::new(what).hint("name the jobs of one plan"));
        }
        entries.push(entry);
    }
    let none = || {
        Failure::new("Slurm knows no plan for these jobs")
            .hint("Slurm forgets ended jobs; give the file that `tessera plan submit` wrote")
    };
    plan.map(|record| record.with(entries)).ok_or_else(none)
}

/// Reads the planner's plan for a job, in seconds since 1970; [`SubmittedPlan::with`] counts from the first begin.
#[expect(clippy::cast_precision_loss, reason = "seconds since the epoch")]
fn planners(job: &squeue::QueuedJob) -> Option<(SubmittedPlan, SubmittedTask)> {
    let record = SubmittedPlan::new("planner", "tessera", 0.0, 0.0, 0);
    let entry = |place, (begin, end): (u64, u64)| {
        SubmittedTask::found(job.id.to_string(), job.id, place, begin as f64, end as f64)
    };
    let comment = AdminComment::parse(&job.comment);
    if let Some(started) = comment.started() {
        let mut entry = entry(Place::got(&started.got)?, started.planned?);
        entry.elsewhere = Some(!started.why.contains(", at the planned place"));
        return Some((record, entry));
    }
    let CommentBody::Plan(plan) = comment.says else { return None };
    let PlannedPlace { node, start } = plan.place?;
    let (gpu, start) = (usize::from(start.gpu.0), start.start.0);
    let place = Place { node, gpu, profile: plan.size, start };
    Some((record, entry(place, plan.begin.zip(plan.end)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_jobs_reads_numbers_and_ranges() {
        assert_eq!(ids("12,15-17,12"), Some(vec![12, 15, 16, 17]));
        for bad in ["", "a", "3-1", "1,", "batch.csv", "0-4294967295", "-5"] {
            assert_eq!(ids(bad), None, "{bad}");
        }
    }
}
