//! The workspace's packages and what each is linked with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::sources;

/// The workspace's packages and what each is linked with.
pub(crate) struct Workspace {
    /// Manifest folder of each package of ours, by name.
    pub(crate) ours: BTreeMap<String, PathBuf>,
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
    pub(crate) fn read() -> Workspace {
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
    pub(crate) fn closure(&self, package: &str) -> BTreeSet<String> {
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
    pub(crate) fn lines(&self, package: &str) -> usize {
        self.files(package).iter().map(|(_, lines)| lines.len()).sum()
    }

    /// Product lines of each of its files.
    pub(crate) fn files(&self, package: &str) -> Vec<(PathBuf, Vec<String>)> {
        let mut files = Vec::new();
        sources::read(&self.ours[package].join("src"), &mut files);
        files
    }
}
