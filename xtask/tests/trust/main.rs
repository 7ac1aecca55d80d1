//! Holds what slurmctld and root run to a written list of crates and a budget of lines, and their functions to 60 lines: `cargo test -p xtask --test trust --
//! --nocapture` prints both.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "tests")]

mod artefacts;
mod budget;
mod sources;
mod workspace;

use std::collections::BTreeSet;

use artefacts::{ARTEFACTS, Artefact};
use sources::{functions, product};
use workspace::Workspace;

/// The most product lines of all of them together, in thousands. They went up by 0.1 for what is known of a node without a decision, and
/// for files that slurm.conf includes, and by 0.2 for the earliest start that is foretold.
const TOGETHER: f64 = 62.78;
/// Crates that none of them may link, from whatever registry: a command line for people, and what only tests and studies need.
const NEVER: [&str; 6] = ["clap", "criterion", "proptest", "insta", "audit", "physics"];

#[test]
fn what_slurmctld_and_root_load_is_listed_and_small() {
    let workspace = Workspace::read();
    let mut all = BTreeSet::new();
    let mut wrong = Vec::new();
    for Artefact { name, package, crates, thousands } in ARTEFACTS {
        let linked = workspace.closure(package);
        let ours: BTreeSet<_> =
            linked.iter().filter(|name| workspace.ours.contains_key(*name)).cloned().collect();
        let listed: BTreeSet<_> = crates.iter().chain([&package]).map(|name| (*name).to_owned()).collect();
        if listed != ours {
            wrong.push(format!("{name} links {ours:?}\n  the list says {listed:?}"));
        }
        wrong.extend(
            NEVER.iter().filter(|never| linked.contains(**never)).map(|it| format!("{name} links {it}")),
        );
        let lines: usize = ours.iter().map(|name| workspace.lines(name)).sum();
        println!(
            "{name:<40} {:>2} crates of ours, {:>3} others, {lines:>6} lines",
            ours.len(),
            linked.len() - ours.len()
        );
        if lines as f64 > thousands * 1000.0 {
            wrong.push(format!("{name} has {lines} lines, more than {thousands} thousand"));
        }
        all.extend(ours);
    }
    let lines: usize = all.iter().map(|name| workspace.lines(name)).sum();
    println!("{:<40} {:>2} crates of ours, {lines:>6} lines", "together", all.len());
    for name in &all {
        println!("  {name:<38} {:>6} lines", workspace.lines(name));
    }
    if lines as f64 > TOGETHER * 1000.0 {
        wrong.push(format!("together {lines} lines, more than {TOGETHER} thousand"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_that_only_tests_compile_do_not_count() {
    let text =
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\n";
    assert_eq!(product(text), ["fn a() {}", "fn c() {}"]);
}

/// Most lines of code of a function that slurmctld or root runs.
const LONGEST: usize = 60;

#[test]
fn no_function_of_slurmctld_or_root_is_long() {
    let workspace = Workspace::read();
    let linked = ARTEFACTS.iter().flat_map(|artefact| workspace.closure(artefact.package));
    let ours: BTreeSet<String> = linked.filter(|name| workspace.ours.contains_key(name)).collect();
    let mut long = Vec::new();
    for (path, lines) in ours.iter().flat_map(|name| workspace.files(name)) {
        let found = functions(&lines).into_iter().filter(|(_, length)| *length > LONGEST);
        long.extend(found.map(|(name, length)| format!("{}: {name} has {length} lines", path.display())));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn a_functions_length_is_that_of_its_code() {
    let text = "impl A {\n    pub(crate) fn a(\n        b: u32,\n    ) -> u32 {\n        // Why.\n\n        b\n    }\n}\nfn c() {}\n";
    assert_eq!(functions(&product(text)), [("a".to_owned(), 5)]);
}
