//! Reads `--gpu-pattern`, and the edge list of `file:PATH`.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use placement::Pattern;
use placement::request::PatternEdge;
use placement::wire::{MAX_EDGES, parse_weight};

/// Most bytes of an edge list: four times what [`MAX_EDGES`] edges with comments need.
const MAX_BYTES: u64 = 64 * 1024;
/// Highest rank that a request can carry.
const MAX_RANK: u16 = 1023;

const EXPECTED: &str = "expected ring, tree, chain, star, all, none, ring+tree or file:PATH";

/// Reads the option's text; `read_file` reads the named file as the submitting user.
pub(super) fn read(
    text: &str,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Pattern, String> {
    if let Some(named) = Pattern::by_name(text) {
        return Ok(named);
    }
    match text.strip_prefix("file:") {
        None => Err(format!("is unknown: {EXPECTED}")),
        Some("") => Err(format!("names no file: {EXPECTED}")),
        Some(path) => Ok(Pattern::Edges(edges(&read_file(path)?)?)),
    }
}

/// Reads an edge list: one edge per line, two ranks separated by blanks or `-`, and at will the edge's weight; `#`
/// starts a comment.
///
/// Edges keep the file's order; one that stands there twice, in either direction, counts once.
fn edges(text: &str) -> Result<Vec<PatternEdge>, String> {
    let mut edges = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some(edge) = edge(line) else {
            return Err(format!(
                "line {}: {:?} is not an edge: expected two different ranks from 0 to {MAX_RANK} and at will a weight \
                 from 0.001 to 1000, such as 0 1 or 0 1 0.5",
                index + 1,
                line.chars().take(20).collect::<String>()
            ));
        };
        if seen.insert((edge.a.min(edge.b), edge.a.max(edge.b))) {
            edges.push(edge);
        }
        if edges.len() > MAX_EDGES {
            return Err(format!("has more than {MAX_EDGES} edges"));
        }
    }
    if edges.is_empty() {
        return Err("has no edges: expected lines of two ranks, such as 0 1".to_owned());
    }
    Ok(edges)
}

fn edge(line: &str) -> Option<PatternEdge> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let (a, b) = match first.split_once('-') {
        Some((a, b)) => (rank(a)?, rank(b)?),
        None => (rank(first)?, rank(words.next()?)?),
    };
    let milli = words.next().map_or(Some(PatternEdge::PLAIN), parse_weight)?;
    (words.next().is_none() && a != b).then_some(PatternEdge { a, b, milli })
}

fn rank(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|r| *r <= MAX_RANK)
}

/// Reads a small regular file. A FIFO or a device is refused instead of blocking the submission.
pub(crate) fn read_regular_file(path: &str) -> Result<String, String> {
    let fail = |what: &dyn std::fmt::Display| format!("cannot be read: {what}");
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(|e| fail(&e))?;
    let meta = file.metadata().map_err(|e| fail(&e))?;
    if !meta.is_file() {
        return Err(fail(&"not a regular file"));
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|e| fail(&e))?;
    if read as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    Ok(text)
}
