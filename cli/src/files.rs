//! Files that a command line names, where `-` is standard input or output.

use std::fs;
use std::path::Path;

use plugin_rt::read_file::{NotText, TABLE, read_bounded, read_small};

use crate::outcome::{Failure, Outcome};

/// The text of a small regular file, or of standard input for `-`, without a byte order mark.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let read =
        if path.as_os_str() == "-" { read_bounded(std::io::stdin(), TABLE) } else { read_small(path, TABLE) };
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

/// Writes a picture to a file, or hands it back for stdout where the file is `-`.
pub(crate) fn write_picture(path: &Path, picture: String) -> Result<Outcome, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Outcome::ok(picture));
    }
    fs::write(path, picture).map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    Ok(Outcome::ok(""))
}
