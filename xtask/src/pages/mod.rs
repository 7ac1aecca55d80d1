//! Some test runs or reads every command that the documentation shows. `tessera-cli` reads those of `tessera`, the end-to-end program
//! `billing` runs those of Slurm and those of `tessera` that read, and `cargo` here reads those of cargo. This file names the tests of all others.

mod cargo;
mod links;
mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lab::pages::{Place, Shown, commands, shown};
use lab::paths::workspace;

/// Commands of Slurm.
const SLURM: [&str; 10] =
    ["sbatch", "srun", "salloc", "scontrol", "sinfo", "squeue", "sacct", "sacctmgr", "scancel", "sreport"];

/// Commands of the shell around those of Slurm, Tessera and cargo.
const SHELL: [&str; 17] = [
    "awk", "cat", "done", "echo", "else", "export", "fi", "for", "grep", "head", "if", "ls", "mkdir", "sed",
    "sort", "vi", "wc",
];

/// Other commands that a test runs: page, begin of the line, and the test.
const ELSEWHERE: [(&str, &str, &str); 15] = [
    ("contrib/case-pass/README.md", "make", "every_option_goes_to_clang_as_it_is"),
    ("docs/compatibility.md", "tests/first-job.sh", "from_a_package_to_the_first_job"),
    ("docs/cookbook.md", "devices=()", "containers_of_the_cookbook_see_their_jobs_devices"),
    ("docs/cookbook.md", "for node in", "containers_of_the_cookbook_see_their_jobs_devices"),
    ("docs/cookbook.md", "podman run", "containers_of_the_cookbook_see_their_jobs_devices"),
    ("docs/gpu-tasks.md", "tessera-clang++", "from_a_source_file_to_tessera_tasks_22_05"),
    ("docs/gpu-tasks.md", "clang++-19", "from_a_source_file_to_tessera_tasks_22_05"),
    ("docs/man/tessera-clang++.1.md", "TESSERA_PASS_REPORT", "a_report_needs_lines_and_names"),
    (
        "docs/many-machines.md",
        "ansible-playbook -i inventory site.yml",
        "the_role_installs_sets_up_and_removes",
    ),
    (
        "docs/many-machines.md",
        "ansible-playbook -i inventory remove.yml",
        "the_role_installs_sets_up_and_removes",
    ),
    ("docs/many-machines.md", "podman build", "is_in_an_image"),
    ("docs/monitoring.md", "curl", "metrics_say_who_has_what"),
    ("docs/power-caps.md", "ncu", "the_commands_of_the_page_make_a_users_counters"),
    (
        "docs/real-gpu.md",
        "python3 contrib/real-gpu/facts.py",
        "the_facts_of_a_simulated_h200_are_told_to_the_end",
    ),
    (
        "docs/real-gpu.md",
        "python3 contrib/real-gpu/mix.py",
        "a_mix_of_jobs_is_submitted_and_what_failed_is_named",
    ),
];

/// Why some commands are not run.
const BY_HAND: &str = "it takes most of an hour or other machines; the page says when it was run";

/// Commands that no test runs: page, begin of the line, and why.
const NOT_RUN: [(&str, &str, &str); 4] = [
    ("docs/compatibility.md", "debootstrap", BY_HAND),
    ("docs/compatibility.md", "./configure", BY_HAND),
    ("docs/figures/pass.md", "pip install", "it downloads gigabytes of NVIDIA's packages"),
    ("docs/real-gpu.md", "python3 contrib/real-gpu/mps.py", "it tries what only a physical GPU does"),
];

/// Finds the entry of a list that is for what a page shows.
fn entry<'a>(list: &'a [(&str, &str, &str)], shown: &Shown) -> Option<&'a (&'a str, &'a str, &'a str)> {
    list.iter().find(|(page, begin, _)| shown.page == *page && shown.text.starts_with(begin))
}

#[test]
fn each_command_in_a_block_is_run_or_read_by_a_test() {
    let (mut unknown, mut used) = (Vec::new(), BTreeSet::new());
    for shown in shown().unwrap().iter().filter(|shown| matches!(shown.place, Place::Command { .. })) {
        if let Some(listed) = entry(&ELSEWHERE, shown).or_else(|| entry(&NOT_RUN, shown)) {
            used.insert(listed);
            continue;
        }
        for words in commands(&shown.text) {
            let name = words[0].trim_start_matches("./");
            let known = SLURM.contains(&name) || SHELL.contains(&name);
            if !known && !["tessera", "cargo"].contains(&name) {
                unknown.push(format!("{shown}: {name}"));
            }
        }
    }
    assert!(unknown.is_empty(), "no test runs or reads:\n{}", unknown.join("\n"));
    let listed: BTreeSet<_> = ELSEWHERE.iter().chain(&NOT_RUN).collect();
    assert_eq!(listed.difference(&used).collect::<Vec<_>>(), Vec::<&&_>::new(), "on no page");
}

/// Reads the sources of the tests that [`ELSEWHERE`] names.
#[test]
fn the_tests_that_run_other_commands_are_there() {
    let mut sources = String::new();
    for dir in ["cli/tests", "crates/sim/cuda-sim/tests", "tests/tests", "xtask/tests"] {
        read_below(&workspace().join(dir), &mut sources);
    }
    for (page, begin, test) in ELSEWHERE {
        assert!(sources.contains(&format!("fn {test}(")), "{page}: {begin}: no test {test}");
    }
}

fn read_below(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_below(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
