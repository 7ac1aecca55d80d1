//! Regions of device memory in the words of the kernel's `dmem` controller.
//!
//! A line is a region and a number of bytes, or `max`: `drm/0000:03:00.0/vram0 1073741824`. A driver chooses the names. AMD's and
//! Intel's begin with `drm/`, NVIDIA's with `nvidia/`; each has the PCI address of its GPU between two slashes, with or without
//! the function. [kernel `Documentation/admin-guide/cgroup-v2.rst`, DMEM; Slurm 26.11 `gres_shard.c`]

/// A limit; every number is below [`RegionMax::Max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RegionMax {
    Bytes(u64),
    Max,
}

impl RegionMax {
    /// Returns the limit of a journalled number.
    pub(super) fn of(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Max, Self::Bytes)
    }

    /// Returns the number for the journal.
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Max => None,
        }
    }

    /// Returns the line that sets the limit of a region.
    pub(super) fn line(self, region: &str) -> String {
        match self {
            Self::Bytes(bytes) => format!("{region} {bytes}\n"),
            Self::Max => format!("{region} max\n"),
        }
    }
}

/// Returns the regions that `dmem.capacity` lists and that have any memory.
pub(super) fn regions(capacity: &str) -> Vec<&str> {
    let line = |line: &'_ str| -> Option<(usize, u64)> {
        let (name, bytes) = line.trim().rsplit_once([' ', '\t'])?;
        Some((name.trim().len(), bytes.parse().ok()?))
    };
    let named = |text: &'_ str| line(text).filter(|(len, bytes)| *len > 0 && *bytes > 0).map(|(len, _)| len);
    capacity.lines().filter_map(|text| named(text).and_then(|len| text.trim().get(..len))).collect()
}

/// Returns the limit of a region in the text of a `dmem.max`; `None` if the text does not have the region.
pub(super) fn limit_of(text: &str, region: &str) -> Option<RegionMax> {
    text.lines().find_map(|line| {
        let (name, limit) = line.trim().rsplit_once([' ', '\t'])?;
        match limit {
            _ if name.trim() != region => None,
            "max" => Some(RegionMax::Max),
            bytes => bytes.parse().ok().map(RegionMax::Bytes),
        }
    })
}

/// Returns the regions of the GPU with this PCI bus id, as NVML writes it: `00000000:07:00.0`.
pub(super) fn of_gpu<'r>(regions: &[&'r str], pci_bus_id: &str) -> Vec<&'r str> {
    let Some(gpu) = PciAddress::parse(pci_bus_id) else { return Vec::new() };
    let is_of = |region: &&&str| region.split('/').any(|part| PciAddress::parse(part) == Some(gpu));
    regions.iter().filter(is_of).copied().collect()
}

/// Domain, bus, device and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PciAddress(u32, u32, u32, u32);

impl PciAddress {
    /// Reads `0000:07:00.0`, with a domain of four to eight digits; without a function it is 0.
    fn parse(text: &str) -> Option<Self> {
        let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
            let all = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
            all.then(|| u32::from_str_radix(text, 16).ok()).flatten()
        };
        let mut parts = text.split(':');
        let (domain, bus, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (device, function) = rest.split_once('.').unwrap_or((rest, "0"));
        let address = Self(hex(domain, 4..=8)?, hex(bus, 2..=2)?, hex(device, 2..=2)?, hex(function, 1..=1)?);
        parts.next().is_none().then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: &str = "drm/0000:03:00.0/vram0 8514437120\ndrm/0000:03:00.0/stolen 67108864\n\
                            nvidia/0000:07:00/vidmem 85520809984\ndrm/card1/vram 0\n\n";

    #[test]
    fn a_gpu_has_the_regions_with_its_pci_address() {
        let all = regions(CAPACITY);
        assert_eq!(all, ["drm/0000:03:00.0/vram0", "drm/0000:03:00.0/stolen", "nvidia/0000:07:00/vidmem"]);
        let of = |id| of_gpu(&all, id);
        assert_eq!(of("00000000:03:00.0"), all[..2]);
        assert_eq!(of("00000000:07:00.0"), all[2..]);
        assert_eq!(of("0000:07:00.0"), all[2..]);
        for other in
            ["00000000:07:00.1", "00000001:07:00.0", "00000000:08:00.0", "", "7", "0000:07:00.0:1", "vidmem"]
        {
            assert_eq!(of(other), [""; 0], "{other}");
        }
        assert_eq!(regions("x\n y\nz -1\n"), [""; 0]);
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text = "drm/0000:03:00.0/vram0 1073741824\ndrm/0000:03:00.0/stolen max\n";
        assert_eq!(limit_of(text, "drm/0000:03:00.0/vram0"), Some(RegionMax::Bytes(1 << 30)));
        assert_eq!(limit_of(text, "drm/0000:03:00.0/stolen"), Some(RegionMax::Max));
        assert_eq!(limit_of(text, "drm/0000:03:00.0/vram"), None);
        assert_eq!(limit_of("a b\n", "a"), None);
        assert!(RegionMax::Bytes(u64::MAX) < RegionMax::Max && RegionMax::Bytes(1) < RegionMax::Bytes(2));
        assert_eq!(RegionMax::Bytes(7).line("a/b"), "a/b 7\n");
        assert_eq!(RegionMax::of(None).line("a/b"), "a/b max\n");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn no_list_of_regions_panics_the_reader(text in ".*", id in ".*") {
            let all = regions(&text);
            let _ = (of_gpu(&all, &id), limit_of(&text, &id));
        }
    }
}
