//! Compute instances: parts of a GPU instance's SMs. All compute instances of one GPU instance share its memory and cache.

use crate::ids::Slice;

/// A size of compute instance that is smaller than its GPU instance. The size that takes all of it has the GPU instance's own
/// name.
#[derive(Debug, PartialEq, Eq)]
pub struct ComputeProfile {
    /// Compute slices.
    pub slices: u8,
    /// Streaming multiprocessors; estimated by compute slices if no capture gives them.
    pub sm: u32,
    /// Legal first compute slices within the GPU instance, ascending.
    pub starts: Vec<Slice>,
    /// Most compute instances of this size in one GPU instance.
    pub max_instances: u32,
}

impl ComputeProfile {
    /// The compute slices of a compute instance that starts at `start`, bit 0 for the first of its GPU instance.
    #[must_use]
    #[inline]
    pub fn mask_at(&self, start: Slice) -> u16 {
        compute_mask(self.slices, start)
    }
}

/// The bits of `slices` compute slices from `start`; those beyond the 16th are cut off.
#[must_use]
#[inline]
pub fn compute_mask(slices: u8, start: Slice) -> u16 {
    crate::ids::Placement { start, size: slices }.mask()
}

/// Splits a compute instance's name, `4c.7g.40gb`, into its slices and its GPU instance's profile. `None` for any other text.
#[must_use]
pub fn split_compute_name(name: &str) -> Option<(u8, &str)> {
    let (slices, profile) = name.split_once("c.")?;
    let digits = (1..=2).contains(&slices.len()) && !slices.starts_with('0');
    let plain = digits && slices.bytes().all(|b| b.is_ascii_digit());
    Some((slices.parse().ok().filter(|_| plain)?, profile))
}

/// Sizes of compute instances, as NVML numbers them, that are smaller than a whole GPU instance of the largest kind.
const SIZES: [u8; 4] = [1, 2, 3, 4];

/// The sizes in a GPU instance of which no capture shows any. No capture shows `3c` in a `4g`.
pub(crate) fn sizes_by_rule(of: u8) -> impl Iterator<Item = u8> {
    SIZES.into_iter().filter(move |slices| *slices < of && (*slices, of) != (3, 4))
}

/// Lists the possible starts of a compute instance: at multiples of 1, 2 and 4 slices, as GPU instances do.
pub(crate) fn starts_by_rule(slices: u8, of: u8) -> Vec<Slice> {
    let align = match slices {
        0 | 1 => 1,
        2 => 2,
        _ => 4,
    };
    (0..of).step_by(align).filter(|start| start + slices <= of).map(Slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn a_compute_instances_name_splits_into_slices_and_profile() {
        assert_eq!(split_compute_name("4c.7g.40gb"), Some((4, "7g.40gb")));
        for other in ["7g.40gb", "c.7g.40gb", "04c.7g.40gb", "+4c.7g.40gb", "444c.7g.40gb", ""] {
            assert_eq!(split_compute_name(other), None, "{other}");
        }
    }

    #[test]
    fn an_a100_has_the_captured_sizes() {
        let a100 = Model::find("a100-40gb").unwrap();
        let sizes = |name: &str| {
            let of = &a100.profile(name).unwrap().compute;
            of.iter().map(|c| (c.slices, c.sm, c.starts.len())).collect::<Vec<_>>()
        };
        assert_eq!(sizes("7g.40gb"), [(1, 14, 7), (2, 28, 3), (3, 42, 2), (4, 56, 1)]);
        assert_eq!(sizes("4g.20gb"), [(1, 14, 4), (2, 28, 2)]);
        assert_eq!(sizes("1g.5gb"), []);
        let (profile, three) = a100.compute_profile("3c.7g.40gb").unwrap();
        assert_eq!((profile.name.as_str(), three.starts.as_slice()), ("7g.40gb", &[Slice(0), Slice(4)][..]));
        assert_eq!(three.mask_at(Slice(4)), 0b111_0000);
        assert_eq!(a100.compute_profile("7c.7g.40gb"), None);
    }

    #[test]
    fn every_size_lies_within_its_gpu_instance() {
        for (model, profile) in
            Model::all().iter().filter(|m| m.has_mig()).flat_map(|m| m.profiles.iter().map(move |p| (m, p)))
        {
            for size in &profile.compute {
                let fits = |s: &Slice| s.0 + size.slices <= profile.compute_slices;
                assert!(size.slices < profile.compute_slices, "{} {}", model.key, profile.name);
                assert!(!size.starts.is_empty() && size.starts.iter().all(fits), "{}", profile.name);
                assert_eq!(size.starts.len(), size.max_instances as usize, "{} {}", model.key, profile.name);
            }
        }
    }
}
