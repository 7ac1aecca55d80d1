//! File systems in memory over directories of a cluster: small ones, so that a test can fill them, and one for speed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Done, run};
use crate::error::{HarnessError, at};
use crate::layout::Layout;

/// Mounts one of so many KiB over a directory of a node. `inodes`: how many files it holds.
pub(crate) fn mount(
    layout: &Layout,
    node: &str,
    name: &str,
    kib: u32,
    inodes: Option<u32>,
) -> Result<(), HarnessError> {
    let inodes = inodes.map_or(String::new(), |inodes| format!(",nr_inodes={inodes}"));
    mount_at(&layout.node(node).join(name), &format!("size={kib}k,mode=0755{inodes}"))
}

/// Mounts one with these options of tmpfs over a directory.
pub(crate) fn mount_at(dir: &Path, options: &str) -> Result<(), HarnessError> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tessera-lab"]).arg(dir);
    run(&mut command).and_then(Done::ok).map(drop)
}

/// Unmounts those below `dir`. Their files stay as evidence.
pub(crate) fn unmount_all(dir: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = |line: &str| {
        let path = PathBuf::from(line.split(' ').nth(1)?);
        (line.starts_with("tessera-lab ") && path.starts_with(dir)).then_some(path)
    };
    for path in mounts.lines().filter_map(below) {
        // What cannot be saved or unmounted is named by whoever removes the directory next.
        let _ = unmount(&path);
    }
}

fn unmount(path: &Path) -> Result<(), HarnessError> {
    let copy = path.with_extension("saved");
    let done = |command: &mut Command| run(command).and_then(Done::ok).map(drop);
    done(Command::new("cp").arg("-a").args([path, &copy]))?;
    done(Command::new("umount").arg(path))?;
    at(path, fs::remove_dir(path))?;
    at(path, fs::rename(&copy, path))
}
