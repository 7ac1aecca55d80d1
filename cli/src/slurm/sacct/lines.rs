//! Jobs and steps of a whole site, one after the other: all of them at once could fill root's memory.

use std::io::{self, Read};
use std::process::Stdio;

use super::{NEEDS, ago, failed, format, not_run};
use crate::outcome::Failure;
use crate::slurm::command::prepare;
use crate::slurm::records::SlurmTable;

/// Records that are read together.
const RECORDS: usize = 1000;
/// Most bytes that are kept of what sacct says on stderr.
const SAID: u64 = 4096;

/// Gives the lines of all users' jobs that completed in the last `since_s` seconds, and of their steps, to `take`: the number of each, then these
/// columns. `N` is their number and one.
///
/// # Errors
///
/// sacct cannot be run or fails, or its table is not what was asked for. `take` may have had some lines by then.
pub(crate) fn of_completed_jobs<const M: usize, const N: usize>(
    since_s: u64,
    columns: [(&'static str, usize); M],
    take: impl FnMut([String; N]),
) -> Result<(), Failure> {
    let all = with_number(columns);
    let mut command = prepare("sacct");
    command.args(["-a", "-n", "-s", "CD", "-S", &ago(since_s), "-E", "now", "-o", &format(&all)]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sacct = command.spawn().map_err(|e| not_run(&e))?;
    let (Some(stdout), Some(stderr)) = (sacct.stdout.take(), sacct.stderr.take()) else {
        return Err(not_run(&io::ErrorKind::BrokenPipe.into()));
    };
    // Meanwhile: sacct waits if nobody reads what it says.
    let said = std::thread::spawn(move || all_said(stderr));
    let read = each(stdout, &all, take);
    let status = sacct.wait().map_err(|e| not_run(&e))?;
    let said = said.join().unwrap_or_default();
    // If its table is refused, sacct is ended by the pipe that nobody reads any more.
    // A shell around it ends with a status of its own then, and without a word.
    if status.success() || (read.is_err() && (status.code().is_none() || said.is_empty())) {
        read
    } else {
        Err(failed(&said, NEEDS))
    }
}

/// Gives the lines of a table to `take`, as [`of_completed_jobs`].
///
/// # Errors
///
/// It cannot be read, or is no such table: with the call of sacct that prints one.
pub(crate) fn of_file<const M: usize, const N: usize>(
    table: impl Read,
    columns: [(&'static str, usize); M],
    take: impl FnMut([String; N]),
) -> Result<(), Failure> {
    let all = with_number(columns);
    let hint = format!("the file must be what sacct -a -n -o {} prints", format(&all));
    each(table, &all, take).map_err(|e| e.hint(hint))
}

fn with_number<const M: usize>(columns: [(&'static str, usize); M]) -> Vec<(&'static str, usize)> {
    [("JobIDRaw", 24)].into_iter().chain(columns).collect()
}

fn each<const N: usize>(
    mut table: impl Read,
    columns: &[(&str, usize)],
    mut take: impl FnMut([String; N]),
) -> Result<(), Failure> {
    let length: usize = columns.iter().map(|(_, width)| width + 1).sum::<usize>() + 1;
    let mut records = Vec::new();
    loop {
        records.clear();
        let mut part = table.by_ref().take((RECORDS * length) as u64);
        part.read_to_end(&mut records)
            .map_err(|e| Failure::new(format!("cannot read sacct's table: {e}")))?;
        if records.is_empty() {
            return Ok(());
        }
        let lines = SlurmTable { program: "sacct", columns, gap: 1 }.read(&records)?;
        lines.into_iter().filter_map(|cells| <[String; N]>::try_from(cells).ok()).for_each(&mut take);
    }
}

/// Reads all that sacct says, and keeps the begin.
fn all_said(mut stderr: impl Read) -> Vec<u8> {
    let mut said = Vec::new();
    // What was read counts also if the rest cannot be.
    let _ = stderr.by_ref().take(SAID).read_to_end(&mut said);
    let _ = io::copy(&mut stderr, &mut io::sink());
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, usize); 1] = [("State", 9)];

    fn read(table: &[u8]) -> Result<Vec<[String; 2]>, String> {
        let mut lines = Vec::new();
        of_file(table, COLUMNS, |line| lines.push(line)).map_err(|e| e.to_string())?;
        Ok(lines)
    }

    #[test]
    fn a_table_of_any_length_is_read_line_by_line() {
        let line = |id: usize| format!("{id:>24} COMPLETED \n");
        let n = 2 * RECORDS + 1;
        let table: String = (0..n).map(line).collect();
        let lines = read(table.as_bytes()).unwrap();
        assert_eq!((lines.len(), lines[n - 1][0].as_str()), (n, "2000"));
        assert_eq!(read(b""), Ok(Vec::new()));
        let why = read(&table.as_bytes()[..table.len() - 1]).unwrap_err();
        assert!(
            why.contains("another length") && why.contains("sacct -a -n -o JobIDRaw%24,State%9"),
            "{why}"
        );
    }
}
