//! A page's transcripts, one command after another. What each prints is compared with the page, but for numbers and identifiers.

use std::collections::BTreeMap;

use lab::command::{PATIENCE, run, wait_for};
use lab::pages::{Place, on_page};
use lab::paths::workspace;
use lab::{Cluster, User};

/// The line without what differs from cluster to cluster.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let word = word.replace(User::Bob.name(), User::Alice.name());
        match word.find("MIG-").or_else(|| word.find("GPU-")) {
            Some(at) => word[..at + 4].to_owned(),
            None => digits(&word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The word with `#` for each number.
fn digits(word: &str) -> String {
    let mut all = String::new();
    for c in word.chars() {
        match c {
            c if !c.is_ascii_digit() => all.push(c),
            _ if !all.ends_with('#') => all.push('#'),
            _ => {}
        }
    }
    all
}

/// Tells which line of the page is not in what was printed, in the page's order. `…` is for lines left out, or for the rest of a line.
fn missing<'a>(page: &'a [String], printed: &str) -> Option<&'a String> {
    let mut printed = printed.lines().map(shape);
    page.iter().filter(|line| line.as_str() != "…").find(|line| {
        let wanted = shape(line);
        !match wanted.strip_suffix('…') {
            Some(begin) => printed.any(|line| line.starts_with(begin.trim_end())),
            None => printed.any(|line| line == wanted),
        }
    })
}

/// Replaces the page's numbers of jobs by those of the cluster.
fn with_jobs(line: &str, jobs: &BTreeMap<String, String>) -> String {
    line.split(' ').map(|word| jobs.get(word).map_or(word, String::as_str)).collect::<Vec<_>>().join(" ")
}

/// Runs the page's commands as a user, each until it prints what the page shows, without those that begin as one of `left_out`.
pub(super) fn holds(cluster: &Cluster, page: &str, left_out: &[&str]) {
    let text = std::fs::read_to_string(workspace().join(page)).unwrap();
    let mut jobs = BTreeMap::new();
    let typed = on_page(page, &text).into_iter().filter(|shown| matches!(shown.place, Place::Command { .. }));
    for shown in typed.filter(|shown| !left_out.iter().any(|begin| shown.text.starts_with(begin))) {
        // Numbers of jobs stand for others only where a command names a job. A busy machine needs more than a minute to the next command.
        let line = if shown.text.starts_with("for ") {
            shown.text.replace("'sleep 60'", "'sleep 600'")
        } else {
            with_jobs(&shown.text, &jobs)
        };
        let output: Vec<String> = shown.output().iter().filter(|line| !line.is_empty()).cloned().collect();
        let line = format!("cd {} && {line}", cluster.layout().jobs().display());
        let once = || run(cluster.command(User::Bob, "sh").unwrap().args(["-ec", &line])).unwrap();
        if line.contains("sbatch ") && !line.contains("plan ") {
            let said = once().ok().unwrap();
            assert_eq!(missing(&output, &said), None, "{shown}: {said}");
            let number = |line: &str| line.strip_prefix("Submitted batch job ").map(str::to_owned);
            if let (Some(theirs), Some(ours)) =
                (output.iter().find_map(|line| number(line)), said.lines().find_map(number))
            {
                jobs.insert(theirs, ours);
            }
            continue;
        }
        wait_for(&shown.to_string(), PATIENCE, || {
            let done = once();
            match missing(&output, &done.stdout) {
                None if done.code == Some(0) => Ok(()),
                line => Err(format!("{line:?} is not in {done:?}")),
            }
        })
        .unwrap();
    }
    cluster.run(User::Bob, "scancel", &["--user", User::Bob.name()]).unwrap().ok().unwrap();
}
