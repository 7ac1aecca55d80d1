//! zig and `cargo-zigbuild`, which link for an older glibc and for other processors. Only packages need them, so the set-up leaves them out.
//! Their hashes stand in `zig.txt`.

use std::path::PathBuf;
use std::process::Command;

use lab::paths::{target_dir, workspace};

use super::once;
use crate::command::{TaskError, at, output};

/// Installs both in a directory; gives it.
pub(crate) fn install() -> Result<PathBuf, TaskError> {
    let tools = target_dir().join("tools/zig");
    at(&tools, std::fs::create_dir_all(&tools))?;
    let list = workspace().join("xtask/zig.txt");
    let key = at(&list, std::fs::read_to_string(&list))?;
    once(&tools.join("zig.done"), &key, "zig and cargo-zigbuild", || {
        let mut pip = Command::new("/usr/bin/pip3");
        pip.args([
            "install",
            "--quiet",
            "--upgrade",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ]);
        pip.arg("--target").arg(&tools).arg("-r").arg(&list);
        output(&mut pip).map(drop)
    })?;
    Ok(tools)
}
