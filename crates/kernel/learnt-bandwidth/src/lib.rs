//! The table that tells slurmctld whether a user's jobs gain from faster links between their GPUs.
//!
//! `tessera traffic --write` writes the table from Slurm's accounting, and the job submit plugin reads it. A row is for the jobs of
//! one user: those that name an application, or those with one name and number of GPUs. So what a user runs and how he calls it
//! changes no other user's rows.
//!
//! ```text
//! tessera-bandwidth 1
//! 1000 app bert sensitive
//! 1000 name train.sh 4 insensitive
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use std::collections::BTreeMap;
use std::fmt;

use protocol::Bandwidth;

/// Name of the table's file in slurmctld's directory.
pub const FILE: &str = "tessera-bandwidth";
/// Most rows of a table.
pub const MOST_ROWS: usize = 4096;
/// Most rows of one user.
pub const MOST_OF_USER: usize = 64;
/// Most bytes of a table: a row has at most 100.
pub const MOST_BYTES: u64 = 512 << 10;
/// Longest name of a job that is learnt by it, bytes.
const MOST_NAME: usize = 64;

const HEAD: &str = "tessera-bandwidth 1";

/// Jobs that one row is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramKey {
    /// The user's number.
    pub uid: u32,
    /// Property that these jobs share.
    pub jobs: Jobs,
}

/// Jobs of a user that count as the same program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Jobs {
    /// Jobs that name this application.
    App(String),
    /// Jobs with this name, which is the script's if the user gave none, and so many GPUs in all.
    Name(String, u32),
}

/// True for a name of 1 to 64 letters, digits and `._+@=,:-`. Jobs with other names are not learnt by them.
fn is_plain(name: &str) -> bool {
    (1..=MOST_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+@=,:-".contains(&b))
}

impl ProgramKey {
    /// The row for a job. `None`: it has fewer than two GPUs, or neither an application nor a name that can be learnt by.
    #[must_use]
    pub fn of(uid: u32, app: Option<&str>, name: Option<&str>, gpus: u32) -> Option<Self> {
        if gpus < 2 {
            return None;
        }
        let jobs = match app {
            Some(app) => Jobs::App(Some(app).filter(|app| is_plain(app))?.to_owned()),
            None => Jobs::Name(name.filter(|name| is_plain(name))?.to_owned(), gpus),
        };
        Some(Self { uid, jobs })
    }
}

/// A row cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTable {
    /// The first line is another one.
    #[error("line 1: not a table of this version")]
    Head,
    /// The line with this number, from 1, is no row, or is for the same jobs as one before.
    #[error("line {0}: not a row")]
    Row(usize),
    /// There are more rows than [`MOST_ROWS`].
    #[error("more than {MOST_ROWS} rows")]
    TooMany,
}

/// Words for users' jobs, by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearntTable(BTreeMap<ProgramKey, Bandwidth>);

impl LearntTable {
    /// Keeps as many of these rows as a table may have. Those of a user come in the order of their worth to the user; where rows
    /// are too many, each user's first ones stay, then each user's second ones, and so on.
    #[must_use]
    pub fn of(rows: impl IntoIterator<Item = (ProgramKey, Bandwidth)>) -> Self {
        let mut of_user: BTreeMap<u32, usize> = BTreeMap::new();
        let rank = |(key, bandwidth): (ProgramKey, Bandwidth)| {
            let rank = of_user.entry(key.uid).or_default();
            *rank += 1;
            (*rank, key, bandwidth)
        };
        let mut ranked: Vec<(usize, ProgramKey, Bandwidth)> = rows.into_iter().map(rank).collect();
        ranked.retain(|(rank, ..)| *rank <= MOST_OF_USER);
        ranked.sort();
        ranked.truncate(MOST_ROWS);
        Self(ranked.into_iter().map(|(_, key, bandwidth)| (key, bandwidth)).collect())
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The first line that is not as `Display` writes it.
    pub fn parse(text: &str) -> Result<Self, BadTable> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(BadTable::Head);
        }
        let mut rows = BTreeMap::new();
        for (line, number) in lines.zip(2..) {
            let (key, bandwidth) = row(line).ok_or(BadTable::Row(number))?;
            if rows.len() >= MOST_ROWS {
                return Err(BadTable::TooMany);
            }
            if rows.insert(key, bandwidth).is_some() {
                return Err(BadTable::Row(number));
            }
        }
        Ok(Self(rows))
    }

    /// Finds the word for such jobs.
    #[must_use]
    pub fn find(&self, key: &ProgramKey) -> Option<Bandwidth> {
        self.0.get(key).copied()
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without any row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn row(line: &str) -> Option<(ProgramKey, Bandwidth)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let (uid, app, name, gpus, word) = match fields[..] {
        [uid, "app", app, word] => (uid, Some(app), None, 2, word),
        [uid, "name", name, gpus, word] => (uid, None, Some(name), gpus.parse().ok()?, word),
        _ => return None,
    };
    Some((ProgramKey::of(uid.parse().ok()?, app, name, gpus)?, Bandwidth::parse(word)?))
}

impl fmt::Display for LearntTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.0.iter().try_for_each(|(ProgramKey { uid, jobs }, bandwidth)| match jobs {
            Jobs::App(app) => writeln!(f, "{uid} app {app} {}", bandwidth.word()),
            Jobs::Name(name, gpus) => writeln!(f, "{uid} name {name} {gpus} {}", bandwidth.word()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = ProgramKey> {
        let name = "[a-cX0._+@=,:-]{1,3}";
        let jobs = prop_oneof![
            name.prop_map(Jobs::App),
            (name, 2_u32..5000).prop_map(|(name, gpus)| Jobs::Name(name, gpus)),
        ];
        (0_u32..5, jobs).prop_map(|(uid, jobs)| ProgramKey { uid, jobs })
    }

    fn bandwidth() -> impl Strategy<Value = Bandwidth> {
        prop_oneof![Just(Bandwidth::Sensitive), Just(Bandwidth::Insensitive)]
    }

    #[test]
    fn only_names_that_are_one_word_are_learnt_by() {
        let of = |app, name, gpus| ProgramKey::of(7, app, name, gpus);
        assert_eq!(of(None, Some("train.sh"), 4).map(|key| key.jobs), Some(Jobs::Name("train.sh".into(), 4)));
        assert_eq!(of(Some("bert"), Some("x y"), 4).map(|key| key.jobs), Some(Jobs::App("bert".into())));
        let long = "n".repeat(65);
        for bad in ["", "a b", "a\nb", "naïve", long.as_str()] {
            assert_eq!(of(None, Some(bad), 4), None, "{bad:?}");
        }
        assert_eq!((of(None, None, 4), of(Some("bert"), None, 1)), (None, None));
    }

    #[test]
    fn a_bad_row_is_named() {
        let read = |rows: &str| LearntTable::parse(&format!("{HEAD}\n{rows}")).map(|table| table.len());
        assert_eq!(read("7 app bert sensitive\n7 name a.sh 4 insensitive\n"), Ok(2));
        assert_eq!(LearntTable::parse("x"), Err(BadTable::Head));
        for bad in ["7 app bert slow", "7 name a.sh 1 sensitive", "7 app bert", "-1 app x sensitive", ""] {
            assert_eq!(read(&format!("7 app bert sensitive\n{bad}\n")), Err(BadTable::Row(3)), "{bad}");
        }
        assert_eq!(read("7 app bert sensitive\n7 app bert insensitive\n"), Err(BadTable::Row(3)));
        let many: String = (0..=MOST_ROWS).map(|uid| format!("{uid} app bert sensitive\n")).collect();
        assert_eq!(read(&many), Err(BadTable::TooMany));
    }

    #[test]
    fn a_user_with_many_rows_takes_none_from_others() {
        let row =
            |uid, n: usize| (ProgramKey { uid, jobs: Jobs::App(format!("a{n}")) }, Bandwidth::Sensitive);
        let flood = (0..100_000).map(|n| row(1, n));
        let others = (2..4000).map(|uid| row(uid, 0));
        let table = LearntTable::of(flood.chain(others));
        assert_eq!(table.len(), MOST_OF_USER + 3998);
        let crowd = LearntTable::of((0..200_u32).flat_map(|uid| (0..64).map(move |n| row(uid, n))));
        assert_eq!(crowd.len(), MOST_ROWS);
        assert!((0..200).all(|uid| crowd.find(&row(uid, 0).0).is_some()), "each user's first row stays");
        assert!(crowd.to_string().len() as u64 <= MOST_BYTES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn tables_come_back(rows in prop::collection::vec((key(), bandwidth()), 0..50)) {
            let table = LearntTable::of(rows);
            prop_assert_eq!(LearntTable::parse(&table.to_string()), Ok(table));
        }

        #[test]
        fn one_users_rows_depend_on_no_other_user_while_there_is_room(
            mine in prop::collection::vec((key(), bandwidth()), 0..80),
            theirs in prop::collection::vec((key(), bandwidth()), 0..80),
        ) {
            let own = |(key, bandwidth): (ProgramKey, Bandwidth)| (ProgramKey { uid: 9, ..key }, bandwidth);
            let mine: Vec<_> = mine.into_iter().map(own).collect();
            let (alone, all) = (LearntTable::of(mine.clone()), LearntTable::of(mine.iter().cloned().chain(theirs)));
            for (key, _) in mine {
                prop_assert_eq!(alone.find(&key), all.find(&key));
            }
        }

        #[test]
        fn rubbish_does_not_panic(text: String) {
            let _ = LearntTable::parse(&format!("{HEAD}\n{text}"));
        }
    }
}
