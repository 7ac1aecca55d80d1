//! The jobs that a job depends on, by the list that squeue shows: `afterok:12(unfulfilled),afterany:13_*(unfulfilled)`.

use std::collections::HashMap;

use geometry::JobId;

use crate::slurm::squeue::{self, QueuedJob};

/// Most dependencies that are named.
const MOST_NAMED: usize = 4;

/// Says in a sentence for which job it waits; `None`: it depends on nothing that squeue shows.
pub(super) fn sentence(job: &QueuedJob, jobs: &HashMap<JobId, &QueuedJob>) -> Option<String> {
    let any = job.dependency.contains('?');
    // An entry ends with its state. Without one, squeue has cut it, perhaps within the number.
    let (entire, cut): (Vec<&str>, Vec<&str>) =
        job.dependency.split([',', '?']).map(str::trim).partition(|one| one.ends_with(')'));
    let all: Vec<String> = entire.into_iter().filter_map(|one| words(one, job, jobs)).collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    let at_least = if cut.is_empty() { "" } else { "at least " };
    let mut named = all.into_iter().take(MOST_NAMED).collect::<Vec<_>>();
    named.extend((more > 0).then(|| format!("{at_least}{more} more")));
    let joined = named.join(if any { ", or for " } else { ", and for " });
    (!named.is_empty()).then(|| format!("It waits for {joined}."))
}

/// Says a dependency in words; `None` for one that is fulfilled, or that no release of Slurm writes so.
fn words(text: &str, job: &QueuedJob, jobs: &HashMap<JobId, &QueuedJob>) -> Option<String> {
    let (dependency, state) = text.split_once('(').unwrap_or((text, ""));
    if state.starts_with("fulfilled") {
        return None;
    }
    if dependency == "singleton" {
        return Some(format!("the end of all other jobs of {} with its name", job.user));
    }
    let (kind, id) = dependency.split_once(':')?;
    let end = match kind {
        "after" => "begin",
        "afterany" => "end",
        "afterok" => "end without an error",
        "afternotok" => "fail",
        "aftercorr" => "end without an error in the same task",
        "afterburstbuffer" => "write its files back",
        _ => return None,
    };
    // `12_*` are all tasks of an array, `12+5` is five minutes later.
    let (id, later) = id.split_once('+').map_or((id, None), |(id, later)| (id, Some(later)));
    let later = later.map_or_else(String::new, |minutes| format!(", {minutes} min before"));
    // Tasks of an array have a state each, and no state is that of all.
    let other = match id.split_once('_') {
        None => id.parse().ok().and_then(|n| jobs.get(&JobId(n)).copied()),
        Some((array, task)) => array
            .parse()
            .ok()
            .zip(task.parse().ok())
            .and_then(|(array, task)| squeue::task_of(jobs.values().copied(), array, task)),
    };
    let now = other.map_or_else(String::new, |other| format!(", which is {} ({})", other.state, other.user));
    let failed = if state.starts_with("failed") { ", which can never happen" } else { "" };
    Some(format!("job {id} to {end}{later}{now}{failed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_waited_for_has_its_own_state() {
        let task = |id, tasks: &str, state: &str| QueuedJob {
            id,
            array: Some((12, tasks.to_owned())),
            user: "bob".to_owned(),
            state: state.to_owned(),
            ..QueuedJob::default()
        };
        let all = [task(12, "4-9", "PENDING"), task(13, "3", "RUNNING")];
        let jobs: HashMap<JobId, &QueuedJob> = all.iter().map(|job| (JobId(job.id), job)).collect();
        let said = |dependency: &str| {
            let job = QueuedJob { dependency: dependency.to_owned(), ..QueuedJob::default() };
            sentence(&job, &jobs).unwrap()
        };
        assert!(said("afterany:12_3(unfulfilled)").ends_with("to end, which is RUNNING (bob)."));
        assert!(said("afterany:12_5(unfulfilled)").ends_with("to end, which is PENDING (bob)."));
        assert_eq!(said("afterany:12_*(unfulfilled)"), "It waits for job 12_* to end.");
    }

    #[test]
    fn the_job_that_is_waited_for_is_named() {
        let other =
            QueuedJob { id: 12, user: "bob".to_owned(), state: "RUNNING".to_owned(), ..QueuedJob::default() };
        let jobs: HashMap<JobId, &QueuedJob> = [(JobId(12), &other)].into();
        let said = |dependency: &str| {
            let job = QueuedJob {
                dependency: dependency.to_owned(),
                user: "alice".to_owned(),
                ..QueuedJob::default()
            };
            sentence(&job, &jobs)
        };
        assert_eq!(
            said("afterok:12(unfulfilled)").as_deref(),
            Some("It waits for job 12 to end without an error, which is RUNNING (bob).")
        );
        assert_eq!(
            said("afterany:13_*(unfulfilled)?after:14+5(unfulfilled)").as_deref(),
            Some("It waits for job 13_* to end, or for job 14 to begin, 5 min before.")
        );
        assert_eq!(
            said("singleton(unfulfilled),afterok:9(fulfilled)").as_deref(),
            Some("It waits for the end of all other jobs of alice with its name.")
        );
        assert!(said("afternotok:9(failed)").unwrap().contains("can never happen"));
        assert_eq!([said(""), said("(null)"), said("something:new")], [None, None, None]);
        let many = (1..=9).map(|n| format!("afterok:{n}(unfulfilled)")).collect::<Vec<_>>().join(",");
        assert!(said(&many).unwrap().ends_with(", and for 5 more."));
        let cut = said(&format!("{many},afterok:1")).unwrap();
        assert!(cut.ends_with(", and for at least 5 more."), "{cut}");
        assert_eq!(
            said("afterok:9(unfulfilled),afterok:12").as_deref(),
            Some("It waits for job 9 to end without an error."),
            "12 may be the beginning of a number"
        );
    }
}
