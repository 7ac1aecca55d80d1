//! The process that ends a cluster when the one that started it is gone.
//!
//! Its stdin is a pipe from that process: the kernel closes it however the process ends, Ctrl-C, a panic or SIGKILL.

use std::io::Read;
use std::path::Path;

pub use crate::cluster::KEEP;

/// Waits until stdin closes, then ends the cluster in `dir`. If the cluster has already ended, this does nothing.
///
/// With `remove`, it also removes the directory, unless the directory contains a file [`KEEP`].
pub fn main(dir: &Path, remove: bool) {
    let mut buffer = [0_u8; 64];
    let mut stdin = std::io::stdin();
    while stdin.read(&mut buffer).is_ok_and(|n| n > 0) {}
    crate::cluster::end(dir);
    if remove && !dir.join(KEEP).exists() {
        crate::cluster::remove(dir);
    }
}
