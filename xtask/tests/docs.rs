//! The book: every page is in its table of contents, and what pages link to is there.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All Markdown files below `dir`.
fn pages(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.insert(path);
        }
    }
}

/// Where the links of a page lead: not those to the web, and without the part after `#`.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let local = ends.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace));
    local
        .map(|target| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|t| !t.is_empty())
        .collect()
}

#[test]
fn every_page_is_in_the_book_and_every_link_leads_somewhere() {
    let docs = root().join("docs");
    let mut all = BTreeSet::new();
    pages(&docs, &mut all);
    let summary = docs.join("SUMMARY.md");
    let listed = links(&fs::read_to_string(&summary).unwrap()).into_iter().map(|page| docs.join(page));
    let listed: BTreeSet<PathBuf> = listed.chain([summary]).collect();
    assert_eq!(all.difference(&listed).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "not in docs/SUMMARY.md");
    let others = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name));
    for page in all.iter().chain(&others) {
        for target in links(&fs::read_to_string(page).unwrap()) {
            assert!(page.parent().unwrap().join(&target).exists(), "{}: {target}", page.display());
        }
    }
}
