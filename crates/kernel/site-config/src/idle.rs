//! Reads `[idle]`: what is done about jobs that hold GPUs without using them.

use std::path::PathBuf;

use toml_tables::{TableReader, pick};

/// Treatment of jobs that hold GPUs without using them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Steps are taken. Without it, they are only shown.
    pub act: bool,
    /// From this utilisation on, a GPU is in use, percent.
    pub busy_percent: u32,
    /// Ways in which a user is told.
    pub tell: Vec<IdleTell>,
    /// The program that sends mail, called as `PROGRAM -s SUBJECT USER`.
    pub mail: Option<PathBuf>,
    /// Rules; the first that is for a job counts.
    pub rules: Vec<IdleRule>,
}

impl Default for Idle {
    fn default() -> Self {
        let tell = vec![IdleTell::Terminal, IdleTell::Comment];
        Self { act: false, busy_percent: 1, tell, mail: None, rules: Vec::new() }
    }
}

/// A way to tell a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleTell {
    /// A line on the standard error of the job's `srun` or `salloc`, or of its batch script.
    Terminal,
    /// A mail.
    Mail,
    /// A note in the job's AdminComment.
    Comment,
}

impl IdleTell {
    /// All of them, as the file writes them.
    pub const NAMED: [(&'static str, Self); 3] =
        [("terminal", Self::Terminal), ("mail", Self::Mail), ("comment", Self::Comment)];
}

/// Kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleKind {
    /// Jobs of `salloc` or `srun`.
    Interactive,
    /// Jobs of `sbatch`.
    Batch,
}

/// End of a job that stays idle after the warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleEnd {
    /// Goes back to the queue.
    Requeue,
    /// Cancelled.
    Cancel,
}

impl IdleEnd {
    /// All of them, as the file writes them.
    pub const NAMED: [(&'static str, Self); 2] = [("requeue", Self::Requeue), ("cancel", Self::Cancel)];
}

/// Treatment of some jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRule {
    /// The rule is for jobs in this partition; `None`: in any.
    pub partition: Option<String>,
    /// The rule is for jobs of this account; `None`: of any.
    pub account: Option<String>,
    /// The rule is for this kind of job; `None`: for any.
    pub kind: Option<IdleKind>,
    /// A job that is idle as long is warned, seconds.
    pub warn_after_s: u64,
    /// End that the warning announces, and how long after it that comes, in seconds; `None`: nothing happens.
    pub end: Option<(IdleEnd, u64)>,
}

const MOST_RULES: usize = 64;
/// Shortest time between two steps, minutes. A node speaks of a job that is idle as long.
const LEAST_MIN: u64 = 10;
/// Longest time between two steps, minutes: a year.
const MOST_MIN: u64 = 525_600;

/// The section; `None` without it.
pub(crate) fn read(root: &mut TableReader<'_, '_>) -> Option<Idle> {
    let (unset, mut table) = (Idle::default(), root.table("idle")?);
    let percent = table.number("busy_percent", 1..101).and_then(|at| u32::try_from(at.value).ok());
    let mail = table.parsed("mail", program).map(|at| at.value);
    let tell = tell(&table, mail.is_some()).unwrap_or(unset.tell);
    let read = Idle {
        act: table.boolean("act").unwrap_or(unset.act),
        busy_percent: percent.unwrap_or(unset.busy_percent),
        tell,
        mail,
        rules: rules(&mut table),
    };
    table.finish();
    Some(read)
}

fn program(text: &str) -> Result<PathBuf, (String, Option<String>)> {
    if text.starts_with('/') {
        return Ok(PathBuf::from(text));
    }
    Err((
        format!("mail = {text:?} is not an absolute path"),
        Some("write mail = \"/usr/bin/mail\"".to_owned()),
    ))
}

fn tell(table: &TableReader<'_, '_>, has_mail: bool) -> Option<Vec<IdleTell>> {
    let mut tell = Vec::new();
    let words = table.strings("tell")?;
    for at in &words {
        match pick("tell", &at.value, &IdleTell::NAMED) {
            Ok(IdleTell::Mail) if !has_mail => {
                let hint = "add mail = \"/usr/bin/mail\"".to_owned();
                table.errors.push(at.span.clone(), "tell lists mail, but no program sends it", Some(hint));
            }
            Ok(way) if tell.contains(&way) => {
                table.errors.push(at.span.clone(), format!("tell lists {} twice", at.value), None);
            }
            Ok(way) => tell.push(way),
            Err((what, hint)) => table.errors.push(at.span.clone(), what, hint),
        }
    }
    if words.is_empty() {
        let hint = "without a warning, nothing is ever done to a job".to_owned();
        table.errors.push(table.key_span("tell"), "tell is empty", Some(hint));
    }
    Some(tell)
}

fn rules(table: &mut TableReader<'_, '_>) -> Vec<IdleRule> {
    let mut rules = Vec::new();
    for one in table.tables("rules") {
        if rules.len() == MOST_RULES {
            one.errors.push(one.span.clone(), format!("more than {MOST_RULES} rules"), None);
            break;
        }
        rules.extend(rule(&one));
        one.finish();
    }
    rules
}

fn rule(table: &TableReader<'_, '_>) -> Option<IdleRule> {
    let text = |key| table.string(key).map(|at| at.value);
    let kinds = [("interactive", IdleKind::Interactive), ("batch", IdleKind::Batch)];
    let seconds =
        |key: &'static str| table.number(key, LEAST_MIN..MOST_MIN + 1).map(|at| at.value.saturating_mul(60));
    let (partition, account, kind) = (text("partition"), text("account"), table.word("kind", &kinds));
    let (warn_after_s, end_after_s) = (seconds("warn_after_min"), seconds("end_after_min"));
    let end = table.word("end", &IdleEnd::NAMED);
    let wrong = |what: &str, hint: &str| table.errors.push(table.span.clone(), what, Some(hint.to_owned()));
    if !table.has("warn_after_min") {
        wrong("[[idle.rules]] does not say when a job is warned", "add warn_after_min = 60");
    }
    if table.has("end") != table.has("end_after_min") {
        let what = "[[idle.rules]] has one of end and end_after_min";
        wrong(what, "write both, as in end = \"cancel\" and end_after_min = 60, or neither");
    }
    if kind == Some(IdleKind::Interactive) && end == Some(IdleEnd::Requeue) {
        wrong("an interactive job cannot be requeued", "use end = \"cancel\"");
    }
    Some(IdleRule { partition, account, kind, warn_after_s: warn_after_s?, end: end.zip(end_after_s) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Idle>, Vec<String>> {
        let nodes = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let (config, errors) = crate::parse("t", &format!("{nodes}{text}"), &none);
        config.map(|config| config.idle).ok_or_else(|| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_dry_run_without_rules_is_the_default() {
        assert_eq!((parsed(""), parsed("[idle]\n")), (Ok(None), Ok(Some(Idle::default()))));
        assert!(!Idle::default().act);
        let text = "[idle]\nact = true\nbusy_percent = 5\nmail = \"/bin/mail\"\ntell = [\"mail\"]\n\
                    [[idle.rules]]\nkind = \"interactive\"\nwarn_after_min = 60\nend = \"cancel\"\nend_after_min = 30\n\
                    [[idle.rules]]\npartition = \"gpu\"\naccount = \"bio\"\nwarn_after_min = 120\n";
        let read = parsed(text).unwrap().unwrap();
        assert_eq!((read.act, read.busy_percent, read.tell), (true, 5, vec![IdleTell::Mail]));
        assert_eq!((read.rules[0].kind, read.rules[0].warn_after_s), (Some(IdleKind::Interactive), 3600));
        assert_eq!(read.rules[0].end, Some((IdleEnd::Cancel, 1800)));
        assert_eq!((read.rules[1].partition.as_deref(), read.rules[1].end), (Some("gpu"), None));
    }

    #[test]
    fn errors_have_their_place() {
        for (text, place, what) in [
            ("busy_percent = 0", "t:6:16", "use 1 to 100"),
            ("tell = []", "t:6:1", "tell is empty"),
            ("tell = [\"pager\"]", "t:6:10", "pager"),
            ("tell = [\"mail\"]", "t:6:10", "no program sends it"),
            ("tell = [\"comment\", \"comment\"]", "t:6:21", "twice"),
            ("mail = \"mail\"", "t:6:9", "not an absolute path"),
            ("after = 3", "t:6:1", "after"),
            ("[[idle.rules]]", "t:6:1", "does not say when"),
            ("[[idle.rules]]\nwarn_after_min = 9", "t:7:18", "use 10 to 525600"),
            (
                "[[idle.rules]]\nwarn_after_min = 60\nend = \"cancel\"",
                "t:6:1",
                "one of end and end_after_min",
            ),
            (
                "[[idle.rules]]\nwarn_after_min = 60\nend_after_min = 60",
                "t:6:1",
                "one of end and end_after_min",
            ),
            ("[[idle.rules]]\nwarn_after_min = 60\nend = \"kill\"\nend_after_min = 60", "t:8:8", "kill"),
            (
                "[[idle.rules]]\nkind = \"interactive\"\nwarn_after_min = 60\nend = \"requeue\"\nend_after_min = 60",
                "t:6:1",
                "cannot be requeued",
            ),
        ] {
            let said = parsed(&format!("[idle]\n{text}\n")).unwrap_err();
            assert!(said.iter().any(|e| e.contains(place) && e.contains(what)), "{text}: {said:?}");
        }
        let many = "[[idle.rules]]\nwarn_after_min = 60\n".repeat(65);
        assert!(parsed(&many).unwrap_err()[0].contains("more than 64 rules"));
    }
}
