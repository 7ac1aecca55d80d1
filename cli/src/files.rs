//! Files that a command line names, where `-` is standard input or output.

pub(crate) mod kept;
pub(crate) mod own_dir;
pub(crate) mod write_file;

use std::io::{self, Read};
use std::path::Path;

use plugin_rt::read_file::{NotText, open_regular, read_bounded, read_small};

use crate::outcome::{Failure, Outcome};

/// Most bytes of a table: jobs, tasks, samples, counters.
pub(crate) const TABLE: u64 = 64 << 20;

/// The text of a small regular file, or of standard input for `-`, without a byte order mark.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let read =
        if path.as_os_str() == "-" { read_bounded(io::stdin(), TABLE) } else { read_small(path, TABLE) };
    let text = read.map_err(|e| {
        let file = path.display();
        match e.get_ref().and_then(|inner| inner.downcast_ref::<NotText>()) {
            Some(NotText { line, column }) => Failure::new(format!("{file}:{line}:{column}: not UTF-8 text")),
            None => Failure::new(format!("cannot read {file}: {e}")),
        }
    })?;
    // Spreadsheets begin a file with a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Opens a regular file of any size, or standard input for `-`, for a reader that does not keep all of it.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    match open_regular(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(e) => Err(Failure::new(format!("cannot read {}: {e}", path.display()))),
    }
}

/// Writes a file that a command line names; standard output for `-`, whose text is handed back.
pub(crate) fn write_out(path: &Path, text: String) -> Result<Outcome, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Outcome::ok(text));
    }
    write_text(path, &text)?;
    Ok(Outcome::ok(""))
}

/// Writes a file as [`write_file`] does.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    write_file::write(path, text.as_bytes())
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))
}
