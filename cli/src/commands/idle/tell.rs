//! Tells a user of his idle job, and ends it. Nothing that a user chooses is in the texts, and no shell is run.

use std::path::Path;
use std::time::Duration;

use error_chain::with_causes;
use gpu_idle::Promise;
use gpu_node::{CommandError, ToolRun, ask};
use node_driver::deadline::Deadline;
use protocol::AdminComment;
use protocol::time::utc;
use site_config::{Idle, IdleEnd, IdleTell};

use crate::clock::span;
use crate::slurm::squeue::QueuedJob;

/// Longest wait for each command.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest AdminComment that squeue shows whole, bytes; see `slurm::squeue`.
const MOST_COMMENT: usize = 2000;

/// How a job ends: `it will be cancelled`.
pub(super) fn ends(end: IdleEnd) -> &'static str {
    match end {
        IdleEnd::Requeue => "requeued",
        IdleEnd::Cancel => "cancelled",
    }
}

/// The warning, one line.
pub(super) fn warning(job: &QueuedJob, idle_s: u64, promise: Option<Promise>, now: u64) -> String {
    let number = job.number();
    let said = format!("job {number} has GPUs and has used none of them for {}", span(idle_s));
    match promise {
        Some(promise) => format!(
            "{said}. If it uses none until {} (in {}), it will be {}. If you need it no longer: scancel {number}",
            utc(promise.at),
            span(promise.at.saturating_sub(now)),
            ends(promise.end)
        ),
        None => format!("{said}. If you need it no longer: scancel {number}"),
    }
}

/// The line about a job that ends now.
pub(super) fn ending(job: &QueuedJob, idle_s: u64, end: IdleEnd, now: u64) -> String {
    let number = job.number();
    let text = format!("{} at {}: it used none of its GPUs for {}", ends(end), utc(now), span(idle_s));
    match end {
        IdleEnd::Cancel => text,
        IdleEnd::Requeue => format!("{text}. It will start again; if you do not need it: scancel {number}"),
    }
}

/// Tells the user in every way that the site wants. The error: why he could not be told in any of them.
pub(super) fn user(idle: &Idle, job: &QueuedJob, text: &str) -> Result<(), String> {
    let mut failed = Vec::new();
    for way in &idle.tell {
        let told = match way {
            IdleTell::Terminal => slurm("scontrol", &notify(job, text)).map_err(words),
            IdleTell::Comment => note(job, text),
            IdleTell::Mail => mail(idle, job, text),
        };
        failed.extend(told.err());
    }
    if failed.len() < idle.tell.len() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Ends a job as announced, after its user was told of it on his terminal and in the AdminComment, which accounting keeps. The mail
/// follows. The error: Slurm refuses.
pub(super) fn end(idle: &Idle, job: &QueuedJob, end: IdleEnd, text: &str) -> Result<(), String> {
    // He was warned in time: this is not waited for.
    let line = format!("job {} is {text}", job.number());
    if idle.tell.contains(&IdleTell::Terminal) {
        let _told = slurm("scontrol", &notify(job, &line));
    }
    let _noted = note(job, text);
    let (program, args) = ending_command(job, end);
    if let Err(why) = slurm(program, &args).map_err(words) {
        let _noted = note(job, &format!("could not be {}", ends(end)));
        return Err(why);
    }
    if idle.tell.contains(&IdleTell::Mail) {
        let _sent = mail(idle, job, &line);
    }
    Ok(())
}

/// Arguments of scontrol that send a job's user a line. It reads the number as a C program does: of `9_3`, the task of an array,
/// it would take 9, which is another task.
fn notify(job: &QueuedJob, text: &str) -> [String; 3] {
    ["notify".to_owned(), job.id.to_string(), format!("tessera: {text}")]
}

fn ending_command(job: &QueuedJob, end: IdleEnd) -> (&'static str, Vec<String>) {
    let number = job.number();
    match end {
        IdleEnd::Requeue => ("scontrol", vec!["requeue".to_owned(), number]),
        IdleEnd::Cancel => ("scancel", vec![number]),
    }
}

/// Puts a note into the job's AdminComment.
fn note(job: &QueuedJob, text: &str) -> Result<(), String> {
    let comment = with_note(&job.comment, text)
        .ok_or_else(|| "its AdminComment is the site's own, or too long".to_owned())?;
    let fields = ["update".to_owned(), format!("JobId={}", job.number()), format!("AdminComment={comment}")];
    slurm("scontrol", &fields).map_err(words)
}

/// An AdminComment with this note, in place of an earlier one. `None`: the site wrote the comment, or squeue would cut it.
fn with_note(comment: &str, note: &str) -> Option<String> {
    let before = Some(comment).filter(|comment| comment.len() <= MOST_COMMENT).map(AdminComment::parse)?;
    let after = AdminComment { idle: Some(note.to_owned()), ..before };
    Some(after).filter(AdminComment::is_ours).map(|c| c.to_string()).filter(|c| c.len() <= MOST_COMMENT)
}

fn mail(idle: &Idle, job: &QueuedJob, text: &str) -> Result<(), String> {
    let program = idle.mail.as_deref().ok_or("no program sends mail")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if job.user.is_empty() || job.user.starts_with('-') || !job.user.chars().all(is_plain) {
        return Err("no mail goes to a user of that name".to_owned());
    }
    let subject = format!("Slurm job {} does not use its GPUs", job.number());
    let args = ["-s", &subject, &job.user].map(str::to_owned).to_vec();
    let input = &format!("{text}\n");
    let run = ToolRun { program: program.into(), args, env: Vec::new(), input, user: None };
    run.output(&Deadline::after(PATIENCE)).map(|_| ()).map_err(words)
}

/// Why the program that sends mail cannot be run on this machine; `None`: it can, or the site has none.
pub(crate) fn mail_problem(idle: &Idle) -> Option<String> {
    let program = idle.mail.as_deref().filter(|_| idle.tell.contains(&IdleTell::Mail))?;
    let is_runnable =
        |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    (!is_runnable(program)).then(|| {
        format!(
            "mail = \"{}\" of [idle] is no program that can be run on this machine: no mail is sent",
            program.display()
        )
    })
}

fn slurm(program: &str, args: &[String]) -> Result<(), CommandError> {
    let conf = std::env::var("SLURM_CONF").ok().map(|path| ("SLURM_CONF", path));
    ask(program, args.to_vec(), conf.into_iter().collect(), PATIENCE).map(|_| ())
}

fn words(error: CommandError) -> String {
    with_causes(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> QueuedJob {
        QueuedJob { id: 12, array: Some((9, "3".to_owned())), user: "bob".to_owned(), ..QueuedJob::default() }
    }

    #[test]
    fn a_warning_is_one_line_without_words_of_the_users() {
        let promise = Some(Promise { end: IdleEnd::Cancel, at: 1_790_003_600 });
        assert_eq!(
            warning(&task(), 7300, promise, 1_790_000_000),
            "job 9_3 has GPUs and has used none of them for 2 h 2 min. If it uses none until 2026-09-21T15:13:20Z (in 60 min), \
             it will be cancelled. If you need it no longer: scancel 9_3"
        );
        assert!(!warning(&task(), 7300, None, 0).contains("until"));
        let ended = |end| ending(&task(), 7300, end, 1_790_003_600);
        let cancelled = "cancelled at 2026-09-21T15:13:20Z: it used none of its GPUs for 2 h 2 min";
        assert_eq!(ended(IdleEnd::Cancel), cancelled);
        assert!(ended(IdleEnd::Requeue).ends_with("It will start again; if you do not need it: scancel 9_3"));
    }

    #[test]
    fn commands_are_about_the_task_alone() {
        assert_eq!(notify(&task(), "text"), ["notify", "12", "tessera: text"]);
        assert_eq!(
            ending_command(&task(), IdleEnd::Requeue),
            ("scontrol", vec!["requeue".into(), "9_3".into()])
        );
        assert_eq!(ending_command(&task(), IdleEnd::Cancel), ("scancel", vec!["9_3".into()]));
    }

    #[test]
    fn a_note_takes_the_place_of_an_earlier_one_and_a_sites_own_comment_stays() {
        let (got, asks) = ("tessera: n1=whole:0: free", "; asks v1 iso=mig");
        for before in [format!("{got}{asks}"), format!("{got}; idle: old{asks}")] {
            assert_eq!(with_note(&before, "X"), Some(format!("{got}; idle: X{asks}")));
        }
        assert_eq!(with_note("", "X").as_deref(), Some("tessera: idle: X"));
        assert_eq!(with_note("ask Bob", "X"), None);
        let long = |n: usize| with_note(&format!("tessera: n1=whole:0: {}", "x".repeat(n)), "X");
        assert_eq!((long(2000), long(1975).is_some(), long(1979).is_some()), (None, false, false));
        assert!(long(1900).is_some());
    }

    /// A program that writes its arguments and its input to a file.
    fn mail_program(dir: &Path) -> std::path::PathBuf {
        let program = dir.join("mail");
        let script = format!("#!/bin/sh\n(printf '%s|' \"$@\"; cat) > {}\n", dir.join("seen").display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn mail_goes_to_plain_names_through_no_shell() {
        let dir = tempfile::tempdir().unwrap();
        let (program, seen) = (mail_program(dir.path()), dir.path().join("seen"));
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

    #[test]
    fn a_mail_program_that_cannot_be_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let problem = |mail: Option<&Path>| {
            let tell = vec![IdleTell::Mail];
            mail_problem(&Idle { mail: mail.map(Path::to_owned), tell, ..Idle::default() })
        };
        assert_eq!((problem(None), problem(Some(&mail_program(dir.path())))), (None, None));
        for bad in [dir.path().to_owned(), dir.path().join("none"), "/etc/passwd".into()] {
            assert!(problem(Some(&bad)).unwrap().contains("no mail is sent"), "{}", bad.display());
        }
    }
}
