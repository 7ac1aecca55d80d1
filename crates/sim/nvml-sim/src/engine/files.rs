//! Names of the files beside the state file.

use std::path::{Path, PathBuf};

/// Names the file beside `path` whose name is longer by `suffix`.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
