//! The steps that a search may still take.

/// Number of steps left; a search that reaches 0 has not proven its answer.
pub(crate) struct Budget(pub(crate) u32);

impl Budget {
    /// Takes so many steps; `false` if fewer were left, and none are then.
    pub(super) fn take(&mut self, steps: u32) -> bool {
        let enough = self.0 > steps;
        self.0 = self.0.saturating_sub(steps);
        enough
    }
}
