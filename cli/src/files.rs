//! Files that a command line names, where `-` is standard input or output.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::outcome::{Failure, Outcome};

/// A file's text, or standard input's for `-`, without a byte order mark.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        fs::read_to_string(path).map(|t| text = t)
    };
    // Spreadsheets begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    read.map(|()| text).map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
}

/// Writes a picture to a file, or hands it back for stdout where the file is `-`.
pub(crate) fn write_picture(path: &Path, picture: String) -> Result<Outcome, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Outcome::ok(picture));
    }
    fs::write(path, picture).map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    Ok(Outcome::ok(""))
}
