//! The process that ends a cluster when the one that started it is gone.
//!
//! Its stdin is a pipe from that process: the kernel closes it however the process ends, Ctrl-C, a panic or SIGKILL.

use std::io::Read;
use std::path::Path;

/// The file by which a failed test says that its directory is still wanted.
pub const KEEP: &str = "keep";

/// Waits for stdin to close, then ends the cluster in `dir`. After an orderly end there is nothing left to do.
///
/// With `remove`, the directory goes too, unless a file [`KEEP`] is in it.
pub fn main(dir: &Path, remove: bool) {
    let mut buffer = [0_u8; 64];
    let mut stdin = std::io::stdin();
    while stdin.read(&mut buffer).is_ok_and(|n| n > 0) {}
    crate::cluster::end(dir);
    if remove && !dir.join(KEEP).exists() {
        // Gone already after an orderly end.
        let _ = std::fs::remove_dir_all(dir);
    }
}
