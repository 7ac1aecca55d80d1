//! Stretches of the ring, as sizes and as sets of vertices.

/// A stretch of `size` ranks: its root is the largest power of two in it, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) size: usize,
}

impl Stretch {
    /// Most ranks of a stretch that is searched directly; a larger one is composed of two and a root.
    pub(super) const MOST_HUNG: usize = 3;

    /// The stretches left and right of its root; the left one is empty if `size` is 1.
    pub(super) fn halves(self) -> (Stretch, Stretch) {
        let root = 1 << self.size.ilog2();
        (Stretch { size: root - 1 }, Stretch { size: self.size - root })
    }

    pub(super) fn is_composed(self) -> bool {
        self.size > Self::MOST_HUNG
    }
}

/// A set of vertices as the lanes of a row.
pub(super) fn vertices(set: u32) -> u16 {
    (set & 0xffff) as u16
}
