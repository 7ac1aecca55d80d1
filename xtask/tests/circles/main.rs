//! Holds the modules of each crate to one direction: no two siblings use each other, and none of those right below a crate's root
//! stand in a circle.
//!
//! A module is its file and everything below it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod graph;
mod modules;
#[path = "../trust/sources.rs"]
#[allow(dead_code, reason = "the functions' lengths are for the test of trust")]
mod sources;
mod tokens;
#[path = "../trust/workspace.rs"]
#[allow(dead_code, reason = "the numbers of lines are for the test of trust")]
mod workspace;

use std::fs;
use std::path::{Path, PathBuf};

use modules::Module;
use workspace::Workspace;

/// Files that a package's crates begin with: its library, its program and those in `bin`.
fn roots(folder: &Path) -> Vec<PathBuf> {
    let source = folder.join("src");
    let bins = fs::read_dir(source.join("bin")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let bins = bins.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let named = ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().filter(|path| path.exists());
    named.chain(bins).collect()
}

/// Modules of each crate of the workspace, with the package's name.
fn crates() -> Vec<(String, Vec<Module>)> {
    let workspace = Workspace::read();
    let one = |(name, folder): (&String, &PathBuf)| {
        roots(folder).into_iter().map(|root| (name.clone(), modules::read(&root))).collect::<Vec<_>>()
    };
    workspace.ours.iter().flat_map(one).collect()
}

#[test]
fn no_two_siblings_use_each_other() {
    let of_crate = |(name, modules): (String, Vec<Module>)| -> Vec<String> {
        let pairs = graph::pairs(&modules).into_iter();
        pairs
            .map(|((a, b), paths)| {
                format!("{name}: {a} and {b}\n    {}", Vec::from_iter(paths).join("\n    "))
            })
            .collect()
    };
    let found: Vec<String> = crates().into_iter().flat_map(of_crate).collect();
    assert!(found.is_empty(), "these use each other:\n{}", found.join("\n"));
}

#[test]
fn modules_below_a_root_stand_in_no_circle() {
    let of_crate = |(name, modules): (String, Vec<Module>)| {
        graph::circles(&modules).into_iter().map(move |group| format!("{name}: {}", group.join(", ")))
    };
    let found: Vec<String> = crates().into_iter().flat_map(of_crate).collect();
    assert!(found.is_empty(), "each of these uses each, by way of others:\n{}", found.join("\n"));
}
