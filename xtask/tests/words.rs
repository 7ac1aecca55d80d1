//! Holds the doc comments of what slurmctld and root run to a plain beginning, a verb or a noun, and types to names of their own:
//! `cargo test -p xtask --test words -- --nocapture` prints those that many files define.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "trust/artefacts.rs"]
#[allow(dead_code, reason = "the lists of crates and the budgets are for the test of trust")]
mod artefacts;
#[path = "trust/sources.rs"]
#[allow(dead_code, reason = "the functions' lengths are for the test of trust")]
mod sources;
#[path = "trust/workspace.rs"]
#[allow(dead_code, reason = "the numbers of lines are for the test of trust")]
mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use artefacts::ARTEFACTS;
use workspace::Workspace;

/// Most comments in a hundred that may begin with one of [`RIDDLES`]. It only goes down.
const MOST_PERCENT: usize = 1;

/// Words that begin a question or point at another comment, where a verb or a noun says more.
const RIDDLES: [&str; 18] = [
    "What", "Whether", "The same", "Those", "Which", "Who", "Whom", "Whose", "How", "Where", "When", "Its",
    "It", "They", "Their", "Of", "That", "One of",
];

/// First line of each doc comment of an item or a file, with its number in the file.
fn openings(text: &str) -> Vec<(usize, String)> {
    let marks = ["/// ", "//! "];
    let comment =
        |line: &str| marks.iter().find_map(|mark| line.trim_start().strip_prefix(mark)).map(str::to_owned);
    let mut within = false;
    let first = |(number, line): (usize, String)| {
        let is_doc = marks.iter().any(|mark| line.trim_start().starts_with(mark.trim_end()));
        let continues = std::mem::replace(&mut within, is_doc);
        comment(&line).filter(|_| !continues).map(|comment| (number, comment))
    };
    sources::numbered(text).into_iter().filter_map(first).collect()
}

fn is_riddle(comment: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    RIDDLES.iter().any(|word| comment.strip_prefix(word).is_some_and(ends))
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let workspace = Workspace::read();
    let linked = ARTEFACTS.iter().flat_map(|artefact| workspace.closure(artefact.package));
    let ours: BTreeSet<String> = linked.filter(|name| workspace.ours.contains_key(name)).collect();
    let (mut all, mut riddles) = (0, Vec::new());
    for (path, _) in ours.iter().flat_map(|name| workspace.files(name)) {
        let openings = openings(&fs::read_to_string(&path).unwrap());
        all += openings.len();
        let found = openings.into_iter().filter(|(_, comment)| is_riddle(comment));
        riddles.extend(found.map(|(number, comment)| format!("{}:{number}: {comment}", path.display())));
    }
    assert!(all > 4000, "only {all} doc comments were found");
    assert!(
        riddles.len() * 100 <= all * MOST_PERCENT,
        "{} of {all} doc comments, more than {MOST_PERCENT} %, begin with a word of {RIDDLES:?}:\n{}",
        riddles.len(),
        riddles.join("\n")
    );
}

#[test]
fn only_the_first_line_of_a_products_comment_counts() {
    let text = "//! What a file has.\n\n/// What a is.\n/// Which is good.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    /// How.\n    fn b() {\n    }\n}\n\
                #[must_use]\n/// Whatever c is.\nfn c() {}\n    /// The same, for d.\n    d: u32,\n";
    let found = openings(text);
    let numbers: Vec<_> = found.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 3, 13, 15]);
    let riddles: Vec<_> = found.iter().map(|(_, comment)| is_riddle(comment)).collect();
    assert_eq!(riddles, [true, true, false, true]);
}

/// A type's name is common if so many places define it.
const COMMON: usize = 5;

/// Most common names of types. It only goes down.
const MOST_COMMON: usize = 7;

/// The name of the type that a line begins to define. A `type` within a trait or an `impl` is part of another type.
fn defined(line: &str) -> Option<&str> {
    let is_inner = line.starts_with(' ');
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => rest,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let (word, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "union"].contains(&word) || (word == "type" && !is_inner);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (is_type && end > 0).then_some(&rest[..end])
}

#[test]
fn few_names_mean_many_types() {
    let workspace = Workspace::read();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The end-to-end tests have no product source.
    let products = workspace.ours.iter().filter(|(_, folder)| folder.join("src").exists());
    for (path, lines) in products.flat_map(|(name, _)| workspace.files(name)) {
        for name in lines.iter().filter_map(|line| defined(line)) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    assert!(places.len() > 1000, "only {} names of types were found", places.len());
    places.retain(|_, places| places.len() >= COMMON);
    places.iter().for_each(|(name, places)| println!("{name}: {}", places.join(" ")));
    let names: Vec<_> = places.keys().collect();
    assert!(
        names.len() <= MOST_COMMON,
        "{} names are defined {COMMON} times or more, at most {MOST_COMMON} may be: {names:?}",
        names.len()
    );
}

#[test]
fn a_type_is_found_where_it_is_defined() {
    let lines = [
        "pub(crate) struct A<T>(T);",
        "    enum B {",
        "pub type C = D;",
        "    type E = F;",
        "pub unsafe trait G {",
    ];
    assert_eq!(lines.map(defined), [Some("A"), Some("B"), Some("C"), None, Some("G")]);
    assert_eq!(["struct", "fn struct_of() {", "// struct H", "let type_ = 1;"].map(defined), [None; 4]);
}
