//! Tables of Slurm's commands, read by length.
//!
//! squeue and sacct print what users wrote (comments, accounts) as it is, newlines included: whoever reads lines takes the
//! rest of a comment for another job. If every column has a width, every record has the same number of bytes, and no text
//! inside it can begin another. Measured on 22.05.8; 24.11.5 prints with the same code (`_print_str` of squeue,
//! `print_fields_str` of sacct).

use std::collections::HashSet;

/// The columns of a command's table: their names and widths in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SlurmTable<'a> {
    /// The command, for messages.
    pub program: &'static str,
    /// Each column's name and width in bytes. The first is the job's number.
    pub columns: &'a [(&'a str, usize)],
    /// Bytes between two columns and after the last.
    pub gap: usize,
}

/// A table that has another form. Nothing is read from it: one job's text could be taken for another job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}'s table is not understood: {what}")]
pub struct StrangeTable {
    program: &'static str,
    what: String,
}

impl SlurmTable<'_> {
    /// The columns as squeue's `--Format` takes them: `jobid:12,restartcnt:12`.
    #[must_use]
    pub fn format(&self) -> String {
        let columns = self.columns.iter().map(|(name, width)| format!("{name}:{width}"));
        columns.collect::<Vec<_>>().join(",")
    }

    /// The cells of each record, without the blanks round them; `(null)` and `N/A` are empty.
    ///
    /// # Errors
    ///
    /// A record of another length, or two with the same first cell, which is the job's number.
    pub fn read(&self, bytes: &[u8]) -> Result<Vec<Vec<String>>, StrangeTable> {
        let mut ids = HashSet::new();
        let mut records = Vec::new();
        for record in self.records(bytes) {
            let cells = record?;
            let id = cells.first().cloned().unwrap_or_default();
            if !ids.insert(id.clone()) {
                return Err(self.strange(format!("job {id} is in it twice")));
            }
            records.push(cells);
        }
        Ok(records)
    }

    /// The cells of one job's record, as of [`Self::read`]; `None` if no record is the job's. What comes behind it may be cut.
    ///
    /// # Errors
    ///
    /// A record of another length before the job's.
    pub fn find(&self, bytes: &[u8], job: u32) -> Result<Option<Vec<String>>, StrangeTable> {
        let is_of_job = |cells: &Vec<String>| cells.first().is_some_and(|id| id.parse() == Ok(job));
        self.records(bytes).find(|record| record.as_ref().map_or(true, is_of_job)).transpose()
    }

    fn records(&self, bytes: &[u8]) -> impl Iterator<Item = Result<Vec<String>, StrangeTable>> {
        let length: usize = self.columns.iter().map(|(_, width)| width + self.gap).sum();
        bytes.chunks(length + 1).map(move |record| {
            let cells = record.strip_suffix(b"\n").filter(|cells| cells.len() == length);
            let cells = cells.ok_or_else(|| self.strange("a record has another length".to_owned()))?;
            Ok(self.cells(cells))
        })
    }

    fn strange(&self, what: String) -> StrangeTable {
        StrangeTable { program: self.program, what }
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

    const TABLE: SlurmTable<'_> =
        SlurmTable { program: "squeue", columns: &[("JobID", 4), ("Comment", 12)], gap: 0 };

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
    fn one_job_is_found_in_what_may_be_cut() {
        assert_eq!(TABLE.format(), "JobID:4,Comment:12");
        let find =
            |text: &str, job| TABLE.find(text.as_bytes(), job).map(|row| row.map(|row| row[1].clone()));
        let cut = "1   x\n2   forged\n9   own         \n7   cu";
        assert_eq!(find(cut, 9), Ok(Some("own".to_owned())));
        assert_eq!(find(&cut[..34], 2), Ok(None), "the text of another job");
        assert!(find(cut, 7).is_err());
        assert!(find("squeue: a warning\n9   own         \n", 9).is_err());
    }

    #[test]
    fn sacct_puts_a_blank_after_each_column() {
        let table = SlurmTable { program: "sacct", columns: &[("JobIDRaw", 4), ("Comment", 6)], gap: 1 };
        let rows = table.read(b"   7 a\n8  b \n   8 c      \n").unwrap();
        assert_eq!(rows, [["7", "a\n8  b"], ["8", "c"]]);
    }
}
