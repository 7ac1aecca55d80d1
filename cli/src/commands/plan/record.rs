//! A plan as it was submitted, kept in a file, so that reality can be compared with it later.

use std::path::Path;

use plugin_rt::read_file::read_small;
use serde::{Deserialize, Serialize};

use super::batch::seconds;
use super::jobs::PlannedJob;
use super::place::Place;
use crate::files::{TABLE, write_text};
use crate::outcome::Failure;
use crate::render::has_control;

/// The format of the file; there has been one so far.
const VERSION: u32 = 1;

/// A submitted plan. Times are seconds from the plan's beginning unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SubmittedPlan {
    version: u32,
    pub(super) batch: String,
    pub(super) policy: String,
    pub(super) makespan: f64,
    /// Time that was added to each job's own, s.
    pub(super) overhead: f64,
    /// When submission began, seconds since the epoch.
    pub(super) submitted: u64,
    pub(super) jobs: Vec<SubmittedTask>,
}

/// A submitted job: the plan for it, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SubmittedTask {
    pub(super) task: String,
    pub(super) job: u32,
    /// The planned instance.
    #[serde(flatten)]
    pub(super) place: Place,
    /// Jobs of the plan that it follows.
    pub(super) after: Vec<u32>,
    pub(super) begin: f64,
    pub(super) end: f64,
    /// The actual place, in the words of AdminComment, once that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) got: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) state: Option<String>,
    /// Seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) real_begin: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) real_end: Option<u64>,
    /// True if it ran elsewhere than planned; only if the planned place itself is not known any more.
    #[serde(skip)]
    pub(super) elsewhere: Option<bool>,
}

impl SubmittedTask {
    /// A job just submitted.
    pub(super) fn new(planned: &PlannedJob, job: u32, after: Vec<u32>) -> Self {
        Self {
            after,
            ..Self::found(
                planned.name.clone(),
                job,
                planned.place.clone(),
                seconds(planned.begin),
                seconds(planned.end),
            )
        }
    }

    /// A job whose plan was found in Slurm.
    pub(super) fn found(task: String, job: u32, place: Place, begin: f64, end: f64) -> Self {
        Self {
            task,
            job,
            place,
            after: Vec::new(),
            begin,
            end,
            got: None,
            state: None,
            real_begin: None,
            real_end: None,
            elsewhere: None,
        }
    }

    /// True if it ran elsewhere than planned; `None` while that is not known.
    pub(super) fn moved(&self) -> Option<bool> {
        self.elsewhere.or_else(|| self.got.as_ref().map(|got| Place::got(got).as_ref() != Some(&self.place)))
    }

    pub(super) fn ended(&self) -> bool {
        self.real_end.is_some()
    }
}

impl SubmittedPlan {
    pub(super) fn new(batch: &str, policy: &str, makespan: f64, overhead: f64, submitted: u64) -> Self {
        let (batch, policy) = (batch.to_owned(), policy.to_owned());
        Self { version: VERSION, batch, policy, makespan, overhead, submitted, jobs: Vec::new() }
    }

    /// The plan of these jobs, with its times from its beginning on.
    pub(super) fn with(mut self, mut jobs: Vec<SubmittedTask>) -> Self {
        // Those of `--submit` count from it already.
        let zero =
            if self.submitted > 0 { 0.0 } else { jobs.iter().map(|e| e.begin).fold(f64::MAX, f64::min) };
        for entry in &mut jobs {
            entry.begin -= zero;
            entry.end -= zero;
        }
        self.makespan = jobs.iter().map(|e| e.end).fold(0.0, f64::max);
        self.jobs = jobs;
        self
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let text = read_small(path, TABLE).map_err(|e| wrong(e.to_string()))?;
        let hint = "`tessera plan reality` reads what `tessera plan submit` wrote";
        let record: Self = serde_json::from_str(&text)
            .map_err(|e| wrong(format!("not a submitted plan: {e}")).hint(hint))?;
        if record.version != VERSION {
            return Err(wrong(format!("version {}, expected {VERSION}", record.version)));
        }
        if record.has_control() {
            return Err(wrong("a text in it has control characters".to_owned()).hint(hint));
        }
        Ok(record)
    }

    /// True if a text that people are shown has control characters; in JSON they are escaped.
    fn has_control(&self) -> bool {
        let of_job = |job: &SubmittedTask| {
            let seen = [&job.got, &job.state].map(|text| text.as_deref().unwrap_or_default());
            [&job.task, &job.place.to_string(), seen[0], seen[1]].concat()
        };
        let texts = [self.batch.clone(), self.policy.clone()].into_iter().chain(self.jobs.iter().map(of_job));
        texts.into_iter().any(|text| has_control(&text))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        // If the disk is full, the old text stays: it may be the only record of submitted jobs.
        write_text(path, &text)
    }
}
