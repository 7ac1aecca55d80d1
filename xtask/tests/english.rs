//! Words that make a page hard to read in a second language: few of them on each page that users read.
//!
//! A page may have one in a thousand words, and each page two. The limit is what an editor left on pages that other readers read
//! aloud without stopping; it helps to find a page that was written in a hurry, and says nothing of one that passes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Words that have a plainer one each: with, no job, again, fix, Tessera's, is in.
const WORDS: [&str; 12] = [
    "beside", "nobody", "somebody", "whoever", "anew", "mend", "mends", "mended", "ours", "foretell", "heed",
    "which",
];
/// Words before *which* that tear a sentence in two: a new sentence says it better.
const BEFORE_WHICH: [&str; 11] =
    ["of", "by", "with", "for", "to", "from", "in", "on", "after", "under", "through"];
/// Pairs of words, in the same way.
const PAIRS: [(&str, &str); 7] = [
    ("stands", "in"),
    ("stand", "in"),
    ("stands", "there"),
    ("stand", "there"),
    ("so", "many"),
    ("so", "much"),
    ("each", "look"),
];
/// Most of them in a thousand words.
const OF_THOUSAND: usize = 1;

/// A page's words without code, in small letters.
fn words(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2).flat_map(|part| part.split('`').step_by(2));
    let words = prose.flat_map(str::split_whitespace);
    let bare = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
    bare.filter(|word| !word.is_empty()).collect()
}

/// The words of a page for which there is a plainer one, each with its neighbours.
fn hard(words: &[String]) -> Vec<String> {
    let is_hard = |at: usize| {
        let (before, word) = (at.checked_sub(1).map_or("", |i| words[i].as_str()), words[at].as_str());
        match word {
            "which" => BEFORE_WHICH.contains(&before),
            _ => WORDS.contains(&word) || PAIRS.contains(&(before, word)),
        }
    };
    let around = |at: usize| words[at.saturating_sub(3)..(at + 3).min(words.len())].join(" ");
    (0..words.len()).filter(|at| is_hard(*at)).map(around).collect()
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let below = |dir: &str| fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = below("").chain(below("docs")).chain(below("docs/man")).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "md"));
    all
}

#[test]
fn pages_use_plain_words() {
    let mut bad = String::new();
    for page in pages() {
        let words = words(&fs::read_to_string(&page).unwrap());
        let found = hard(&words);
        if found.len() > (words.len() * OF_THOUSAND / 1000).max(2) {
            bad.push_str(&format!(
                "{}: {} of {} words: {found:#?}\n",
                page.display(),
                found.len(),
                words.len()
            ));
        }
    }
    assert!(bad.is_empty(), "{bad}");
}

#[test]
fn code_is_not_read_and_pairs_are() {
    let text =
        "It stands in `nobody`, of\nwhich three are ours.\n```\nbeside\n```\nWhich one? It says which.";
    assert_eq!(
        hard(&words(text)),
        ["it stands in of which", "stands in of which three are", "which three are ours which one"]
    );
}
