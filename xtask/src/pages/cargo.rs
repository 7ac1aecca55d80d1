//! Commands of cargo on the pages: tasks of xtask, and packages with their test programs, benchmarks and examples.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;
use lab::pages::{Place, Shown, commands, filled, shown};
use lab::paths::workspace;

use crate::Cli;

/// Lets a text mention a command without its arguments.
fn xtask_refuses(words: &[String], whole: bool) -> Option<String> {
    let error = Cli::try_parse_from(words).err()?;
    let incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (whole || !incomplete).then(|| error.to_string())
}

/// The directories of the workspace's packages, by name.
fn packages() -> BTreeMap<String, PathBuf> {
    let mut manifests = Vec::new();
    manifests_below(&workspace(), 0, &mut manifests);
    let named = manifests.into_iter().filter_map(|dir| {
        let text = fs::read_to_string(dir.join("Cargo.toml")).ok()?;
        let name = text.split_once("name = \"")?.1.split('"').next()?.to_owned();
        Some((name, dir))
    });
    named.collect()
}

fn manifests_below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let skipped = entry.file_name().to_str().is_none_or(|name| name == "target" || name.starts_with('.'));
        if skipped || depth > 3 || !path.is_dir() {
            continue;
        }
        if path.join("Cargo.toml").exists() {
            found.push(path.clone());
        }
        manifests_below(&path, depth + 1, found);
    }
}

/// Tells what a cargo command names that is not there: a package, or a test program, benchmark or example.
fn cargo_misses(words: &[String], packages: &BTreeMap<String, PathBuf>) -> Option<String> {
    let after = |option: &str| {
        let places = words.iter().enumerate().filter(move |(_, word)| *word == option);
        places.filter_map(|(at, _)| words.get(at + 1)).cloned().collect::<Vec<String>>()
    };
    let mut dirs = Vec::new();
    let bench = words.get(1).is_some_and(|task| task == "bench");
    for package in after("-p") {
        match packages.get(&package) {
            Some(dir) if bench && !dir.join("benches").exists() => {
                return Some(format!("{package} has no benches"));
            }
            Some(dir) => dirs.push(dir),
            None => return Some(format!("no package {package}")),
        }
    }
    for (option, below) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
        for name in after(option).into_iter().filter(|name| name != "NAME") {
            let files = [format!("{below}/{name}.rs"), format!("{below}/{name}/main.rs")];
            if !dirs.iter().any(|dir| files.iter().any(|file| dir.join(file).exists())) {
                return Some(format!("no {option} {name}"));
            }
        }
    }
    None
}

fn cargo_problem(shown: &Shown, words: &[String], packages: &BTreeMap<String, PathBuf>) -> Option<String> {
    let (words, whole) = filled(words);
    let whole = whole && matches!(shown.place, Place::Command { .. });
    let problem = match words.get(1).map(String::as_str) {
        Some("xtask") => xtask_refuses(&words[1..], whole),
        _ => cargo_misses(&words, packages),
    };
    problem.map(|problem| format!("{shown}: {problem}"))
}

#[test]
fn cargo_knows_every_task_package_and_program_that_a_page_names() {
    let packages = packages();
    let mut wrong = Vec::new();
    for shown in shown().unwrap() {
        if matches!(shown.place, Place::Command { .. } | Place::Mention) {
            let ours = commands(&shown.text).into_iter().filter(|words| words[0] == "cargo");
            wrong.extend(ours.filter_map(|words| cargo_problem(&shown, &words, &packages)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
