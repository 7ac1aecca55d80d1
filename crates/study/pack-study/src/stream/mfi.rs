//! The fragmentation score of MFI: Zambianco, Fasol and Doriguzzi-Corin, "An Online Fragmentation-Aware GPU Scheduler for
//! Multi-Tenant MIG-based Clouds", arXiv:2511.18906.
//!
//! A profile that needs no more slices than a GPU has free is fragmented at each of its places that is partly or wholly taken.
//! The score adds up the slices of these places. MFI puts an instance where the score grows least.

use geometry::Model;

/// Scores a GPU whose units in the bit mask `held` are taken.
pub(crate) fn fragmentation(model: &Model, held: u16) -> i64 {
    let units = (1_u32 << model.placement_units.min(16)) - 1;
    let free = (units & !u32::from(held)).count_ones();
    let base = model.profiles.iter().filter(|p| !p.is_variant() && u32::from(p.size) <= free);
    base.map(|p| {
        let blocked = p.starts.iter().filter(|start| p.at(**start).mask() & held != 0).count();
        i64::from(p.size) * i64::try_from(blocked).unwrap_or(i64::MAX)
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that a `1g` on memory slice 0 of an A100 blocks one place of each profile that still fits; `7g` does not fit any more.
    #[test]
    fn an_empty_and_a_full_gpu_are_not_fragmented() {
        let model = Model::find("a100-40gb").unwrap();
        assert_eq!(fragmentation(model, 0), 0);
        assert_eq!(fragmentation(model, 0xff), 0);
        let first = fragmentation(model, 1);
        assert!(first > 0 && fragmentation(model, 1 << 6) < first, "slice 6 leaves the 4g its place");
    }
}
