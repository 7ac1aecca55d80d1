//! Bounds of a pattern's edge list, and an edge's weight.

use crate::pattern::PatternEdge;

/// Most edges of an edge list.
pub const MAX_EDGES: usize = 1024;
/// Highest rank in an edge list.
pub const MAX_RANK: u16 = 1023;

/// Reads a weight from 0.001 to 1000, such as `0.5` or `2`, as thousandths.
#[must_use]
pub fn parse_weight(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let scale = [1, 100, 10, 1].get(fraction.len()).filter(|_| !fraction.is_empty())?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && (1..=4).contains(&text.len());
    if !plain(whole) || !plain(fraction) {
        return None;
    }
    let milli = whole.parse::<u32>().ok()? * 1000 + fraction.parse::<u32>().ok()? * scale;
    (1..=PatternEdge::MOST).contains(&milli).then_some(milli)
}
