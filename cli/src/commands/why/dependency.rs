//! The jobs that a job depends on, by the list that squeue shows: `afterok:12(unfulfilled),afterany:13_*(unfulfilled)`.

use std::collections::HashMap;

use geometry::JobId;

use crate::slurm::squeue::QueuedJob;

/// Most dependencies that are named.
const MOST_NAMED: usize = 4;

/// Says in a sentence for which job it waits; `None`: it depends on nothing that squeue shows.
pub(super) fn sentence(job: &QueuedJob, jobs: &HashMap<JobId, &QueuedJob>) -> Option<String> {
    let any = job.dependency.contains('?');
    let all: Vec<String> =
        job.dependency.split([',', '?']).filter_map(|one| words(one.trim(), job, jobs)).collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    let mut named = all.into_iter().take(MOST_NAMED).collect::<Vec<_>>();
    named.extend((more > 0).then(|| format!("{more} more")));
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
    let number: Option<u32> = id.split('_').next().and_then(|n| n.parse().ok());
    let other = number.and_then(|n| jobs.get(&JobId(n)));
    let now = other.map_or_else(String::new, |other| format!(", which is {} ({})", other.state, other.user));
    let failed = if state.starts_with("failed") { ", which can never happen" } else { "" };
    Some(format!("job {id} to {end}{later}{now}{failed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
