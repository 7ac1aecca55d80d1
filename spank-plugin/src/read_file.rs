//! Reads the file that `--gpu-pattern=file:PATH` names, as the submitting user.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Most bytes of an edge list: four times what `topology::MAX_EDGES` edges with comments need.
const MAX_BYTES: u64 = 64 * 1024;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("edges"), "0 1\n").unwrap();
        std::fs::write(path("big"), vec![b'#'; 70_000]).unwrap();
        assert_eq!(read_regular_file(&path("edges")), Ok("0 1\n".to_owned()));
        for (file, want) in [
            (path("big"), "larger than 65536 bytes"),
            (path(""), "not a regular file"),
            ("/dev/zero".to_owned(), "not a regular file"),
            (path("none"), "No such file"),
        ] {
            let why = read_regular_file(&file).unwrap_err();
            assert!(why.contains(want), "{file}: {why}");
        }
    }
}
