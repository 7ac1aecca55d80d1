//! The process that ends a cluster when the one that started it is gone.
//!
//! Its stdin is a pipe from that process: the kernel closes it however the process ends, Ctrl-C, a panic or SIGKILL.

use std::io::Read;
use std::path::Path;

/// Waits for stdin to close, then ends the cluster in `dir`. After an orderly end there is nothing left to do.
pub fn main(dir: &Path) {
    let mut buffer = [0_u8; 64];
    let mut stdin = std::io::stdin();
    while stdin.read(&mut buffer).is_ok_and(|n| n > 0) {}
    crate::cluster::end(dir);
}
