//! Identities: UUIDs, GPU instance ids, device-node minors.

/// A UUID in text, version 5 in form, from the parts that identify a thing: the same parts give the same UUID on every run.
///
/// The real driver derives a version 5 UUID from chip, GPU instance and pipe, so that the same layout gives the same UUID again
/// (open-gpu-kernel-modules); a client must therefore not take a UUID for a proof of identity. The hash here is FNV-1a, 128 bits:
/// no security is needed, only spread.
#[must_use]
pub fn uuid(parts: &[&str]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    // Short inputs leave the high bits of FNV nearly equal: fold once.
    hash = (hash ^ (hash >> 61)).wrapping_mul(PRIME | (1 << 71));
    hash ^= hash >> 67;
    hash = hash & !(0xf << 76) | (5 << 76);
    hash = hash & !(0b11 << 62) | (0b10 << 62);
    let hex = format!("{hash:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The GPU instance id of a placement: 0 the whole GPU, 1-2 halves, 3-6 quarters, 7-14 eighths.
///
/// The relation of id and start depends on the board. On Ampere the upper half comes first (ids 7, 8, 9 have been seen at starts 4, 5, 6 and
/// id 1 at start 4), elsewhere the lower: a client that computes one from the other is wrong on one of the two.
#[must_use]
pub fn gi_id(start: u8, size: u8, units: u8, upper_first: bool) -> u32 {
    let parts = u32::from(units) / u32::from(size.max(1));
    let shift = if upper_first && parts > 1 { u32::from(units) / 2 } else { 0 };
    let position = (u32::from(start) + shift) % u32::from(units) / u32::from(size.max(1));
    parts - 1 + position
}

/// Minor number of a GPU instance's `access` capability.
///
/// Source: `mig-minors` of the driver: 3 + 135 per GPU minor + 9 per GPU instance; a compute instance follows its GPU instance.
#[must_use]
pub fn gi_cap_minor(gpu_minor: u32, gi: u32) -> u32 {
    3 + 135 * gpu_minor + 9 * gi
}

/// Minor number of a compute instance's `access` capability.
#[must_use]
pub fn ci_cap_minor(gpu_minor: u32, gi: u32, ci: u32) -> u32 {
    gi_cap_minor(gpu_minor, gi) + 1 + ci
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_repeat_and_differ() {
        assert_eq!(uuid(&["n1", "0"]), uuid(&["n1", "0"]));
        assert_ne!(uuid(&["n1", "0"]), uuid(&["n1", "1"]));
        assert_ne!(uuid(&["ab", "c"]), uuid(&["a", "bc"]));
        let u = uuid(&["x"]);
        assert_eq!((u.len(), &u[14..15]), (36, "5"));
        assert!("89ab".contains(&u[19..20]));
    }

    #[test]
    fn gi_ids_are_unique_per_placement() {
        for upper in [false, true] {
            let mut seen = vec![gi_id(0, 8, 8, upper)];
            for size in [4u8, 2, 1] {
                seen.extend((0..8).step_by(size.into()).map(|start| gi_id(start, size, 8, upper)));
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..15).collect::<Vec<u32>>());
        }
        assert_eq!(gi_id(4, 1, 8, true), 7);
        assert_eq!(gi_id(6, 3, 12, false), 5);
        assert_eq!(gi_id(0, 4, 4, true), 0);
    }

    #[test]
    fn last_minor_is_the_drivers() {
        assert_eq!(ci_cap_minor(31, 14, 7), 4322);
        assert_eq!(gi_cap_minor(0, 0), 3);
    }
}
