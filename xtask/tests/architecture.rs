//! Holds the workspace to `ARCHITECTURE.md`: who may depend on whom, and where unsafe code may stand.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Names of crates by the crate that may depend on them, or does.
type Arrows = BTreeMap<String, BTreeSet<String>>;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Our packages as cargo knows them.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline"]).current_dir(workspace());
    let out = cargo.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Normal dependencies among our own packages.
fn manifests(packages: &[Value]) -> Arrows {
    let ours: BTreeSet<String> = packages.iter().map(|p| text(&p["name"])).collect();
    let of = |package: &Value| -> BTreeSet<String> {
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        normal.map(|d| text(&d["name"])).filter(|name| ours.contains(name)).collect()
    };
    packages.iter().map(|p| (text(&p["name"]), of(p))).collect()
}

/// The words in backticks of a cell.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The table of crates: first column and last.
fn table(page: &str) -> Arrows {
    let section = page.split("\n## ").find(|s| s.starts_with("Crates\n")).unwrap();
    let row = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 3, "{row}");
        (names(cells[0]).into_iter().next().unwrap(), names(cells[2]))
    };
    section.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

fn page() -> String {
    fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn crates_depend_on_what_the_table_says() {
    let (allowed, found) = (table(&page()), manifests(&packages()));
    let crates = |arrows: &Arrows| arrows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(crates(&allowed), crates(&found), "crates of the table, crates of the workspace");
    for (name, dependencies) in &found {
        assert_eq!(&allowed[name], dependencies, "{name}: ARCHITECTURE.md, manifest");
    }
}

/// Folders below `crates/` whose crates plugins and daemons link, and those that none of these may depend on.
const PRODUCT: [&str; 3] = ["kernel", "node", "tasks"];
const APART: [&str; 4] = ["plans", "sim", "study", "tools"];

/// The folder below `crates/` that each of our packages stands in; none for plugins, CLI and tests.
fn folders(packages: &[Value]) -> BTreeMap<String, String> {
    let root = workspace().canonicalize().unwrap().join("crates");
    let folder = |package: &Value| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let inner = manifest.strip_prefix(&root).ok()?;
        Some(inner.iter().next()?.to_string_lossy().into_owned())
    };
    packages.iter().filter_map(|p| Some((text(&p["name"]), folder(p)?))).collect()
}

#[test]
fn no_arrow_runs_from_the_product_to_plans_simulators_or_the_laboratory() {
    let packages = packages();
    let folders = folders(&packages);
    let known: BTreeSet<&str> = PRODUCT.into_iter().chain(APART).chain(["power"]).collect();
    assert_eq!(folders.values().map(String::as_str).collect::<BTreeSet<_>>(), known);
    let of = |name: &String| folders.get(name).map_or("", String::as_str);
    let wrong: Vec<String> = manifests(&packages)
        .iter()
        .filter(|(name, _)| PRODUCT.contains(&of(name)))
        .flat_map(|(name, on)| on.iter().map(move |other| (name, other)))
        .filter(|(_, other)| APART.contains(&of(other)))
        .map(|(name, other)| format!("{name} depends on {other}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_tables_arrows_do_not_run_in_a_circle() {
    let mut left = table(&page());
    while let Some(name) = left.iter().find(|(_, on)| on.is_empty()).map(|(name, _)| name.clone()) {
        left.remove(&name);
        left.values_mut().for_each(|on| {
            on.remove(&name);
        });
    }
    assert_eq!(left, Arrows::new(), "each of these waits for another");
}

/// The roots of a package's libraries and programs.
fn roots(package: &Value) -> Vec<PathBuf> {
    let targets = package["targets"].as_array().unwrap().iter();
    let ships = |t: &&Value| {
        let kinds = t["kind"].as_array().unwrap();
        kinds.iter().any(|k| ["lib", "cdylib", "rlib", "bin"].contains(&k.as_str().unwrap()))
    };
    targets.filter(ships).map(|t| PathBuf::from(text(&t["src_path"]))).collect()
}

/// The sources in a folder and below.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(end) if end == "rs" => vec![fs::read_to_string(&path).unwrap()],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}

/// True if the compiler refuses unsafe code everywhere but in modules `ffi`.
fn is_held(root: &Path) -> bool {
    let source = fs::read_to_string(root).unwrap();
    if source.contains("#![forbid(unsafe_code)]") {
        return true;
    }
    let sources = sources(root.parent().unwrap());
    let exceptions: Vec<&str> = sources.iter().flat_map(|s| s.split("[expect(unsafe_code").skip(1)).collect();
    let of_ffi =
        |rest: &&str| rest.lines().find(|l| l.contains("mod ")).is_some_and(|l| l.ends_with("mod ffi;"));
    source.contains("#![deny(unsafe_code)]") && !exceptions.is_empty() && exceptions.iter().all(of_ffi)
}

#[test]
fn unsafe_code_is_forbidden_or_stands_in_ffi() {
    let free: Vec<PathBuf> = packages().iter().flat_map(roots).filter(|root| !is_held(root)).collect();
    assert_eq!(
        free,
        Vec::<PathBuf>::new(),
        "neither forbid(unsafe_code), nor deny with expect on `mod ffi` alone"
    );
}

/// rustdoc would compile it with libraries that nothing else needs: an example is a test, or its fence names another language.
#[test]
fn no_comment_has_an_example_for_rustdoc() {
    let fences = |source: &String| {
        let comments =
            source.lines().map(str::trim_start).filter(|l| l.starts_with("//!") || l.starts_with("///"));
        let fences: Vec<&str> = comments.map(|l| l[3..].trim()).filter(|l| l.starts_with("```")).collect();
        fences.iter().step_by(2).filter(|opening| matches!(**opening, "```" | "```rust")).count()
    };
    let folders: BTreeSet<PathBuf> =
        packages().iter().flat_map(roots).map(|root| root.parent().unwrap().to_path_buf()).collect();
    let all: usize = folders.iter().flat_map(|folder| sources(folder)).map(|source| fences(&source)).sum();
    assert_eq!(all, 0);
}
