//! The text of tables: one row for each field or value, with the releases from which on it lies elsewhere.
//!
//! ```text
//! releases 22.05.8 24.11.5
//! job_record 22.05.8=984 24.11.5=1160
//! job_record.details 22.05.8=192:8 24.11.5=216:8
//! JOB_MAGIC 22.05.8=4044478
//! resv_exc.gres_list_exc 22.05.8=- 24.11.5=48:8
//! ```
//!
//! The first row names the releases that are known. The row of a structure has its bytes, that of a field its position and its
//! bytes, that of a value its number; `-` says that the release has no such thing. What a row does not say of a release is
//! as in the one before.

use std::collections::{BTreeMap, HashMap};

use crate::version::Version;
use crate::{AARCH64, TABLES};

/// An entry of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The release has no such field or value.
    Absent,
    /// The bytes of a structure, or the number of a value.
    Number(u64),
    /// A field.
    Field {
        /// Bytes before it in its structure.
        position: usize,
        /// Bytes of the field.
        bytes: usize,
    },
}

impl Cell {
    fn parse(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::Absent);
        }
        match text.split_once(':') {
            None => text.parse().ok().map(Self::Number),
            Some((position, bytes)) => {
                Some(Self::Field { position: position.parse().ok()?, bytes: bytes.parse().ok()? })
            }
        }
    }
}

/// A line that is no row of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the table: {why}")]
pub struct BadRow {
    /// Counted from 1.
    pub line: usize,
    /// Error in the row.
    pub why: String,
}

/// A table cannot be used for a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTable {
    /// The release is not among those of the table.
    #[error("no table for Slurm {0}")]
    NotKnown(Version),
    /// A row cannot be right.
    #[error("the table for Slurm {version} cannot be right: {name} {why}")]
    Wrong {
        /// The release.
        version: Version,
        /// The row.
        name: String,
        /// Error in the row.
        why: String,
    },
}

/// The rows of all releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The releases that are known, oldest first.
    pub releases: Vec<Version>,
    /// For each name the releases from which on it is so.
    pub rows: BTreeMap<String, BTreeMap<Version, Cell>>,
}

impl Tables {
    /// Reads the text of tables.
    ///
    /// # Errors
    ///
    /// The first line that is no row, or that no row names releases.
    pub fn parse(text: &str) -> Result<Self, BadRow> {
        let mut table = Self::default();
        for (i, line) in text.lines().enumerate() {
            let bad = |why: String| BadRow { line: i + 1, why };
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            if name == "releases" {
                let known: Result<Vec<Version>, _> = words.map(str::parse).collect();
                table.releases = known.map_err(|why| bad(why.to_string()))?;
                table.releases.sort_unstable();
                continue;
            }
            let row: Result<BTreeMap<Version, Cell>, BadRow> =
                words.map(|word| entry(word).map_err(bad)).collect();
            if table.rows.insert(name.to_owned(), row?).is_some() {
                return Err(bad(format!("{name} is listed twice")));
            }
        }
        if table.releases.is_empty() {
            return Err(BadRow { line: 1, why: "no row `releases` says which are known".to_owned() });
        }
        Ok(table)
    }

    /// Gives the tables that Tessera has for a processor, by Rust's name of it: `x86_64`, `aarch64`.
    ///
    /// # Errors
    ///
    /// The first line that is no row.
    pub fn known(arch: &str) -> Result<Self, BadRow> {
        let mut table = Self::parse(TABLES)?;
        if arch == "aarch64" {
            let other = Self::parse(AARCH64)?;
            table.releases = other.releases;
            table.rows.extend(other.rows);
        }
        Ok(table)
    }

    /// Gives the layout of one release.
    ///
    /// # Errors
    ///
    /// The release is not known, or a field lies outside its structure, in another field, or where C would not put it.
    pub fn layout(&self, version: Version) -> Result<Layout, BadTable> {
        if !self.releases.contains(&version) {
            return Err(BadTable::NotKnown(version));
        }
        let cell = |row: &BTreeMap<Version, Cell>| row.range(..=version).next_back().map(|(_, cell)| *cell);
        // A value with several names goes by the first.
        let name = |names: &str| names.split('|').next().unwrap_or_default().to_owned();
        let cells = self.rows.iter().filter_map(|(names, row)| Some((name(names), cell(row)?))).collect();
        let layout = Layout { version, cells };
        layout.check()?;
        Ok(layout)
    }
}

/// `24.11.5=216:8`.
fn entry(word: &str) -> Result<(Version, Cell), String> {
    let parsed =
        word.split_once('=').and_then(|(version, cell)| Some((version.parse().ok()?, Cell::parse(cell)?)));
    parsed.ok_or_else(|| format!("`{word}` is no entry: it looks like 24.11.5=216:8"))
}

/// The layout of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The release.
    pub version: Version,
    cells: HashMap<String, Cell>,
}

impl Layout {
    fn wrong(&self, name: &str, why: impl Into<String>) -> BadTable {
        BadTable::Wrong { version: self.version, name: name.to_owned(), why: why.into() }
    }

    /// Gives the number of a value; `None`: this release does not have it.
    ///
    /// # Errors
    ///
    /// The table has no such row, or its entry is a field.
    pub fn value(&self, name: &str) -> Result<Option<u64>, BadTable> {
        match self.cells.get(name) {
            Some(Cell::Number(number)) => Ok(Some(*number)),
            Some(Cell::Absent) => Ok(None),
            Some(Cell::Field { .. }) => Err(self.wrong(name, "is a field")),
            None => Err(self.wrong(name, "is missing")),
        }
    }

    /// Gives the bytes of a structure; 0 if this release does not have it.
    ///
    /// # Errors
    ///
    /// The table has no such row, or its entry is a field.
    pub fn size(&self, name: &str) -> Result<usize, BadTable> {
        let size = self.value(name)?.unwrap_or_default();
        usize::try_from(size).map_err(|_| self.wrong(name, "is too large"))
    }

    /// Gives a field's position and bytes; `None`: this release does not have it.
    ///
    /// # Errors
    ///
    /// The table has no such row, or its entry is no field.
    pub fn field(&self, name: &str) -> Result<Option<(usize, usize)>, BadTable> {
        match self.cells.get(name) {
            Some(Cell::Field { position, bytes }) => Ok(Some((*position, *bytes))),
            Some(Cell::Absent) => Ok(None),
            Some(Cell::Number(_)) => Err(self.wrong(name, "is no field")),
            None => Err(self.wrong(name, "is missing")),
        }
    }

    /// Gives the functions that Slurm looks up in a plugin of this kind, by how their names begin: in this release.
    #[must_use]
    pub fn asked(&self, begin: &str) -> Vec<&str> {
        let there = self.cells.iter().filter(|(_, cell)| **cell != Cell::Absent);
        let mut names: Vec<&str> = there.filter_map(|(row, _)| row.strip_prefix("asked.")).collect();
        names.retain(|name| name.starts_with(begin));
        names.sort_unstable();
        names
    }

    /// Checks that each structure can be one.
    fn check(&self) -> Result<(), BadTable> {
        let mut fields: Vec<(&str, &str, usize, usize)> = Vec::new();
        for (name, cell) in &self.cells {
            let Cell::Field { position, bytes } = *cell else { continue };
            let structure = name.split('.').next().unwrap_or_default();
            let end = position.checked_add(bytes);
            if end.is_none_or(|end| self.size(structure).is_ok_and(|size| end > size)) {
                return Err(self.wrong(name, format!("lies outside of {structure}")));
            }
            self.size(structure)?;
            if ![1, 2, 4, 8].contains(&bytes) || position % bytes != 0 {
                return Err(self.wrong(name, "lies where C puts no field"));
            }
            fields.push((structure, name, position, bytes));
        }
        fields.sort_unstable_by_key(|(structure, _, position, _)| (*structure, *position));
        let overlap =
            fields.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].2 + pair[0].3 > pair[1].2);
        match overlap {
            Some(pair) => Err(self.wrong(pair[1].1, format!("lies in {}", pair[0].1))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
