//! Arguments of sbatch for each job of a plan.

use super::args::CarryArgs;
use super::batch::{Batch, seconds};
use super::jobs::PlannedJob;
use super::record::{SubmittedPlan, SubmittedTask};
use super::{note, sbatch_options};
use crate::files::read_text;
use crate::outcome::Failure;

/// The work of a job.
pub(super) enum Work {
    /// A shell command.
    Wrap(String),
    /// A batch script's text.
    Script(String),
}

impl Work {
    /// The script's text; `None` for a command.
    pub(super) fn script(&self) -> Option<&str> {
        if let Self::Script(text) = self { Some(text) } else { None }
    }
}

/// Lists the work of each job, in the order of the jobs.
pub(super) fn works(batch: &Batch, jobs: &[PlannedJob], args: &CarryArgs) -> Result<Vec<Work>, Failure> {
    let script = args.script.as_deref().map(read_text).transpose()?;
    sbatch_options::check_script(script.as_deref().unwrap_or_default())?;
    let uses_name = script.iter().chain(&args.sbatch).any(|t| t.contains(TASK));
    let one = |job: &PlannedJob| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        // The name goes into a script: it must not say anything there.
        if uses_name && !(job.name.chars().all(plain) && job.name.starts_with(|c: char| c != '-')) {
            let what = format!("job {:?}: this name cannot replace {TASK}", job.name);
            return Err(Failure::new(what).hint("use letters, digits, dots, underscores and hyphens"));
        }
        match (&batch.tasks[job.task].command, &script) {
            (Some(command), None) => Ok(Work::Wrap(command.clone())),
            (None, Some(script)) => Ok(Work::Script(script.replace(TASK, &job.name))),
            (Some(_), Some(_)) => {
                Err(Failure::new(format!("job {}: it has a command, and --script is given", job.name)))
            }
            (None, None) => Err(Failure::new(format!("job {}: it has no command", job.name))
                .hint("add a last column command to the file of jobs, or give --script FILE")),
        }
    };
    jobs.iter().map(one).collect()
}

/// Stands for the task's name in a script and in options.
const TASK: &str = "{task}";

/// The job's Comment, unless the user gives it another.
pub(super) fn note(
    record: &SubmittedPlan,
    job: &PlannedJob,
    work: &Work,
    args: &CarryArgs,
) -> Option<String> {
    let script = work.script().unwrap_or_default();
    let text = || note::text(record, &SubmittedTask::new(job, 0, Vec::new()));
    (!sbatch_options::has_comment(args, script)).then(text)
}

/// The arguments of sbatch; `id` gives an earlier job's number.
pub(super) fn words(
    job: &PlannedJob,
    work: &Work,
    args: &CarryArgs,
    note: Option<&str>,
    id: &dyn Fn(usize) -> String,
) -> Vec<String> {
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--nodelist={}", job.place.node),
        format!("--gpu-isolation=mig:{}", job.place.profile),
        format!("--gpu-place={}@{}", job.place.gpu, job.place.start),
    ];
    words.extend(note.map(|note| format!("--comment={note}")));
    let running = job.after_running.iter().map(ToString::to_string);
    let after: Vec<String> = running.chain(job.after.iter().map(|&a| id(a))).collect();
    if !after.is_empty() {
        words.push(format!("--dependency=afterany:{}", after.join(":")));
    }
    if let Some(factor) = args.time_limit {
        words.push(format!("--time={}", minutes(seconds(job.end - job.begin) * factor)));
    }
    words.extend(args.sbatch.iter().map(|o| o.replace(TASK, &job.name)));
    if let Work::Wrap(command) = work {
        words.push(format!("--wrap={command}"));
    }
    words
}

/// Seconds as minutes, rounded up, at least 1.
fn minutes(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    let whole = (seconds / 60.0).ceil() as u64;
    whole.max(1)
}

/// The command as a person would type it.
pub(super) fn typed(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:@.,/+%".contains(c);
        if word.chars().all(plain) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    std::iter::once("sbatch".to_owned()).chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_are_whole_minutes() {
        assert_eq!([0.0, 59.0, 60.0, 61.0, 1e30].map(super::minutes), [1, 1, 1, 2, u64::MAX]);
    }
}
