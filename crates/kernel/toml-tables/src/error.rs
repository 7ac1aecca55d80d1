//! Errors with their place in the file.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as it was named to `site_config::parse`.
    pub file: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the error, in one line.
    pub what: String,
    /// Advice, in one line.
    pub hint: Option<String>,
    /// The line of the file.
    pub source_line: String,
    /// Characters that the error marks there.
    pub width: usize,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// Collects the errors of one file.
pub struct Errors<'t> {
    file: &'t str,
    text: &'t str,
    found: RefCell<Vec<(usize, ConfigError)>>,
}

impl<'t> Errors<'t> {
    /// No error yet, in the file of this name with this text.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, found: RefCell::default() }
    }

    /// Notes an error at a byte range of the text.
    pub fn push(&self, span: Range<usize>, what: impl Into<String>, hint: Option<String>) {
        let found = self.at(self.inside_quotes(span), what.into(), hint);
        self.found.borrow_mut().push(found);
    }

    /// Line of a byte of the text, from 1.
    pub fn line_of(&self, byte: usize) -> usize {
        self.text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Adds the errors of another file, which is named at this byte.
    pub fn adopt(&self, offset: usize, others: Vec<ConfigError>) {
        self.found.borrow_mut().extend(others.into_iter().map(|e| (offset, e)));
    }

    /// Gives all errors in the order of the file.
    pub fn into_sorted(self) -> Vec<ConfigError> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(offset, _)| *offset);
        found.into_iter().map(|(_, e)| e).collect()
    }

    /// Only the first `n` errors that were noted.
    pub fn keep_first(self, n: usize) -> Vec<ConfigError> {
        self.found.borrow_mut().truncate(n);
        self.into_sorted()
    }

    /// The range of a string without its quotes.
    fn inside_quotes(&self, span: Range<usize>) -> Range<usize> {
        let quoted = self.text.get(span.clone()).is_some_and(|s| {
            s.len() > 2 && ['"', '\''].into_iter().any(|q| s.starts_with(q) && s.ends_with(q))
        });
        if quoted { span.start + 1..span.end - 1 } else { span }
    }

    fn at(&self, span: Range<usize>, what: String, hint: Option<String>) -> (usize, ConfigError) {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let source_line = self.text[line_start..].lines().next().unwrap_or_default().to_owned();
        let column = self.text[line_start..start].chars().count() + 1;
        let marked = self.text.get(start..span.end).unwrap_or_default();
        let width = marked.lines().next().unwrap_or_default().trim_end().chars().count().max(1);
        let line = before.matches('\n').count() + 1;
        // Control characters of the file must reach neither a terminal nor a log.
        let plain = |text: String| text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
        let (what, hint, source_line) = (plain(what), hint.map(plain), plain(source_line));
        (start, ConfigError { file: self.file.to_owned(), line, column, what, hint, source_line, width })
    }
}

/// The candidate nearest to `typed` by edit distance, if it is near enough to be what the user meant.
#[must_use]
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&typed.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// A hint for a word that is none of `candidates`: the nearest one, or all of them.
pub fn suggest(typed: &str, candidates: &[&str]) -> String {
    match nearest(typed, candidates.iter().copied()) {
        Some(c) => format!("did you mean {c}?"),
        None => format!("use one of {}", candidates.join(", ")),
    }
}
