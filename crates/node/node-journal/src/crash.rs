//! Places where a test kills the process.

/// Ends the process as `kill -9` would, at the place whose number `GPU_NODE_CRASH_AT` names.
#[cfg(feature = "crash-points")]
pub fn point(_place: &'static str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let at: Option<u32> = std::env::var("GPU_NODE_CRASH_AT").ok().and_then(|v| v.parse().ok());
    if at == Some(PASSED.fetch_add(1, Ordering::SeqCst)) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Outside tests nothing crashes here.
#[cfg(not(feature = "crash-points"))]
pub const fn point(_place: &'static str) {}
