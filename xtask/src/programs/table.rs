//! The tables, in Markdown.

use std::fmt::Write as _;

use super::Findings;
use super::asks::Amount;
use super::report::ReportedTask;

/// All tables of all programs.
pub(crate) fn markdown(all: &[Findings]) -> String {
    let mut text = tasks(all);
    text += &runs(all);
    if all.iter().any(|found| !found.asks.is_empty()) {
        text += &asks(all);
    }
    text
}

fn tasks(all: &[Findings]) -> String {
    let mut text =
        "| program | tasks | static | lazy | why lazy | CASE's artefact |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for Findings { program, tasks, .. } in all {
        let lazy = tasks.iter().filter(|task| task.lazy.is_some()).count();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {lazy} | {} | {} |",
            program.name,
            tasks.len(),
            tasks.len() - lazy,
            reasons(tasks),
            program.artefact
        );
    }
    text
}

/// The reasons, each with how many tasks have it. Kernels and places are left out, so that equal reasons are one.
fn reasons(tasks: &[ReportedTask]) -> String {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for why in tasks.iter().filter_map(|task| task.lazy.as_deref()) {
        let short = why.rsplit_once(" uses ").map_or(why, |(_, what)| what).to_owned();
        match counted.iter_mut().find(|(known, _)| *known == short) {
            Some((_, count)) => *count += 1,
            None => counted.push((short, 1)),
        }
    }
    counted.iter().map(|(why, count)| format!("{count}: {why}")).collect::<Vec<_>>().join("; ")
}

fn runs(all: &[Findings]) -> String {
    let mut text = "\n| program | arguments | with the pass | copies from the device, bytes | tasks begun | lazy objects |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for Findings { program, runs, .. } in all {
        for run in runs {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {}, {} | {} | {} |",
                program.name,
                run.arguments,
                run.wrong.as_deref().unwrap_or("the same"),
                run.copies,
                run.copied,
                run.begins,
                run.binds
            );
        }
    }
    text
}

fn asks(all: &[Findings]) -> String {
    let mut text = "\n| command | asked | bytes | listed | difference | blocks, threads | listed |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for ask in all.iter().flat_map(|found| &found.asks) {
        let shape = |amount: Amount| format!("{}, {}", amount.blocks, amount.threads);
        let _ = match &ask.asked {
            Ok((how, amount)) => writeln!(
                text,
                "| {} | {how} | {} | {} | {:+} | {} | {} |",
                ask.id,
                amount.bytes,
                ask.listed.bytes,
                i128::from(amount.bytes) - i128::from(ask.listed.bytes),
                shape(*amount),
                shape(ask.listed)
            ),
            Err(why) => {
                writeln!(text, "| {} | {why} | | {} | | | {} |", ask.id, ask.listed.bytes, shape(ask.listed))
            }
        };
    }
    text
}
