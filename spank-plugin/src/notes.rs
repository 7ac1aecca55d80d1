//! In slurmstepd: what the task broker noted about processes of the job, told in the job's log.
//!
//! The broker appends a line to `JOB.notes`, beside the job's socket, for each process that takes more of a device than it was
//! promised. Every step tells the lines that came while it ran.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file, and how much of it was told.
static NOTES: Mutex<Option<(PathBuf, u64)>> = Mutex::new(None);
/// Most that is told at a time, bytes.
const MOST: u64 = 16 << 10;

/// A step of a job with this task socket begins: what was noted before is not told again.
pub(crate) fn begin(socket: &Path) {
    let path = socket.with_extension("notes");
    let told = path.metadata().map_or(0, |meta| meta.len());
    *NOTES.lock().unwrap_or_else(PoisonError::into_inner) = Some((path, told));
}

/// Lines that nobody was told yet.
pub(crate) fn untold() -> Vec<String> {
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((path, told)) = notes.as_mut() else { return Vec::new() };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(*told))?;
        file.take(MOST).read_to_end(&mut bytes)
    });
    // Without the file nothing was noted. A line that is still being written is told the next time.
    let whole = read.ok().and_then(|_| bytes.iter().rposition(|b| *b == b'\n')).map_or(0, |end| end + 1);
    *told += whole as u64;
    String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn each_line_is_told_once_and_only_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("7.notes");
        assert!(untold().is_empty());
        begin(&dir.path().join("7.sock"));
        assert!(untold().is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(untold(), ["one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!((untold(), untold()), (vec!["two".to_owned()], Vec::new()));
        begin(&dir.path().join("7.sock"));
        assert!(untold().is_empty(), "noted before the step");
        // What is told at a time ends within a letter of two bytes.
        file.write_all(format!("{}\n", "é".repeat(100)).repeat(100).as_bytes()).unwrap();
        assert_eq!((untold().len(), untold().len()), (81, 19));
    }
}
