//! The answer for a terminal.

use std::fmt::Write as _;

use protocol::wire::split_node;
use protocol::{AdminComment, CommentBody};

use super::reason::{Reason, reason};
use super::{PendingJob, dependency, nodes};
use crate::clock::span;
use crate::node_answer::{Verdict, soonest};
use crate::render::{hosts, printable};
use crate::slurm::gres_type;
use crate::slurm::squeue::{NO_LIMIT_S, QueuedJob, is_limit};
use crate::slurm_nodes::away;

/// A job that does not wait.
pub(super) fn not_pending(job: &QueuedJob) -> String {
    let comment = AdminComment::parse(&job.comment);
    let (why, node) = comment.started().map_or(("", None), |started| split_node(&started.why));
    let got = if comment.started().is_some() { format!(": {why}") } else { String::new() };
    let on = if job.nodes.is_empty() { String::new() } else { format!(" on {}", job.nodes) };
    let node = node.map_or_else(String::new, |node| format!("  {}: {node}\n", job.nodes));
    let idle = comment.idle.as_ref().map_or_else(String::new, |note| format!("  Idle GPUs: {note}\n"));
    format!("job {} does not wait: it is {}{on}{got}\n{node}{idle}", job.number(), job.state)
}

pub(super) fn answer(answer: &PendingJob<'_>) -> String {
    let job = answer.job;
    let asked = match &answer.asks {
        Ok(subject) => format!("asks for {}", subject.request.in_words()),
        Err(why) => format!("waits; {why}"),
    };
    let alone = match &answer.asks {
        Ok(subject) if subject.submission.exclusive => ", and for whole nodes",
        _ => "",
    };
    let on = match (&answer.asks, nodes::fewest(job)) {
        (Ok(_), needs) if needs > 1 => format!(" on each of {needs} nodes"),
        _ => String::new(),
    };
    let mut text = format!("job {} of {} {asked}{on}{alone}\n", job.number(), job.user);
    text.push_str(&by_slurm(answer));
    if job.reason.starts_with("Dependency") {
        text.extend(dependency::sentence(job, &answer.jobs).map(|sentence| sentence + "\n"));
    }
    text.push_str(&by_comment(answer));
    text.extend(answer.idle.iter().map(|note| format!("Idle GPUs: {note}\n")));
    text.push_str(&by_limit(answer));
    text.extend(gres_type::left_out(&answer.left_out).map(|sentence| printable(&sentence) + "\n"));
    let name = |id| answer.jobs.get(&id).map(|job| job.named());
    let at_once = answer.needs().sentence(&answer.verdicts, &name);
    text.extend(at_once.map(|sentence| sentence + "\n"));
    let (soonest, others) = soonest(&answer.verdicts, "--json");
    for (names, verdict) in soonest {
        let _ = writeln!(text, "  {}: {}", hosts::brief(names), on_nodes(verdict, answer));
    }
    text.extend(others.map(|line| format!("  {line}\n")));
    for (names, why) in away::by_reason(&answer.not_taking) {
        let _ = writeln!(text, "  {}: {why}", hosts::brief(&names));
    }
    text.extend(answer.order.sentence().map(|sentence| format!("  {sentence}\n")));
    if !answer.instead.is_empty() {
        text.push_str("These would start now instead:\n");
    }
    for free in &answer.instead {
        let nodes: Vec<String> = free.nodes.iter().flatten().map(|(name, _)| name.clone()).collect();
        let _ = writeln!(text, "  {} on {}", free.shape.options, hosts::brief(&nodes));
    }
    text
}

/// Writes Slurm's reason, and when it expects a start.
fn by_slurm(answer: &PendingJob<'_>) -> String {
    let job = answer.job;
    let shown = if job.reason.is_empty() { "None" } else { &job.reason };
    let meant = match reason(&job.reason) {
        Some(Reason::Room(words) | Reason::Other(words)) => words,
        None => "`man squeue` explains it under JOB REASON CODES",
    };
    let mut text = format!("Slurm's reason is {shown}: {meant}.");
    if answer.ahead > 0 && matches!(reason(&job.reason), Some(Reason::Room(_))) {
        let (s, have) = if answer.ahead == 1 { ("", "has") } else { ("s", "have") };
        let _ = write!(text, " {} pending job{s} of its partition {have} a higher priority.", answer.ahead);
    }
    if let Some(start) = job.start.filter(|start| *start > answer.now) {
        text.push_str(&expected(start - answer.now));
    }
    text + "\n"
}

/// When Slurm expects the start, seconds from now.
fn expected(seconds: u64) -> String {
    if seconds < NO_LIMIT_S {
        return format!(" Slurm expects to start it in {}.", span(seconds));
    }
    " Slurm cannot tell when it starts: a job in the way has no time limit.".to_owned()
}

/// Writes what the AdminComment says of the start.
fn by_comment(answer: &PendingJob<'_>) -> String {
    match &answer.says {
        CommentBody::Plan(plan) => {
            let size = &plan.size;
            match plan.begin.filter(|begin| *begin > answer.now) {
                Some(begin) => {
                    format!("The planner gives it {size}, from {} on.\n", in_time(begin - answer.now))
                }
                None => format!("The planner gives it {size}.\n"),
            }
        }
        CommentBody::Waits(waits) => {
            let left = waits.until.saturating_sub(answer.now);
            format!("It waits {}, for at most {} more.\n", waits.what, span(left))
        }
        CommentBody::Limited(why) => format!("A limit of the site keeps it from starting: {why}\n"),
        CommentBody::Power(why) => format!("It waits for power: {why}\n"),
        CommentBody::Nodes(why) => format!("It waits for a node: {why}\n"),
        CommentBody::Requeued(why) => format!("It was requeued {why}\n"),
        CommentBody::Unchanged(why) => format!("A change of it was refused: {why}\n"),
        // What the job waits for stands below, node by node.
        CommentBody::Slices(_) => String::new(),
        CommentBody::Nothing
        | CommentBody::Started(_)
        | CommentBody::Unknown(_)
        | CommentBody::Foreign(_)
        | CommentBody::UnreadablePlan(..) => String::new(),
    }
}

/// The limit of Slurm that keeps the job, or those that there are where Slurm names one.
fn by_limit(answer: &PendingJob<'_>) -> String {
    let Some(allowance) = &answer.allowance else { return String::new() };
    if matches!(answer.says, CommentBody::Limited(_)) {
        return String::new();
    }
    if let Some(sentence) = kept(answer) {
        return sentence + "\n";
    }
    let lines = allowance.lines();
    if !is_limit(&answer.job.reason) || lines.is_empty() {
        return String::new();
    }
    format!("{}:\n  {}\n", allowance.head(&answer.job.user), lines.join("\n  "))
}

/// The limit that keeps the job, as a sentence; `None`: none does that is known.
fn kept(answer: &PendingJob<'_>) -> Option<String> {
    answer.allowance.as_ref().zip(answer.need).and_then(|(allowance, need)| allowance.keeps(&need))
}

/// Tells whether something else than room, cores or the job's turn keeps the job.
fn waits_for_more(answer: &PendingJob<'_>) -> bool {
    let says_so = match &answer.says {
        CommentBody::Limited(_) | CommentBody::Power(_) | CommentBody::Nodes(_) | CommentBody::Waits(_) => {
            true
        }
        CommentBody::Plan(plan) => plan.begin.is_some_and(|begin| begin > answer.now),
        _ => false,
    };
    let by_slurm = !matches!(reason(&answer.job.reason), Some(Reason::Room(_)));
    says_so || by_slurm || kept(answer).is_some()
}

fn on_nodes(verdict: &Verdict, answer: &PendingJob<'_>) -> String {
    match verdict {
        Verdict::Now(_) if waits_for_more(answer) => "the GPUs have room now".to_owned(),
        Verdict::Now(_) => {
            "the GPUs have room now; Slurm still waits for cores, memory, or the job's turn".to_owned()
        }
        later => later.words(&|id| answer.jobs.get(&id).map(|job| job.named())),
    }
}

fn in_time(seconds: u64) -> String {
    format!("in {}", span(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_is_no_expectation() {
        assert_eq!(expected(1800), " Slurm expects to start it in 30 min.");
        assert!(expected(364 * 86_400).contains("no time limit"));
    }
}
