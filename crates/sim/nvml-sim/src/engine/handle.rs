//! Handles: what `nvmlDevice_t`, `nvmlGpuInstance_t` and `nvmlComputeInstance_t` point to here.
//!
//! NVML's handles are opaque pointers. Ours carry their meaning in the pointer's bits, so that they need no table, mean the
//! same in every process, and a handle of a destroyed instance is recognised by its serial number instead of being
//! mistaken for its successor's.
//!
//! Bits, low to high: 16 serial, 4 compute instance, 4 GPU instance, 6 GPU, 3 kind, 13 tag.

const TAG: u64 = 0x0e55;

/// What a handle stands for. `gpu` is the index among all GPUs of the node, not among the visible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A physical GPU.
    Gpu(u32),
    /// A GPU instance.
    Gi(GiRef),
    /// A compute instance.
    Ci(CiRef),
    /// A MIG device: a compute instance seen as a device.
    Mig(CiRef),
}

/// A GPU instance by GPU, id and the serial number it was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiRef {
    /// The GPU's index.
    pub gpu: u32,
    /// GPU instance id, 0..15.
    pub gi: u32,
    /// Serial number of the object: another object at the same place has another.
    pub serial: u16,
}

/// A compute instance by GPU, ids and serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CiRef {
    /// The GPU's index.
    pub gpu: u32,
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id, 0..8.
    pub ci: u32,
    /// Serial number of the object: another object at the same place has another.
    pub serial: u16,
}

impl Handle {
    /// The pointer's bits. Never 0.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        let pack = |kind: u64, gpu: u32, gi: u32, ci: u32, serial: u16| {
            (TAG << 33)
                | (kind << 30)
                | (u64::from(gpu & 0x3f) << 24)
                | (u64::from(gi & 0xf) << 20)
                | (u64::from(ci & 0xf) << 16)
                | u64::from(serial)
        };
        match self {
            Handle::Gpu(gpu) => pack(1, gpu, 0, 0, 0),
            Handle::Gi(r) => pack(2, r.gpu, r.gi, 0, r.serial),
            Handle::Ci(r) => pack(3, r.gpu, r.gi, r.ci, r.serial),
            Handle::Mig(r) => pack(4, r.gpu, r.gi, r.ci, r.serial),
        }
    }

    /// Reads a pointer's bits; `None` for what this library never gave out.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Handle> {
        if bits >> 33 != TAG {
            return None;
        }
        let gpu = ((bits >> 24) & 0x3f) as u32;
        let gi = ((bits >> 20) & 0xf) as u32;
        let ci = ((bits >> 16) & 0xf) as u32;
        let serial = (bits & 0xffff) as u16;
        match (bits >> 30) & 7 {
            1 => Some(Handle::Gpu(gpu)),
            2 => Some(Handle::Gi(GiRef { gpu, gi, serial })),
            3 => Some(Handle::Ci(CiRef { gpu, gi, ci, serial })),
            4 => Some(Handle::Mig(CiRef { gpu, gi, ci, serial })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_back_from_its_bits() {
        let ci = CiRef { gpu: 31, gi: 14, ci: 7, serial: 65535 };
        for h in
            [Handle::Gpu(5), Handle::Gi(GiRef { gpu: 1, gi: 2, serial: 3 }), Handle::Ci(ci), Handle::Mig(ci)]
        {
            assert_eq!(Handle::from_bits(h.to_bits()), Some(h));
            assert!(h.to_bits() < 1 << 47, "a user-space address");
        }
    }

    #[test]
    fn foreign_pointers_are_refused() {
        for bits in [0, 1, 0x7fff_dead_beef, u64::MAX] {
            assert_eq!(Handle::from_bits(bits), None);
        }
    }
}
