//! Unhealthy GPUs in words.

use protocol::SickGpu;

use crate::clock::{epoch_seconds, span};

/// `GPU 3 gets no new jobs: xid 79, 2 h 5 min ago`.
pub(crate) fn sick_words(sick: &SickGpu) -> String {
    let ago = span(epoch_seconds().saturating_sub(sick.since));
    format!("GPU {} gets no new jobs: {}, {ago} ago", sick.gpu.0, sick.why)
}

/// Says it of several GPUs in one line; `None` of none.
pub(crate) fn sick_list(sick: &[SickGpu]) -> Option<String> {
    let words: Vec<String> = sick.iter().map(sick_words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}
