//! Tells a user of his idle job. Nothing that a user chooses is in the texts, and no shell is run.

use std::time::Duration;

use error_chain::with_causes;
use gpu_idle::Promise;
use gpu_node::{CommandError, ask, fed};
use protocol::time::utc;
use site_config::{Idle, IdleEnd, IdleTell};

use super::comment;
use crate::clock::span;
use crate::slurm::squeue::QueuedJob;

/// Longest wait for each command.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a job ends, in a sentence: `it is cancelled`.
pub(super) fn ends(end: IdleEnd) -> &'static str {
    match end {
        IdleEnd::Requeue => "requeued",
        IdleEnd::Cancel => "cancelled",
    }
}

/// The warning, one line.
pub(super) fn warning(job: &QueuedJob, idle_s: u64, promise: Option<Promise>, now: u64) -> String {
    let number = job.number();
    let said = format!("job {number} holds GPUs and has used none of them for {}", span(idle_s));
    match promise {
        Some(promise) => format!(
            "{said}. If it uses none until {} (in {}), it is {}. If you need it no longer: scancel {number}",
            utc(promise.at),
            span(promise.at.saturating_sub(now)),
            ends(promise.end)
        ),
        None => format!("{said}. If you need it no longer: scancel {number}"),
    }
}

/// Tells the user in every way that the site wants. The error: why he could not be told in any of them.
pub(super) fn user(idle: &Idle, job: &QueuedJob, text: &str) -> Result<(), String> {
    let mut failed = Vec::new();
    for way in &idle.tell {
        let told = match way {
            IdleTell::Terminal => {
                slurm("scontrol", &["notify", &job.number(), &format!("tessera: {text}")]).map_err(words)
            }
            IdleTell::Comment => note(job, text),
            IdleTell::Mail => mail(idle, job, text),
        };
        failed.extend(told.err());
    }
    if failed.len() < idle.tell.len() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Puts a note into the job's AdminComment.
pub(super) fn note(job: &QueuedJob, text: &str) -> Result<(), String> {
    let comment = comment::with_note(&job.comment, text)
        .ok_or_else(|| "its AdminComment is the site's own, or too long".to_owned())?;
    let fields = [format!("JobId={}", job.number()), format!("AdminComment={comment}")];
    slurm("scontrol", &["update", &fields[0], &fields[1]]).map_err(words)
}

fn mail(idle: &Idle, job: &QueuedJob, text: &str) -> Result<(), String> {
    let program = idle.mail.as_deref().ok_or("no program sends mail")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if job.user.is_empty() || job.user.starts_with('-') || !job.user.chars().all(is_plain) {
        return Err("no mail goes to a user of that name".to_owned());
    }
    let subject = format!("Slurm job {} does not use its GPUs", job.number());
    let args = ["-s", &subject, &job.user].map(str::to_owned).to_vec();
    fed(program, args, &format!("{text}\n"), PATIENCE).map_err(words)
}

/// Ends a job as announced.
pub(super) fn end(job: &QueuedJob, end: IdleEnd) -> Result<(), String> {
    let number = job.number();
    match end {
        IdleEnd::Requeue => slurm("scontrol", &["requeue", &number]),
        IdleEnd::Cancel => slurm("scancel", &[&number]),
    }
    .map_err(words)
}

fn slurm(program: &str, args: &[&str]) -> Result<(), CommandError> {
    let conf = std::env::var("SLURM_CONF").ok().map(|path| ("SLURM_CONF", path));
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ask(program, args, conf.into_iter().collect(), PATIENCE).map(|_| ())
}

fn words(error: CommandError) -> String {
    with_causes(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_one_line_without_words_of_the_users() {
        let job = QueuedJob {
            id: 12,
            array: Some((9, "3".to_owned())),
            user: "bob".to_owned(),
            ..QueuedJob::default()
        };
        let promise = Some(Promise { end: IdleEnd::Cancel, at: 1_790_003_600 });
        assert_eq!(
            warning(&job, 7300, promise, 1_790_000_000),
            "job 9_3 holds GPUs and has used none of them for 2 h 2 min. If it uses none until 2026-09-21T15:13:20Z (in 60 min), \
             it is cancelled. If you need it no longer: scancel 9_3"
        );
        assert!(!warning(&job, 7300, None, 0).contains("until"));
    }

    #[test]
    fn mail_goes_to_plain_names_through_no_shell() {
        let dir = tempfile::tempdir().unwrap();
        let (program, seen) = (dir.path().join("mail"), dir.path().join("seen"));
        let script = format!("#!/bin/sh\n(printf '%s|' \"$@\"; cat) > {}\n", seen.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let idle = Idle { tell: vec![IdleTell::Mail], mail: Some(program), ..Idle::default() };
        let job = |user: &str| QueuedJob { id: 7, user: user.to_owned(), ..QueuedJob::default() };
        user(&idle, &job("bob.b-2"), "text").unwrap();
        let sent = std::fs::read_to_string(&seen).unwrap();
        assert_eq!(sent, "-s|Slurm job 7 does not use its GPUs|bob.b-2|text\n");
        std::fs::remove_file(&seen).unwrap();
        for bad in ["", "-oX", "a b", "x;id", "$(id)", "\u{1b}[1m", "a@b"] {
            assert!(user(&idle, &job(bad), "text").is_err(), "{bad}");
        }
        assert!(!seen.exists());
    }
}
