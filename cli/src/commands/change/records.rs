//! Slurm's records that a change of a job's request concerns.
//!
//! slurmctld hands the GRES of a change to the first record that it changes and leaves the others as they are. So tasks of an array that have
//! records of their own, and components of heterogeneous jobs, are changed one by one. squeue shows several records of an array as one, so
//! `scontrol show job` is read. A user's text in there can look like a record: what is changed has the number that was asked for in any case.

use protocol::AdminComment;

use crate::outcome::Failure;
use crate::slurm::scontrol::{self, JobRecord};
use crate::slurm::squeue::{has_task, is_waiting, listed_for_scontrol};

/// A job as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    job: u32,
    part: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    Task(u32),
    Component(u32),
}

/// Reads `4711`, `4711_2` or `4711+1`.
pub(super) fn number(text: &str) -> Result<Number, String> {
    let read = |digits: &str| {
        digits.parse().map_err(|_| "expected a number such as 4711, 4711_2 or 4711+1".to_owned())
    };
    let (job, part) = match (text.split_once('_'), text.split_once('+')) {
        (Some((job, task)), _) => (job, Which::Task(read(task)?)),
        (None, Some((job, component))) => (job, Which::Component(read(component)?)),
        (None, None) => (text, Which::All),
    };
    Ok(Number { job: read(job)?, part })
}

/// A record that waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Number, as people write it.
    pub(super) number: String,
    /// Number, as `scontrol update` takes it.
    pub(super) to_update: String,
    /// Request as AdminComment shows it.
    pub(super) asked: Option<String>,
    /// A task of it, if it is of an array.
    task: Option<u32>,
    /// Number of the record.
    id: u32,
    of: Number,
}

impl Waiting {
    /// Gives the job as squeue lists it now: its number, or that of its array with a task.
    pub(super) fn in_queue(&self) -> (u32, Option<u32>) {
        let named = if let Which::Task(task) = self.of.part { Some(task) } else { None };
        match self.task.or(named) {
            Some(task) => (self.of.job, Some(task)),
            None => (self.id, None),
        }
    }

    /// Reads the AdminComment that the record has now. A change can have given a task a record of its own.
    pub(super) fn comment_now(&self) -> Option<AdminComment> {
        let all = scontrol::job_records(self.of.job).ok()?;
        let named = self.task.map_or(self.of.part, Which::Task);
        let found = all.iter().find(|record| named.is(record, self.of.job))?;
        Some(AdminComment::parse(&found.comment))
    }
}

impl Which {
    fn is(self, record: &JobRecord, job: u32) -> bool {
        match self {
            Which::All => true,
            Which::Task(task) => {
                record.array.as_ref().is_some_and(|(array, tasks)| *array == job && has_task(tasks, task))
            }
            Which::Component(n) => record.component == Some(n),
        }
    }
}

/// Records of a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundJobs {
    pub(super) pending: Vec<Waiting>,
    /// How many have started or ended.
    pub(super) started: usize,
}

/// Finds the records of a job.
///
/// # Errors
///
/// Slurm does not know the job, none of it waits, or it is heterogeneous and no component is named.
pub(super) fn records(of: Number) -> Result<FoundJobs, Failure> {
    among(&scontrol::job_records(of.job)?, of)
}

fn among(all: &[JobRecord], of: Number) -> Result<FoundJobs, Failure> {
    let Number { job, part } = of;
    let found: Vec<&JobRecord> = all.iter().filter(|record| part.is(record, job)).collect();
    let Some(first) = found.first() else {
        return Err(
            Failure::new(format!("Slurm knows no job {}", shown(of))).hint("squeue shows the jobs that wait")
        );
    };
    if first.component.is_some() && part == Which::All {
        return Err(Failure::new(format!(
            "job {job} is heterogeneous: each component has a request of its own"
        ))
        .hint(format!("name one, such as {job}+0")));
    }
    let pending: Vec<&&JobRecord> = found.iter().filter(|record| is_waiting(&record.state)).collect();
    if pending.is_empty() {
        return Err(Failure::new(format!("job {} is {}: it keeps its GPUs", shown(of), first.state))
            .hint("cancel it and submit it again with the new options"));
    }
    let started = found.len() - pending.len();
    let pending = pending.into_iter().map(|record| waiting(record, of)).collect();
    Ok(FoundJobs { pending, started })
}

fn waiting(record: &JobRecord, of: Number) -> Waiting {
    let asked = AdminComment::parse(&record.comment).asks;
    let (number, to_update, task) = match (of.part, &record.array) {
        (Which::All, Some((array, tasks))) if *array == of.job => {
            let first = tasks.split([',', '-', ':']).next().and_then(|digits| digits.parse().ok());
            let single = tasks.bytes().all(|b| b.is_ascii_digit());
            let of =
                |tasks: &str| if single { format!("{array}_{tasks}") } else { format!("{array}_[{tasks}]") };
            (of(tasks), of(&listed_for_scontrol(tasks).unwrap_or_else(|| tasks.clone())), first)
        }
        _ => (shown(of), shown(of), None),
    };
    Waiting { number, to_update, asked, task, id: record.id, of }
}

fn shown(of: Number) -> String {
    let Number { job, part } = of;
    match part {
        Which::All => job.to_string(),
        Which::Task(task) => format!("{job}_{task}"),
        Which::Component(n) => format!("{job}+{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tasks: &str, state: &str) -> JobRecord {
        JobRecord { array: Some((10, tasks.to_owned())), state: state.to_owned(), ..JobRecord::default() }
    }

    fn to_change(all: &[JobRecord], named: &str) -> Result<(Vec<String>, usize), String> {
        let found = among(all, number(named).unwrap()).map_err(|failure| failure.what().to_owned())?;
        Ok((found.pending.into_iter().map(|record| record.to_update).collect(), found.started))
    }

    #[test]
    fn each_waiting_record_of_an_array_is_changed_by_itself() {
        let all = [task("4-7", "PENDING"), task("1", "RUNNING"), task("2", "PENDING")];
        assert_eq!(to_change(&all, "10"), Ok((["10_[4-7]", "10_2"].map(str::to_owned).to_vec(), 1)));
        let steps = [task("0-8:4", "PENDING")];
        assert_eq!(
            to_change(&steps, "10"),
            Ok((vec!["10_[0,4,8]".to_owned()], 0)),
            "scontrol takes no steps"
        );
        assert_eq!(to_change(&all, "10_5"), Ok((vec!["10_5".to_owned()], 0)));
        assert_eq!(to_change(&all, "10_1"), Err("job 10_1 is RUNNING: it keeps its GPUs".to_owned()));
        assert_eq!(to_change(&all, "10_9"), Err("Slurm knows no job 10_9".to_owned()));
        // A task by the number of its own record.
        assert_eq!(to_change(&all[2..], "12"), Ok((vec!["12".to_owned()], 0)));
        let plain = JobRecord { state: "PENDING".to_owned(), ..JobRecord::default() };
        assert_eq!(to_change(&[plain], "20"), Ok((vec!["20".to_owned()], 0)));
        let held = JobRecord { state: "REQUEUE_HOLD".to_owned(), ..JobRecord::default() };
        assert_eq!(to_change(&[held], "20"), Ok((vec!["20".to_owned()], 0)));
        assert_eq!(to_change(&[], "20"), Err("Slurm knows no job 20".to_owned()));
    }

    #[test]
    fn a_component_of_a_heterogeneous_job_is_named() {
        let all = [0, 1].map(|n| JobRecord {
            component: Some(n),
            state: "PENDING".to_owned(),
            ..JobRecord::default()
        });
        assert_eq!(to_change(&all, "30+1"), Ok((vec!["30+1".to_owned()], 0)));
        let why = "job 30 is heterogeneous: each component has a request of its own";
        assert_eq!(to_change(&all, "30"), Err(why.to_owned()));
        assert_eq!(to_change(&all, "30+2"), Err("Slurm knows no job 30+2".to_owned()));
    }

    #[test]
    fn other_texts_are_no_jobs() {
        for text in ["", "x", "10_", "10_x", "10+", "10_1+1", "-1"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
