//! Finds out what became of each job, and keeps what shows it.

use std::collections::BTreeMap;
use std::path::Path;

use lab::{Cluster, HarnessError, JobId, User};

use super::outcome::{StreamOutcome, lines};
use super::submit::Submitted;
use crate::command::{TaskError, at};

/// Collects what the controller and the scripts' traces say of each job.
pub(super) fn tell(
    cluster: &Cluster,
    jobs: &[Submitted],
    outcome: &mut StreamOutcome,
) -> Result<(), HarnessError> {
    let out = cluster.run(User::Root, "scontrol", &["-o", "show", "job"])?.ok()?;
    let word = |line: &str, key: &str| -> String {
        line.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default().to_owned()
    };
    let known: BTreeMap<String, &str> = out.lines().map(|line| (word(line, "JobId="), line)).collect();
    // A number that was given out twice is its last owner's.
    let last: BTreeMap<JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (job.job, at)).collect();
    outcome.submitted = jobs.len();
    for (at, Submitted { job, kind, user }) in jobs.iter().enumerate() {
        let line = known.get(&job.to_string()).copied().unwrap_or_default();
        if line.is_empty() || last.get(job) != Some(&at) {
            outcome.forgotten += 1;
            continue;
        }
        let restarts: usize = word(line, "Restarts=").parse().unwrap_or(0);
        outcome.requeued += usize::from(restarts > 0);
        let count = |name: &str| {
            let trace = std::fs::read_to_string(cluster.layout().jobs().join(format!("{name}.{job}")));
            trace.map_or(0, |text| text.lines().count())
        };
        let begun = count("ran");
        outcome.without_prolog += usize::from(begun > count("prolog"));
        outcome.begun_again += usize::from(begun > restarts + 1);
        let (state, reason) = (word(line, "JobState="), word(line, "Reason="));
        let said = cluster.output(*job);
        let text = format!(
            "job {job} ({kind}, {}) is {state} {reason}, restarts {restarts}, begun {begun} times: {}",
            user.name(),
            said.trim()
        );
        match state.as_str() {
            "COMPLETED" => outcome.completed += 1,
            "PENDING" | "RUNNING" | "COMPLETING" | "REQUEUED" => outcome.unended.push(text),
            _ => outcome.failed.push(text),
        }
    }
    Ok(())
}

/// Writes what the files of a cluster do not hold.
pub(super) fn evidence(cluster: &Cluster, dir: &Path, outcome: &StreamOutcome) -> Result<(), TaskError> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        at(&path, std::fs::write(&path, text))
    };
    for what in ["job", "node"] {
        let done = cluster.run(User::Root, "scontrol", &["-d", "show", what])?;
        write(&format!("show-{what}.txt"), done.stdout)?;
    }
    write("outcome.txt", lines(outcome))
}
