//! The shape of a request, and of the free room on a node.

/// GPU models, a bit for each of at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Models(u64);

impl Models {
    /// Every model.
    pub const ANY: Self = Self(u64::MAX);
    /// No model.
    pub const NONE: Self = Self(0);

    /// Adds a model, which is below 64.
    #[must_use]
    pub fn with(self, model: u8) -> Self {
        Self(self.0 | (1 << (model & 63)))
    }

    /// Tells whether a model is among them.
    #[must_use]
    pub fn has(self, model: u8) -> bool {
        self.0 >> (model & 63) & 1 == 1
    }
}

/// Cores and GPUs of a request on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Cores, in thousandths.
    pub cores_milli: u32,
    /// GPUs; several are whole. Without GPUs, `milli` is 0.
    pub gpus: u8,
    /// Part of each GPU, in thousandths.
    pub milli: u16,
    /// Models that will do.
    pub models: Models,
}

impl Shape {
    /// Adds up the request's GPUs, in thousandths.
    #[must_use]
    pub fn total_milli(&self) -> u32 {
        u32::from(self.gpus) * u32::from(self.milli)
    }

    /// Tells whether the request takes a part of one GPU.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.gpus == 1 && self.milli < 1000
    }
}

/// Room on a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Capacity left of each GPU, in thousandths.
    pub free_milli: &'a [u16],
    /// Free cores, in thousandths.
    pub cores_milli: u32,
    /// Number of its GPU model, below 64.
    pub model: u8,
}

impl NodeView<'_> {
    /// Counts the GPUs that nobody has a part of.
    #[must_use]
    pub fn idle_gpus(&self) -> usize {
        self.free_milli.iter().filter(|&&free| free >= 1000).count()
    }

    /// Tells whether a request of this shape has room.
    #[must_use]
    pub fn fits(&self, shape: &Shape) -> bool {
        let room = || self.free_milli.iter().filter(|&&free| free >= shape.milli).count();
        self.cores_milli >= shape.cores_milli
            && (shape.gpus == 0 || shape.models.has(self.model) && room() >= usize::from(shape.gpus))
    }
}
