//! Links of the pages, as a browser of the sources and as mdBook follow them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use lab::pages::files;
use lab::paths::workspace;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links of a page, and the names that a link may have after `#`.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    names: BTreeSet<String>,
}

/// Makes a heading's name as mdBook and GitHub do: letters, digits, `_` and `-`, with `-` for blanks.
fn name(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-') || c.is_whitespace());
    kept.map(|c| if c.is_whitespace() { '-' } else { c }).collect()
}

fn read(text: &str) -> Page {
    let (mut page, mut heading) = (Page::default(), None::<String>);
    let options = Options::ENABLE_TABLES | Options::ENABLE_DEFINITION_LIST;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(more) | Event::Code(more) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&more);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = name(&heading.take().unwrap_or_default());
                // A second heading with the same words has a number.
                let again = (1..).map(|n| format!("{name}-{n}")).find(|again| !page.names.contains(again));
                let name = if page.names.contains(&name) { again.unwrap_or(name) } else { name };
                page.names.insert(name);
            }
            _ => {}
        }
    }
    page
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

#[test]
fn a_headings_name_is_that_of_mdbook() {
    let page = read("# `AutoDetect` in gres.conf\n\n## A_b: c-d, *e*\n\n## Twice\n\n## Twice\n");
    let names: Vec<&str> = page.names.iter().map(String::as_str).collect();
    assert_eq!(names, ["a_b-c-d-e", "autodetect-in-gresconf", "twice", "twice-1"]);
}

#[test]
fn every_link_leads_to_a_page_and_a_heading_also_in_the_book() {
    let docs = workspace().join("docs");
    let mut all = files().unwrap();
    all.push(workspace().join("CHANGELOG.md"));
    let all: BTreeMap<PathBuf, Page> =
        all.into_iter().map(|file| (file.clone(), read(&fs::read_to_string(file).unwrap()))).collect();
    let (mut wrong, mut anchors) = (Vec::new(), 0);
    for (file, page) in &all {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            let (path, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(path, name)| (path, Some(name)));
            let target = if path.is_empty() { file.clone() } else { plain(&file.with_file_name(path)) };
            let named = |name| all.get(&target).is_some_and(|page| page.names.contains(name));
            let problem = if !target.exists() {
                "is not there"
            } else if anchor.is_some_and(|name| !named(name)) {
                "has no such heading"
            } else if file.starts_with(&docs) && !target.starts_with(&docs) {
                "is not in the book"
            } else {
                anchors += usize::from(anchor.is_some());
                continue;
            };
            wrong.push(format!("{}: {link} {problem}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(anchors > 20, "{anchors}");
}
