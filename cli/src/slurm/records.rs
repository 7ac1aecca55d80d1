//! Tables of Slurm's commands, read by length.
//!
//! squeue and sacct print what users wrote (comments, accounts) as it is, newlines included: whoever reads lines takes the
//! rest of a comment for another job. Where every column has a width, every record has the same number of bytes, and
//! no text inside it can begin another. Measured on 22.05.8; 24.11.5 prints with the same code (`_print_str` of squeue,
//! `print_fields_str` of sacct).

use std::collections::HashSet;

use crate::outcome::Failure;

/// The columns of a command's table: their names and widths in bytes.
pub(crate) struct Table<'a> {
    /// The command, for messages.
    pub(crate) program: &'static str,
    pub(crate) columns: &'a [(&'a str, usize)],
    /// Bytes between two columns and after the last.
    pub(crate) gap: usize,
}

impl Table<'_> {
    /// The cells of each record, without the blanks round them; `(null)` and `N/A` are empty.
    ///
    /// # Errors
    ///
    /// A record of another length, or two with the same first cell, which is the job's number.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Vec<Vec<String>>, Failure> {
        let length: usize = self.columns.iter().map(|(_, width)| width + self.gap).sum();
        let strange = |what: &str| {
            Failure::new(format!("{}'s table is not understood: {what}", self.program))
                .hint("tessera reads nothing from such a table: it could take one job's text for another job")
        };
        let mut records = Vec::new();
        let mut ids = HashSet::new();
        for record in bytes.chunks(length + 1) {
            let cells = record.strip_suffix(b"\n").filter(|cells| cells.len() == length);
            let cells = self.cells(cells.ok_or_else(|| strange("a record has another length"))?);
            let id = cells.first().cloned().unwrap_or_default();
            if !ids.insert(id.clone()) {
                return Err(strange(&format!("job {id} is in it twice")));
            }
            records.push(cells);
        }
        Ok(records)
    }

    fn cells(&self, mut record: &[u8]) -> Vec<String> {
        let mut cells = Vec::new();
        for (_, width) in self.columns {
            let (cell, rest) = record.split_at_checked(*width).unwrap_or((record, &[]));
            let text = String::from_utf8_lossy(cell).trim().to_owned();
            cells.push(if text == "(null)" || text == "N/A" { String::new() } else { text });
            record = rest.get(self.gap..).unwrap_or_default();
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table<'_> = Table { program: "squeue", columns: &[("JobID", 4), ("Comment", 12)], gap: 0 };

    fn read(text: &str) -> Result<Vec<[String; 2]>, String> {
        let rows = TABLE.read(text.as_bytes()).map_err(|e| e.to_string())?;
        Ok(rows.into_iter().map(|row| <[String; 2]>::try_from(row).unwrap()).collect())
    }

    #[test]
    fn no_newline_begins_a_record() {
        let row = |id: &str, comment: &str| [id.to_owned(), comment.to_owned()];
        assert_eq!(read("1   mine        \n2   (null)      \n"), Ok(vec![row("1", "mine"), row("2", "")]));
        assert_eq!(read("1   x\n9   forged\n"), Ok(vec![row("1", "x\n9   forged")]));
        assert_eq!(read(""), Ok(vec![]));
    }

    #[test]
    fn what_is_not_such_a_table_is_refused() {
        for (text, want) in [
            ("1   mine\n", "another length"),
            ("1   mine        \nslurm_load_jobs error", "another length"),
            ("1   mine        \n1   theirs      \n", "job 1 is in it twice"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(want), "{text:?}: {why}");
        }
    }

    #[test]
    fn sacct_puts_a_blank_after_each_column() {
        let table = Table { program: "sacct", columns: &[("JobIDRaw", 4), ("Comment", 6)], gap: 1 };
        let rows = table.read(b"   7 a\n8  b \n   8 c      \n").unwrap();
        assert_eq!(rows, [["7", "a\n8  b"], ["8", "c"]]);
    }
}
