//! An explanation for a terminal.

use std::fmt::Write as _;

use decision_report::Decision;
use decision_report::report::{Candidate, Fate};
use node_state::Kind;
use protocol::{Grant, MigSpec, ShareOn, Size};
use site_config::hostlist;
use site_limits::counted::Counted;

use super::Question;
use super::explained::Explained;
use super::memory::ExplainedMemory;
use super::nodes::AskedNodes;
use crate::node_answer::{NodeOrder, Verdict, soonest};
use crate::render::hosts;
use crate::slurm_nodes::away;

/// Writes the whole answer: how the nodes' state is known, the sentences on a job `of_nodes`, what each node says, and the candidates of those
/// that are `shown`. Of one node in detail the first line of its candidates is what it says.
pub(super) fn answer(
    asked: &AskedNodes,
    question: &Question,
    verdicts: &[(Vec<String>, Verdict)],
    (shown, order): (&[Explained], &NodeOrder),
    in_detail: bool,
    of_nodes: &[String],
) -> String {
    let counted = question.counts.as_ref().ok();
    let mut text = String::new();
    if let Err(why) = &question.counts {
        let _ = writeln!(text, "refused at submission: {why}\n");
    }
    if let Some(header) = asked.header() {
        let _ = writeln!(text, "{header}");
    }
    of_nodes.iter().for_each(|sentence| _ = writeln!(text, "{sentence}"));
    let one = in_detail && shown.len() <= 1;
    let name = |job| asked.name(job);
    // The first line of one node's candidates says these.
    let said_below =
        |verdict: &Verdict| one && !question.alone && matches!(verdict, Verdict::Now(_) | Verdict::Never(_));
    if in_detail {
        for (names, verdict) in verdicts.iter().filter(|(_, v)| shown.is_empty() || !said_below(v)) {
            let _ =
                writeln!(text, "{}: {}", hostlist::compress(names), verdict.words_with(&name, usize::MAX));
        }
    } else {
        let (soonest, others) = soonest(verdicts, "--all");
        for (names, verdict) in soonest {
            let _ = writeln!(text, "{}: {}", hosts::brief(names), verdict.words(&name));
        }
        text.extend(others.map(|line| line + "\n"));
    }
    text.extend(order.sentence().map(|line| line + "\n"));
    let not_taking = &asked.live.not_taking;
    for (names, why) in away::by_reason(not_taking) {
        let names = if in_detail { hostlist::compress(&names) } else { hosts::brief(&names) };
        let _ = writeln!(text, "{names}: {why}");
    }
    if question.counts.is_ok() && !question.plain && verdicts.is_empty() && not_taking.is_empty() {
        text.push_str("no node that the job may use is in tessera.toml\n");
        return text;
    }
    if question.plain && verdicts.is_empty() && not_taking.is_empty() {
        text.push_str("Slurm alone decides: no node that the job may use is in tessera.toml\n");
        return text;
    }
    if in_detail {
        let blocks: Vec<String> = shown.iter().map(|explained| block(explained, counted)).collect();
        let gap = if one || text.is_empty() { "" } else { "\n" };
        return text + gap + &blocks.join("\n");
    }
    for explained in shown {
        text.push_str(&notes(explained, counted));
    }
    text + "--all shows every candidate with its score\n"
}

/// Writes the notes about the job that are not about its place.
fn notes(explained: &Explained, counted: Option<&Counted>) -> String {
    let Explained { ever, memory, waits, sizes, .. } = explained;
    let mut text = String::new();
    let _ = match (ever, counted) {
        (Ok(_), Some(Counted::Shards(n))) => writeln!(text, "counts in Slurm as gres/shard:{n} per node"),
        (Ok(_), Some(Counted::Gpus(n))) => writeln!(text, "counts in Slurm as gres/gpu:{n} per node"),
        (Err(_), _) | (Ok(_), None) => Ok(()),
    };
    if let Some(memory) = memory.as_ref().and_then(ExplainedMemory::line) {
        let _ = writeln!(text, "{memory}");
    }
    if let Some(wait) = waits {
        let (seconds, gbps) = (wait.seconds, wait.above_gbps());
        let _ = writeln!(text, "the job would first wait for more than {gbps} GB/s, at most {seconds} s");
    }
    if !sizes.is_empty() {
        let _ =
            writeln!(text, "a planner may choose {}", sizes.iter().map(size).collect::<Vec<_>>().join(", "));
    }
    text
}

/// Writes a node's part of the answer: its offer, its count, and every candidate.
fn block(explained: &Explained, counted: Option<&Counted>) -> String {
    let Explained { names, decision, ever, rivals, .. } = explained;
    let mut text = format!("{}: {}\n", hostlist::compress(names), decision.why());
    if let Err(never) = ever {
        let _ = writeln!(text, "never on this node: {never}");
    }
    if let Some(scores) = decision_text::scores(decision) {
        let _ = writeln!(text, "  weighed: {scores}");
    }
    text.push_str(&notes(explained, counted));
    let kinds = &decision.report.kinds;
    let width = kinds.iter().map(|tried| tried.kind.name().len()).fold(5, usize::max);
    for tried in kinds {
        let chosen = if tried.chosen { ", chosen" } else { "" };
        let _ = writeln!(text, "  {:width$} {}{chosen}", tried.kind.name(), decision_text::outcome(tried));
        text.push_str(&candidates(decision, tried.kind));
    }
    if decision.report.omitted > 0 {
        let _ = writeln!(text, "  and {}", geometry::counted(decision.report.omitted, "more candidate"));
    }
    if !rivals.is_empty() {
        text.push_str("  other choices\n");
    }
    for rival in rivals {
        let _ = writeln!(text, "      {}", rival.line());
    }
    text
}

/// `2g.10gb (35 s)`.
fn size(size: &Size) -> String {
    let time = size.millis.map_or("as learnt".to_owned(), |ms| format!("{} s", seconds(ms)));
    format!("{} ({time})", size.profile.name)
}

/// Milliseconds as seconds, which the user has written with at most three decimals.
#[expect(clippy::cast_precision_loss, reason = "a year at most")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// The candidates of one kind; GPUs that have the same ones are written once. What was chosen has a star.
fn candidates(decision: &Decision, kind: Kind) -> String {
    let mut groups: Vec<(Vec<u16>, Vec<String>)> = Vec::new();
    let of_kind = || decision.report.weighed.iter().filter(|c| c.kind == kind);
    let mut gpus: Vec<u16> = of_kind().map(|c| c.gpu.0).collect();
    gpus.dedup();
    for gpu in gpus {
        let lines: Vec<String> = of_kind().filter(|c| c.gpu.0 == gpu).map(without_gpu).collect();
        match groups.iter_mut().find(|(_, known)| *known == lines) {
            Some((members, _)) => members.push(gpu),
            None => groups.push((vec![gpu], lines)),
        }
    }
    let chosen: Vec<(u16, String)> =
        of_kind().filter(|c| is_chosen(c, decision)).map(|c| (c.gpu.0, without_gpu(c))).collect();
    let mut text = String::new();
    for (members, lines) in groups {
        let several = members.len() > 1;
        // A set of whole GPUs names them itself.
        if lines.iter().any(|l| !l.starts_with("GPU ")) {
            let (s, each) = if several { ("s", ", each") } else { ("", "") };
            let _ = writeln!(text, "    GPU{s} {}{each}", ranges(&members));
        }
        for line in lines {
            let taken = chosen.iter().find(|(gpu, l)| members.contains(gpu) && *l == line);
            let star = if taken.is_some() { '*' } else { ' ' };
            let on = taken.filter(|_| several).map_or(String::new(), |(gpu, _)| format!(" (on GPU {gpu})"));
            let _ = writeln!(text, "     {star}{line}{on}");
        }
    }
    text
}

fn without_gpu(candidate: &Candidate) -> String {
    let text = decision_text::candidate(candidate);
    let rest = text.strip_prefix(&format!("GPU {}", candidate.gpu)).unwrap_or(&text);
    match candidate.fate {
        // A set of whole GPUs names them all.
        Fate::Set(_) | Fate::Links { .. } => text,
        _ => rest.trim_start_matches([':', ' ']).to_owned(),
    }
}

fn is_chosen(candidate: &Candidate, decision: &Decision) -> bool {
    let starts_of = |specs: &[MigSpec]| {
        let here = specs.iter().filter(|s| s.gpu == candidate.gpu);
        here.fold(0_u16, |bits, s| bits | 1_u16.checked_shl(u32::from(s.start.0)).unwrap_or(0))
    };
    let is = |specs: &[MigSpec]| candidate.instances.is_some_and(|(_, starts)| starts.0 == starts_of(specs));
    match &decision.chosen {
        None => false,
        Some(Grant::Compute { within, .. }) => candidate.gpu == within.gpu && is(&[*within]),
        Some(Grant::Mig(specs)) => candidate.kind == Kind::Mig && is(specs),
        Some(Grant::Whole(gpus)) => {
            candidate.kind == Kind::Whole
                && matches!(candidate.fate, Fate::Set(_) | Fate::Links { .. })
                && gpus.contains(&candidate.gpu)
        }
        Some(Grant::Tasks(tasks)) => {
            let here = candidate.kind == Kind::Tasks && tasks.devices().any(|on| on.gpu() == candidate.gpu);
            let fits = !matches!(candidate.fate, Fate::Ruled(_));
            let same = match candidate.instances {
                // The GPU itself, or the devices of the pool there.
                None => true,
                Some(_) => tasks.devices().any(|on| matches!(on, ShareOn::Instance(s) if is(&[s]))),
            };
            here && fits && same
        }
        Some(Grant::Mps { on, .. }) => {
            let same = match on {
                ShareOn::Gpu(_) => candidate.instances.is_none(),
                ShareOn::Instance(spec) => is(&[*spec]),
            };
            candidate.kind == Kind::Mps && candidate.gpu == on.gpu() && same
        }
    }
}

/// `0`, `0-7`, `0,2-4`.
fn ranges(numbers: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for n in numbers {
        match runs.last_mut().filter(|(_, last)| last + 1 == *n) {
            Some((_, last)) => *last = *n,
            None => runs.push((*n, *n)),
        }
    }
    let words = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    words.collect::<Vec<_>>().join(",")
}
