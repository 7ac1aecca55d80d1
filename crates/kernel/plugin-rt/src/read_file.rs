//! Reads files that a user or an administrator names: regular ones, up to a size. A FIFO, a device or a directory is
//! refused at once: reading one could block for ever, fill the memory, or move a tape.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Most bytes of an edge list: four times what `topology::MAX_EDGES` edges with comments need.
pub const EDGE_LIST: u64 = 64 << 10;
/// Most bytes of a configuration file.
pub const CONFIG: u64 = 4 << 20;

/// The text of a small regular file.
///
/// # Errors
///
/// It cannot be opened, is not a regular file, is larger than `most` bytes, or is not UTF-8.
pub fn read_small(path: &Path, most: u64) -> io::Result<String> {
    read_bounded(open_regular(path)?, most)
}

/// Opens a regular file of any size, for a reader that does not keep all of it.
///
/// # Errors
///
/// It cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let regular =
        |meta: fs::Metadata| meta.is_file().then_some(()).ok_or(invalid("not a regular file".into()));
    // Before it is opened, for opening a device can do something; and after, for another may stand there by then.
    regular(fs::metadata(path)?)?;
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// The text of a stream, such as standard input, up to a size.
///
/// # Errors
///
/// It cannot be read, goes on after `most` bytes, or is not UTF-8: then the error holds a [`NotText`].
pub fn read_bounded(stream: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = stream.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(invalid(format!("larger than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        io::Error::new(io::ErrorKind::InvalidData, NotText { line, column })
    })
}

/// A file that is not text: where its first byte stands that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText {
    /// The line, from 1.
    pub line: usize,
    /// The byte in the line, from 1.
    pub column: usize,
}

impl std::fmt::Display for NotText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, byte {}: not UTF-8 text", self.line, self.column)
    }
}

impl std::error::Error for NotText {}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("edges"), "0 1\n").unwrap();
        fs::write(path("big"), vec![b'#'; 70_000]).unwrap();
        fs::write(path("latin1"), b"tea\ncaf\xe9").unwrap();
        std::os::unix::fs::symlink(path("edges"), path("link")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(fifo.success() && path("fifo").as_os_str().as_bytes().ends_with(b"fifo"));
        let read = |path: &Path| read_small(path, EDGE_LIST).map_err(|e| e.to_string());
        assert_eq!(read(&path("edges")), Ok("0 1\n".to_owned()));
        assert_eq!(read(&path("link")), Ok("0 1\n".to_owned()));
        for (file, want) in [
            (path("big"), "larger than 65536 bytes"),
            (path(""), "not a regular file"),
            (path("fifo"), "not a regular file"),
            (PathBuf::from("/dev/zero"), "not a regular file"),
            (PathBuf::from("/dev/tty"), "not a regular file"),
            (path("latin1"), "line 2, byte 4: not UTF-8"),
            (path("none"), "No such file"),
        ] {
            let why = read(&file).unwrap_err();
            assert!(why.contains(want), "{}: {why}", file.display());
        }
        assert_eq!(read_small(&path("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_stream_without_end_is_refused() {
        let why = read_bounded(io::repeat(b'#'), 10).unwrap_err();
        assert_eq!(why.to_string(), "larger than 10 bytes");
        assert_eq!(read_bounded(&b"0123456789"[..], 10).unwrap(), "0123456789");
    }
}
