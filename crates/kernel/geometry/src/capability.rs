//! The number of placements that a GPU has left: its "configuration capability" (GRMU, arXiv:2502.01909).

use crate::ids::Placement;
use crate::profile::Profile;

/// The number of base placements that are free for each set of taken units: entry `m` is for the units in bit mask `m`.
/// There are at most 2^16 entries.
#[must_use]
pub(crate) fn placements_left(units: u8, profiles: &[Profile]) -> Vec<u16> {
    let masks: Vec<u16> = profiles
        .iter()
        .filter(|p| !p.is_variant())
        .flat_map(|p| p.starts.iter().map(|s| Placement { start: *s, size: p.size }.mask()))
        .collect();
    let count = |taken: u32| masks.iter().filter(|m| u32::from(**m) & taken == 0).count();
    (0..1_u32 << units.min(16)).map(|taken| u16::try_from(count(taken)).unwrap_or(u16::MAX)).collect()
}
