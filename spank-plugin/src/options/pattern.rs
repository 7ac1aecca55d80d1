//! Reads `--gpu-pattern`, and the edge list of `file:PATH`.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use placement::Pattern;

/// Most bytes of an edge list: four times what [`placement::wire::MAX_EDGES`] edges with comments need.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads the option's text; `read_file` reads the named file as the submitting user.
pub(super) fn read(
    text: &str,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Pattern, String> {
    if let Some(named) = Pattern::by_name(text) {
        return Ok(named);
    }
    match text.strip_prefix("file:") {
        None => Err(format!("is unknown: {}", Pattern::EXPECTED)),
        Some("") => Err(format!("names no file: {}", Pattern::EXPECTED)),
        Some(path) => Pattern::parse_edges(&read_file(path)?).map_err(|e| e.to_string()),
    }
}

/// Reads a small regular file. A FIFO or a device is refused instead of blocking the submission.
pub(crate) fn read_regular_file(path: &str) -> Result<String, String> {
    let fail = |what: &dyn std::fmt::Display| format!("cannot be read: {what}");
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(|e| fail(&e))?;
    let meta = file.metadata().map_err(|e| fail(&e))?;
    if !meta.is_file() {
        return Err(fail(&"not a regular file"));
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|e| fail(&e))?;
    if read as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    Ok(text)
}
