//! Output of `sacct -P`: a line for each record, with a bar between its fields, and their names in the first line.

use super::columns::COLUMNS;
use crate::outcome::Failure;

/// Columns without which a file is read as if they were empty.
const OPTIONAL: [&str; 4] = ["Eligible", "TimelimitRaw", "TRESUsageInTot", "AdminComment"];

/// The cells of a record in the order of [`COLUMNS`].
pub(super) type Cells = [String; COLUMNS.len()];

/// Tells whether a file is such a list: padded columns have no bar before the first comment.
pub(super) fn is_such(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.matches('|').count() + 1 >= COLUMNS.len() - OPTIONAL.len()
}

/// Each record with the number of its line, from 1. Without names in the first line, the columns must be [`COLUMNS`].
///
/// # Errors
///
/// A column that is missing, or the line of a record that has another number of fields or a job's number for the second time.
pub(super) fn records(text: &str) -> Result<Vec<(usize, Cells)>, Failure> {
    let mut first: Vec<&str> = text.lines().next().unwrap_or_default().split('|').collect();
    let named = first.iter().any(|name| name.eq_ignore_ascii_case("User"));
    // `sacct -p` ends each line with a bar. A last column can also be empty.
    let has_end = if named { first.last() == Some(&"") } else { first.len() == COLUMNS.len() + 1 };
    first.truncate(first.len() - usize::from(has_end));
    let places = if named { places(&first)? } else { std::array::from_fn(Some) };
    let n = if named { first.len() } else { COLUMNS.len() };
    let (mut found, mut ids) = (Vec::new(), std::collections::HashSet::new());
    for (number, line) in text.lines().enumerate().skip(usize::from(named)) {
        let cells: Vec<&str> =
            if has_end { line.strip_suffix('|').unwrap_or(line) } else { line }.split('|').collect();
        let bad = |what: String| Failure::new(format!("line {}: {what}", number + 1));
        if cells.len() != n {
            return Err(bad(format!("{} fields instead of {n}", cells.len())).hint(
                "a bar or a line end in a field breaks the line: leave out columns with users' text, such as JobName",
            ));
        }
        let cell = |place: &Option<usize>| place.and_then(|at| cells.get(at)).map_or("", |cell| cell.trim());
        let cells: Cells = std::array::from_fn(|column| match cell(&places[column]) {
            "(null)" | "N/A" => String::new(),
            text => text.to_owned(),
        });
        if !ids.insert(cells[0].clone()) {
            return Err(
                bad(format!("job {} is in the file twice", cells[0])).hint("use JobIDRaw, and leave out -D")
            );
        }
        found.push((number + 1, cells));
    }
    Ok(found)
}

/// Finds the place of each of [`COLUMNS`] among the names of a first line.
fn places(names: &[&str]) -> Result<[Option<usize>; COLUMNS.len()], Failure> {
    let at = |wanted: &str| names.iter().position(|name| name.trim().eq_ignore_ascii_case(wanted));
    let places = COLUMNS.map(|(name, _)| at(name));
    let mut lacking =
        COLUMNS.iter().zip(places).filter(|((name, _), at)| at.is_none() && !OPTIONAL.contains(name));
    match lacking.next() {
        None => Ok(places),
        Some(((name, _), _)) => Err(Failure::new(format!("line 1: there is no column {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "User|JobIDRaw|State|Submit|Start|ElapsedRaw|NNodes|ReqTRES|AdminComment";

    #[test]
    fn fields_are_found_by_name() {
        let text = format!(
            "{HEAD}\nbob|7|COMPLETED|100|160|60|1|gres/gpu=1|\nbob|8|PENDING|100|Unknown|0|1|N/A|tessera: x\n"
        );
        assert!(is_such(&text));
        let records = records(&text).unwrap();
        let (line, cells) = &records[1];
        assert_eq!((*line, cells[0].as_str(), cells[1].as_str()), (3, "8", "bob"));
        assert_eq!((cells[4].as_str(), cells[9].as_str(), cells[11].as_str()), ("", "", "tessera: x"));
    }

    #[test]
    fn a_bad_line_is_named() {
        let why = |rest: &str| {
            records(&format!("{HEAD}\nbob|7|COMPLETED|100|160|60|1|gres/gpu=1|\n{rest}"))
                .unwrap_err()
                .what()
                .to_owned()
        };
        assert!(why("bob|8|COMPLETED|100\n").starts_with("line 3: 4 fields instead of 9"));
        assert!(
            why("bob|7|COMPLETED|100|160|60|1|gres/gpu=1|\n")
                .starts_with("line 3: job 7 is in the file twice")
        );
        let no_submit = HEAD.replace("Submit|", "");
        assert!(records(&no_submit).unwrap_err().what().starts_with("line 1: there is no column Submit"));
    }

    #[test]
    fn more_columns_than_are_read_may_end_with_an_empty_one() {
        for (end, head) in [("", ""), ("|", "|")] {
            let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
            let text = format!(
                "JobName|{}{head}\nx|7|bob|COMPLETED|0|0|5|1800|60|1|gres/gpu=1||{end}\n",
                names.join("|")
            );
            let records = records(&text).unwrap();
            assert_eq!((records[0].1[0].as_str(), records[0].1[9].as_str()), ("7", "gres/gpu=1"));
        }
    }

    #[test]
    fn without_names_the_columns_are_the_usual_ones() {
        let line = "7|bob|COMPLETED|100|150|160|60|2|1|gres/gpu=1||";
        for text in [line.to_owned(), format!("{line}|")] {
            let records = records(&text).unwrap();
            assert!(is_such(&text) && records[0].0 == 1 && records[0].1[9] == "gres/gpu=1", "{text}");
        }
        assert!(!is_such("7                bob"));
    }
}
