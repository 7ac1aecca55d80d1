//! Tables with a header, whose errors name the file, the line and the column.

use thiserror::Error;

/// A record that cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct ReadError {
    /// The file as the caller named it.
    pub file: String,
    /// Line of the row; the header is 1.
    pub line: usize,
    /// The column's name, what it says, and what was expected.
    pub what: String,
}

/// Longest part of a bad field that an error repeats, in characters.
const SHOWN: usize = 40;

/// A file's records, with the places of the columns that the caller reads.
pub(crate) struct CsvTable<'a, const N: usize> {
    file: &'a str,
    columns: [(&'static str, Option<usize>); N],
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

/// A record: its fields in the order of the columns that were asked for.
pub(crate) struct CsvRecord<'a, const N: usize> {
    file: &'a str,
    line: usize,
    fields: [(&'static str, &'a str); N],
}

impl<'a, const N: usize> CsvTable<'a, N> {
    /// Finds the columns in the header. Other columns are ignored.
    ///
    /// A column whose name ends with `?` may be absent, and is then empty in every record.
    pub(crate) fn new(file: &'a str, text: &'a str, names: [&'static str; N]) -> Result<Self, ReadError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        let mut columns = [("", None); N];
        for (column, named) in columns.iter_mut().zip(names) {
            let name = named.trim_end_matches('?');
            let at = header.split(',').position(|field| field.trim() == name);
            if at.is_none() && name == named {
                let what = format!("no column {name}; the header must name {}", names.join(","));
                return Err(ReadError { file: file.to_owned(), line: 1, what });
            }
            *column = (name, at);
        }
        Ok(Self { file, columns, lines })
    }

    /// Reads the next record that is not empty.
    pub(crate) fn next(&mut self) -> Option<Result<CsvRecord<'a, N>, ReadError>> {
        let (at, text) = self.lines.find(|(_, line)| !line.trim().is_empty())?;
        let all: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut fields = [("", ""); N];
        for (field, &(name, place)) in fields.iter_mut().zip(&self.columns) {
            let Some(&value) = place.map_or(Some(&""), |place| all.get(place)) else {
                let what = format!("column {name}: missing; the line has {} fields", all.len());
                return Some(Err(ReadError { file: self.file.to_owned(), line: at + 1, what }));
            };
            *field = (name, value);
        }
        Some(Ok(CsvRecord { file: self.file, line: at + 1, fields }))
    }
}

impl<'a, const N: usize> CsvRecord<'a, N> {
    pub(crate) fn text(&self, at: usize) -> &'a str {
        self.fields[at].1
    }

    /// Reads a whole number of at most `most`.
    pub(crate) fn number(&self, at: usize, most: u64) -> Result<u64, ReadError> {
        let text = self.text(at);
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        number
            .filter(|&number| number <= most)
            .ok_or_else(|| self.error(at, &format!("expected a whole number from 0 to {most}")))
    }

    pub(crate) fn error(&self, at: usize, expected: &str) -> ReadError {
        let (name, value) = self.fields[at];
        let shown: String = value.chars().take(SHOWN).collect();
        let what = format!("column {name}: {shown:?}: {expected}");
        ReadError { file: self.file.to_owned(), line: self.line, what }
    }
}
