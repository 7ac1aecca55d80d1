//! A planned task in its job's Comment, so that a plan can be found again by its name or by its jobs.
//!
//! ```text
//! tessera-plan v1 plan=batch.csv at=1790000000 policy=tessera overhead=0.3 task=lavamd on=n1:1/2g.10gb@4 begin=0.17 end=31.47
//! ```
//!
//! Users may change the Comment: it is only shown to them, and decides nothing.

use super::place::Place;
use super::record::{SubmittedPlan, SubmittedTask};

const BEGIN: &str = "tessera-plan v1 ";
const KEYS: [&str; 8] = ["plan", "at", "policy", "overhead", "task", "on", "begin", "end"];
/// Longest name, in bytes.
const MAX_NAME: usize = 64;

/// The name of a plan or task as a note has it. Other characters become `_`, because they could end the word.
pub(super) fn plain(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(kept).take(MAX_NAME).collect()
}

/// The note of one job of a plan.
pub(super) fn text(record: &SubmittedPlan, entry: &SubmittedTask) -> String {
    let Place { node, gpu, profile, start } = &entry.place;
    let place = format!("{node}:{gpu}/{profile}@{start}");
    let values = [
        plain(&record.batch),
        record.submitted.to_string(),
        record.policy.clone(),
        record.overhead.to_string(),
        plain(&entry.task),
        place,
        entry.begin.to_string(),
        entry.end.to_string(),
    ];
    let fields: Vec<String> = KEYS.iter().zip(values).map(|(key, value)| format!("{key}={value}")).collect();
    format!("{BEGIN}{}", fields.join(" "))
}

/// Reads a note: the plan without jobs, and this job's entry. `None` for any other Comment.
pub(super) fn parse(comment: &str, job: u32) -> Option<(SubmittedPlan, SubmittedTask)> {
    let mut words = comment.strip_prefix(BEGIN)?.split(' ');
    let mut next = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
    let (plan, at) = (next("plan")?, next("at")?.parse().ok()?);
    let (policy, overhead) = (next("policy")?, seconds(next("overhead")?)?);
    let (task, on) = (next("task")?, next("on")?);
    let (begin, end) = (seconds(next("begin")?)?, seconds(next("end")?)?);
    let (node, rest) = on.rsplit_once(':')?;
    let record = SubmittedPlan::new(plan, policy, 0.0, overhead, at);
    Some((record, SubmittedTask::found(task.to_owned(), job, Place::parse(node, rest)?, begin, end)))
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let place = Place { node: "n1".to_owned(), gpu: 1, profile: "1g.5gb+me".to_owned(), start: 4 };
        let entry = SubmittedTask::found("a task, the first".to_owned(), 7, place, 0.17, 31.47);
        let record = SubmittedPlan::new("my batch.csv", "fixpart:4,2,1", 50.0, 0.3, 1_790_000_000);
        let text = text(&record, &entry);
        assert_eq!(
            text,
            "tessera-plan v1 plan=my_batch.csv at=1790000000 policy=fixpart:4,2,1 overhead=0.3 \
             task=a_task__the_first on=n1:1/1g.5gb+me@4 begin=0.17 end=31.47"
        );
        let (plan, found) = parse(&text, 7).unwrap();
        assert_eq!((plan.batch.as_str(), plan.submitted), ("my_batch.csv", 1_790_000_000));
        assert_eq!(found, SubmittedTask { task: "a_task__the_first".to_owned(), ..entry });
        assert_eq!(super::text(&plan, &found), text);
    }

    #[test]
    fn other_comments_are_no_notes() {
        let good = "tessera-plan v1 plan=b at=1 policy=far overhead=0 task=a on=n1:1/1g.5gb@4 begin=0 end=1";
        assert!(parse(good, 1).is_some());
        for (from, to) in [
            ("v1", "v2"),
            ("at=1", "at=x"),
            ("end=1", "end=NaN"),
            ("end=1", "end=-1"),
            ("@4", ""),
            ("n1:", ""),
            (" end=1", ""),
        ] {
            assert_eq!(parse(&good.replace(from, to), 1), None, "{from}");
        }
        assert_eq!(parse("", 1), None);
    }
}
