//! Room on the disk.

use std::path::Path;

/// Disk space in MB that a first `cargo xtask test` needs in `target/`, and its clusters in the temporary directory.
const FIRST_RUN: u64 = 3_000;

/// A warning if disk space is short. Without it, some compiler or daemon would fail later.
pub(super) fn warning(target: &Path) -> Option<String> {
    let disk = rustix::fs::statvfs(target).ok()?;
    shortage(disk.f_bavail.saturating_mul(disk.f_frsize) / 1_000_000, target)
}

fn shortage(free: u64, target: &Path) -> Option<String> {
    (free < FIRST_RUN).then(|| {
        format!(
            "{free} MB are free for {}, a first run of all tests takes about {FIRST_RUN}; \
             CARGO_TARGET_DIR names another place",
            target.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_disk_is_said_with_what_would_help() {
        let said = shortage(287, Path::new("/src/target")).unwrap();
        assert_eq!(
            said,
            "287 MB are free for /src/target, a first run of all tests takes about 3000; \
             CARGO_TARGET_DIR names another place"
        );
        assert_eq!(shortage(FIRST_RUN, Path::new("/src/target")), None);
        // A file system without blocks.
        assert!(warning(Path::new("/proc")).unwrap().starts_with("0 MB are free for /proc,"));
    }
}
