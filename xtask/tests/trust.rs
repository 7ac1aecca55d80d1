//! Holds what slurmctld and root run to a written list of crates and a budget of lines: `cargo test -p xtask --test trust --
//! --nocapture` prints both.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What slurmctld, slurmd, slurmstepd or root loads or runs.
struct Artefact {
    /// What a site calls it.
    name: &'static str,
    package: &'static str,
    /// Every crate of ours that is linked into it, beside itself.
    crates: &'static [&'static str],
    /// The most product lines of it and of `crates`, in thousands: what it has now. It only goes down.
    thousands: f64,
}

const ARTEFACTS: [Artefact; 6] = [
    Artefact {
        name: "select_cons_tres.so (slurmctld)",
        package: "select-plugin",
        crates: &[
            "admission",
            "decision-counts",
            "decision-report",
            "error-chain",
            "geometry",
            "mapa",
            "node-state",
            "placement",
            "plugin-rt",
            "power",
            "protocol",
            "shared-pages",
            "site-config",
            "site-files",
            "toml-tables",
            "topology",
        ],
        thousands: 27.0,
    },
    Artefact {
        name: "job_submit_tessera.so (slurmctld)",
        package: "gres-helper",
        crates: &[
            "admission",
            "decision-counts",
            "decision-report",
            "error-chain",
            "geometry",
            "mapa",
            "node-state",
            "placement",
            "plugin-rt",
            "power",
            "protocol",
            "shared-pages",
            "site-config",
            "site-files",
            "site-problems",
            "toml-tables",
            "topology",
        ],
        thousands: 22.4,
    },
    Artefact {
        name: "spank_tessera.so",
        package: "spank-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "gpu-node",
            "job-options",
            "job-usage",
            "node-driver",
            "node-journal",
            "node-state",
            "plugin-rt",
            "power",
            "protocol",
            "site-config",
            "site-files",
            "task-control",
            "toml-tables",
            "topology",
        ],
        thousands: 28.6,
    },
    Artefact {
        name: "acct_gather_energy_tessera.so",
        package: "energy-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "job-usage",
            "node-driver",
            "node-journal",
            "plugin-rt",
            "topology",
        ],
        thousands: 8.0,
    },
    Artefact {
        name: "acct_gather_interconnect_tessera.so",
        package: "usage-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "job-usage",
            "node-driver",
            "node-journal",
            "plugin-rt",
            "topology",
        ],
        thousands: 8.0,
    },
    Artefact {
        name: "tessera-broker",
        package: "task-broker",
        crates: &["case", "error-chain", "geometry", "node-driver", "task-control", "task-wire", "topology"],
        thousands: 11.5,
    },
];
/// The most product lines of all of them together, in thousands.
const TOGETHER: f64 = 51.6;
/// What none of them may link, from whatever registry: a command line for people, and what only tests and studies need.
const NEVER: [&str; 6] = ["clap", "criterion", "proptest", "insta", "audit", "physics"];

/// The workspace's packages and what each is linked with.
struct Workspace {
    /// Manifest folder of each package of ours, by name.
    ours: BTreeMap<String, PathBuf>,
    /// Names of what each package links, by its own name and version.
    links: BTreeMap<String, Vec<String>>,
    /// The name of each id.
    names: BTreeMap<String, String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Packages and what links what on a node, with no feature that is off by default.
fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--format-version=1",
        "--offline",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]);
    let out = cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

impl Workspace {
    fn read() -> Workspace {
        let data = metadata();
        let packages = || data["packages"].as_array().unwrap().iter();
        let names = packages().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
        let is_ours = |p: &&Value| p["source"].is_null();
        let folder = |p: &Value| Path::new(p["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned();
        let ours = packages().filter(is_ours).map(|p| (text(&p["name"]), folder(p))).collect();
        let is_linked =
            |dep: &&Value| dep["dep_kinds"].as_array().unwrap().iter().any(|k| k["kind"].is_null());
        let links = |node: &Value| {
            let deps = node["deps"].as_array().unwrap().iter().filter(is_linked);
            (text(&node["id"]), deps.map(|dep| text(&dep["pkg"])).collect())
        };
        let links = data["resolve"]["nodes"].as_array().unwrap().iter().map(links).collect();
        Workspace { ours, links, names }
    }

    /// Names of everything that is linked into this package of ours, itself too.
    fn closure(&self, package: &str) -> BTreeSet<String> {
        let is_it = |id: &&String| self.names[*id] == package && self.ours.contains_key(package);
        let mut open: Vec<&String> = self.links.keys().filter(is_it).collect();
        let mut ids = BTreeSet::new();
        while let Some(id) = open.pop() {
            if ids.insert(id) {
                open.extend(&self.links[id]);
            }
        }
        ids.into_iter().map(|id| self.names[id].clone()).collect()
    }

    /// Product lines of a package of ours.
    fn lines(&self, package: &str) -> usize {
        let mut lines = 0;
        count(&self.ours[package].join("src"), &mut lines);
        lines
    }
}

/// Adds the lines of the Rust files of a folder, without those that only tests compile.
fn count(folder: &Path, lines: &mut usize) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| !is_for_tests(path)) {
        if path.is_dir() {
            count(path, lines);
        } else if path.extension().is_some_and(|end| end == "rs") {
            *lines += product(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Tells whether the file or folder is a module under `#[cfg(test)]` of the file beside or above it.
fn is_for_tests(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let folder = path.parent().unwrap();
    let above =
        [folder.join("mod.rs"), folder.join("lib.rs"), folder.join("main.rs"), folder.with_extension("rs")];
    let declared = format!("#[cfg(test)]\nmod {name};");
    above.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(&declared)))
}

/// Lines of a file, without the modules and items that stand under `#[cfg(test)]`.
fn product(text: &str) -> usize {
    let mut lines = text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        for line in lines.by_ref() {
            let is_at_start = line.len() - line.trim_start().len() == indent;
            if is_at_start && (line.trim_start().starts_with('}') || line.trim_end().ends_with([';', '}'])) {
                break;
            }
        }
    }
    count
}

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
    assert_eq!(product(text), 2);
}
