//! Holds the modules of each crate to one direction: no two siblings use each other, and none of those right below a crate's root
//! stand in a circle. [`STAY`] has the exceptions.
//!
//! A module is its file and everything below it. `cargo test -p xtask --test circles -- --nocapture` prints what it finds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod graph;
mod modules;
#[path = "../trust/sources.rs"]
#[allow(dead_code, reason = "the functions' lengths are for the test of trust")]
mod sources;
mod tokens;
#[path = "../trust/workspace.rs"]
#[allow(dead_code, reason = "the numbers of lines are for the test of trust")]
mod workspace;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use modules::Module;
use workspace::Workspace;

/// Pairs of siblings that may use each other: package, the two modules, and the reason. None of them runs in slurmctld or as root.
const STAY: [(&str, &str, &str, &str); 1] = [(
    "cuda-sim",
    "core",
    "ffi",
    "all unsafe code stands in one module: the C interface, and the memory that the core maps",
)];

/// Most pairs that may stay.
const MOST: usize = 5;

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

/// Says what the list lacks and what it has too much.
fn compare<T: Ord + std::fmt::Debug>(found: &BTreeSet<T>, listed: &BTreeSet<T>) -> String {
    let line = |what: &str, one: &T| format!("{what}: {one:?}\n");
    let new = found.difference(listed).map(|one| line("new", one));
    let gone = listed.difference(found).map(|one| line("mended, take it off the list", one));
    new.chain(gone).collect()
}

#[test]
fn siblings_use_each_other_only_where_listed() {
    let listed: BTreeSet<_> =
        STAY.iter().map(|(name, a, b, _)| (name.to_string(), a.to_string(), b.to_string())).collect();
    let mut found = BTreeSet::new();
    for (name, modules) in crates() {
        for ((a, b), paths) in graph::pairs(&modules) {
            println!("(\"{name}\", \"{a}\", \"{b}\"),");
            paths.iter().for_each(|path| println!("    {path}"));
            found.insert((name.clone(), a, b));
        }
    }
    let wrong = compare(&found, &listed);
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn modules_below_a_root_stand_in_no_circle() {
    let of_crate = |(name, modules): (String, Vec<Module>)| {
        graph::circles(&modules).into_iter().map(move |group| format!("{name}: {}", group.join(", ")))
    };
    let found: Vec<String> = crates().into_iter().flat_map(of_crate).collect();
    assert!(found.is_empty(), "each of these uses each, by way of others:\n{}", found.join("\n"));
}

#[test]
fn few_pairs_stay_and_none_where_slurmctld_or_root_runs() {
    let ours = Workspace::read().ours;
    let loaded = ["kernel", "node", "gres-helper", "select-plugin", "spank-plugin"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = |name: &str| ours[name].strip_prefix(root).unwrap();
    let is_loaded = |name: &str| folder(name).iter().any(|part| loaded.iter().any(|one| part == *one));
    assert!(STAY.len() <= MOST, "{} pairs stay, at most {MOST} may", STAY.len());
    for (name, a, b, _) in STAY {
        assert!(!is_loaded(name), "{name}: {a} and {b} use each other");
    }
}
