//! The memory of arrays, as far as their descriptions tell.
//!
//! Source: `CUDA_ARRAY3D_DESCRIPTOR`, `CUarray_format` and the flags in cuda.h of CUDA 12.

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ArrayShape {
    /// Elements in a row.
    pub width: usize,
    /// Rows; 0 for a one-dimensional array.
    pub height: usize,
    /// Planes, or layers; 0 for at most two dimensions.
    pub depth: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element.
    pub channels: u32,
    /// `CUDA_ARRAY3D_…`.
    pub flags: u32,
}

const LAYERED: u32 = 0x01;
const SPARSE: u32 = 0x40;
const DEFERRED_MAPPING: u32 = 0x80;

/// Bytes of one channel. Compressed and packed formats count as whole ones: they take less.
fn channel_bytes(format: u32) -> u64 {
    match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        _ => 4,
    }
}

impl ArrayShape {
    /// Bytes of its memory with so many levels. 0 where memory is mapped to it later.
    #[must_use]
    pub fn bytes(&self, levels: u32) -> u64 {
        if self.flags & (SPARSE | DEFERRED_MAPPING) != 0 {
            return 0;
        }
        let element = channel_bytes(self.format).saturating_mul(u64::from(self.channels.max(1)));
        let level = |level: u32| {
            let side = |n: usize| (n as u64).checked_shr(level).unwrap_or(0).max(1);
            let depth = if self.flags & LAYERED != 0 { self.depth.max(1) as u64 } else { side(self.depth) };
            [side(self.width), side(self.height), depth].into_iter().fold(element, u64::saturating_mul)
        };
        // The driver allows at most 1 + log2 of the longest side.
        (0..levels.clamp(1, 64)).map(level).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_known_sizes() {
        let shape = |width, height, depth, format, channels, flags| ArrayShape {
            width,
            height,
            depth,
            format,
            channels,
            flags,
        };
        let check = |shape: ArrayShape, levels, bytes| assert_eq!(shape.bytes(levels), bytes, "{shape:?}");
        check(shape(1000, 0, 0, 0x20, 1, 0), 1, 4000);
        check(shape(100, 10, 0, 0x10, 4, 0), 1, 8000);
        check(shape(8, 8, 8, 0x01, 2, 0), 1, 1024);
        check(shape(8, 8, 0, 0x01, 1, 0), 4, 64 + 16 + 4 + 1);
        check(shape(8, 8, 3, 0x01, 1, LAYERED), 2, 3 * (64 + 16));
        check(shape(8, 8, 0, 0x01, 1, SPARSE), 1, 0);
        check(shape(usize::MAX, usize::MAX, 9, 0x20, 4, 0), 64, u64::MAX);
    }
}
