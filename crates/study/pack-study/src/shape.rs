//! What a task asks for, and what is free on a node.

/// GPU models, a bit for each in the order in which the file of nodes names them.
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

/// Cores and GPUs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Cores, in thousandths.
    pub cores_milli: u32,
    /// GPUs; several are whole.
    pub gpus: u8,
    /// Part of each GPU, in thousandths.
    pub milli: u16,
    /// Models that will do.
    pub models: Models,
}

impl Shape {
    /// Adds up the task's GPUs, in thousandths.
    #[must_use]
    pub fn total_milli(&self) -> u32 {
        u32::from(self.gpus) * u32::from(self.milli)
    }
}

/// Room on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeView<'a> {
    /// What is left of each GPU, in thousandths.
    pub(crate) free_milli: &'a [u16],
    pub(crate) cores_milli: u32,
    pub(crate) model: u8,
}

impl NodeView<'_> {
    /// Tells whether a task of this shape has room, memory apart.
    pub(crate) fn fits(&self, shape: &Shape) -> bool {
        let room = || self.free_milli.iter().filter(|&&free| free >= shape.milli).count();
        self.cores_milli >= shape.cores_milli
            && (shape.gpus == 0 || shape.models.has(self.model) && room() >= usize::from(shape.gpus))
    }
}
