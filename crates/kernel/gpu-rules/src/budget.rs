//! Limits to what the GPUs of several nodes draw together, as data.

/// Highest and lowest draw of each GPU of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerRange {
    /// The limit of a GPU that has jobs without a cap, W.
    pub cap_w: u16,
    /// Draw of a GPU without jobs, W; less than `cap_w`.
    pub idle_w: u16,
}

/// A limit to what the GPUs of some nodes draw together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerBudget {
    /// The hostlist of its nodes, for people.
    pub name: String,
    /// Nodes, each once, never none.
    pub nodes: Vec<String>,
    /// The limit, W.
    pub watts: u32,
    /// The lowest cap that a job is started with instead of the one that it asks for, W. `None`: jobs wait instead.
    pub floor_w: Option<u16>,
}

impl PowerBudget {
    /// The lowest cap with which a job starts that may have `asked_w`.
    #[must_use]
    pub fn floor(&self, asked_w: u16) -> u16 {
        self.floor_w.map_or(asked_w, |floor| floor.min(asked_w))
    }
}
